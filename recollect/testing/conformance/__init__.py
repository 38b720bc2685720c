"""The storage contract as tests that anyone can run on a backend of their own.

Each test is named after one sentence of the contract. Subclass the suite, say where to find an
empty store, and run pytest:

    import pytest
    from recollect.testing.conformance import StoreConformance

    class TestMyStore(StoreConformance):
        @pytest.fixture
        def store_url(self, tmp_path):
            return f"sqlite:///{tmp_path}/recollect.db"

A store that cannot do everything says so in its `abilities`; tests of what it lacks are skipped
with the name of the missing ability, and `abilities_report(store)` returns the whole list.
"""

import pytest

# Without this the asserts of an imported suite fail without saying what they compared.
pytest.register_assert_rewrite(
    *(
        f"{__name__}.{part}"
        for part in ("stage", "commits", "reading", "changes", "jobs", "forgetting", "two_stores", "processes", "model")
    )
)

from recollect.testing.conformance.changes import ChangesConformance  # noqa: E402  (after the line above)
from recollect.testing.conformance.commits import CommitConformance  # noqa: E402
from recollect.testing.conformance.forgetting import ForgetConformance  # noqa: E402
from recollect.testing.conformance.jobs import JobConformance  # noqa: E402
from recollect.testing.conformance.model import ModelConformance  # noqa: E402
from recollect.testing.conformance.processes import ProcessConformance  # noqa: E402
from recollect.testing.conformance.reading import ReadingConformance  # noqa: E402
from recollect.testing.conformance.stage import abilities_report  # noqa: E402
from recollect.testing.conformance.two_stores import TwoStoreConformance  # noqa: E402

__all__ = ["StoreConformance", "abilities_report"]


class StoreConformance(
    CommitConformance,
    ReadingConformance,
    ChangesConformance,
    JobConformance,
    ForgetConformance,
    TwoStoreConformance,
    ProcessConformance,
    ModelConformance,
):
    """Every promise of the storage contract. Override `store_url` with the URL of an empty store."""
