"""Languages besides English: words are found in any form, questions say what they ask for, times are understood."""

from __future__ import annotations

import string
import subprocess
import sys
import time
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recollect import Memory
from recollect.errors import ValidationError
from recollect.policies.dates import span_of
from recollect.policies.languages import LANGUAGES, TIMES, code_of
from recollect.policies.passages import stretch
from recollect.policies.phrasing import Asked, asks_for_latest, signs
from recollect.policies.trimming import trimmed
from recollect.policies.words import WORD_MAX, content_words, pieces, query_terms, split, spoken, terms, terms_among
from recollect.postings import Words
from recollect.records import iso
from recollect.vocabulary import Vocabulary

KNOWN = [code for code, row in LANGUAGES.items() if row.asking]
SAID = {
    "de": "Häuser Haus gearbeitet Straße Mädchen Allergien Anna's spielte Übung ist das gestern node.js 1,000",
    "fr": "l'école écoles mangée préféré année d'été vélos j'ai c'est naïveté œuvre dernière rendez-vous aujourd'hui",
    "es": "canción vivía nació niños años médica trabajé ¿dónde? reunión alergias último está",
    "it": "città perché università l'amica abitavo dov'è caffè fratelli sorelle comprerò po' quest'anno",
    "pt": "nações irmãos coração cães avó trabalhava você não açúcar viagens reunião pôs",
    "nl": "huizen gewerkt 's avonds foto's kinderen één broertje geïnteresseerd zo'n verjaardagen",
    "sv": "hundarna köpte flickor lösningar är på när gården världen",
    "da": "hundene købte piger øl æbler år læste ård",
    "no": "hundene kjøpte jenter øl språket år første",
    "fi": "talossa äidille työssä ystävät kissani Helsingissä yöllä",
    "ru": "собаки собаку работал ёлка чай живёт его подъезд объявление й",
    "pl": "książkę książki kupiłem mieszkać siostrą Łodzi źdźbło psem pracował",
}
LETTERS = string.ascii_letters + "äöüßéèêçñõãåøæœłąćżőčšıİйёъяЯабвкΣσςάλلغكا'’-_., 1"
TEXTS = st.sampled_from(KNOWN).flatmap(
    lambda code: st.tuples(
        st.just(code),
        st.lists(st.sampled_from(SAID[code].split()) | st.text(LETTERS, max_size=12), max_size=12).map(" ".join),
    )
)


def without_accents(text: str) -> str:
    """The text as typed by somebody in a hurry. The й is a letter of its own, and stays."""
    apart = unicodedata.normalize("NFD", text)
    return unicodedata.normalize(
        "NFC", "".join(sign for sign in apart if not "\u0300" <= sign <= "\u0327" or sign == "\u0306")
    )


@given(TEXTS)
def test_neither_case_nor_accents_nor_unicode_forms_matter_in_any_language(written):
    code, text = written
    other = without_accents(text)
    assert terms(other, code) == terms(text, code)
    assert query_terms(other, code) == query_terms(text, code)
    assert terms(text.casefold(), code) == terms(text, code)
    assert terms(unicodedata.normalize("NFD", text), code) == terms(text, code)


@settings(max_examples=300, deadline=None)
@given(st.sampled_from([*LANGUAGES]), st.text(max_size=100) | TEXTS.map(lambda each: each[1]))
def test_what_a_question_looks_for_is_among_what_a_text_of_the_same_words_is_found_by(code, text):
    stored, asked = terms(text, code), query_terms(text, code)
    assert set(asked) <= set(stored)
    assert len(asked) == len(set(asked)) and bool(asked) == bool(stored)
    assert all(0 < len(term) <= 2 * WORD_MAX for term in stored)
    parts = {part for word in split(text) for part in (word, *word.split("'"), word.removesuffix("'s"))}
    assert set(content_words(text, code)) <= parts


