"""Tests that share a server run in one process."""

from __future__ import annotations

import pytest

SEEN = []


@pytest.mark.xdist_group("a group")
@pytest.mark.parametrize("turn", range(6))
def test_tests_of_one_group_run_in_one_process(request, turn):
    if not getattr(request.config.option, "loadgroup", False):
        pytest.skip("the tests are not distributed by groups")
    SEEN.append(turn)
    assert list(range(turn + 1)) == SEEN, "others ran in another process"
