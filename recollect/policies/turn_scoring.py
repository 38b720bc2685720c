"""How turns of a conversation are ranked: by what they say, what surrounds them, their session, and who said them.

The weights are in `TALK`, one row for each kind of talk, fitted by tools/fit_ranking.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np
from numpy.typing import NDArray

from recollect.policies.phrasing import WORDS, Asked
from recollect.policies.scoring import MEANING_LEAST, Rows, Scores, held_back, rarity, saturated

FEEDBACK_ROWS = 3
"""How many of the first guesses are taken for the answer when searching for more like them."""
TIME_TOLD, NUMBER_TOLD = 0.15, 0.08
"""What a note gets for mentioning a time where the question asks when, or a number where it asks how many."""
ECHO_LESS, ECHO_WORTH = 0.4, 0.1
"""By how much the score of a turn is reduced that only repeats the question, and the fraction that remains of its worth
as an answer."""
BY_ANOTHER, OF_ANOTHER = 0.8, 0.4
"""What a turn is worth as an answer about somebody whom the question names, if somebody else said it: this share of
what it would be where it mentions them, and where it does not. What Ben paints is no answer to what Ana paints.
Questions with another name put in are told from those as they were asked with an AUC of 0.78 (was 0.74) on FriendsQA,
0.55 (0.53) on our talks and 0.63 (0.54) on LoCoMo.
"""
LEG_OF = {
    "words": "words",
    "cover": "words",
    "window_words": "surroundings",
    "window_cover": "surroundings",
    "answers": "surroundings",
    "session_words": "session",
    "session_cover": "session",
    "session_user_cover": "session",
    "meaning": "meaning",
    "window_meaning": "meaning",
    "session_meaning": "meaning",
    "feedback": "meaning",
    "kin": "meaning",
    "window_kin": "meaning",
    "answers_kin": "meaning",
    "speaker": "speaker",
    "role": "speaker",
    "user": "speaker",
    "length": "form",
    "asks": "form",
    "time": "form",
    "number": "form",
}
"""Each feature of a turn, and the leg of the explanation it belongs to."""
FEATURES = tuple(LEG_OF)
TALK_LEGS = tuple(dict.fromkeys(LEG_OF.values()))
_OF_LEG = np.array([[LEG_OF[name] == leg for name in FEATURES] for leg in TALK_LEGS], np.float32)
KIN = slice(FEATURES.index("kin"), FEATURES.index("answers_kin") + 1)
"""The features that compare single words: they are expensive, so only candidates get them."""
SPEAKER = FEATURES.index("speaker")
TALK: dict[str, tuple[float, ...]] = {
    "people": (  # fitted on 2383 and 1027 questions
        0.24,  # words
        -1.13,  # cover
        0.79,  # window_words
        -0.12,  # window_cover
        0.24,  # answers
        0.72,  # session_words
        0.61,  # session_cover
        0.61,  # session_user_cover
        0.46,  # meaning
        1.55,  # window_meaning
        0.95,  # session_meaning
        0.13,  # feedback
        2.57,  # kin
        2.27,  # window_kin
        1.56,  # answers_kin
        1.02,  # speaker
        0.00,  # role
        0.00,  # user
        2.97,  # length
        -0.66,  # asks
        1.85,  # time
        1.89,  # number
    ),
    "people, words alone": (  # fitted on 2383 and 1027 questions
        0.80,  # words
        1.05,  # cover
        1.26,  # window_words
        1.66,  # window_cover
        1.76,  # answers
        0.71,  # session_words
        0.77,  # session_cover
        0.77,  # session_user_cover
        0.00,  # meaning
        0.00,  # window_meaning
        0.00,  # session_meaning
        0.00,  # feedback
        0.00,  # kin
        0.00,  # window_kin
        0.00,  # answers_kin
        1.03,  # speaker
        0.00,  # role
        0.00,  # user
        3.18,  # length
        -0.61,  # asks
        1.90,  # time
        2.00,  # number
    ),
    "assistant": (  # fitted on 264 questions
        1.17,  # words
        2.10,  # cover
        -0.28,  # window_words
        1.68,  # window_cover
        -0.38,  # answers
        1.47,  # session_words
        -1.23,  # session_cover
        -0.98,  # session_user_cover
        1.49,  # meaning
        1.44,  # window_meaning
        1.08,  # session_meaning
        0.90,  # feedback
        0.00,  # kin
        0.00,  # window_kin
        0.00,  # answers_kin
        0.00,  # speaker
        2.35,  # role
        1.49,  # user
        -0.46,  # length
        -0.32,  # asks
        0.81,  # time
        0.81,  # number
    ),
    "assistant, words alone": (  # fitted on 264 questions
        2.44,  # words
        2.23,  # cover
        0.87,  # window_words
        0.66,  # window_cover
        -0.29,  # answers
        2.97,  # session_words
        -1.55,  # session_cover
        -0.67,  # session_user_cover
        0.00,  # meaning
        0.00,  # window_meaning
        0.00,  # session_meaning
        0.00,  # feedback
        0.00,  # kin
        0.00,  # window_kin
        0.00,  # answers_kin
        0.00,  # speaker
        2.33,  # role
        1.58,  # user
        -1.33,  # length
        -0.31,  # asks
        0.99,  # time
        0.81,  # number
    ),
}
"""Weights of the features, for people talking to each other and for a person with an assistant, and for both
where there is no embedder."""
ASSISTANT, WORDS_ALONE = "assistant", ", words alone"
"""The row for a person with an assistant, and what ends the names of rows for where there is no embedder."""


def weighs_kin(row: str) -> bool:
    """Whether words of similar meaning count in this row of `TALK`: long replies have kin to every question."""
    return any(TALK[row][KIN])


@dataclass(frozen=True)
class Talk:
    """How the rows of an index relate to each other: sessions, neighbours, speakers. A note stands alone.

    `before` and `after` are the neighbours' rows, -1 where there is none. Whatever follows from this alone is
    computed at the first question.
    """

    session: Rows
    sessions: int
    before: Rows
    after: Rows
    length: Scores
    user: Scores
    assistant: Scores
    speaker: Rows
    speakers: Mapping[str, int]
    asks: Scores
    signs: Callable[[], NDArray[np.float32]]
    """Computes what `time` and `number` return."""

    @cached_property
    def _told(self) -> NDArray[np.float32]:
        return self.signs()

    @property
    def time(self) -> Scores:
        """1 for rows that mention a time."""
        times: Scores = self._told[0]
        return times

    @property
    def number(self) -> Scores:
        """1 for rows that mention a number."""
        numbers: Scores = self._told[1]
        return numbers

    @cached_property
    def kind(self) -> str:
        """`people` when most turns have a name, else `assistant`."""
        named = np.count_nonzero(self.speaker >= 0)
        return "people" if 2 * named > len(self.speaker) else ASSISTANT

    @cached_property
    def window_held(self) -> Scores:
        """The penalty on each row for its own length and that of its neighbours."""
        nothing = np.zeros_like(self.length)
        return held_back(self.length + _at(self.length, self.before, nothing) + _at(self.length, self.after, nothing))

    @cached_property
    def session_held(self) -> Scores:
        """The penalty on each session for its length."""
        return held_back(np.bincount(self.session, self.length, self.sessions).astype(np.float32))

    @cached_property
    def answers(self) -> NDArray[np.bool_]:
        """Which rows come right after one that asks."""
        asked: NDArray[np.bool_] = _at(self.asks, self.before, np.zeros_like(self.asks)) > 0
        return asked

    @cached_property
    def by_people(self) -> Scores:
        """1 for rows that no assistant said."""
        people: Scores = 1 - self.assistant
        return people

    @cached_property
    def long(self) -> Scores:
        """How long each row is, as a feature."""
        long: Scores = np.log1p(self.length) * np.float32(0.25)
        return long


def told_signs(talk: Talk, asked: Asked) -> Scores:
    """What notes get for telling the time or the number that a question asks for."""
    told: Scores = np.float32(TIME_TOLD * asked.when) * talk.time + np.float32(NUMBER_TOLD * asked.many) * talk.number
    return told


def talk_features(
    talk: Talk,
    asked: Asked,
    words: Scores,
    meaning: Scores | None,
    vectors: NDArray[np.float32] | None,
    posted: Sequence[tuple[Rows, Scores] | None],
) -> NDArray[np.float32]:
    """All features of all rows, a line for each of FEATURES.

    `posted` holds, for each term of the question, its rows and how often it occurs there.
    """
    lexical = _lexical(talk, posted)
    own = _scaled(words)
    silent = np.zeros_like(words)
    near = of_session = feedback = silent
    if meaning is not None:
        around = (meaning + 0.5 * _at(meaning, talk.before, meaning) + 0.5 * _at(meaning, talk.after, meaning)) / 2
        near = around / max(float(around.max(initial=0.0)), MEANING_LEAST)
        meaning = meaning / np.float32(max(float(meaning.max(initial=0.0)), MEANING_LEAST))
        of_session = _session_best(talk, meaning)
        if vectors is not None:
            feedback = _feedback(own + 0.5 * meaning + 0.5 * lexical["window_words"], vectors)
    spoken_by = [talk.speakers[name] for name in named_speakers(talk, asked)]
    values: dict[str, Scores] = (
        dict.fromkeys(FEATURES, silent)
        | lexical
        | {
            "words": own,
            "meaning": silent if meaning is None else meaning,
            "window_meaning": near,
            "session_meaning": of_session,
            "feedback": feedback,
            # A word is its own nearest kin; `kin_features` looks at candidates more closely.
            "kin": lexical["cover"],
            "window_kin": lexical["window_cover"],
            "answers_kin": lexical["answers"],
            "speaker": np.isin(talk.speaker, spoken_by).astype(np.float32) if spoken_by else silent,
            "role": talk.assistant if asked.you else talk.user,
            "user": talk.user,
            "length": talk.long,
            "asks": talk.asks,
            "time": talk.time if asked.when else silent,
            "number": talk.number if asked.many else silent,
        }
    )
    features = np.empty((len(FEATURES), len(words)), np.float32)
    for place, name in enumerate(FEATURES):
        features[place] = values[name]
    return features


def _lexical(talk: Talk, posted: Sequence[tuple[Rows, Scores] | None]) -> dict[str, Scores]:
    """What the words of the question say about a turn, its surroundings and its session."""
    size, sessions = len(talk.session), talk.sessions
    cover, window_words, window_cover = (np.zeros(size, np.float32) for _ in range(3))
    session_words, session_cover, user_cover = (np.zeros(sessions, np.float32) for _ in range(3))
    total = 0.0
    for found in posted:
        weight = rarity(size, len(found[0]) if found else 0)
        total += weight
        if found is None:
            continue
        rows, counts = found
        cover[rows] += weight
        near, around = _around(talk, rows, counts)
        window_cover[near] += weight
        window_words[near] += weight * saturated(around, talk.window_held[near])
        session = talk.session[rows]
        in_session = np.bincount(session, counts, sessions).astype(np.float32)
        there = in_session > 0
        session_cover += weight * there
        session_rarity = rarity(sessions, int(np.count_nonzero(there)))
        session_words += session_rarity * saturated(in_session, talk.session_held)
        user_cover += weight * (np.bincount(session, counts * talk.by_people[rows], sessions) > 0)
    total = max(total, 1e-6)
    before_cover = np.where(talk.answers, cover[talk.before], np.float32(0))
    return {
        "cover": cover / total,
        "window_words": _scaled(window_words),
        "window_cover": window_cover / total,
        "answers": (before_cover / total).astype(np.float32),
        "session_words": _scaled(session_words)[talk.session],
        "session_cover": (session_cover / total)[talk.session],
        "session_user_cover": (user_cover / total)[talk.session],
    }


def named_speakers(talk: Talk, asked: Asked) -> frozenset[str]:
    """The speakers whom a question names."""
    return asked.words.intersection(talk.speakers)


def worth_about(said: str, by_them: bool, named: frozenset[str]) -> float:
    """What a turn is worth as an answer about those whom the question names, compared with one that they said.

    >>> worth_about("Ben painted a lake.", False, frozenset({"ben"})), worth_about("I swim.", False, frozenset({"ben"}))
    (0.8, 0.4)
    """
    if by_them or not named:
        return 1.0
    return OF_ANOTHER if named.isdisjoint(WORDS.findall(said.lower())) else BY_ANOTHER


def _around(talk: Talk, rows: Rows, counts: Scores) -> tuple[Rows, Scores]:
    """The rows that have a count themselves or in a neighbour, and the sum: most rows have neither."""
    sums = np.zeros(len(talk.session) + 1, np.float32)  # the last place, -1, stands for no row
    sums[rows] = counts
    sums[talk.before[rows]] += counts
    sums[talk.after[rows]] += counts
    near = sums[:-1].nonzero()[0]
    return near, sums[near]


def kin_features(talk: Talk, rows: Rows, nearest: NDArray[np.float32], rarities: Sequence[float]) -> Scores:
    """The features `kin`, `window_kin` and `answers_kin` of these rows.

    `nearest` holds, for every row of the index, how near each word of the question comes to a word there;
    rows that were not compared have zeros.
    """
    shares = np.array(rarities, np.float32)
    shares /= max(float(shares.sum()), 1e-6)
    before, after = (
        np.where((near[rows] >= 0)[:, None], nearest[near[rows]], np.float32(0)) for near in (talk.before, talk.after)
    )
    asked = (talk.asks[talk.before[rows]] > 0) & (talk.before[rows] >= 0)
    own = nearest[rows]
    around = np.maximum(np.maximum(own, before), after)
    kin, window_kin, answers_kin = (np.vecdot(each, shares) for each in (own, around, before))
    features: Scores = np.stack([kin, window_kin, np.where(asked, answers_kin, np.float32(0))])
    return features


def _at(values: Scores, rows: Rows, missing: Scores) -> Scores:
    """The value of each row's neighbour, or that of `missing` where there is none."""
    there: Scores = np.where(rows >= 0, values[rows], missing)
    return there


