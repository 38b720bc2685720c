"""Words kept from one start to the next: they answer as if all texts had been read again."""

from __future__ import annotations

import asyncio
import hashlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recollect.kept_words import KeptWords, Messages, read_with
from recollect.policies import words as rules_of_words
from recollect.policies.words import query_terms
from recollect.postings import Words
from recollect.vocabulary import Vocabulary

ODD = """(paint), well... a,b 1,000 f#? paint paints painting dying die dye sky skies went go bought children Children's
    node.js u.s.a 3.5 c++ it's _ Zoë Zoe 日本語 猫が 차를 l'ami café cafe user_id don't 0x1F ΑΒΓ Straße"""
LINES = st.lists(st.sampled_from(ODD.split()), min_size=1, max_size=9).map(" ".join)
RULES = "1a831d79"


def read(texts, vocabulary=None):
    words = Words(Vocabulary("en") if vocabulary is None else vocabulary)
    words.read(texts)
    return words


def messages_of(texts, rows, births=None):
    characters = [len(texts[row]) for row in rows]
    births = [100 + row for row in rows] if births is None else births
    return Messages(np.array(rows, np.intp), np.array(births, np.int64), np.array(characters, np.int64))


def packed(words, messages, language="en"):
    lengths, keys = words.standing()
    return KeptWords.of(messages, lengths, keys(), words.vocabulary).packed(language)


def taken_over(data, texts, messages, vocabulary, language="en"):
    """The words of an index of these texts that was given what was kept, and the texts it had to read."""
    asked = []

    def texts_of(rows):
        asked.extend(texts[row] for row in rows)
        return [texts[row] for row in rows]

    characters = [len(text) for text in texts]
    found = asyncio.run(read_with(data, language, messages, characters, vocabulary, texts_of))
    if found is None:
        return None, asked
    words = Words(vocabulary)
    words.add(0, found[0])
    assert found[1] == sum(map(len, asked))
    return words, asked


@given(st.lists(LINES, min_size=1, max_size=30), st.lists(LINES, max_size=10), st.lists(LINES, max_size=8), st.data())
@settings(max_examples=60)
def test_words_that_were_kept_answer_like_words_that_were_read(before, elsewhere, new, data):
    kept_rows = data.draw(st.lists(st.sampled_from(range(len(before))), unique=True, min_size=1))
    was = messages_of(before, kept_rows)
    order = data.draw(st.permutations(range(len(before) + len(new))))
    texts = [(*before, *new)[place] for place in order]
    rows = [row for row, place in enumerate(order)]
    known = Vocabulary("en")
    read(elsewhere, known)
    kept = packed(read(before), was)
    words, asked = taken_over(kept, texts, messages_of(texts, rows, [100 + place for place in order]), known)
    if words is None:
        assert asked == []
        return
    assert sorted(asked) == sorted(text for text, place in zip(texts, order, strict=True) if place not in kept_rows)
    afresh = read(texts)
    for question in (*before[:3], *new[:3], "paint die go child node café 日本語"):
        terms = query_terms(question)
        assert words.scores(terms, len(texts)).tolist() == afresh.scores(terms, len(texts)).tolist()
        assert words.cover(terms, len(texts)).tolist() == afresh.cover(terms, len(texts)).tolist()


def test_what_is_kept_of_a_message_counts_only_for_a_message_of_the_same_birth_and_length():
    texts = ["Ann paints the sea", "Bob sails to Crete", "Cleo sings"]
    kept = packed(read(texts), messages_of(texts, [0, 1, 2]))
    same = messages_of(texts, [0, 1, 2])
    words, asked = taken_over(kept, texts, same, Vocabulary("en"))
    assert words is not None
    assert asked == []
    other = ["Ann paints the sea", "Bob sails to Corsica", "Cleo sings"]
    words, asked = taken_over(kept, other, messages_of(other, [0, 1, 2]), Vocabulary("en"))
    assert words is not None
    assert asked == ["Bob sails to Corsica"]
    assert words.scores(["crete"], 3).tolist() == [0, 0, 0]
    # A row that is no message is read, whatever its birth.
    words, asked = taken_over(kept, texts, messages_of(texts, [0, 1]), Vocabulary("en"))
    assert asked == ["Cleo sings"]


