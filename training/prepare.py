"""Collect the training data of the reranker: questions, and the turns that the fast ranking puts first.

    python training/prepare.py --out pairs.json.gz --learn FRIENDS.json.gz LME_O50.json.gz training/talks \
        --measure LOCOMO.json.gz

Every question comes with its right turns and the best wrong ones, each as the reranker will read it
(recollect/policies/passages.py), and with the fast ranking's score. Files under `--learn` are used for training: use
data whose licence allows it. Files under `--measure` are only used for measuring.

With `--turns` it writes out the turns that questions can be written about; `training/teacher.py` writes the questions,
and `--written FILE` then finds their candidates in the same way:

    python training/prepare.py --out turns.json.gz --turns --learn FRIENDS.json.gz training/talks LME_POOL.json.gz
    python training/prepare.py --out written_pairs.json.gz --written written.json.gz --learn FRIENDS.json.gz ...

With `--misses` it writes out questions that a conversation does not answer, and what the fast ranking finds for them:

    python training/prepare.py --out misses.json.gz --misses --learn FRIENDS.json.gz training/talks --among POOL.json.gz
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import json
import random
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))

from fit_ranking import cases_of, features_of, index_of

from recollect.index import PartitionIndex
from recollect.interfaces.datasets import ROLES, Asked, Case, Conversation, Turn
from recollect.policies.passages import WORDS_MAX, beginning, ending, stretch
from recollect.policies.turn_scoring import talk_scores
from recollect.policies.words import query_terms
from recollect.providers import StaticEmbedder

CANDIDATES = 100
"""How many of the fast ranking's first turns each question keeps."""
SESSIONS = 50
"""Sessions per store that questions are written about; a much larger store is cut into pieces of this size."""
WORDS_LEAST = 5
"""Shorter turns say nothing to ask about."""
NEAR, FAR, DRAWN = 16, 60, 12
"""For a written question the first NEAR candidates are kept, and DRAWN more are drawn from the rest up to FAR."""
MISSED, MISSES = 24, 60
"""Candidates kept of a question that nothing answers, and such questions of each talk."""
PEOPLE = 6
"""How many of the people who say most a question may be about."""
BELIEVED = 30
"""A written question counts only if the fast ranking puts its turn among the first this many."""


class Strings:
    """Numbers texts, so that the same text is written only once."""

    def __init__(self) -> None:
        self.all: dict[str, int] = {}

    def __call__(self, text: str) -> int:
        return self.all.setdefault(text, len(self.all))


async def rows(
    case: Case, index: PartitionIndex, embedder: StaticEmbedder, put: Strings, questions: Sequence[Asked] | None = None
) -> list[dict[str, Any]]:
    """Each answered question of a case with its candidates, or each of these questions, which nothing answers."""
    turns = case.conversation.turns
    ids = np.array(index.records.ids)
    found = []
    for question in case.answered() if questions is None else questions:
        terms = query_terms(question.text)
        talk = index.talk()
        scores = talk_scores(talk.kind, await features_of(index, question.text, embedder))
        right = np.isin(ids, list(question.evidence))
        chosen = np.argsort(-scores, kind="stable")[: CANDIDATES if questions is None else MISSED]
        missed = np.setdiff1d(np.flatnonzero(right), chosen)
        candidates = []
        for row in (*chosen.tolist(), *missed.tolist()):
            before, after = int(talk.before[row]), int(talk.after[row])
            candidates.append([
                put(turns[row].speaker), put(stretch(turns[row].text, terms)),
                put(ending(turns[before].text)) if before >= 0 else -1,
                put(beginning(turns[after].text)) if after >= 0 else -1,
                round(float(scores[row]), 4), int(right[row]), int(talk.session[row]),
            ])  # fmt: skip
        found.append({
            "question": question.text, "kind": talk.kind, "category": question.category,
            "evidence": len(question.evidence), "found": len(chosen), "candidates": candidates,
        })  # fmt: skip
    return found


def sessions_in(case: Case) -> dict[str, list[Turn]]:
    """The turns of each session."""
    sessions: dict[str, list[Turn]] = {}
    for turn in case.conversation.turns:
        sessions.setdefault(turn.session, []).append(turn)
    return sessions


