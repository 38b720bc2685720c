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
