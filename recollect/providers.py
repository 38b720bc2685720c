"""Embedders, which turn texts into vectors: their interface, the check of what they return, and the default one.

`StaticEmbedder` is the default: it needs no server, no key and no download. Any object with the
same few members can take its place; `embedders/` has others. Nothing an embedder returns is stored
before `embed_checked` has checked it.
"""

from __future__ import annotations

import asyncio
import functools
import json
import logging
import re
import threading
from collections.abc import Callable, Sequence
from itertools import accumulate, chain, filterfalse
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from recollect.errors import EmbeddingError, RecollectError
from recollect.pace import Pace
from recollect.records import Vector
from recollect.subwords import Subwords

_log = logging.getLogger(__name__)

Floats = NDArray[np.float32]


class Embedder(Protocol):
    """Turns texts into vectors: one row per text, each with `dimensions` numbers.

    `name` is stored with every vector. Vectors of different names are never compared.
    """

    @property
    def name(self) -> str: ...

    @property
    def dimensions(self) -> int: ...

    async def embed(self, texts: Sequence[str]) -> Floats: ...


# What is stored ---------------------------------------------------------------------------------


async def embed_checked(embedder: Embedder, texts: Sequence[str]) -> list[Vector | None]:
    """The vectors of these texts, fit to be stored, or `EmbeddingError`; never anything in between.

    Vectors have length one. A text that means nothing to the embedder (a row of zeros) gives
    None: there is nothing to compare it with.
    """
    if not texts:
        return []
    try:
        rows = await embedder.embed(texts)
    except RecollectError:
        raise
    except Exception as error:
        raise EmbeddingError(
            f"The embedder {embedder.name} failed ({type(error).__name__}). Words are still searchable."
        ) from error
    units, lengths = _units(_usable(embedder, rows, len(texts)))
    # No number of a unit vector is above one, so float16 holds them all.
    halves = units.astype("<f2")
    return [
        Vector(embedder.name, row.tobytes()) if length else None
        for row, length in zip(halves, lengths.tolist(), strict=True)
    ]


def floats(vector: Vector) -> Floats:
    """The numbers of a stored vector."""
    return np.frombuffer(vector.data, "<f2").astype(np.float32)


def _usable(embedder: Embedder, rows: object, count: int) -> Floats:
    """The rows as float32, if there is one for each text, of the right length and all finite."""
    if not isinstance(rows, np.ndarray) or rows.dtype.kind not in "fiu":
        raise EmbeddingError(f"The embedder {embedder.name} must return a numpy array of numbers.")
    if rows.shape != (count, embedder.dimensions):
        raise EmbeddingError(
            f"The embedder {embedder.name} returned the shape {rows.shape} "
            f"for {count} texts of {embedder.dimensions} dimensions."
        )
    with np.errstate(over="ignore"):
        single = rows.astype(np.float32)
    if not np.isfinite(single).all():
        raise EmbeddingError(f"The embedder {embedder.name} returned NaN, infinite or too large numbers.")
    return single


