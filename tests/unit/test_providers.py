"""The local embedder, and the gate that every embedder's answer goes through."""

import asyncio
import json
import logging
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, normalizers

from recollect.errors import EmbeddingError, Unavailable
from recollect.providers import (
    _WORDS,
    FILES,
    TEXT_MAX,
    VOCABULARY_FILE,
    WEIGHTS_FILE,
    WORDS_MAX,
    StaticEmbedder,
    default_embedder,
    embed_checked,
    floats,
)
from recollect.subwords import MARKS, SPACE, Subwords

DIGITS_TO_LETTERS = str.maketrans("0123456789", "ghijklmnop")
VOCABULARY = json.loads((FILES / VOCABULARY_FILE).read_text(encoding="utf-8"))

VARIED = [
    "hello",
    "Which theme should I use?",
    "I'm Piyush. I write Python and I like dark mode; don't you? (It's e.g. 3.14, isn't it.)",
    "  leading, trailing  and   inner    spaces   ",
    "line one\nline two\r\n\n\n\tindented\u00a0hard space",
    "Crème brûlée à l’école, Straße, naïve coöperation, Ærøskøbing, ½ kg at 20°, x², y³. “Quoted” – dashed — done…",
    "Сегодня хорошая погода. Σήμερα. שלום עולם. مرحبا بالعالم. नमस्ते दुनिया।",
    "今天天气很好，我们去公园。今日はとても天気がいい。오늘은 날씨가 좋아요.",
    "👩‍💻 ships 🚀🚀 to 🇫🇷, ❤️ and 👍🏽 ☕️✅",
    "def add(a: int, b: int = 0) -> int:\n    return a+b  # adds_two, self.__init__()\n\tx = {'k': [1, 2]}",
    '{"id": 1234567890, "tags": ["a", "b"], "ok": true, "url": "https://x.org/y?z=1&w=%20"}',
    "<s>not a marker</s> <unk> <0x0A> [INST] <|endoftext|>",
    "▁written▁with▁the▁sign▁for▁a▁space ▁ ▁▁",
    "a\u0301 zalgo\u0336\u0337\u0338 \u200d\ufeff\x00\x7f",
]


class Fixed:
    """An embedder that answers with what it was given, or raises it."""

    name = "fixed"
    dimensions = 3

    def __init__(self, answer):
        self.answer = answer

    async def embed(self, texts):
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.fixture(scope="module")
def embedder():
    return StaticEmbedder()


@pytest.fixture(scope="module")
def subwords():
    return Subwords(VOCABULARY)


@pytest.fixture(scope="module")
def tokenizer():
    """Byte pair encoding by somebody else, with all that may be joined in the order of the vocabulary."""
    numbers = {piece: number for number, piece in enumerate(VOCABULARY)}
    unions = [
        (not piece.strip(SPACE), number, numbers[piece[:cut]], numbers[piece[cut:]])
        for piece, number in numbers.items()
        for cut in range(1, len(piece))
        if piece[:cut] in numbers and piece[cut:] in numbers
    ]
    pairs = [(VOCABULARY[left], VOCABULARY[right]) for *_, left, right in sorted(unions)]
    made = Tokenizer(models.BPE(numbers, pairs, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    made.normalizer = normalizers.Sequence([normalizers.Prepend(SPACE), normalizers.Replace(" ", SPACE)])
    return made


@pytest.fixture(scope="module")
def plainly(tokenizer):
    """The same vectors the slow way: the whole text through the tokenizer, the mean of all rows."""
    raw = (FILES / WEIGHTS_FILE).read_bytes()
    start = 8 + int.from_bytes(raw[:8], "little")
    rows = np.frombuffer(raw, "<f2", offset=start).reshape(-1, 256).astype(np.float64)

    def embed(text):
        mean = rows[tokenizer.encode(text, add_special_tokens=False).ids].mean(axis=0)
        return mean / np.linalg.norm(mean)

    return embed


def embed(embedder, *texts):
    return asyncio.run(embedder.embed(texts))


@pytest.mark.parametrize("text", VARIED)
def test_embedding_word_by_word_gives_the_same_vector_as_the_whole_text(embedder, plainly, text):
    for _ in ("words not seen before", "words seen before"):
        assert np.abs(embed(embedder, text)[0] - plainly(text)).max() < 1e-5


@settings(max_examples=150, deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=80).filter(lambda text: text.strip()))
def test_any_text_gives_the_same_vector_word_by_word_as_in_one_piece(embedder, plainly, text):
    assert np.abs(embed(embedder, text)[0] - plainly(text)).max() < 1e-5


@settings(max_examples=400, deadline=None)
@given(
    st.one_of(
        st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40),
        st.text("aeinrst▁", min_size=1, max_size=60),
        st.lists(st.sampled_from(VOCABULARY[259:]), min_size=1, max_size=6).map("".join),
    )
)
def test_a_word_is_split_into_the_pieces_that_byte_pair_encoding_makes_of_it(tokenizer, subwords, word):
    assert subwords.numbers(word) == [token.id for token in tokenizer.model.tokenize(word)]


