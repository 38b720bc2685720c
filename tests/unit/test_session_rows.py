"""The rows of sessions, compared with plain sorted lists."""

from __future__ import annotations

import pickle

from hypothesis import given
from hypothesis import strategies as st

from recollect.records import Born
from recollect.session_rows import SessionRows

SESSIONS = ("a", "b")
TOLD = st.lists(st.tuples(st.sampled_from(SESSIONS), st.tuples(st.integers(1, 9), st.integers(0, 3))), max_size=30)


def _rows(told: list[tuple[str, Born]]) -> SessionRows:
    rows = SessionRows()
    rows.bear([born for _, born in told])
    for row, (session, _) in enumerate(told):
        rows.place(row, session)
    return rows


@given(TOLD, st.tuples(st.integers(0, 10), st.integers(0, 3)))
def test_a_session_is_read_in_order_of_birth_whatever_the_order_it_was_told_in(
    told: list[tuple[str, Born]], since: Born
) -> None:
    rows = pickle.loads(pickle.dumps(_rows(told)))
    for session in SESSIONS:
        expected = sorted([row for row, each in enumerate(told) if each[0] == session], key=lambda row: told[row][1])
        later = [row for row in expected if told[row][1] > since]
        assert [*rows.of(session)] == expected
        assert [*rows.after(session, since)] == later
        assert [*rows.newest(session, since)] == later[::-1]
        assert (session in rows) == bool(expected)


@given(TOLD, st.integers(0, 3))
def test_the_neighbours_of_a_row_are_those_beside_it_in_its_session(told: list[tuple[str, Born]], reach: int) -> None:
    rows = _rows(told)
    for row, (session, born) in enumerate(told):
        all_rows = [*rows.of(session)]
        at = all_rows.index(row)
        assert [*rows.around(row, session, born, reach)] == (
            all_rows[max(0, at - reach) : at] + all_rows[at + 1 : at + 1 + reach]
        )
        assert not rows.around(row, session, (99, 0), reach), "it was born at another time, so it is another record"


@given(TOLD)
def test_a_session_that_lost_its_last_row_is_gone(told: list[tuple[str, Born]]) -> None:
    rows = _rows(told)
    for row, (session, _) in enumerate(told):
        rows.remove(row, session)
    assert not rows
    assert not rows.of("a") and not rows.around(0, "a", (1, 0), 1)
