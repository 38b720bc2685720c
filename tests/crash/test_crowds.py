"""Several writing processes and several workers share one store, and no work is done twice."""

from __future__ import annotations

import pytest

from recollect.testing.crowds import Outcome, run
from recollect.testing.stores import fresh_url


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=pytest.mark.xdist_group(kind)) for kind in ("postgresql", "cluster")]
)
def test_processes_share_the_jobs_of_a_store_without_doing_any_twice(kind):
    with fresh_url(kind) as url:
        outcome = run(url, writers=2, workers=3, messages=120)
    assert outcome.is_clean, str(outcome)
    assert outcome.messages == 120
    assert sum(outcome.jobs) >= 2, "messages are enriched together, so there may be few jobs"
    assert len(outcome.jobs) == 3


def test_everything_that_goes_wrong_is_counted():
    well = Outcome(100, 0, 0, 0, 0, 0, (50, 50), 10.0, 10.0)
    assert well.is_clean
    for name in ("missing", "doubled", "not_embedded", "waiting", "failures"):
        counts = dict.fromkeys(("missing", "doubled", "not_embedded", "waiting", "failures"), 0) | {name: 1}
        assert not Outcome(100, **counts, jobs=(1,), writes_per_s=1.0, jobs_per_s=1.0).is_clean
    assert "100 by 2 workers: 50, 50" in str(well)
