"""One key that floods the server is told to wait, while another key is answered throughout."""

from __future__ import annotations

import pytest

from recollect.testing.flooding import drill


@pytest.mark.timeout(300)
def test_a_normal_caller_is_answered_while_another_key_floods_the_server(tmp_path):
    flooded = drill(tmp_path, 20)
    print(flooded)
    assert set(flooded.calm.statuses) | set(flooded.during.statuses) == {200}
    assert flooded.flood["429"] > flooded.flood["200"] > 0


@pytest.mark.timeout(180)
def test_a_normal_caller_is_answered_while_somebody_tries_made_up_keys(tmp_path):
    flooded = drill(tmp_path, 20, made_up=True)
    print(flooded)
    assert set(flooded.calm.statuses) | set(flooded.during.statuses) == {200}
    assert set(flooded.flood) == {"401", "429"} and flooded.flood["429"] > 10 * flooded.flood["401"]
