"""Words in rows: however they are kept, they are found and counted as they occur in the texts."""

from __future__ import annotations

import itertools
import string
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.policies.inflections import WORD_OF
from recollect.policies.scoring import K1, RARITY_ROWS, B, rarity
from recollect.policies.words import STEMMED_MAX, pieces, query_terms, stem, terms
from recollect.postings import TOGETHER, Words
from recollect.vocabulary import Vocabulary

SAID = """(paint), well... a,b 1,000 f#? paint paints painting dying die dye sky skies a aing
    went go going bought children Children's node.js u.s.a 3.5 c++ it's _ Zoë 日本語"""
LINES = st.lists(st.sampled_from(SAID.split()), max_size=9).map(" ".join)


def by_the_book(texts: list[str], query: list[str]) -> list[float]:
    """BM25 of each text, term by term."""
    counts = [Counter(terms(text)) for text in texts]
    average = sum(each.total() for each in counts) / max(len(texts), 1) or 1
    scores = [0.0] * len(texts)
    for term in query:
        weight = rarity(len(texts), sum(term in each for each in counts))
        for row, each in enumerate(counts):
            held_back = K1 * (1 - B + B * each.total() / average)
            scores[row] += weight * (K1 + 1) * each[term] / (each[term] + held_back)
    return scores


def shares(texts: list[str], query: list[str]) -> list[float]:
    """The share of the terms that each text has, rare ones first."""
    held = [set(terms(text)) for text in texts]
    size = max(len(texts), RARITY_ROWS)
    weights = [rarity(size, sum(term in each for each in held)) for term in query]
    return [
        sum(weight for term, weight in zip(query, weights, strict=True) if term in each) / (sum(weights) or 1)
        for each in held
    ]


@given(
    texts=st.lists(LINES, min_size=TOGETHER - 4, max_size=TOGETHER + 20),
    cut=st.integers(0, 40),
    asked=LINES,
    rests=st.booleans(),
)
def test_rows_score_as_textbook_bm25_even_when_added_after_a_query_or_a_rest(texts, cut, asked, rests):
    words, query = Words(Vocabulary("en")), query_terms(asked)
    words.read(texts[:cut])
    words.scores(query, len(words))
    words.read(texts[cut:])
    if rests:
        words.rest()
    assert words.scores(query, len(words)).tolist() == pytest.approx(by_the_book(texts, query), abs=1e-5)
    assert words.cover(query, len(words)).tolist() == pytest.approx(shares(texts, query), abs=1e-5)
    assert words.lengths().tolist() == [len(terms(text)) for text in texts]
    for term in query:
        rows, times = words.posted(term) or ([], [])
        standing = {row: terms(text).count(term) for row, text in enumerate(texts) if term in terms(text)}
        assert dict(zip(map(int, rows), map(int, times), strict=True)) == standing


@given(st.lists(LINES, max_size=TOGETHER), LINES)
def test_words_that_another_index_adds_after_a_query_are_found_by_the_same_term(texts, asked):
    shared, query = Vocabulary("en"), query_terms(asked)
    for text in texts:
        words = Words(shared)
        words.read([text] * TOGETHER if len(text) % 2 else [text])
        for term in query:
            assert bool(words.posted(term)) == (term in terms(text))


@given(st.lists(LINES, min_size=1, max_size=40))
def test_a_piece_has_the_same_number_whether_read_alone_or_with_many(lines):
    one_by_one, many = Vocabulary("en"), Vocabulary("en")
    cut = [piece for line in lines for piece in pieces(line)]
    numbers = many.numbered(cut).tolist()
    assert numbers == [many[piece] for piece in cut]
    for first, second in itertools.pairwise(cut):
        alike = one_by_one[first] == one_by_one[second]
        assert alike == (many[first] == many[second]) or min(many[first], many[second]) < 0


@pytest.mark.parametrize("form", WORD_OF)
def test_an_irregular_form_is_found_by_its_base_word_and_finds_it(form):
    word = WORD_OF[form]
    assert stem(form) == stem(word)
    assert all(score > 0 for score in scored([f"They {form}.", f"Then {word} it."], stem(form)))


@pytest.mark.parametrize("word", ["dying", "lying", "tying", "skies", "eing", "aed", "ying", "yes", "iing", "y", "oed"])
def test_short_and_odd_words_are_found_by_their_stems(word):
    assert scored(["nothing", word], stem(word))[1] > 0


def scored(texts: list[str], term: str, vocabulary: Vocabulary | None = None) -> list[float]:
    words = Words(vocabulary or Vocabulary("en"))
    words.read(texts)
    found: list[float] = words.scores([term], len(texts)).tolist()
    return found


def test_indexes_that_share_a_vocabulary_do_not_share_texts():
    vocabulary = Vocabulary("en")
    assert scored(["She paints the harbour.", "No."], "paint", vocabulary)[0] > 0
    assert [score > 0 for score in scored(["A painting.", "Nothing."], "paint", vocabulary)] == [True, False]
    assert scored(["A painting.", "Nothing."], "harbour", vocabulary) == [0, 0]


def test_only_part_of_a_text_of_very_many_words_is_stemmed():
    made_up = [f"x{letters(number)}ing" for number in range(STEMMED_MAX + 100)]
    words = Words(Vocabulary("en"))
    words.read([" ".join(made_up)])
    assert words.scores([stem(made_up[0])], 1).any()
    assert not words.scores([stem(made_up[-1])], 1).any()
    assert words.scores([made_up[-1]], 1).any()


def letters(number: int) -> str:
    return "".join(string.ascii_lowercase[int(digit)] for digit in str(number))


def test_words_merged_in_a_thread_are_used_only_if_no_more_came_meanwhile():
    words = Words(Vocabulary("en"))
    words.read(["a red boat"], together=True)
    merged = words.merging()()
    words.read(["a green boat"], together=True)
    words.take(merged)
    assert words.unmerged
    assert words.scores(["boat"], 2).astype(bool).tolist() == [True, True]


def test_rows_that_somebody_else_has_read_meanwhile_are_not_added_again():
    words = Words(Vocabulary("en"))
    portion = words.vocabulary.read(["a red boat"])
    words.read(["a red boat"])
    words.add(0, portion)
    assert len(words) == 1
    words.add(1, words.vocabulary.read(["a green boat", "a train"]))
    assert words.scores(["boat"], 3).astype(bool).tolist() == [True, True, False]
