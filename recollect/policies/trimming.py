"""A long text shortened to what a question asks: the sentences that have its words, and those next to them.

A sentence weighs as much as the wanted terms in it; one without any gets a little of its neighbours' weight, because
an answer often comes right after the words of the question. The weightiest sentences that fit are kept in their
order, with a mark wherever others were left out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from recollect.policies.patterns import pattern_of
from recollect.policies.tokens import TokenCounter
from recollect.policies.words import terms_among

GAP = " … "
"""Marks where something was left out, so that a reader knows that it is an excerpt."""
GAP_TOKENS = 3
CHARACTERS_MAX = 65_536
"""How many characters of a text are read: as many as one may have, since search finds what is at its end."""
WORDS_MAX = 40
"""A longer sentence is cut, so that a text without full stops can be shortened too."""
WORD_CHARACTERS = 200
"""A longer word is data, and only its beginning is kept, unless it is of a script that has no spaces."""
PIECE_BYTES = 360
"""The same for scripts that have none, or few: 120 characters of Chinese or Thai cost what 40 words of English do."""
BEFORE, BEHIND = 0.2, 0.3
"""What a sentence gets of the weight of the one after it and of the one before it: answers come after."""

# What ends a sentence. It begins with the sign itself, which is quicker to search for than what precedes a gap.
_END = pattern_of(r"[.!?…؟۔।॥።։][\"'”’)*_]*\s+|[。！？។။](?:[\"'”’)*_]*\s+)?")
_PAUSE = pattern_of(r"(?<=[，、；：])")

_ORDINAL = pattern_of(
    r"\b(?:(?:der|die|das|dem|den|des|im|vom|zum|zur|beim)\s+\d{1,2}\.(?=\s)"
    r"|\d{1,2}\.(?=\s+(?:januar|jänner|februar|märz|marts|mars|april|mai|maj|juni|juli|august|september|oktober"
    r"|november|de[sz]ember|december|\w{3,9}kuu(?:n|ta|ssa)?)\b))",
    re.IGNORECASE,
)
"""A number that counts, in languages that put a full stop behind it: before a month, or after an article."""


def stops_of_ordinals(text: str) -> set[int]:
    """Where a full stop belongs to a number, so that no sentence ends there.

    >>> sorted(stops_of_ordinals("Wir kommen am 3. Mai in den 2. Stock."))
    [15, 29]
    """
    return {match.end() - 1 for match in _ORDINAL.finditer(text)}


def sentences(text: str) -> list[str]:
    """The sentences and lines of a text, the longest ones cut.

    >>> sentences("We met in Oslo. It rained!\\n- a list")
    ['We met in Oslo.', 'It rained!', '- a list']
    """
    found = []
    for line in text[:CHARACTERS_MAX].split("\n"):
        start = 0
        ordinals = stops_of_ordinals(line)
        for end in _END.finditer(line):
            if end.start() in ordinals:
                continue
            found += _cut(line[start : end.start() + 1])
            start = end.end()
        found += _cut(line[start:])
    return found


def _cut(sentence: str) -> list[str]:
    """A sentence with single spaces, in several pieces if it is too long; none if it is empty."""
    words = sentence.split()
    if len(sentence) > WORD_CHARACTERS and not sentence.isascii():
        return _grouped([part for word in words for part in _parts(word)], " ")
    if len(sentence) > WORD_CHARACTERS:
        words = [word[:WORD_CHARACTERS] for word in words]
    return [" ".join(words[start : start + WORDS_MAX]) for start in range(0, len(words), WORDS_MAX)]


def _parts(word: str) -> list[str]:
    """A word; the beginning of one that is data; the parts of one that is a whole sentence, as in Chinese."""
    if word.isascii():
        return [word[:WORD_CHARACTERS]]
    at_most = PIECE_BYTES // 4  # characters: none takes more than four bytes
    parts = [part[at : at + at_most] for part in _PAUSE.split(word) for at in range(0, len(part), at_most)]
    return _grouped(parts, "")


def _grouped(parts: Sequence[str], joint: str) -> list[str]:
    """The parts, put together to pieces of at most so many words and bytes."""
    pieces: list[str] = []
    count = size = 0
    for part in parts:
        width = len(part.encode())
        if pieces and count < WORDS_MAX and size + width <= PIECE_BYTES:
            pieces[-1] += joint + part
        else:
            pieces.append(part)
            count = size = 0
        count, size = count + 1, size + width
    return pieces


def trimmed(text: str, wanted: Mapping[str, float], tokens_max: int, count: TokenCounter, language: str = "en") -> str:
    """At most about `tokens_max` tokens of a text: the sentences with the most of the wanted terms, in order.

    A term counts once, by its weight. Where nothing is wanted or found, the beginning stays. The best
    sentence always stays.

    >>> text = "It was a long day. We adopted a cat, Miso. She is shy. Then we cooked. It was late."
    >>> trimmed(text, {"cat": 1.0}, 20, lambda text: len(text.split()))
    '… We adopted a cat, Miso. She is shy. Then we cooked. …'
    """
    pieces = sentences(text)
    weights = _weights(pieces, wanted, language)
    room = tokens_max - 2 * GAP_TOKENS
    kept: set[int] = set()
    for place in sorted(range(len(pieces)), key=lambda place: (-weights[place], place)):
        cost = count(pieces[place]) + (0 if {place - 1, place + 1} & kept else GAP_TOKENS)
        if cost <= room or not kept:
            kept.add(place)
            room -= cost
        elif not weights[place]:
            break
    return _joined(pieces, sorted(kept))


def _weights(pieces: Sequence[str], wanted: Mapping[str, float], language: str) -> list[float]:
    """The weight of the wanted terms in each sentence; without any, a little of its neighbours' weight."""
    own = [sum([wanted[term] for term in terms_among(piece, wanted, language)]) for piece in pieces]
    around = [0.0, *own, 0.0]
    return [weight or BEHIND * around[place] + BEFORE * around[place + 2] for place, weight in enumerate(own)]


def _joined(pieces: Sequence[str], kept: Sequence[int]) -> str:
    """The kept sentences in order, with a gap wherever others were left out."""
    parts: list[str] = []
    before = -1
    for place in kept:
        parts += [GAP if place > before + 1 else " ", pieces[place]]
        before = place
    if before < len(pieces) - 1:
        parts.append(GAP)
    return "".join(parts).strip()