@given(TEXTS, TEXTS)
def test_an_index_finds_a_text_by_the_terms_that_it_has(one, other):
    code, text = one
    words, texts = Words(Vocabulary(code)), [text, other[1], f"{text} {other[1]}", other[1].upper()]
    words.read(texts)
    held = [terms(each, code) for each in texts]
    for term in {term for each in held for term in each}:
        assert [score > 0 for score in words.scores([term], len(texts))] == [term in each for each in held]
    assert words.lengths().tolist() == [len(terms(each, code)) for each in texts]


@given(TEXTS)
def test_a_piece_has_the_same_number_whether_read_alone_or_with_many(written):
    code, text = written
    many, cut = Vocabulary(code), pieces(text)
    assert many.numbered(cut).tolist() == [many[piece] for piece in cut]


@given(TEXTS, TEXTS)
def test_excerpts_know_the_words_that_were_asked_for_in_every_form(one, other):
    code, text = one
    wanted = set(query_terms(other[1], code))
    assert terms_among(text, wanted, code) == wanted & {*terms(text, code)}


@pytest.mark.parametrize(
    ("code", "asked", "said"),
    [
        ("de", "Haus", "Wir haben zwei Häuser."), ("de", "arbeiten", "die Arbeit"), ("de", "Strassen", "Straße"),
        ("fr", "mangé", "la pomme mangée"), ("fr", "école", "à l'ecole"), ("fr", "le premier", "dernière, première"),
        ("es", "vivia", "vivir allí"), ("es", "reunion", "dos reuniones"), ("it", "fratello", "i miei fratelli"),
        ("pt", "coração", "dois corações"), ("pt", "viagem", "as viagens"), ("nl", "werk", "gewerkt"),
        ("nl", "huis", "twee huizen"), ("sv", "hund", "hundarna"), ("da", "hund", "hundene"), ("no", "jente", "jenter"),
        ("fi", "talo", "talossa"), ("ru", "собака", "без собаки"), ("ru", "елка", "ёлки"),
        ("pl", "książka", "ksiazki"),
        ("pl", "mieszkać", "mieszkałem"), ("hu", "ház", "a házban"), ("tr", "kitap", "kitaplar"),
        ("cs", "kniha", "knihy"),
    ],
)  # fmt: skip
def test_a_word_is_found_by_its_other_forms(code, asked, said):
    assert set(query_terms(asked, code)) & set(terms(said, code))
    assert "…" not in trimmed(f"{said} " * 3, dict.fromkeys(query_terms(asked, code), 1.0), 99, len, code)
    assert said.split()[-1] in stretch("so " * 100 + said, query_terms(asked, code), code)


@pytest.mark.parametrize(
    ("code", "question", "found"),
    [
        ("de", "Welche Haustiere habe ich denn eigentlich?", ["hausti"]),
        ("fr", "Qu'est-ce que j'ai acheté à l'épicerie ?", ["achet", "epicer"]),
        ("es", "¿Dónde está el gato?", ["gat"]),
        ("it", "Dov'è la mia bici e quant'è costata?", ["bic", "cost"]),
        ("pt", "Você se lembra onde eu moro?", ["mor"]),
        ("nl", "Hoe heet mijn zus?", ["heet", "zus"]),
        ("ru", "Где я сейчас живу?", ["сейчас", "жив"]),
        ("de", "Was ist das?", ["was", "ist", "das"]),
        ("hu", "Hol van a ház?", ["hol", "van", "a", "haz"]),
    ],
)
def test_a_question_looks_for_these_terms(code, question, found):
    assert query_terms(question, code) == found


@pytest.mark.parametrize("code", KNOWN)
def test_hostile_texts_take_little_time(code):
    letters = "бвгдезиклмнопрст" if code == "ru" else "bcdeghiklmnoprst"
    words = ["".join(letters[int(digit, 16)] for digit in f"{number * 7919:x}") for number in range(20_000)]
    many = (" ".join(words), " ".join(word * 9 for word in words))
    for text in (*many, "a'" * 50_000, "ü" * 300_000, "l'" * 50_000, "ingen" * 9_999):
        started = time.process_time()
        terms(text, code)
        query_terms(text, code)
        Words(Vocabulary(code)).read([text])
        span_of(text, 0, code)
        Asked.of(text[:2_000], code)
        signs(text, code)
        assert time.process_time() - started < 2.0