def test_a_piece_is_split_no_further(subwords):
    assert all(subwords.numbers(piece) == [number] for number, piece in enumerate(VOCABULARY) if number >= 259)


def test_no_piece_spans_a_place_where_words_are_cut():
    not_from_text = {*MARKS} | {f"<0x{byte:02X}>" for byte in range(256)}
    pieces = [piece for piece in VOCABULARY if piece not in not_from_text]
    assert len(pieces) > 31_000
    assert [piece for piece in pieces if _WORDS.findall(piece) != [piece]] == []


def test_rows_have_length_one_and_follow_the_order_of_the_texts(embedder):
    texts = [f"{text} {number}" for number in range(20) for text in VARIED]
    rows = embed(embedder, *texts)
    assert rows.shape == (280, 256)
    assert rows.dtype == np.float32
    assert np.allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-5)
    assert np.allclose(rows[131], embed(embedder, texts[131])[0], atol=1e-6)


def test_related_texts_are_nearer_than_unrelated_ones(embedder):
    coffee, espresso, car = embed(embedder, "I drink coffee", "she likes espresso and tea", "the engine of a car")
    assert coffee @ espresso > coffee @ car


def test_a_blank_text_has_no_direction(embedder):
    assert not embed(embedder, "", "  \n\t ").any()
    assert embed(embedder).shape == (0, 256)


def test_only_the_beginning_of_a_very_long_text_is_read(embedder):
    text = "many words " * 10_000
    assert np.array_equal(embed(embedder, text), embed(embedder, text[:TEXT_MAX]))


@pytest.mark.parametrize(
    "text", ["a" * 1_000_000, "漢字" * 500_000, "👩‍💻" * 300_000, "." * 1_000_000, " " * 1_000_000 + "x"]
)
def test_hostile_texts_take_little_time(embedder, text):
    embed(embedder, "warm")
    started = time.process_time()
    embed(embedder, text)
    assert time.process_time() - started < 0.5


def test_more_words_than_the_cache_holds_change_no_vector(embedder, monkeypatch):
    monkeypatch.setattr("recollect.providers.WORD_CHARACTERS_MAX", 2**19)
    before = embed(embedder, *VARIED)
    words = [f"w{number:x}q" for number in range(WORDS_MAX + 1_000)]
    embed(embedder, *(" ".join(words[start : start + 400]) for start in range(0, len(words), 400)))
    embed(embedder, *("word" * 900 + word.translate(DIGITS_TO_LETTERS) for word in words[:150]))
    assert np.allclose(embed(embedder, *VARIED), before, atol=1e-6)


