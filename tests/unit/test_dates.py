"""Times in a question are understood relative to when it is asked."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recollect import validate
from recollect.policies.dates import span_around, span_of, tells_of
from recollect.records import iso

ASKED = int(datetime(2026, 11, 15, 12, tzinfo=UTC).timestamp() * 1000)  # a Sunday


@pytest.mark.parametrize(
    ("question", "start", "end"),
    [
        ("What did I do in May 2023?", "2023-05-01", "2023-06-01"),
        ("What happened on 7 May 2023?", "2023-05-07", "2023-05-08"),
        ("Where was I on March 3rd, 2024?", "2024-03-03", "2024-03-04"),
        ("What did we plan in December?", "2025-12-01", "2026-01-01"),
        ("Whom did I meet last March?", "2026-03-01", "2026-04-01"),
        ("What did I buy last Friday?", "2026-11-13", "2026-11-14"),
        ("What did I say last week?", "2026-11-02", "2026-11-09"),
        ("Which trips did I make last year?", "2025-01-01", "2026-01-01"),
        ("What did I cook yesterday?", "2026-11-14", "2026-11-15"),
        ("What did I read in 2022?", "2022-01-01", "2023-01-01"),
        ("What was decided on 2026-02-01?", "2026-02-01", "2026-02-02"),
        ("What did I do two weeks ago?", "2026-10-29", "2026-11-05"),
        ("What did I do a couple of weeks ago?", "2026-10-29", "2026-11-05"),
        ("Where did we swim last summer?", "2026-06-01", "2026-09-01"),
        ("What did I learn in the spring of 2024?", "2024-03-01", "2024-06-01"),
        ("What happened towards the end of summer 2024?", "2024-06-01", "2024-09-01"),
        ("How often did I run in the past two weeks?", "2026-11-01", "2026-11-16"),
        ("What have I bought since March?", "2026-03-01", "2026-11-16"),
        ("What did I own before May 2023?", "0001-01-02", "2023-05-01"),
        ("Where did I go after June 2025?", "2025-07-01", "9999-01-01"),
        ("Whom did I meet between March and June 2023?", "2023-03-01", "2023-07-01"),
        ("Whom did I meet between March 2021 and June?", "2021-03-01", "2021-07-01"),
        ("Whom did I meet between November 2021 and February?", "2021-11-01", "2022-03-01"),
        ("Where was I from 15 March 2021 to 20 March?", "2021-03-15", "2021-03-21"),
        ("Where was I from spring 2021 to autumn with Ann?", "2021-03-01", "2021-12-01"),
        ("Where did I live from March 2021 to last June?", "2021-03-01", "2026-07-01"),
        ("Where did I live from March 2021 until yesterday?", "2021-03-01", "2026-11-15"),
        ("Whom did I meet last November?", "2025-11-01", "2025-12-01"),
        ("Whom did I meet last December?", "2025-12-01", "2026-01-01"),
        ("What did we do on the Monday before July 24, 2023?", "2023-07-17", "2023-07-25"),
        ("What did I pay in Sept 2025?", "2025-09-01", "2025-10-01"),
        ("What do I have tomorrow?", "2026-11-16", "2026-11-17"),
        ("Whom do I meet next week?", "2026-11-16", "2026-11-23"),
        ("Where do we go next Sunday?", "2026-11-22", "2026-11-23"),
        ("Who comes this Friday?", "2026-11-20", "2026-11-21"),
        ("What is planned for this weekend?", "2026-11-14", "2026-11-16"),
        ("What is planned for next weekend?", "2026-11-14", "2026-11-23"),
        ("What is due next month?", "2026-12-01", "2027-01-01"),
        ("Where do I move next year?", "2027-01-01", "2028-01-01"),
        ("What is planned for the next week?", "2026-11-16", "2026-11-23"),
        ("Who comes this Sunday?", "2026-11-15", "2026-11-16"),
        ("Where do we ski this winter?", "2026-12-01", "2027-03-01"),
        ("Where did we swim this summer?", "2026-06-01", "2026-09-01"),
        ("What did I do on February 29?", "2024-02-29", "2024-03-01"),
        ("What was logged at 2026-02-01T10:30:00Z?", "2026-02-01", "2026-02-02"),
        ("What did we do on the last Friday of May?", "2026-05-01", "2026-06-01"),
        ("Where was I at the end of June?", "2026-06-01", "2026-07-01"),
        ("Whom did I meet after work yesterday?", "2026-11-14", "2026-11-15"),
        ("What did I own before the summer of 2024?", "0001-01-02", "2024-06-01"),
    ],
)
def test_a_named_time_is_a_span_of_days(question, start, end):
    span = span_of(question, ASKED)
    assert span is not None
    assert ((iso(span[0]) or "")[:10], (iso(span[1]) or "")[:10]) == (start, end)


@pytest.mark.parametrize(
    "question",
    [
        "What should I read next?",
        "Is this right?",
        "May I ask you something?",
        "Do you march to work?",
        "What is the plan?",
        "On 31 February 2024?",
        "How are you?",
        "Who saw the fall of Rome?",
        "Who was there during the fall of Rome?",
        "What did we do the next week?",
        "Who is the mother of June?",
        "What do I know of April?",
        "What is new in 2024.1.3?",
        "Who taught me in the last year of school?",
        "Where did I live half a year ago?",
        "What have I done since 2031?",
        "What was the day before 0001-01-01?",
        "What comes in the week after 9999-12-30?",
    ],
)
def test_words_that_name_no_time_give_none(question):
    assert span_of(question, ASKED) is None


def test_time_is_counted_from_an_event():
    trip = int(datetime(2026, 6, 20, tzinfo=UTC).timestamp() * 1000)
    start, end = span_around(trip, "before", "two", "week")
    assert ((iso(start) or "")[:10], (iso(end) or "")[:10]) == ("2026-06-02", "2026-06-09")
    assert span_around(trip, "after")[0] == trip


@pytest.mark.parametrize(
    ("asked", "said", "tells"),
    [
        ("on 14 November 2026", "Yesterday I went bowling.", True),
        ("on 14 November 2026", "I love bowling.", False),
        ("on 13 November 2026", "Yesterday I went bowling.", False),
        ("on 13 November 2026", "We met her last Friday.", True),
        ("on 4 November 2026", "Last week I was in Rome.", True),
        ("on 4 November 2026", "Last year I was in Rome.", False),
        ("in October 2026", "We moved last month.", True),
        ("in October 2026", "I have been ill since May.", False),
        ("in summer 2026", "We moved last August.", True),
        ("on 16 November 2026", "Tomorrow is the exam.", True),
        ("on 17 November 2026", "Tomorrow is the exam.", False),
        ("in December 2026", "We move next month.", True),
    ],
)
def test_a_message_tells_of_a_time_relative_to_when_it_was_said(asked, said, tells):
    span = span_of(f"What did I do {asked}?", ASKED)
    assert span is not None
    assert tells_of(span_of(said, ASKED), span) is tells


WORDS = [
    "before", "after", "since", "until", "between", "from", "and", "to", "in", "on", "of", "the", "day", "week",
    "weekend", "month", "year", "friday", "may", "march", "february", "29", "31", "winter", "fall", "spring",
    "summer", "last", "past", "this", "next", "tomorrow", "yesterday", "today", "ago", "half", "few", "999",
    "years", "0001-01-01", "9999-12-31", "0001", "9999", "2024", "1900", "2024-02-29", "early", "mid", ",", "?",
]  # fmt: skip
TIMES = st.one_of(
    st.integers(validate.LIMITS.moment_min_ms, validate.LIMITS.moment_max_ms),
    st.sampled_from((validate.LIMITS.moment_min_ms, validate.LIMITS.moment_max_ms)),
)
TEXTS = st.one_of(st.text(max_size=300), st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join))


@settings(max_examples=2_000)
@given(TEXTS, TIMES)
def test_any_text_is_read_without_error(text, at):
    span = span_of(text, at)
    assert span is None or span[0] < span[1]


@given(
    TIMES, st.sampled_from(("before", "after")), st.integers(0, 999), st.sampled_from(("day", "week", "month", "year"))
)
def test_time_is_counted_from_any_event(moment, side, count, unit):
    span_around(moment, side, str(count), unit)
