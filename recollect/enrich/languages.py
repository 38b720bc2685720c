"""Which sentences are not English: the rules know no other language and would misread it.

"I" is an article in Italian and "in" in Norwegian, "my" is "we" in Polish, "im" is "in the" in German, and many users
answer an English question in their own language. A sentence with one word that only another language has is left out:
better to learn nothing than something wrong.
"""

from __future__ import annotations

from recollect.enrich.names import words
from recollect.policies.patterns import pattern_of

FOREIGN = words(
    """
    ich, und, nicht, auch, aber, habe, haben, mein, meine, meinen, meiner, meinem, kein, keine, keinen, sehr, wenn,
    weil, dass, das, dich, mich, für, über, wir, wird, wurde, einen, einem, einer, eine, beim, noch, schon, gibt,
    immer, heute, gestern, nichts, zum, zur, vom, durch, dann, viele, wohne, wohnt, heiße,
    sono, che, delle, degli, dello, nella, nelle, anche, più, è, perché, questo, questa, miei, gli, hanno, siamo,
    molto, troppo,
    pero, muy, está, están, también, tengo, llamo, que, porque, cuando, dónde, mis, gusta, encanta, años, desde, hasta,
    nosotros, él, sí, trabajo,
    je, j'ai, j'habite, j'adore, j'aime, suis, avec, mais, c'est, une, très, où, vous, cette, être, aussi, toujours,
    n'est, n'ai, qu'il, s'appelle, m'appelle,
    não, meu, minha, muito, você, tenho, moro, sou, isso, tudo, trabalho,
    ik, een, niet, maar, mijn, geen, voor, naar, wij,
    jeg, og, ikke, jag, och, är, inte, på, hvor, hva, fra, från, för, också, være, vært, år, mange, måte, måde, mye,
    nie, jest, się, że, jestem, też, mieszkam, lubię, dla, przez, oraz, który, moja,
    jsem, mám, není, protože, také, nem, vagyok, hogy, és, egy, nagyon, sunt, este, foarte, și, pentru,
    bir, çok, değil, için, minä, olen, että, saya, tidak, yang, untuk, dengan, adalah, tôi, không, của, rất,
    hoon, nahi, nahin, mera, aur, bahut, mujhe, kaise, rehta, rehti
    """
)
"""Frequent words of other languages: none is an English word, a name, or part of one ("de", "la", "von", "mia"), or a
common way to write something English ("est" is a time zone, "soy" a milk, "dans" belongs to Dan)."""

_REPLIES = words(
    """
    ja, nein, nee, nö, doch, danke, bitte, hallo, guten, gute, bonne, buena, moin, servus, tschüss, prost, genau,
    stimmt, falsch,
    egal, keiner, weiß, hä, wie, si, gracias, hola, adiós, buenos, buenas, claro, exacto, falso, ninguno, ninguna,
    nada, nadie, secreto, cómo, oui, non, merci, bonjour, bonsoir, salut, rien, aucun, aucune, personne, quoi,
    ciao, grazie, buongiorno, niente, nessuno, boh, certo, vero, sim, nao, olá, oi, obrigado, obrigada, bom, boa,
    nenhum, nenhuma, ninguém, niemand, dank, nej, hej, tack, takk, tak, ingen, ingenting, cześć, dziękuję, nic,
    dzień, ahoj, igen, köszönöm, bună, mulțumesc, evet, hayır, yok, merhaba, teşekkürler, kiitos, kyllä, ei, moi,
    ya, bukan, terima, haan, theek, namaste, sé, igual, quizás, depende, liebsten, ahnung, vielleicht, peut
    """
)
"""How people say yes, no, nothing, hello and thanks in other languages: no answer to a question about them."""

_ASKS_BACK = pattern_of(r"(?:was|wo|wer|wann)\W*\Z")
_WORD = pattern_of(r"[^\W\d_]+(?:'[^\W\d_]+)?")
_OTHER_SCRIPT = pattern_of(
    r"[\u0370-\u1cff\u1f00-\u1fff\u2c80-\u2dff\u3041-\ua4cf\uac00-\ud7ff\uf900-\ufaff\U00020000-\U0003ffff]"
)
_ENGLISH_BY_CHANCE = pattern_of(
    r"i (?:dis)?likes? (?:stor|høy|høj|di|su|dei|degli|della|sul|sulla|sui|sulle)\b|i (?:love|hate) (?:di|su|dei) "
    r"|im \d{1,2}\. \w"
)
"""The article or preposition "i" before a word that is also English ("i like stor grad", "I like su Instagram"), and
"im" before an ordinal."""
_IN_THE = pattern_of(r"\bim \d{1,2}\Z")
_ORDINAL_OF = pattern_of(
    r"\s(?:stock|jahrhundert|lebensjahr|jahr|monat|semester|bezirk|weltkrieg|kapitel|quartal|schuljahr|anlauf"
    r"|versuch|obergeschoss|og)\b"
)


def is_foreign(text: str, low: str) -> bool:
    """Whether a sentence is in another language than English, or partly. A word with a capital may be of a title.

    >>> [is_foreign(text, text.lower()) for text in ("I hate speech sono un problema", "I love Je t'aime")]
    [True, False]
    """
    if _ENGLISH_BY_CHANCE.match(low):
        return True
    if FOREIGN.isdisjoint(_WORD.findall(low)):
        return False
    found = [match.span() for match in _WORD.finditer(low) if match.group() in FOREIGN]
    return any(first == 0 or text[first:last].islower() for first, last in found)


def is_foreign_reply(text: str, low: str) -> bool:
    """Whether a short answer is in another language, or in letters that the rules cannot read.

    >>> [is_foreign_reply(text, text.lower()) for text in ("Nein, danke", "いいえ", "Oslo")]
    [True, True, False]
    """
    if _OTHER_SCRIPT.search(text) or _ASKS_BACK.match(low) or is_foreign(text, low):
        return True
    return any(match.group() in _REPLIES for match in _WORD.finditer(low))


def is_ordinal(text: str, low: str, start: int, at: int) -> bool:
    """Whether the dot at this place belongs to a German ordinal: "Im 3. Stock" is no age."""
    if not _IN_THE.search(low, start, at):
        return False
    following = slice(at + 1, at + 80)
    return bool(_ORDINAL_OF.match(low, at + 1)) or is_foreign(text[following], low[following])