def test_what_covers_less_than_half_is_left_aside():
    texts = ["Ann paints the sea", "Bob sails to Crete and on to Rhodes", "Cleo sings"]
    kept = packed(read(texts), messages_of(texts, [0, 2]))
    assert taken_over(kept, texts, messages_of(texts, [0, 1, 2]), Vocabulary("en")) == (None, [])


def test_what_is_damaged_or_was_read_by_other_rules_is_not_used(monkeypatch):
    texts = ["Ann paints the sea", "Bob sails to Crete"]
    kept = packed(read(texts), messages_of(texts, [0, 1]))
    assert KeptWords.unpacked(kept, "en") is not None
    for place in (0, 16, 40, len(kept) - 1):
        damaged = bytearray(kept)
        damaged[place] ^= 1
        assert KeptWords.unpacked(bytes(damaged), "en") is None
    assert KeptWords.unpacked(kept[:-1], "en") is None
    assert KeptWords.unpacked(b"", "en") is None
    assert KeptWords.unpacked(kept, "de") is None
    monkeypatch.setattr("recollect.kept_words.READ_BY", 0)
    assert KeptWords.unpacked(kept, "en") is None


@pytest.mark.parametrize("language", ["en", "de", "xx"])
def test_a_word_found_only_as_written_stays_so(language):
    vocabulary = Vocabulary(language)
    vocabulary.learn_exactly(["paints"])
    texts = ["Ann paints", "Bob painted"]
    kept = packed(read(texts, vocabulary), messages_of(texts, [0, 1]), language)
    words, _ = taken_over(kept, texts, messages_of(texts, [0, 1]), Vocabulary(language), language)
    assert words is not None
    found = [words.scores([term], 2).astype(bool).tolist() for term in ("paint", "paints", "painted")]
    assert found == ([[False, True], [True, False], [False, False]] if language == "en" else
                     [[False, False], [True, False], [False, True]])  # fmt: skip


@pytest.mark.parametrize(("language", "asked"), [("de", "hauser"), ("ru", "собаки"), ("nl", "werk")])
def test_words_kept_in_another_language_are_found_by_their_stems(language, asked):
    texts = ["Das Haus, собака, premier; gewerkt", "node.js"]
    kept = packed(read(texts, Vocabulary(language)), messages_of(texts, [0, 1]), language)
    words, unread = taken_over(kept, texts, messages_of(texts, [0, 1]), Vocabulary(language), language)
    assert words is not None and not unread
    assert words.scores(query_terms(asked, language), 2).astype(bool).tolist() == [True, False]
    assert words.scores(query_terms("js", language), 2).astype(bool).tolist() == [False, True]


def test_words_kept_in_one_language_are_never_taken_over_in_another(monkeypatch):
    texts, rows = ["Die Häuser", "ein Haus"], [0, 1]
    kept = {
        code: packed(read(texts, Vocabulary(code)), messages_of(texts, rows), code) for code in ("de", "en", "nl", "xx")
    }
    for code, data in kept.items():
        assert [other for other in kept if KeptWords.unpacked(data, other) is not None] == [code]
    # As before this language was known, and with another version of the stemmers.
    for name, value in (
        ("spoken", lambda code: None),
        ("_snowball", lambda: rules_of_words._Snowball("3.2", lambda name: None)),
    ):
        with monkeypatch.context() as patched:
            patched.setattr(rules_of_words, name, value)
            assert KeptWords.unpacked(kept["de"], "de") is None
    assert KeptWords.unpacked(kept["de"], "de") is not None


def test_the_rules_for_words_are_those_that_kept_words_were_read_by():
    """If this fails, the words of some texts have changed: raise `READ_BY` in kept_words.py, and then this digest."""
    vocabulary = Vocabulary("en")
    words = read([ODD, ODD.upper()], vocabulary)
    lengths, keys = words.standing()
    found = KeptWords.of(messages_of([ODD] * 2, [0, 1]), lengths, keys(), vocabulary)
    told = repr((sorted(found.terms), found.lengths.tolist(), sorted(found.counts.tolist())))
    assert hashlib.blake2b(told.encode(), digest_size=4).hexdigest() == RULES
