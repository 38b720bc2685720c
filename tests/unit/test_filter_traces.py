"""The text that every matching record is sure to contain: no match may be skipped for lacking it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from recollect.filters import All, Condition, Either, Not, has_traces, traces_of
from recollect.filters import Test as On
from recollect.records import Record, Scope, payload_of

KEYS = ("topic", "n", "role")
TEXTS = ("tea", 'a "quote"', "back\\slash", "é", "line\nbreak", "", "1")
VALUES = st.one_of(st.sampled_from(TEXTS), st.sampled_from([0, 1, 1.0, -0.0, 2.5, True, False, None]))
FIELDS = st.sampled_from([*(f"metadata.{key}" for key in KEYS), "role", "name", "agent", "trust", "session"])


def _tests() -> st.SearchStrategy[Condition]:
    compared = st.builds(On, FIELDS, st.sampled_from(["eq", "gt", "gte", "lt", "lte"]), VALUES)
    among = st.builds(On, FIELDS, st.just("in"), st.lists(VALUES, max_size=3).map(tuple))
    there = st.builds(On, FIELDS, st.just("exists"), st.booleans())
    return st.one_of(compared, among, there)


def _joined(inner: st.SearchStrategy[Condition]) -> st.SearchStrategy[Condition]:
    some = st.lists(inner, max_size=3).map(tuple)
    return st.one_of(st.builds(All, some), st.builds(Either, some), st.builds(Not, inner))


CONDITIONS = st.recursive(_tests(), _joined, max_leaves=6)
RECORDS = st.builds(
    lambda metadata, role, name, agent, trust: Record(
        "r", "long_term", Scope("acme", "ann", agent, "s"), metadata=metadata, trust=trust,
        data={key: value for key, value in (("role", role), ("name", name)) if value is not None},
    ),
    st.dictionaries(st.sampled_from(KEYS), VALUES | st.lists(st.sampled_from(TEXTS), max_size=2)),
    st.sampled_from(["user", "assistant", None]),
    st.sampled_from([*TEXTS[:3], None]),
    st.sampled_from(TEXTS),
    st.sampled_from(["trusted", "untrusted"]),
)  # fmt: skip


@given(CONDITIONS, RECORDS)
def test_a_record_that_matches_has_every_trace(condition, record):
    assert has_traces(payload_of(record), traces_of(condition)) or not condition.holds(record)


def test_a_record_of_another_topic_is_skipped_unread():
    tea = Record("r", "long_term", Scope(), metadata={"topic": "tea"})
    for condition in (
        On("metadata.topic", "eq", "coffee"),
        On("metadata.topic", "in", ("coffee", "milk")),
        On("metadata.cups", "gt", 2),
        On("metadata.cups", "eq", 2),
        On("metadata.cups", "exists", True),
        On("role", "eq", "user"),
        Either((On("metadata.topic", "eq", "coffee"), On("agent", "eq", "waiter"))),
        All((On("metadata.topic", "eq", "tea"), On("metadata.cups", "lt", 2))),
    ):
        assert not has_traces(payload_of(tea), traces_of(condition)), condition


def test_what_a_matching_record_may_lack_is_not_a_trace():
    for condition in (
        None,
        On("metadata.topic", "eq", None),
        On("metadata.topic", "in", ("tea", None)),
        On("metadata.topic", "exists", False),
        On("trust", "eq", "trusted"),
        On("session", "eq", "monday"),
        Not(On("metadata.topic", "eq", "tea")),
        Either((On("metadata.topic", "eq", "tea"), On("importance", "gt", 0.5))),
        Either(()),
    ):
        assert traces_of(condition) == (), condition
