"""The words that texts are found by."""

import doctest
import importlib
import itertools
import random
import subprocess
import sys
import time
import unicodedata
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recollect.policies import words
from recollect.policies.inflections import WORD_OF
from recollect.policies.languages import LANGUAGES
from recollect.policies.words import (
    QUERY_TERMS_MAX,
    STEMMED_MAX,
    STOP_WORDS,
    WORD_MAX,
    piece_terms,
    query_terms,
    stem,
    terms,
    terms_among,
)


def test_the_documented_examples_are_true():
    assert doctest.testmod(words) == (0, 9)


def test_words_are_stemmed_the_same_in_many_threads_at_once():
    tried = ["".join(letters) + ending for letters in itertools.permutations("abcde") for ending in ("ing", "ations")]
    alone, switching = [stem(word) for word in tried], sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as threads:
            found = list(threads.map(lambda _: [stem(word) for word in tried], range(4)))
    finally:
        sys.setswitchinterval(switching)
    assert all(each == alone for each in found)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("painted PAINTING paints", ["paint", "paint", "paint"]),
        ("Zoë's Café", ["zoe", "cafe"]),
        ("Straße STRASSE", ["strass", "strass"]),
        ("ﬁne Ｆｕｌｌ", ["fine", "full"]),
        ("C++, C#, F# and g++", ["c++", "c#", "f#", "and", "g++"]),
        ("Node.js!", ["node.js", "node", "js"]),
        ("user_id __init__ _", ["user_id", "user", "id", "init"]),
        ("finished.Then we", ["finished.then", "finish", "then", "we"]),
        ("the U.S.A. at 5 p.m.", ["the", "usa", "at", "5", "pm"]),
        ("O'Neil, O’Neil's, ONEIL", ["oneil", "oneil", "oneil"]),
        ("don't it's", ["dont", "it"]),
        ("1,000,000 of 3.14 or 12,34", ["1000000", "of", "3.14", "or", "12", "34"]),
        ("e-mail me@example.org", ["e", "mail", "me", "example.org", "exampl", "org"]),
        ("我喜欢Python编程", ["我喜", "喜欢", "我", "喜", "欢", "python", "编程", "编", "程"]),
        ("日本。猫", ["日本", "日", "本", "猫"]),
        ("오늘은 날씨", ["오늘", "늘은", "날씨"]),
        ("ไทย", ["ไท", "ทย"]),
        ("हिन्दी में", ["हिंदी", "में"]),
        ("مُحَمَّد", ["محمد"]),
        ("Ёлка ёлка елка", ["елка", "елка", "елка"]),
        ("", []),
        (" .,;!?'\"()__ ", []),
        ("🎉", []),
    ],
)
def test_text_becomes_these_terms(text, found):
    assert terms(text) == found


@pytest.mark.parametrize(
    ("asked", "stored"),
    [
        ("Munchen", "München"), ("Lodz", "Łódź"), ("Kobenhavn", "København"), ("Kadikoy", "KADIKÖY'de Kadıköy"),
        ("Da Nang", "Đà Nẵng"), ("oeuvre", "œuvre"), ("ecole", "à l’école"), ("universita", "all'università"),
        ("artagnan", "d'Artagnan's"), ("οδοσ", "ΟΔΌΣ"), ("كتاب", "كـــتاب"), ("هادي", "هادى"), ("مدرسه", "مدرسة"),
        ("شرکت", "شركت"), ("3500", "٣٥٠٠"), ("20000", "२००००"), ("2024", "２０２４"), ("שרה", "שָׂרָה"),
        ("हिंदी", "हिन्दी"), ("मुगल", "मुग़ल"), ("кав'ярня", "кавʼярня"), ("佐々木", "佐々木さん"), ("猫", "我想养猫"),
        ("猫", "猫が好き"), ("차", "차를 팔고"), ("กรุงเทพ", "กรุงเทพฯ"), ("مرحبا", "\u200fمرحبا\u200f"),
    ],
)  # fmt: skip
def test_a_word_is_found_however_it_is_spelled(asked, stored):
    assert set(query_terms(asked)) <= set(terms(stored))
    assert set(query_terms(asked, "xx")) <= set(terms(stored, "xx"))


