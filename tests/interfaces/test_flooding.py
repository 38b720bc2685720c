"""A flood by one key is told to wait, and another key is answered all the while."""

from __future__ import annotations

import pytest

from recollect.testing.flooding import drill


@pytest.mark.timeout(300)
def test_who_asks_in_peace_is_answered_while_another_key_floods_the_server(tmp_path):
    flooded = drill(tmp_path, 20)
    print(flooded)
    assert set(flooded.calm.statuses) | set(flooded.during.statuses) == {200}
    assert flooded.flood["429"] > flooded.flood["200"] > 0


@pytest.mark.timeout(180)
def test_who_asks_in_peace_is_answered_while_keys_are_made_up_one_after_the_other(tmp_path):
    flooded = drill(tmp_path, 20, made_up=True)
    print(flooded)
    assert set(flooded.calm.statuses) | set(flooded.during.statuses) == {200}
    assert set(flooded.flood) == {"401", "429"} and flooded.flood["429"] > 10 * flooded.flood["401"]
