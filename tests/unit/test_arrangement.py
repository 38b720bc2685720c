"""However rows come and go, they are arranged as if they had all arrived at once."""

from __future__ import annotations

from bisect import insort
from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.arrangement import Arrangement
from recollect.policies.phrasing import signs
from recollect.policies.turn_scoring import Talk
from recollect.records import Record, Scope

SAID = st.sampled_from(["We met in May.", "Two of them?", "Fine.", "At 10:30", ""])
NAMES = st.sampled_from(["", "Ana", "Tom Reed", " "])
STEPS = st.one_of(
    st.tuples(st.just("say"), st.sampled_from("abc"), SAID, NAMES, st.booleans()),
    st.tuples(st.just("say_all"), st.sampled_from("abc"), st.lists(SAID, min_size=10, max_size=30)),
    st.tuples(st.just("note"), SAID),
    st.tuples(st.just("go"), st.integers(0, 30)),
    st.tuples(st.just("take"), st.integers(0, 60)),
    st.tuples(st.just("look"), st.integers(0, 60)),
    st.tuples(st.just("ask")),
)


class Rows:
    """Rows as an index holds them: none is ever moved, and rows that are gone are only skipped."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.sessions: dict[str, list[int]] = {}
        self.gone: set[int] = set()
        self.arrangement = self.anew()

    def anew(self) -> Arrangement:
        return Arrangement(self.sessions, lambda row: row not in self.gone)

    def say(self, session: str, text: str, name: str, late: bool) -> None:
        row = len(self.records)
        born = (row if late else 1000 - row, 0)
        data = {"role": "user" if row % 2 else "assistant", "name": name}
        self.records.append(Record(f"m{row}", "conversation", Scope(session=session), text, data, born=born))
        insort(self.sessions.setdefault(session, []), row, key=lambda each: self.records[each].born)

    def say_all(self, session: str, texts: list[str]) -> None:
        for text in texts:
            self.say(session, text, "", True)

    def note(self, text: str) -> None:
        self.records.append(Record(f"n{len(self.records)}", "long_term", Scope(), text))

    def go(self, row: int) -> None:
        if row < len(self.records) and row not in self.gone:
            self.gone.add(row)
            record = self.records[row]
            if record.layer == "conversation":
                self.sessions[record.scope.session].remove(row)
            self.arrangement.start_anew()

    def take(self, size: int) -> None:
        self.arrangement.take(self.records, min(size, len(self.records)))

    def look(self, size: int) -> None:
        self.arrangement.read_signs(self.records, min(size, len(self.records)))

    def ask(self) -> None:
        lengths = np.arange(len(self.records), dtype=np.float32)
        kept = self.arrangement.talk(self.records, lengths)
        assert plain(kept) == plain(self.anew().talk(self.records, lengths))


def plain(talk: Talk) -> dict[str, object]:
    told = (*(field.name for field in fields(talk) if field.name != "signs"), "time", "number")
    values = {name: getattr(talk, name) for name in told}
    return {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in values.items()}


@pytest.mark.parametrize(
    ("text", "time", "number"),
    [
        ("We met LAST week.", True, False),
        ("lasting friendship, weekly", False, False),
        ("last_week is a name", False, False),
        ("the cat's twice as old", False, True),
        ("It is 10:30.", True, True),
        ("the 3rd door", True, True),
        ("room 12", False, True),
        ("May's café — «today»", True, False),
        ("zwölf, ٣ Äpfel", False, True),
        ("", False, False),
    ],
)
def test_times_and_numbers_in_a_turn_are_recognised_by_whole_words_in_any_script(text, time, number):
    assert signs(text) == (time, number)
    # A non-ASCII letter is read in another way, which must change nothing.
    assert signs(f"{text} ß") == (time, number)


@given(st.lists(STEPS, max_size=40))
def test_rows_added_one_by_one_are_arranged_like_rows_added_together(steps):
    rows = Rows()
    for name, *values in [*steps, ("ask",)]:
        getattr(rows, name)(*values)


def test_rows_that_are_not_arranged_yet_may_belong_among_the_first():
    rows = Rows()
    rows.say("a", "The last word.", "", late=False)
    rows.say_all("a", ["Said before it."] * 40)
    for size in range(1, 42):
        rows.take(size)
    rows.ask()


def test_neighbours_voices_and_signs_are_those_of_the_conversation():
    rows = Rows()
    rows.say("a", "Where were you on Monday?", "Ana", True)
    rows.note("Likes tea.")
    rows.say("a", "With two friends.", "Tom Reed", True)
    rows.say("b", "Hello.", "", True)
    talk = rows.arrangement.talk(rows.records, np.ones(4, np.float32))
    assert (talk.before.tolist(), talk.after.tolist()) == ([-1, -1, 0, -1], [2, -1, -1, -1])
    assert (talk.session.tolist(), talk.sessions) == ([0, 1, 0, 2], 3)
    assert (talk.speakers, talk.speaker.tolist()) == ({"ana": 0, "tom": 1}, [0, -1, 1, -1])
    assert (talk.user.tolist(), talk.assistant.tolist()) == ([0, 0, 0, 1], [0, 0, 0, 0])
    assert (talk.asks.tolist(), talk.time.tolist(), talk.number.tolist()) == ([1, 0, 0, 0], [1, 0, 0, 0], [0, 0, 1, 0])