def test_a_thai_character_is_one_with_its_vowels_and_tones():
    assert terms("กรุงเทพ") == ["กรุ", "รุง", "งเ", "เท", "ทพ"]


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=60))
def test_all_unicode_forms_find_each_other(text):
    forms = [unicodedata.normalize(form, text) for form in ("NFC", "NFD", "NFKC", "NFKD")]
    assert len({tuple(terms(form)) for form in forms}) == 1


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=200), st.sampled_from(["en", "de", "xx"]))
def test_query_terms_are_among_the_stored_terms(text, language):
    stored = terms(text, language)
    asked = query_terms(text, language)
    assert set(asked) <= set(stored)
    assert len(asked) == len(set(asked))
    assert bool(asked) == bool(stored)
    assert all(0 < len(term) <= WORD_MAX for term in stored)


@pytest.mark.parametrize(
    ("question", "found"),
    [
        ("What did Melanie paint?", ["melani", "paint"]),
        ("When did I go to Paris in May?", ["go", "pari", "may"]),
        ("How many children do I have?", ["child"]),
        ("Who bought what I had chosen?", ["buy", "choos"]),
        ("How often does she run, and how long?", ["run"]),
        ("What kind of music does O'Neil like?", ["music", "oneil", "like"]),
        ("Does she have many kinds of friends?", ["mani", "kind", "friend"]),
        ("What's the name of Ann's dog?", ["name", "ann", "dog"]),
        ("Was he ill, or wasn't he? I'll ask.", ["ill", "ask"]),
        ("Can you please remind me what you recommended?", ["recommend"]),
        ("dog dogs Dog", ["dog"]),
        ("Who is who?", ["who", "is"]),
        ("what?", ["what"]),
        ("", []),
    ],
)
def test_a_question_looks_for_these_terms(question, found):
    assert query_terms(question) == found


def test_a_question_has_a_limited_number_of_terms():
    assert len(query_terms(" ".join(f"word{number}" for number in range(1_000)))) == QUERY_TERMS_MAX
    assert len(query_terms(" ".join(f"one{number}.two{number}" for number in range(1_000)))) == QUERY_TERMS_MAX


def test_languages_that_are_not_known_are_left_as_they_are():
    assert terms("die Häuser waren painted", "xx") == ["die", "hauser", "waren", "painted"]
    assert query_terms("what is the Haus", "xx") == ["what", "is", "the", "haus"]


def test_irregular_forms_are_found_by_their_base_word():
    assert terms("She went and bought the child's shelf") == terms("She go and buy the children shelves")
    assert terms("gone", "xx") == ["gone"]


def test_no_base_word_is_an_irregular_form_and_no_irregular_form_is_a_stop_word():
    assert not {*WORD_OF.values()} & {*WORD_OF}
    assert not {*WORD_OF} & STOP_WORDS


def test_stop_words_are_not_split_further():
    assert all(words.split(word) == [word] for word in STOP_WORDS)


def test_a_word_that_is_too_long_is_cut():
    assert terms("x1" * 500_000) == [("x1" * 500_000)[:WORD_MAX]]


def test_the_same_text_gives_the_same_terms_whatever_came_before():
    text = " ".join(f"{first}{second}{third}ings" for first in "bcdfghklmnprst" for second in "aeiou" for third in
                    [left + right for left in "bcdfgklmnp" for right in "abcdefghij"])  # fmt: skip
    before = terms(text)
    assert len(set(text.split())) > STEMMED_MAX
    for word in text.split():
        terms(word)
    assert terms(text) == before
    assert before[0] == "baba"
    assert before[-1] == text.split()[-1]