def stores(path: Path, chance: random.Random) -> Iterator[list[Turn]]:
    """Yield the turns of each store in a file; a very large one in pieces of whole sessions, drawn at random."""
    for case in cases_of(path):
        sessions = sessions_in(case)
        names = list(sessions)
        if len(names) > 2 * SESSIONS:
            chance.shuffle(names)
        step = SESSIONS if len(names) > 2 * SESSIONS else len(names)
        for start in range(0, len(names), step):
            yield [turn for name in names[start : start + step] for turn in sessions[name]]


def among(case: Case, others: Sequence[Sequence[Turn]], chance: random.Random) -> Case:
    """Put a talk with an assistant among sessions of others, in total as many as a frequent user has."""
    turns = case.conversation.turns
    wanted = SESSIONS - len({turn.session for turn in turns})
    if wanted <= 0 or not others or any(turn.speaker not in ROLES for turn in turns):
        return case
    drawn = chance.sample(others, min(wanted, len(others)))
    mixed = [replace(turn, id=f"other {turn.id}", session=f"other {turn.session}") for each in drawn for turn in each]
    return replace(case, conversation=Conversation((*turns, *mixed)))


def style_counts(name: str, turn: Turn) -> dict[str, int]:
    """How many questions are written about a turn, by the set whose style they imitate."""
    if name.startswith("friends"):
        return {"friends": 1, "talks": 1}
    if name == "talks":
        return {"talks": 3}
    return {"chat": 2 if turn.speaker.lower() == "user" else 1}


def told_turns(path: Path, chance: random.Random) -> Iterator[dict[str, Any]]:
    """Yield what may be asked about: turns, or a stretch of a long one, with what surrounds them."""
    name = path.name.split(".")[0]
    for case, turns in enumerate(stores(path, chance)):
        for place, turn in enumerate(turns):
            words = turn.text.split()
            if len(words) < WORDS_LEAST:
                continue
            before, after = ("" if other is None else other.text for other in beside(turns, place))
            for style, count in style_counts(name, turn).items():
                for _ in range(count):
                    start = chance.randrange(len(words) - WORDS_MAX + 1) if len(words) > WORDS_MAX else 0
                    yield {
                        "set": name, "case": case, "place": place, "style": style, "speaker": turn.speaker,
                        "text": " ".join(words[start : start + WORDS_MAX]),
                        "before": ending(before), "after": beginning(after),
                    }  # fmt: skip


def beside(turns: list[Turn], place: int) -> tuple[Turn | None, Turn | None]:
    """The turns before and after one, where they belong to its session."""
    session = turns[place].session
    before = turns[place - 1] if place else None
    after = turns[place + 1] if place + 1 < len(turns) else None
    return (
        before if before is not None and before.session == session else None,
        after if after is not None and after.session == session else None,
    )


def people(case: Case) -> list[str]:
    """Who speaks in a talk between people, those who say most first; nobody in one with an assistant."""
    counts = Counter(turn.speaker for turn in case.conversation.turns)
    return [name for name, _ in counts.most_common(PEOPLE) if name not in ROLES]


def missing(case: Case, cases: Sequence[Case], chance: random.Random) -> list[Asked]:
    """Questions that a talk most likely does not answer, although it comes near.

    Its own with the name of another of its people; to an assistant, what other users ask theirs.
    """
    names = people(case)
    if not names:
        others = [other for other in cases if other is not case and not people(other)]
        found = [question for other in others for question in other.answered()]
    else:
        found = [renamed for question in case.answered() if (renamed := about_another(question, names, chance))]
    found = [replace(question, evidence=frozenset(), abstain=True) for question in found]
    return chance.sample(found, MISSES) if len(found) > MISSES else found


def about_another(question: Asked, names: Sequence[str], chance: random.Random) -> Asked | None:
    """The same question about somebody else, if it is about one of these people."""
    named = [name for name in names if re.search(rf"\b{re.escape(name)}\b", question.text)]
    others = [name for name in names if name not in named]
    if len(named) != 1 or not others:
        return None
    return replace(question, text=re.sub(rf"\b{re.escape(named[0])}\b", chance.choice(others), question.text))