ASKED = {
    "de": ("Seit wann habe ich den Hund?", "Wie viele Katzen?", "Was hast du mir empfohlen?", "Wo wohne ich derzeit?"),
    "fr": ("Depuis quand ai-je ce chat ?", "Combien de chats ?", "Qu'as-tu conseillé ?", "Où vit-il actuellement ?"),
    "es": ("¿A qué hora sale el tren?", "¿Cuántos gatos?", "¿Qué me recomendaste tú?", "¿Dónde vivo ahora mismo?"),
    "it": ("Da quando ho il gatto?", "Quanti gatti?", "Che cosa mi hai consigliato tu?", "Dove abito adesso?"),
    "pt": ("Em que dia foi?", "Quantos gatos?", "O que você me recomendou?", "Onde moro atualmente?"),
    "nl": ("Sinds wanneer heb ik de hond?", "Hoeveel katten?", "Wat heb je aangeraden?", "Waar woon ik momenteel?"),
    "sv": ("När var det?", "Hur många katter?", "Vad rekommenderade du?", "Var bor jag för tillfället?"),
    "da": ("Hvornår var det?", "Hvor mange katte?", "Hvad anbefalede du?", "Hvor bor jeg for tiden?"),
    "no": ("Når var det?", "Hvor mange katter?", "Hva anbefalte du?", "Hvor bor jeg for tiden?"),
    "fi": ("Milloin se oli?", "Kuinka monta kissaa?", "Mitä sinä suosittelit?", "Missä asun nykyään?"),
    "ru": ("В каком году это было?", "Сколько кошек?", "Что ты посоветовал?", "Где я живу сейчас?"),
    "pl": ("Od kiedy mam psa?", "Ile kotów?", "Co mi ty poleciłaś?", "Gdzie obecnie mieszkam?"),
}  # fmt: skip


@pytest.mark.parametrize("code", KNOWN)
def test_a_question_says_what_it_asks_for_with_and_without_its_accents(code):
    for written in (str, without_accents, str.upper):
        when, many, you, latest = map(written, ASKED[code])
        asked = [Asked.of(text, code) for text in (when, many, you, latest)]
        assert [each.when for each in asked] == [True, False, False, False]
        assert [each.many for each in asked] == [False, True, False, False]
        assert [each.you for each in asked] == [False, False, True, False]
        assert [asks_for_latest(text, code) for text in (when, many, you, latest)] == [False, False, False, True]
        assert all(each.question for each in asked) and Asked.of(when.rstrip("?"), code).question
        assert not Asked.of("Bruno", code).question


@pytest.mark.parametrize(
    ("code", "timed", "numbered", "neither"),
    [
        ("de", "Das war letzten Dienstag.", "Wir haben drei Katzen.", "Ein Hund ist da."),
        ("fr", "Je viens la semaine prochaine.", "J'ai trois chats.", "Un chien a été vu."),
        ("es", "Nos vemos el martes.", "Tengo tres gatos.", "Había un perro."),
        ("ru", "Это было в марте.", "У нас три кошки.", "Там была собака."),
        ("fi", "Tulen ensi viikolla.", "Meillä on kolme kissaa.", "Siellä on koira."),
    ],
)
def test_a_turn_shows_whether_it_tells_a_time_or_a_number(code, timed, numbered, neither):
    assert [signs(text, code) for text in (timed, numbered, neither)] == [(True, False), (False, True), (False, False)]