def test_threads_can_share_an_embedder():
    shared = StaticEmbedder()
    expected = embed(StaticEmbedder(), *VARIED)
    answers = []
    threads = [threading.Thread(target=lambda: answers.append(embed(shared, *VARIED))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == 4
    assert all(np.allclose(answer, expected, atol=1e-6) for answer in answers)


async def test_other_tasks_run_during_a_large_batch(embedder):
    turns = 0

    async def count_turns():
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    other = asyncio.create_task(count_turns())
    await embedder.embed(["hello"] * 1_000)
    other.cancel()
    assert turns >= 5


def test_nothing_is_loaded_before_the_first_text():
    code = "import recollect.providers as p; p.StaticEmbedder();print(p._load_subwords.cache_info().currsize)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "0"


def copy_home(folder: Path) -> Path:
    for name in (WEIGHTS_FILE, VOCABULARY_FILE):
        (folder / name).write_bytes((FILES / name).read_bytes())
    return folder


def test_a_copy_of_the_files_elsewhere_works(tmp_path, embedder):
    assert np.array_equal(embed(StaticEmbedder(copy_home(tmp_path)), "hello"), embed(embedder, "hello"))


def weights_file(header: bytes, data: bytes = b"") -> bytes:
    return len(header).to_bytes(8, "little") + header + data


def weights_header(kind: str, rows: int, columns: int) -> bytes:
    return json.dumps({"embedding.weight": {"dtype": kind, "shape": [rows, columns], "data_offsets": [0, 9]}}).encode()


@pytest.mark.parametrize(
    "broken",
    [
        b"",
        b"\x00" * 100,
        b"\xff" * 5_000,
        (2**60).to_bytes(8, "little") + b"{}",
        weights_file(b"[]"),
        weights_file(b'{"other": {}}'),
        weights_file(weights_header("F16", 9, 256), b"cut off"),
        weights_file(weights_header("F16", 1, 64), b"0" * 5_000),
        weights_file(weights_header("F32", 1, 256), b"0" * 5_000),
    ],
)
def test_broken_weights_are_an_error_that_says_what_to_do(tmp_path, broken):
    home = copy_home(tmp_path)
    (home / WEIGHTS_FILE).write_bytes(broken)
    with pytest.raises(EmbeddingError, match="pip install"):
        StaticEmbedder(home)


@pytest.mark.parametrize(
    "broken", [b"", b'["<unk>", ', b"{}", b"7", b"\xff", b'["a"]', json.dumps(["a"] * 32_000).encode()]
)
def test_a_broken_vocabulary_is_an_error_that_says_what_to_do(tmp_path, broken):
    home = copy_home(tmp_path)
    (home / VOCABULARY_FILE).write_bytes(broken)
    with pytest.raises(EmbeddingError, match="pip install"):
        embed(StaticEmbedder(home), "hello")


@pytest.mark.parametrize("missing", [WEIGHTS_FILE, VOCABULARY_FILE])
def test_without_its_files_there_is_no_embedder_and_a_warning_says_so(tmp_path, caplog, missing):
    home = copy_home(tmp_path)
    (home / missing).unlink()
    with caplog.at_level(logging.WARNING):
        assert default_embedder(home) is None
    assert "words only" in caplog.text
    assert "pip install" in caplog.text


def test_the_default_embedder_is_there_after_installation():
    found = default_embedder()
    assert found is not None
    assert (found.name, found.dimensions) == ("wordllama-l2-256", 256)


# The gate ---------------------------------------------------------------------------------------


async def test_stored_vectors_are_normalised_and_know_their_model(embedder):
    texts = ["hello there", "general"]
    first, second = await embed_checked(embedder, texts)
    assert first.model == "wordllama-l2-256"
    assert len(first.data) == 512
    assert np.allclose(floats(first), (await embedder.embed(texts))[0], atol=1e-3)
    assert second.model == first.model


@pytest.mark.parametrize("scale", [1e-40, 1e-20, 1.0, 1e20, 3e38])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
async def test_any_length_that_float32_can_hold_is_normalised_to_one(kind, scale):
    (vector,) = await embed_checked(Fixed(np.array([[0, scale, 0]], kind)), ["x"])
    assert floats(vector).tolist() == [0, 1, 0]


@given(st.lists(st.text(max_size=200), min_size=1, max_size=4))
def test_the_vector_of_any_text_or_word_has_length_zero_or_one(embedder, texts):
    with np.errstate(all="raise", under="ignore"):
        stored = asyncio.run(embed_checked(embedder, texts))
        words = embedder.word_vectors(texts)
    lengths = [*(np.linalg.norm(floats(each)) for each in stored if each), *np.linalg.norm(words, axis=1)]
    assert all(length == 0 or length == pytest.approx(1, abs=0.01) for length in lengths)


def test_words_that_are_embedded_together_are_embedded_as_alone(embedder):
    words = ["violin", "don't", "", "  ", "日本語", "x" * 5_000, *(f"word{number}" for number in range(1_200))]
    together = embedder.word_vectors(words)
    assert all(np.array_equal(row, embedder.word_vectors([word])[0]) for row, word in zip(together, words, strict=True))
    assert not together[2:4].any()
    assert embedder.word_vectors([]).shape == (0, 256)


async def test_a_row_of_zeros_is_not_a_vector():
    none, some = await embed_checked(Fixed(np.array([[0, 0, 0], [3.0, 0, 4.0]])), ["", "x"])
    assert none is None
    assert np.allclose(floats(some), [0.6, 0, 0.8], atol=1e-3)


@pytest.mark.parametrize(
    "answer",
    [
        np.array([[np.nan, 0, 1]]),
        np.array([[np.inf, 0, 1]]),
        np.array([[0, -np.inf, 1]], np.float32),
        np.array([[1e300, 0, 1]]),
        np.ones((1, 4)),
        np.ones((1, 2)),
        np.ones((0, 3)),
        np.ones((2, 3)),
        np.ones(3),
        np.ones((1, 1, 3)),
        np.array([["a", "b", "c"]]),
        np.array([[None, 1, 2]]),
        np.ones((1, 3), complex),
        np.ones((1, 3), bool),
        [[1.0, 2.0, 3.0]],
        "vector",
        None,
    ],
    ids=repr,
)
async def test_unusable_vectors_are_refused(answer):
    with pytest.raises(EmbeddingError, match="fixed"):
        await embed_checked(Fixed(answer), ["x"])


async def test_a_failing_embedder_is_an_embedding_error_without_the_text():
    with pytest.raises(EmbeddingError, match="ConnectionError") as caught:
        await embed_checked(Fixed(ConnectionError("secret text")), ["secret text"])
    assert "secret" not in str(caught.value)


async def test_our_own_errors_pass_through():
    with pytest.raises(Unavailable):
        await embed_checked(Fixed(Unavailable()), ["x"])


async def test_an_empty_list_of_texts_asks_nothing():
    assert await embed_checked(Fixed(ConnectionError()), []) == []