async def missed_rows(
    path: Path, others: Sequence[Sequence[Turn]], embedder: StaticEmbedder, put: Strings
) -> list[dict[str, Any]]:
    """Questions that the talks of a file do not answer, with what is found for them."""
    cases, mixing, chance = list(cases_of(path)), random.Random(5), random.Random(11)
    found = []
    for number, told in enumerate(cases):
        case = among(told, others, mixing) if path.is_dir() else told
        questions = missing(told, cases, chance)
        if questions:
            index = await index_of(case.conversation, embedder)
            found += [row | {"case": number} for row in await rows(case, index, embedder, put, questions)]
    return found


def asked(text: str, turn: Turn) -> Asked:
    return Asked(text, None, "", frozenset({turn.id}), frozenset({turn.session}), False)


def is_sound(text: str) -> bool:
    return len(text.split()) >= 4 and text.endswith("?") and len(text) <= 220 and "scene" not in text.lower()


async def written_rows(
    path: Path, written: list[dict[str, Any]], embedder: StaticEmbedder, put: Strings
) -> list[dict[str, Any]]:
    """The written questions about a file, with their candidates."""
    name, found = path.name.split(".")[0], []
    draw = np.random.default_rng(1)
    for number, turns in enumerate(stores(path, random.Random(3))):
        mine = {
            each["text"].lower(): asked(each["text"], turns[each["place"]])
            for each in written
            if (each["set"], each["case"]) == (name, number) and is_sound(each["text"])
        }
        case = Case(Conversation(tuple(turns)), tuple(mine.values()))
        index = await index_of(case.conversation, embedder)
        for row in await rows(case, index, embedder, put):
            places = [place for place, candidate in enumerate(row["candidates"]) if candidate[5]]
            if places and places[0] < BELIEVED:
                kept = sorted({*range(NEAR), places[0], *draw.choice(range(NEAR, FAR), DRAWN, replace=False).tolist()})
                candidates = [row["candidates"][place] for place in kept if place < row["found"]]
                found.append(
                    row | {"candidates": candidates, "found": len(candidates), "set": name, "case": number}
                    | {"written": True}
                )  # fmt: skip
    return found


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--learn", type=Path, nargs="*", default=[], metavar="FILE")
    parser.add_argument("--measure", type=Path, nargs="*", default=[], metavar="FILE")
    parser.add_argument("--among", type=Path, metavar="FILE", help="sessions to mix in among talks with an assistant")
    parser.add_argument("--turns", action="store_true", help="write only the turns that questions can be written about")
    parser.add_argument("--written", type=Path, help="the questions that were written about them")
    parser.add_argument(
        "--misses", action="store_true", help="write only questions that the conversations do not answer"
    )
    options = parser.parse_args()
    if options.turns:
        turns = [turn for path in options.learn for turn in told_turns(path, random.Random(3))]
        write(options.out, {"turns": turns})
        return
    embedder, put = StaticEmbedder(), Strings()
    sets: dict[str, Any] = {}
    if options.written:
        with gzip.open(options.written, "rt", encoding="utf-8") as file:
            written = json.load(file)["questions"]
        questions = [row for path in options.learn for row in await written_rows(path, written, embedder, put)]
        write(options.out, {"strings": list(put.all), "sets": {"written": {"learn": True, "questions": questions}}})
        return
    others = (
        [turns for case in cases_of(options.among) for turns in sessions_in(case).values()] if options.among else []
    )
    if options.misses:
        misses = {path.name.split(".")[0]: await missed_rows(path, others, embedder, put) for path in options.learn}
        write(options.out, {"strings": list(put.all), "sets": {}, "misses": misses})
        return
    for path in (*options.learn, *options.measure):
        questions, chance = [], random.Random(5)
        for number, told in enumerate(cases_of(path)):
            case = among(told, others, chance) if path.is_dir() else told
            index = await index_of(case.conversation, embedder)
            questions += [row | {"case": number} for row in await rows(case, index, embedder, put)]
        name = path.name.split(".")[0]
        sets[name] = {"learn": path in options.learn, "questions": questions}
        print(name, len(questions), "questions", flush=True)
    write(options.out, {"strings": list(put.all), "sets": sets})


def write(path: Path, value: dict[str, Any]) -> None:
    with gzip.open(path, "wt", encoding="utf-8", compresslevel=9) as file:
        json.dump(value, file, ensure_ascii=False, separators=(",", ":"))


if __name__ == "__main__":
    asyncio.run(main())