def _scaled(scores: Scores) -> Scores:
    scaled: Scores = scores / np.float32(max(float(scores.max(initial=0.0)), 1e-6))
    return scaled


def _session_best(talk: Talk, scores: Scores) -> Scores:
    best = np.full(talk.sessions, -1, np.float32)
    np.maximum.at(best, talk.session, scores)
    return best[talk.session]


def _feedback(guess: Scores, vectors: NDArray[np.float32]) -> Scores:
    """How near each row is to the first guesses: what answers a question is often said more than once."""
    first = (
        np.argpartition(-guess, FEEDBACK_ROWS)[:FEEDBACK_ROWS] if len(guess) > FEEDBACK_ROWS else np.arange(len(guess))
    )
    middle = vectors[first[guess[first] > 0]].sum(axis=0)
    length = float(np.linalg.norm(middle))
    near: Scores = np.vecdot(vectors, middle / max(length, 1e-6))
    return near


def talk_scores(row: str, features: NDArray[np.float32]) -> Scores:
    """The weighted sum for each turn, on the scale of notes: about 1 for the best possible turn."""
    weights, best = _weights(TALK[row])
    scores: Scores = np.einsum("i,ij->j", weights, features) / best
    return scores


@cache
def _weights(row: tuple[float, ...]) -> tuple[Scores, np.float32]:
    """A row of weights, and the sum of the positive ones."""
    weights = np.array(row, np.float32)
    return weights, np.float32(max(float(weights[weights > 0].sum()), 1e-6))


def leg_shares(row: str, features: NDArray[np.float32]) -> dict[str, float]:
    """What each leg added to the score of one turn, from its features."""
    weights, best = _weights(TALK[row])
    parts = weights * features / best
    return dict(zip(TALK_LEGS, np.vecdot(_OF_LEG, parts).tolist(), strict=True))
