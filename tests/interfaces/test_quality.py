"""`recollect bench --data`: how well search retrieves, on conversations whose questions name their answers."""

from __future__ import annotations

import dataclasses
import gzip
import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from recollect import Memory
from recollect.errors import ValidationError
from recollect.interfaces.charts import Group, bars
from recollect.interfaces.comparing import FullText, Fused, Meaning
from recollect.interfaces.datasets import Asked, read_cases
from recollect.interfaces.quality import GATHERING_S, Ours, WithLearned, measure, score, separation
from recollect.models import Ask
from recollect.testing.fakes import HashingEmbedder

SAID = [
    {"session": "monday", "role": "user", "content": "My sister Ida plays the cello.", "at": "2024-03-04T09:00:00"},
    {"session": "monday", "role": "assistant", "content": "How lovely! Does she play in an orchestra?"},
    {"session": "friday", "role": "user", "content": "I sold my bicycle for 80.", "id": "bike", "at": "2024-03-08"},
    {"session": "friday", "role": "user", "name": "Ben", "content": "The lighthouse is closed in winter."},
]  # fmt: skip
ASKED = [
    {"question": "Which instrument does my sister play?", "evidence": ["monday:1"], "category": "family"},
    {"question": "How much did I get for the bicycle?", "evidence": ["bike"], "at": "2024-03-09T12:00:00"},
    {"question": "What is the name of my hamster?", "evidence": []},
]
LOCOMO = [{
    "qa": [
        {"question": "Where did Ann move?", "answer": "Porto", "evidence": ["D2:1; D1:01", "D9:9"], "category": 1},
        {"question": "Where did Ben move?", "evidence": ["D2:1"], "category": 5},
    ],
    "conversation": {
        "speaker_a": "Ann", "speaker_b": "Ben",
        "session_1_date_time": "1:56 pm on 8 May, 2023",
        "session_1": [{"speaker": "Ann", "dia_id": "D1:1", "text": "I am moving."},
                      {"speaker": "Ben", "dia_id": "D1:2", "text": "Look!", "blip_caption": "a boat"}],
        "session_2_date_time": "12:05 am on 1 June, 2023",
        "session_2": [{"speaker": "Ann", "dia_id": "D2:1", "text": "Porto is warm."}],
    },
}]  # fmt: skip
LONGMEMEVAL = [{
    "question_id": "q1_abs", "question_type": "multi-session", "question": "How old is my dog?", "answer": "unknown",
    "question_date": "2023/05/30 (Tue) 23:40",
    "haystack_dates": ["2023/05/21 (Sun) 01:10", "2023/05/20 (Sat) 02:21"],
    "haystack_sessions": [
        [{"role": "user", "content": "My cat is five.", "has_answer": True}],
        [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hi"}],
    ],
}]  # fmt: skip


def test_own_conversations_are_lines_of_messages_and_questions(lines, tmp_path):
    path = tmp_path / "own.jsonl"
    lines(*SAID, *ASKED, name="own.jsonl")
    (case,) = read_cases(path)
    assert [turn.id for turn in case.conversation.turns] == ["monday:1", "monday:2", "bike", "friday:2"]
    assert [turn.speaker for turn in case.conversation.turns] == ["user", "assistant", "user", "Ben"]
    assert case.conversation.turns[2].at == "2024-03-08T00:00:00+00:00"
    assert [question.abstain for question in case.questions] == [False, False, True]
    assert case.questions[0].sessions == {"monday"}
    assert [question.category for question in case.questions] == ["family", "all", "all"]


def test_locomo_is_read_as_it_is_published(tmp_path):
    path = tmp_path / "locomo10.json"
    path.write_text(json.dumps(LOCOMO))
    (case,) = read_cases(path)
    first, second, third = case.conversation.turns
    assert (first.id, first.session, first.at) == ("D1:1", "D1", "2023-05-08T13:56:00Z")
    assert second.text == "Look! [shares image: a boat]"
    assert third.at == "2023-06-01T00:05:00Z"
    assert case.questions[0].evidence == {"D2:1", "D1:1"}
    assert [(question.category, question.abstain) for question in case.questions] == [
        ("multi-hop", False), ("adversarial", True),
    ]  # fmt: skip


def test_longmemeval_is_read_as_it_is_published(tmp_path):
    path = tmp_path / "longmemeval.json.gz"
    path.write_bytes(gzip.compress(json.dumps(LONGMEMEVAL).encode()))
    (case,) = read_cases(path)
    assert [turn.text for turn in case.conversation.turns] == ["Hello", "Hi", "My cat is five."]
    (question,) = case.questions
    assert (question.evidence, question.at, question.abstain) == ({"S2:1"}, "2023-05-30T23:40:00Z", True)


@pytest.mark.parametrize(
    "written",
    [b"", b"{", b"[]", b"[1]", b"\x1f\x8bno gzip", b'{"session": "a"}', b'{"question": "who?", "evidence": ["a:1"]}'],
)  # fmt: skip
def test_a_file_of_another_kind_is_refused(recollect, tmp_path, written):
    path = tmp_path / "other.json"
    path.write_bytes(written)
    with pytest.raises(ValidationError):
        read_cases(path)
    assert recollect("bench", "--data", str(path), at=None).code == 2


async def test_every_ranker_is_asked_the_same_questions(lines, tmp_path):
    lines(*SAID, *ASKED, name="own.jsonl")
    cases = read_cases(tmp_path / "own.jsonl")
    embedder = HashingEmbedder()
    async with Memory.open("memory://", worker=False) as memory:
        rankers = [FullText(), Meaning(embedder), Fused(embedder), Ours("ours", memory)]
        told_of: list[int] = []
        rows = await measure(cases, rankers, told_of.append)
    assert told_of == list(range(1, 2 * len(rankers) + 1))
    assert [row.name for row in rows] == ["SQLite FTS5", "embedder alone", "rank fusion of both", "ours"]
    for row in rows:
        told = row.to_dict()
        assert (told["questions"], told["categories"]["family"]["questions"]) == (2, 1)
        assert told["turn R@5"] == told["session all@5"] == 100.0
        assert told["cpu_ms"] is not None
    assert told["survival"] == 100.0
    assert told["abstaining"]["questions"] == 1


async def test_odd_questions_do_not_break_the_compared_rankers(lines, tmp_path):
    lines(*SAID, *ASKED, name="own.jsonl")
    words = FullText()
    await words.tell(read_cases(tmp_path / "own.jsonl")[0].conversation)
    for text in ('"', "cello AND (", "told:cello", "?!", "NEAR(a b)"):
        await words.find(Asked(text, None, "", frozenset(), frozenset(), False), 5)


def test_the_score_counts_the_share_of_evidence_and_whole_sessions():
    question = Asked("q", None, "all", frozenset({"a:1", "b:1"}), frozenset({"a", "b"}), False)
    sessions = {f"{session}:{n}": session for session in "abc" for n in range(1, 9)}
    found = ["a:1", "c:1", "c:2", "c:3", "c:4", "b:2", "b:1"]
    scores = score(question, found, sessions)
    assert (scores["turn R@5"], scores["turn R@10"]) == (0.5, 1.0)
    assert scores["session all@5"] == 1.0


def test_an_uninformative_score_has_an_auc_of_one_half():
    assert separation([0.5] * 20, [0.5] * 20)["auc"] == 0.5
    apart = separation([0.9] * 20, [0.1] * 5)
    assert (apart["auc"], apart["refused"]) == (1.0, 100.0)


def test_the_command_compares_explains_and_draws(recollect, lines, tmp_path):
    path = lines(*SAID, *ASKED, name="own.jsonl")
    ran = recollect("bench", "--data", path, "--chart", "quality.svg", "--json", at=None)
    (told,) = ran.json
    names = ["SQLite FTS5", "embedder alone", "rank fusion of both", "Recollect, words alone", "Recollect"]
    assert [row["name"] for row in told["rows"]] == names
    assert (told["turns"], told["conversations"]) == (4, 1)
    assert told["bytes_per_turn"] > 0
    assert told["rows"][-1]["turns_per_s"] > 0
    drawn = (tmp_path / "quality.svg").read_text()
    assert all(name in drawn for name in names)
    assert recollect("bench", "--data", path, "--chart", "quality.svg", at=None).code == 3
    shown = recollect("bench", "--data", path, "--no-compare", "--words", at=None)
    assert shown.code == 0
    assert "Recollect, words alone" in shown.out
    assert "SQLite FTS5" not in shown.out
    assert "in a context of 2,000 tokens" in shown.out
    assert "1 questions without an answer" not in shown.out
    assert recollect("bench", "--data", path, "--quality", "better", at=None).code == 2


def test_a_chart_is_an_image_that_states_its_values():
    drawn = bars("How <good>", ["a & b", "ours"], [Group("R@5", (40.0, 120.0)), Group("R@10", (None, -3.0))])
    root = ElementTree.fromstring(drawn)
    text = "".join(root.itertext())
    assert "How <good>" in text
    assert "a & b 40" in text
    rects = [each for each in root.iter("{http://www.w3.org/2000/svg}rect") if each.get("class") == "b1"]
    heights = [float(each.get("height")) for each in rects]
    assert heights == [260.0, 0.0, 12.0], "cut to the plot; the last is the legend"
    assert "prefers-color-scheme: dark" in drawn


NOTES = [
    {"note": "The user's sister is a musician; her instrument is the violoncello.", "turns": ["monday:1"]},
    {"note": "Nobody said this.", "turns": ["nowhere:1"]},
]


def test_a_perfect_models_notes_are_lines_too_or_the_observations_of_locomo(lines, tmp_path):
    lines(*SAID, *ASKED, *NOTES, name="own.jsonl")
    (case,) = read_cases(tmp_path / "own.jsonl")
    assert [note.turns for note in case.conversation.notes] == [("monday:1",), ()]
    assert len(case.conversation.turns) == 4
    seen = {"session_1_observation": {"Ann": [["Ann moves.", "D1:1"], ["Ann likes Porto.", ["D2:1", "D9:9"]]]}}
    (tmp_path / "locomo.json").write_text(json.dumps([LOCOMO[0] | {"observation": seen}]))
    (case,) = read_cases(tmp_path / "locomo.json")
    assert [note.turns for note in case.conversation.notes] == [("D1:1",), ("D2:1",)]


def test_in_a_file_without_notes_the_answers_serve_as_notes_with_the_speakers_name(lines, tmp_path):
    said = {"session": "friday", "role": "user", "name": "Ben", "content": "We open in May."}
    asked = [
        {"question": "When does it open?", "evidence": ["friday:1", "monday:1"], "answer": "in May"},
        {"question": "How old is it?", "evidence": ["monday:1"], "answer": 7},
        {"question": "Who built it?", "evidence": [], "answer": "nobody said so"},
        {"question": "Why?", "evidence": ["monday:1"]},
    ]
    lines(said, SAID[0], *asked, name="own.jsonl")
    (case,) = read_cases(tmp_path / "own.jsonl")
    notes = [(note.text, note.turns) for note in case.conversation.notes]
    assert notes == [("Ben: in May", ("friday:1", "monday:1")), ("7", ("monday:1",))]


def test_what_notes_add_is_shown_in_its_own_row(recollect, lines):
    asked = {"question": "Is there a violoncello among the musicians?", "evidence": ["monday:1"]}
    more = [{"session": "later", "role": "user", "content": f"It rained for {n} hours."} for n in range(40)]
    path = lines(*SAID, *more, asked, *NOTES, name="own.jsonl")
    ran = recollect("bench", "--data", path, "--notes", "--no-compare", "--words", "--json", at=None)
    with_notes, without = ran.json[0]["rows"]
    assert with_notes["name"] == f"{without['name']}, with notes"
    assert (with_notes["turn R@5"], without["turn R@5"]) == (100.0, 0.0)


def test_a_file_without_notes_says_so(recollect, lines):
    ran = recollect("bench", "--data", lines(*SAID, *ASKED, name="own.jsonl"), "--notes", at=None)
    assert ran.code == 2 and "notes" in ran.err


def test_what_is_learned_from_turns_counts_for_them_in_its_own_rows(recollect, lines):
    told = {"session": "monday", "role": "user", "content": "I live in Oslo."}
    asked = {"question": "Which city?", "evidence": ["monday:1"]}
    more = [{"session": "later", "role": "user", "content": f"It rained for {n} hours."} for n in range(40)]
    path = lines(told, *more, asked, name="own.jsonl")
    ran = recollect("bench", "--data", path, "--learned", "--no-compare", "--words", "--json", at=None)
    facts, episodes, alone = ran.json[0]["rows"]
    assert [row["name"].removeprefix(f"{alone['name']}, with ") for row in (facts, episodes)] == [
        "facts", "facts and episodes",
    ]  # fmt: skip
    assert (alone["turn R@5"], facts["turn R@5"], episodes["turn R@5"]) == (0.0, 100.0, 100.0)


async def test_what_a_model_learned_counts_for_its_turn_and_an_episode_for_all_its_turns(lines, tmp_path):
    said = "What I collect are antique barometers"
    talk = [{"session": "monday", "role": "user", "content": f"{said}, from all over the world."}]
    talk += [
        {"session": "monday", "role": "user", "content": f"The meeting of room {n} is on Friday."} for n in (1, 2, 3)
    ]
    path = lines(*talk, {"question": "Any collection of hobbies?", "evidence": ["monday:1"]}, name="own.jsonl")
    found = {"message": 1, "layer": "fact", "key": "collection", "value": "antique barometers", "subject": "",
             "change": "holds", "sure": "certain", "quote": said}  # fmt: skip

    async def model(ask: Ask) -> str:
        return json.dumps({"findings": [found], "ratings": []})

    (case,) = read_cases(Path(path))
    meetings = dataclasses.replace(case.questions[0], text="On which days are the meetings?")
    for layers, about_meetings in ((["fact"], False), (["fact", "episodic"], True)):
        given = {"embedder": "none", "worker": False, "llm": model, "llm_batch_s": GATHERING_S}
        async with Memory.open("memory://", **given) as memory:
            ranker = WithLearned("learned", memory, None, layers)
            await ranker.tell(case.conversation)
            assert (await ranker.find(case.questions[0], 5))[0] == "monday:1"
            assert ("monday:1" in await ranker.find(meetings, 8)) is about_meetings