AT = 1_700_000_000_000
TOLD = {  # on 14 November 2023, a Tuesday
    ("2023-10-28", "2023-11-04"): {
        "en": "two weeks ago", "de": "vor zwei Wochen", "fr": "il y a deux semaines", "es": "hace dos semanas",
        "it": "due settimane fa", "pt": "há duas semanas", "nl": "twee weken geleden", "sv": "för två veckor sedan",
        "da": "for to uger siden", "no": "for to uker siden", "fi": "kaksi viikkoa sitten", "ru": "две недели назад",
        "pl": "dwa tygodnie temu",
    },
    ("2023-11-06", "2023-11-13"): {
        "en": "last week", "de": "letzte Woche", "fr": "la semaine dernière", "es": "la semana pasada",
        "it": "la settimana scorsa", "pt": "na semana passada", "nl": "vorige week", "sv": "förra veckan",
        "da": "sidste uge", "no": "forrige uke", "fi": "viime viikolla", "ru": "на прошлой неделе",
        "pl": "w zeszłym tygodniu",
    },
    ("2023-03-01", "2023-04-01"): {
        "en": "last March", "de": "letzten März", "fr": "en mars dernier", "es": "el pasado marzo",
        "it": "lo scorso marzo", "pt": "em março passado", "nl": "afgelopen maart", "sv": "förra mars",
        "da": "sidste marts", "no": "sist mars",
        "fi": "viime maaliskuussa", "ru": "в прошлом марте", "pl": "w zeszłym marcu",
    },
    ("2023-11-13", "2023-11-14"): {
        "en": "yesterday", "de": "gestern", "fr": "hier", "es": "ayer", "it": "ieri", "pt": "ontem", "nl": "gisteren",
        "sv": "i går", "da": "i går", "no": "i går", "fi": "eilen", "ru": "вчера", "pl": "wczoraj",
    },
    ("2023-05-03", "2023-05-04"): {
        "en": "on 3 May 2023", "de": "am 3. Mai 2023", "fr": "le 3 mai 2023", "es": "el 3 de mayo de 2023",
        "it": "il 3 maggio 2023", "pt": "em 3 de maio de 2023", "nl": "op 3 mei 2023", "sv": "den 3 maj 2023",
        "da": "den 3. maj 2023", "no": "3. mai 2023", "fi": "3. toukokuuta 2023", "ru": "3 мая 2023 года",
        "pl": "3 maja 2023",
    },
    ("2023-05-01", "2023-11-15"): {
        "en": "since May", "de": "seit Mai", "fr": "depuis mai", "es": "desde mayo", "it": "da maggio",
        "pt": "desde maio", "nl": "sinds mei", "sv": "sedan maj", "da": "siden maj",
        "no": "siden mai", "ru": "с мая", "pl": "od maja",
    },
    ("2023-11-10", "2023-11-11"): {
        "en": "last Friday", "de": "letzten Freitag", "fr": "vendredi dernier", "es": "el viernes pasado",
        "it": "venerdì scorso", "pt": "sexta-feira passada", "nl": "afgelopen vrijdag", "sv": "förra fredagen",
        "da": "sidste fredag", "no": "forrige fredag", "fi": "viime perjantaina", "ru": "в прошлую пятницу",
        "pl": "w zeszły piątek",
    },
    ("2023-03-01", "2023-07-01"): {
        "en": "between March and June 2023", "de": "zwischen März und Juni 2023", "fr": "entre mars et juin 2023",
        "es": "entre marzo y junio de 2023", "it": "tra marzo e giugno 2023", "pt": "entre março e junho de 2023",
        "nl": "tussen maart en juni 2023", "sv": "mellan mars och juni 2023", "da": "mellem marts og juni 2023",
        "no": "mellom mars og juni 2023", "ru": "между мартом и июнем 2023", "pl": "między marcem a czerwcem 2023",
    },
    ("0001-01-02", "2023-03-01"): {
        "en": "before March", "de": "vor März", "fr": "avant mars", "es": "antes de marzo", "it": "prima di marzo",
        "pt": "antes de março", "nl": "voor maart", "sv": "före mars", "da": "før marts", "no": "før mars",
        "fi": "ennen maaliskuuta", "ru": "до марта", "pl": "przed marcem",
    },
}  # fmt: skip


