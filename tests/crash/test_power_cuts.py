"""The power fails: at any instant, the file and its log open intact, with everything that was acknowledged."""

from __future__ import annotations

import pytest

from recollect.testing.power_cuts import cut_power


@pytest.mark.timeout(600)
def test_file_and_log_of_any_instant_open_intact_and_complete(tmp_path, seed):
    outcome = cut_power(tmp_path, 8, seed)
    print(outcome)
    assert outcome.kills >= 8 and outcome.acknowledged >= 8
    assert not outcome.findings.any, outcome