def _units(rows: Floats) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Each row scaled to length one, and the original lengths. A row of zeros stays as it is."""
    # In float64, where the squares of the largest and the smallest float32 neither overflow nor vanish.
    wide = rows.astype(np.float64)
    lengths = np.sqrt(np.einsum("ij,ij->i", wide, wide))
    return wide / np.where(lengths > 0, lengths, 1.0)[:, None], lengths


# The default embedder ---------------------------------------------------------------------------

TEXT_MAX = 4_000
"""Characters of a text that are embedded. The mean of that many words hardly moves with more of them,
and without a limit one long text would hold up everybody else."""

WORDS_MAX = 50_000
"""Words whose sums are cached, 50 MB when full; then all are dropped, and the frequent ones soon return."""

WORD_CHARACTERS_MAX = 2**20
"""Characters of those words: a made-up word may have thousands."""

TEXTS_AT_ONCE = 128
"""Short texts embedded before yielding to the event loop, or so many fewer long ones: a few milliseconds."""

WORDS_AT_ONCE = 1_000
"""Words that are learned together, in half the time that it takes one by one."""

NEW_WORDS = 4
"""Words met for the first time that cost as much as a short text of known ones."""

FILES = Path(__file__).parent / "word_vectors"
"""The vectors of 32,000 pieces of words, and the pieces: made for wordllama, whose licence lies beside them."""
WEIGHTS_FILE, VOCABULARY_FILE = "l2_supercat_256.safetensors", "vocabulary.json"
_BROKEN = (
    "Search by meaning needs the word vectors that come with Recollect, and they are missing or damaged. "
    "Run `pip install --force-reinstall recollect`."
)

# Boundaries that no piece of this vocabulary crosses, so that vectors can be summed word by word:
# before a run of spaces (written ▁), between a letter and a following sign, and around each character
# of the scripts and symbols that have only single pieces here (Chinese, Japanese, Korean, Thai, emoji).
_SIGNS = r"\x00-@\[-`{-\xbf\u2000-\u2580\u2582-\u2bff"
_SINGLES = r"\u0e00-\u0eff\u1000-\u10ff\u2e80-\ud7ff\uf900-\ufaff\ufe30-\uffef\U00010000-\U0010ffff"
_WORDS = re.compile(f"▁*[{_SIGNS}]*[^{_SIGNS}{_SINGLES}▁]+|▁*[{_SIGNS}]+|▁+|[{_SINGLES}]")


class StaticEmbedder:
    """The mean of the vectors of the text's pieces, from two files inside this package.

    Only the first 4,000 characters of a text are read. Opening it reads a few bytes; the
    vocabulary is loaded for the first text. Safe to share between threads.
    """

    name = "wordllama-l2-256"
    dimensions = 256
    immediate = True
    """Fast enough to be called in the middle of a search, for what was just written."""

    def __init__(self, folder: Path = FILES) -> None:
        self._vocabulary = folder / VOCABULARY_FILE
        self._weights = _open_weights(folder / WEIGHTS_FILE, self.dimensions)
        if not self._vocabulary.is_file():
            raise EmbeddingError(_BROKEN)
        self._subwords: Subwords | None = None
        self._lock = threading.Lock()
        self._places: dict[str, int] = {}
        # Room for all at once: the system gives memory as it is written to, and nothing has to be moved to grow.
        self._sums = np.empty((WORDS_MAX, self.dimensions), np.float32)
        self._characters = 0

    async def embed(self, texts: Sequence[str]) -> Floats:
        """One row of length one for each text; zeros for a blank text."""
        rows = np.zeros((len(texts), self.dimensions), np.float32)
        if self._subwords is None and any(map(str.strip, texts)):
            await asyncio.to_thread(self._load)  # some ten milliseconds
        pace = Pace(TEXTS_AT_ONCE)
        for place, text in enumerate(texts):
            with self._lock:
                new = self._add_words(text, rows[place])
            await pace.done(1 + new // NEW_WORDS, min(len(text), TEXT_MAX))
        # The mean and the sum point the same way, so the number of pieces never matters.
        return _of_length_one(rows)

    def word_vectors(self, words: Sequence[str]) -> Floats:
        """One row of length one for each single word."""
        rows = np.zeros((len(words), self.dimensions), np.float32)
        told = [place for place, word in enumerate(words) if word[:TEXT_MAX].strip()]
        for at in range(0, len(told), WORDS_AT_ONCE):
            some = told[at : at + WORDS_AT_ONCE]
            cut = [_cut(words[place]) for place in some]
            starts = [0, *accumulate(map(len, cut[:-1]))]
            with self._lock:
                sums, _ = self._sums_of([*chain.from_iterable(cut)])
            rows[some] = np.add.reduceat(sums, starts, axis=0)
        return _of_length_one(rows)

    def _add_words(self, text: str, row: Floats) -> int:
        """Write the sum of the vectors of the text's pieces into the row. Return how many of its words were new."""
        if not text[:TEXT_MAX].strip():
            return 0
        sums, new = self._sums_of(_cut(text))
        np.add.reduce(sums, axis=0, out=row)
        return new

    def _sums_of(self, words: Sequence[str]) -> tuple[Floats, int]:
        """The sum of the vectors of each word's pieces, and how many of the words were new."""
        new = 0
        try:
            places = [*map(self._places.__getitem__, words)]
        except KeyError:
            new = self._learn(words)
            places = [*map(self._places.__getitem__, words)]
        return self._sums.take(places, axis=0), new

    def _load(self) -> Subwords:
        self._subwords = self._subwords or _load_subwords(self._vocabulary, len(self._weights))
        return self._subwords

    def _learn(self, words: Sequence[str]) -> int:
        """Cache the sums of the words that are new, after making room for them. Return how many there are."""
        wanted = dict.fromkeys(words)
        new = [*filterfalse(self._places.__contains__, wanted)]
        characters = sum(map(len, new))
        if len(self._places) + len(new) > WORDS_MAX or self._characters + characters > WORD_CHARACTERS_MAX:
            self._places.clear()
            self._characters = 0
            new = [*wanted]
            characters = sum(map(len, new))
        sums = self._piece_sums(new)
        first = len(self._places)
        end = first + len(new)
        self._sums[first:end] = sums
        self._places.update(zip(new, range(first, end), strict=True))
        self._characters += characters
        return len(new)

    def _piece_sums(self, words: Sequence[str]) -> Floats:
        """The sum of the vectors of each word's pieces. A word has at least one."""
        subwords = self._load()
        numbers: list[int] = []
        starts: list[int] = []
        for word in words:
            starts.append(len(numbers))
            numbers += subwords.numbers(word)
        sums: Floats = np.add.reduceat(self._weights[numbers].astype(np.float32), starts, axis=0)
        return sums