@pytest.mark.parametrize(
    ("code", "told", "span"), [(code, text, span) for span, each in TOLD.items() for code, text in each.items()]
)
def test_a_time_is_understood_in_every_language(code, told, span):
    for text in (told, f"{told.upper()}?", without_accents(told)):
        found = span_of(text, AT, code)
        assert found is not None and tuple(iso(time)[:10] for time in found) == span


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("de", "Am Abend vor dem Haus"), ("fr", "Elle a deux ans"), ("es", "Hace frío"), ("it", "Che cosa fa?"),
        ("pt", "Há três gatos"), ("nl", "Ik sta voor de deur"), ("ru", "С собакой"), ("xx", "letzten März"),
        ("hu", "tegnap"),
    ],
)  # fmt: skip
def test_no_time_is_understood_where_none_is_told(code, text):
    assert span_of(text, AT, code) is None


@pytest.mark.parametrize("code", KNOWN)
@pytest.mark.parametrize(
    "asked", ["What did I do in May 2023?", "What did I say last week?", "Since last year in Madrid?"]
)
def test_a_time_named_in_english_is_understood_by_those_who_talk_in_two_languages(code, asked):
    assert span_of(asked, AT, code) == span_of(asked, AT) is not None


@pytest.mark.parametrize("code", KNOWN)
def test_a_question_in_english_is_one_in_every_language(code):
    asked = Asked.of("How many cats did I have when I was ten, and what did you say?", code)
    assert (asked.many, asked.you) == (True, True)
    assert Asked.of("When did I buy the boat?", code).when
    assert asks_for_latest("What is the current address of the shop?", code)
    assert query_terms("What did the gardener do?", code) == terms("gardener", code)


def test_what_means_several_things_is_not_taken_for_the_other():
    assert not asks_for_latest("A che ora parte il treno?", "it") and asks_for_latest("Dove lavoro ora?", "it")
    assert query_terms("¿Cuándo es mi clase de yoga?", "es") == terms("clase yoga", "es")


def test_a_date_in_digits_is_understood_in_every_language():
    found = {span_of("Was war am 2023-05-03?", AT, code) for code in (*LANGUAGES, "en", "xx")}
    assert found == {(1_683_072_000_000, 1_683_158_400_000)}


@given(TEXTS, st.integers(0, 4_000_000_000_000))
def test_any_text_names_a_time_or_none(written, at):
    code, text = written
    found = span_of(text, at, code)
    assert found is None or found[0] < found[1]


@pytest.mark.parametrize("code", LANGUAGES)
def test_every_language_has_a_stemmer_and_a_word_for_each_time(code):
    own = spoken(code)
    assert own is not None and own.stem("abcdefgh")
    if own.row.times:
        assert len(own.row.times.split()) == len(TIMES.split())
        assert {"january", "december", "monday", "week", "yesterday", "last"} <= {*own.times.values()}
        assert all(own.row[1:8]), "a language has either all of its words or only a stemmer"


def test_a_language_is_named_by_its_code_with_or_without_a_region_or_by_its_name():
    named = ["de", "DE", "de-AT", "de_CH", "German", "nb", "nn-NO", "en-GB", "english", "zh", "yue", "none", "pt-BR"]
    codes = ["de", "de", "de", "de", "de", "no", "no", "en", "en", "zh", "yue", "none", "pt"]
    assert [code_of(name) for name in named] == codes
    assert [code_of(name) for name in ("", "germn", "deutsch!", "d", "../de")] == [None] * 5


@pytest.mark.parametrize("language", ["germn", "", "klingonisch"])
def test_what_is_no_language_is_refused_with_the_codes_of_those_that_are_known(language):
    with pytest.raises(ValidationError, match=r"ar, .*de, .*tr, yi") as refused:
        Memory.open("memory://", language=language)
    assert refused.value.field == "language"


def test_english_loads_no_other_language_and_no_language_the_words_of_others():
    code = (
        "import sys, asyncio; from recollect import Memory\n"
        "async def run(**language):\n"
        "    async with Memory.open('memory://', worker=False, **language) as memory:\n"
        "        ann = memory.user('ann'); await ann.add_memory('Häuser'); await ann.search_memory('Haus?')\n"
        "asyncio.run(run()); print('recollect.policies.languages' in sys.modules)\n"
        "asyncio.run(run(language='de')); import recollect.policies.words as words\n"
        "print('recollect.policies.languages' in sys.modules, words.spoken.cache_info().currsize)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True", "1"]