@pytest.mark.parametrize(
    "text",
    [
        "a" * 1_000_000,
        "é" * 1_000_000,
        "a." * 500_000,
        "a'" * 50_000,
        "_" * 1_000_000,
        "1," * 50_000,
        "1,000" * 20_000,
        "c++" * 33_000,
        "漢" * 100_000,
        "\ufdfa" * 33_000,
        "a" + "\u0301" * 100_000,
        ("a" + "\u0316\u0301" * 50) * 1_000,
        " ".join(f"{number:x}s".translate(str.maketrans("0123456789", "qwertyuiop")) for number in range(20_000)),
    ],
    ids=lambda text: ascii(text[:8]),
)
def test_hostile_texts_take_little_time(text):
    terms("warm")
    started = time.process_time()
    terms(text)
    query_terms(text)
    assert time.process_time() - started < 1.0


def test_the_stemmer_is_loaded_by_the_first_word_that_has_a_stem():
    code = (
        "import sys; from recollect.policies.words import terms\n"
        "def is_loaded(): return bool({'Stemmer', 'snowballstemmer'} & sys.modules.keys())\n"
        "terms('hello', 'xx'); print(is_loaded()); terms('painted'); print(is_loaded())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]


STEMMED = {"en": "english"} | {code: row.stemmer for code, row in LANGUAGES.items()}


def in_python(name):
    """The stemmer that is used where there is no wheel of the one in C."""
    module = importlib.import_module(f"snowballstemmer.{name}_stemmer")
    return getattr(module, f"{name.capitalize()}Stemmer")().stemWord


@pytest.mark.parametrize("code", STEMMED)
def test_stems_are_the_same_whether_found_in_c_or_in_python(code):
    name = STEMMED[code]
    letters = "abcdefghijklmnopqrstuvwxyzäöüßéèñçåøœ" + {"ru": "абвгдеийлмнорстуыьющ", "el": "αβγδεικλμνορστυως"}.get(
        code, ""
    )
    slow, fast = in_python(name), words._stemmers.of(name)
    chance = random.Random(code)
    row = LANGUAGES.get(code)
    known = words.split(" ".join(row[2:8])) if row is not None and row.stop else [*WORD_OF, *WORD_OF.values()]
    made_up = ["".join(chance.choices(letters, k=chance.randint(1, 14))) for _ in range(300)]
    endings = ["", "ing", "ed", "ations", "lich", "ungen", "ements", "aciones", "ости", "amente", "heden", "sskap"]
    tried = [word + chance.choice(endings) for word in (*known, *made_up)]
    assert [fast(word) for word in tried] == [slow(word) for word in tried]


def test_without_a_wheel_of_the_stemmer_in_c_the_one_in_python_answers():
    code = (
        "import sys; sys.modules['Stemmer'] = None\n"
        "from recollect.policies.words import rules, terms\n"
        "print(*terms('painted paintings'), *terms('Häuser', 'de'), rules('en').split()[1])\n"
        "print('snowballstemmer' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["paint", "paint", "haus", "english", "True"]


@given(st.text("aB\"'.,()ü 1s", max_size=90), st.sampled_from(["en", "de", "xx"]))
def test_a_piece_of_a_text_has_the_terms_that_the_text_has(piece, language):
    assert piece_terms(piece, language) == {*terms(piece, language)}


@pytest.mark.parametrize("wanted", [{"paint", "cafe", "猫", "养猫", "js", "tea"}, set()])
def test_wanted_terms_are_those_that_all_terms_have(wanted):
    texts = ("Zoë's paintings of the Café", "养猫 node.js user_id", "l'ami паинт painted 2,000", "é " * 5_000, "")
    for text in texts:
        for language in ("en", "de", "ru", "xx"):
            assert terms_among(text, wanted, language) == wanted & {*terms(text, language)}