def _cut(text: str) -> list[str]:
    """The words of a text, between boundaries that no piece crosses."""
    return _WORDS.findall("▁" + text[:TEXT_MAX].replace(" ", "▁"))


def _of_length_one(rows: Floats) -> Floats:
    """The rows, scaled in place to length one; a row of zeros stays as it is."""
    lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    rows /= np.where(lengths > 0, lengths, np.float32(1))[:, None]
    return rows


def word_vectors(embedder: Embedder | None) -> Callable[[Sequence[str]], Floats] | None:
    """What embeds single words, to find those of similar meaning: the default embedder, even beside another one."""
    static = embedder if isinstance(embedder, StaticEmbedder) or embedder is None else _static_beside()
    return static.word_vectors if isinstance(static, StaticEmbedder) else None


@functools.cache
def _static_beside() -> Embedder | None:
    """The default embedder for words of questions: one for the whole process."""
    return default_embedder()


def default_embedder(folder: Path = FILES) -> Embedder | None:
    """The embedder that needs nothing but its files; None, with a warning, if they are missing."""
    try:
        return StaticEmbedder(folder)
    except EmbeddingError as error:
        _log.warning("Search finds words only, not meaning. %s", error)
        return None


def _open_weights(path: Path, dimensions: int) -> NDArray[np.float16]:
    """The vectors of the pieces, left on disk and paged in on use.

    A safetensors file is eight bytes with the size of a JSON header, the header, then the numbers.
    """
    try:
        with path.open("rb") as file:
            header_size = int.from_bytes(file.read(8), "little")
            header = json.loads(file.read(min(header_size, 2**16)))["embedding.weight"]
        count, columns = header["shape"]
        if header["dtype"] != "F16" or columns != dimensions:
            raise ValueError(f"{header['dtype']} of {columns} columns")
        offset = 8 + header_size + header["data_offsets"][0]
        return np.memmap(path, "<f2", mode="r", offset=offset, shape=(count, columns))
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise EmbeddingError(_BROKEN) from error


@functools.cache
def _load_subwords(path: Path, count: int) -> Subwords:
    """What splits a word into pieces that have a vector."""
    try:
        vocabulary = json.loads(path.read_text(encoding="utf-8"))
        if len(vocabulary) != count:
            raise ValueError(f"{len(vocabulary)} pieces for {count} vectors")
        return Subwords(vocabulary)
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise EmbeddingError(_BROKEN) from error
