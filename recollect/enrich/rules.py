"""Extraction without a model: what users say about themselves, in plain English as people write it.

Precision comes first: a sentence that is a question, hypothetical, quoted or about someone else is left
out before any rule is tried (`sentences`), nearly every rule is anchored at the beginning of a clause, and
what may fill a blank is a name or on a list, or at most a few words where people say themselves what it is
(a hobby, a goal, a favourite). Everything is pure and bounded in the length of the text.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from recollect.enrich import (
    ANSWER_MAX,
    Draft,
    body,
    education,
    health,
    homes,
    identity,
    interests,
    livelihood,
    mentions,
    people,
    skills,
    tastes,
    teams,
)
from recollect.enrich.clauses import Clause, clauses, speaks_of_others
from recollect.enrich.corrections import (
    DENIED_VALUE,
    answered_yes,
    corrected,
    corrections,
    names_put_right,
    other_names_put_right,
    said_otherwise,
    short_answers,
)
from recollect.enrich.languages import is_foreign
from recollect.enrich.names import words
from recollect.enrich.preferences import preferences
from recollect.enrich.repairs import joined, repaired, was_repaired
from recollect.enrich.retractions import retracted
from recollect.enrich.sentences import HEAD_MAX, OPENERS, READ_MAX, TAIL_MAX, Sentence, is_played, lowered, sentences
from recollect.enrich.spelling import composed, spelled_out
from recollect.enrich.values import Said, beginning, is_a_stay
from recollect.enrich.withheld import is_withheld

Rule = Callable[[Said, re.Match[str]], Iterator[Draft]]

# ── Who a clause is about ────────────────────────────────────────────────────────────────────────

_ADVERB = (
    r"(?:(?:currently|now|also|still|just|recently|actually|really|mostly|usually|mainly|primarily|basically"
    r"|personally|only|always|both|finally|absolutely|definitely|totally|truly|generally|typically|already|officially"
    r"|happily|proudly|literally|honestly|obviously|technically|myself|kinda|normally|often|regularly|very much|fully"
    r"|completely|simply|presently|lowkey|ever since|do(?= (?:have|hate|love|like|enjoy|live|work|speak|take|own|use"
    r"|play"
    r"|drive|prefer|suffer)\b)) ){0,3}"
)
_PLAINLY = (
    r"(?!.*\b(?:just|only|always|often|much|yet|well|enough|every|fluently|perfectly|usually|think|when|because|on|for"
    r"|with|at (?:home|work)|proper|itself|full[- ]time)\b)"
)
"""A partial denial is not a denial: "I don't speak French very well"."""
_HEADS: tuple[tuple[str, bool, re.Pattern[str]], ...] = tuple(
    (kind, ended, re.compile(pattern + _ADVERB))
    for kind, ended, pattern in (
        ("am", True,
            r"(?:i'm|im|i am) (?:no longer|not)(?= .*\bany ?(?:more|longer)\b|(?<=longer) )(?: really| even)? "),
        ("am", True, r"i used to be "),
        ("was", False, r"having (?:just |recently |finally )?been "),
        ("do", False,
            r"having (?:just |recently |finally )?(?=finished|completed|earned|graduated|joined|moved|switched)"),
        ("am", True,
            r"(?:i|i've|i have) (?:stopped|quit|(?:gave|given) up(?: on)?|failed at(?= being)) (?:being "
            r"|(?!being|eating|drinking|using|smoking)(?=[a-z]+ing\b))"),
        ("do", True, r"(?:i|we) (?:used to|no longer) "),
        ("do", True,
            r"(?:i|we) (?:can no longer |(?:can't|cannot|cant) (?=.*\bany ?(?:more|longer)\b))"
            rf"(?=(?:{interests.HOBBY_VERBS})\b)"),
        ("do", True, r"(?:i|we) (?:don't|do not|dont)(?= .*\bany ?(?:more|longer)\b)(?: really| even)? "),
        ("do", True,
            r"(?:i|we) (?:haven't|have not|havent) (?=(?:worked|lived|used|driven|spoken|played)\b.*\bsince\b)"),
        ("am_not", True, rf"(?:i'm|im|i am) not {_PLAINLY}(?:actually |really )?"),
        ("do_not", True, rf"i (?:don't|do not|dont) {_PLAINLY}(?:actually |really |currently |even )?"),
        ("am", False,
            r"(?:i'm|im|i am|we're both|we are both|i've been|ive been|i been|i have been|as(?!.* (?:he|she|they)"
            r"(?!/)\b)|being(?!.*\b(?:must|would|could|sounds?|seems?|is|was|isn't|wasn't|has|can|means?|makes?|sucks?)\b)"
            r"|i(?= (?:living|based|working|originally"
            r"|allergic"
            r"|married|born|raised|fluent|studying|vegan|vegetarian|into|from|a vegan|a vegetarian"
            r"|currently (?:living|working|based|studying)))) "),
        ("was", False,
            r"(?:i was|i got|i've been|i have been|i(?= (?:was )?born)|i(?= (?:was |got )?(?:diagnosed|raised)))(?: "
            r"|\b)"),
        ("do", False,
            r"(?:i've|ive|i have(?= (?:just|recently|lived|worked|moved|started|joined|left|quit|switched|stopped"
            r"|taken|studied|graduated|broken|sold|settled|relocated|adopted|bought|gone|become|resigned|retired|gotten"
            r"|developed|turned|finally))|we both(?= (?:love|like|hate|enjoy|speak|play|eat|work|study)\b)"
            r"|i) "),
        ("we", False, r"(?:we're(?= (?:now )?(?:divorced|separated|no longer))"
            r"|(?:we're|we are)(?= (?:now |currently )?(?:living|based))|we've been(?= living)"
            r"|we have been(?= living)|we've|we have(?= (?:just|recently"
            r"|moved|settled|relocated|adopted))|we both|we|me and (?:the|my) \w+|(?:the|my) \w+ and (?:i|me)) "),
    )
)  # fmt: skip

_AM: tuple[tuple[re.Pattern[str], Rule], ...] = (
    (identity.AM_AGE, identity.age),
    (identity.AGED, identity.age),
    (identity.AGE_IN_WORDS, identity.age_in_words),
    (homes.SOMEONE_FROM, homes.someone_from),
    (homes.FROM, homes.comes_from),
    (homes.GREW_UP, homes.grew_up),
    (homes.LIVES_IN, homes.lives_in),
    (homes.BEEN_IN, homes.been_in),
    (identity.TURNED, identity.age),
    (identity.TURNED_IN_WORDS, identity.age_in_words),
    (livelihood.PLAIN_STATUS, livelihood.stated),
    (livelihood.BY_TRADE, livelihood.stated),
    (livelihood.HEAD_OF, livelihood.head_of),
    (livelihood.WORK_AS, livelihood.open_occupation),
    (livelihood.WORK_AT, livelihood.works_at),
    (livelihood.WORK_IN, livelihood.works_in),
    (livelihood.IN_INDUSTRY, livelihood.in_industry),
    (livelihood.WORK_INSIDE, livelihood.works_inside),
    (education.STUDY, education.studies),
    (education.STUDY_AT, education.school_of),
    (livelihood.FOUNDED, livelihood.employer_is),
    (livelihood.AM_A, livelihood.occupation),
    (people.WITH_PARTNER, people.with_partner),
    (people.NO_LONGER_WITH, people.no_longer_with),
    (people.NOW_ALONE, people.parted),
    (people.PARENT_OF, people.parent_of),
    (livelihood.AT_NOW, livelihood.at_now),
    (livelihood.NO_LONGER_AT, livelihood.no_longer_at),
    (livelihood.BEEN_AT, livelihood.been_at),
    (skills.FLUENT, skills.speaks),
    (skills.NATIVE, skills.speaks),
    (skills.LEARNING, skills.learns),
    (skills.CODE_IN, skills.codes_in),
    (skills.WRITE_CODE, skills.codes_in),
    (health.DIET, health.diet),
    (health.WENT, health.diet),
    (health.EATS_AGAIN, health.eats_again),
    (health.ALLERGIC, health.allergic),
    (health.ALLERGIC_BEHIND, health.allergic_behind),
    (health.INTOLERANT, health.allergy),
    (health.AM_CONDITION, health.am_condition),
    (health.CONDITION_OF, health.condition),
    (skills.ON_DEVICE, skills.devices),
    (health.TAKES, health.takes),
    (health.OFF, health.off),
    (health.HAVE_CONDITION, health.condition),
    (interests.INTO, interests.enjoys),
    (interests.PLAY, interests.plays),
    (skills.USE, skills.uses),
    (skills.USER_OF, skills.user_of),
    (skills.REPLACED, skills.replaced),
    (body.AM_WEIGHT, body.weight),
    (body.AM_HEIGHT, body.height),
    (body.BOTH, body.both),
    (body.TALL_AND_HEAVY, body.both),
    (teams.SUPPORTER, teams.supporter),
    (teams.FAN_OF_TEAM, teams.supports),
    (tastes.FAN_OF, tastes.likes),
    (tastes.NOT_A_FAN_OF, tastes.dislikes),
    (tastes.FAN, tastes.fan),
    (interests.GIVEN_UP, interests.given_up),
    (interests.TRAINING, interests.goal),
    (interests.SAVING, interests.goal),
    (interests.TRYING, interests.goal),
    (identity.I_AM, identity.i_am_name),
)
_DO: tuple[tuple[re.Pattern[str], Rule], ...] = (
    (homes.LIVES_IN, homes.lives_in),
    (homes.CALL_HOME, homes.call_home),
    (homes.MOVED_IN, homes.rents),
    (homes.RENTS, homes.rents),
    (homes.MOVED_TO, homes.moved_to),
    (homes.MOVED_OUT, homes.moved_out),
    (homes.FROM, homes.comes_from),
    (homes.GREW_UP, homes.grew_up),
    (identity.TURNED, identity.age),
    (identity.TURNED_IN_WORDS, identity.age_in_words),
    (livelihood.WORK_AS, livelihood.open_occupation),
    (livelihood.WORK_AT, livelihood.works_at),
    (livelihood.WORK_IN, livelihood.works_in),
    (livelihood.IN_INDUSTRY, livelihood.in_industry),
    (livelihood.WORK_INSIDE, livelihood.works_inside),
    (livelihood.STARTED_AT, livelihood.starts_at),
    (livelihood.FOUNDED, livelihood.employer_is),
    (livelihood.LEFT, livelihood.left),
    (livelihood.LOST_JOB, livelihood.lost_job),
    (livelihood.QUIT_THE, livelihood.lost_job),
    (livelihood.RETIRED, livelihood.stated),
    (livelihood.BECAME, livelihood.open_occupation),
    (livelihood.PROMOTED, livelihood.open_occupation),
    (livelihood.TEACH, livelihood.teaches),
    (education.STUDY, education.studies),
    (education.STUDY_AT, education.school_of),
    (education.GRADUATED, education.school_of),
    (education.ATTEND, education.school_of),
    (education.DEGREE, education.degree),
    (people.HAVE, people.have),
    (people.MARRIED, people.with_partner),
    (people.BROKE_UP, people.broke_up),
    (people.PARTED, people.parted),
    (skills.SPEAK, skills.speaks),
    (skills.CODE_IN, skills.codes_in),
    (skills.WRITE_CODE, skills.codes_in),
    (skills.USE, skills.uses),
    (skills.SWITCHED, skills.switched),
    (skills.STOPPED_USING, skills.stopped_using),
    (skills.OWN, skills.devices),
    (skills.DRIVE, skills.vehicles),
    (skills.SOLD, skills.vehicles),
    (skills.SOLD, skills.sold_device),
    (skills.REPLACED, skills.replaced),
    (health.WENT, health.diet),
    (health.NOT_EAT, health.not_eaten),
    (health.EATS_AGAIN, health.eats_again),
    (health.ALLERGY, health.allergy),
    (health.ALLERGY_TO, health.allergic),
    (health.TAKES, health.takes),
    (health.STOPPED, health.stopped),
    (health.HAVE_CONDITION, health.condition),
    (interests.ENJOY, interests.enjoys),
    (interests.LIKE_TO, interests.likes_to),
    (interests.COLLECT, interests.likes_to),
    (interests.OFTEN, interests.likes_to),
    (interests.PLAY, interests.plays),
    (interests.IN_SPARE_TIME, interests.in_spare_time),
    (interests.GAVE_UP, interests.gave_up),
    (interests.VERB_OVER, interests.verb_over),
    (skills.LEARNING, skills.learns),
    (interests.TRYING, interests.goal),
    (body.WEIGH, body.weight),
    (body.BOTH, body.both),
    (teams.SUPPORT, teams.supports),
    (tastes.LIKE, tastes.likes),
    (tastes.PREFER, tastes.prefers),
    (tastes.DISLIKE, tastes.dislikes),
)
_AM_NOT: tuple[tuple[re.Pattern[str], Rule], ...] = (
    (health.DIET, health.diet),
    (health.ALLERGIC, health.allergic),
    (health.ALLERGIC_BEHIND, health.allergic_behind),
    (health.INTOLERANT, health.allergy),
    (health.AM_CONDITION, health.am_condition),
)
_DO_NOT: tuple[tuple[re.Pattern[str], Rule], ...] = (
    (homes.LIVES_IN, homes.lives_in),
    (livelihood.WORK_AT, livelihood.works_at),
    (skills.SPEAK, skills.speaks),
    (health.ALLERGY, health.allergy),
    (health.ALLERGY_TO, health.allergic),
    (health.HAVE_CONDITION, health.condition),
    (health.TAKES, health.takes),
)
"""What a plain denial ends, in case it was believed."""
_WAS: tuple[tuple[re.Pattern[str], Rule], ...] = (
    (identity.BORN_ON, identity.birthday),
    (identity.BORN_AS, identity.i_am_name),
    (homes.GREW_UP, homes.grew_up),
    (health.DIAGNOSED, health.diagnosed),
    (health.TAKES, health.takes),
    (livelihood.LEFT, livelihood.left),
    (livelihood.PROMOTED, livelihood.open_occupation),
)
_WE: tuple[tuple[re.Pattern[str], Rule], ...] = (
    (homes.LIVES_IN, homes.lives_in),
    (homes.RENTS, homes.rents),
    (homes.MOVED_TO, homes.moved_to),
    (people.HAVE, people.have),
    (people.WE_PARTED, people.we_parted),
    (people.WE_ARE_APART, people.we_parted),
    (interests.PLAY, interests.plays),
    (skills.USE, skills.use_together),
    (skills.DRIVE, skills.vehicles),
    (skills.SOLD, skills.vehicles),
    (skills.REPLACED, skills.replaced),
)
_MY: tuple[tuple[re.Pattern[str], Rule], ...] = (
    (identity.AGE_IS, identity.age),
    (identity.BIRTHDAY, identity.birthday),
    (homes.HOMETOWN, homes.grew_up),
    (homes.MY_HOME_IN, homes.here_in),
    (homes.COUNTRY_IS, homes.country_is),
    (homes.NATIONALITY, homes.nationality),
    (education.MAJOR_IS, education.major),
    (livelihood.JOB_IS, livelihood.occupation),
    (livelihood.EMPLOYER_IS, livelihood.employer_is),
    (skills.LANGUAGE_IS, skills.speaks),
    (skills.CODING_LANGUAGE_IS, skills.main_coding_language),
    (skills.TOOL_IS, skills.uses),
    (skills.DEVICE_IS, skills.devices),
    (skills.CAR_IS, skills.vehicles),
    (health.ALLERGY_IS, health.allergic),
    (body.WEIGHT_IS, body.weight),
    (body.HEIGHT_IS, body.height),
    (teams.TEAM_IS, teams.supports),
    (interests.HOBBIES_ARE, interests.hobbies_are),
    (interests.GOAL_IS, interests.goal),
    (people.NOT_NAMED, people.not_named),
    (people.LEFT_ME, people.left_me),
)
"""What begins with "my"."""
_IS_MY: tuple[tuple[re.Pattern[str], Rule], ...] = (
    (identity.BIRTHDAY_TODAY, identity.birthday),
    (identity.IS_MY_NAME, identity.name_put_right),
    (people.IS_MINE, people.is_mine),
    (people.NOT_MINE, people.not_mine),
    (skills.IS_LANGUAGE, skills.named_language),
    (interests.IS_FAVORITE, interests.is_favorite),
    (interests.ARE_HOBBIES, interests.are_hobbies),
)
"""What has "my" in the middle."""
_OTHER: tuple[tuple[re.Pattern[str], Rule], ...] = (
    (identity.NAME_IS, identity.names),
    (identity.WILL_TURN, identity.will_turn),
    (skills.CODE_IS_IN, skills.codes_in),
    (skills.STACK_IS, skills.use_together),
    (identity.NICKNAME_IS, identity.nicknames),
    (identity.NOT_TO_BE_CALLED, identity.not_called),
    (identity.NAME_IS_NOT, identity.name_is_not),
    (people.NAMED_DIED, people.named_died),
    (people.PUT_TO_SLEEP, people.named_died),
    (identity.THIS_IS, identity.this_is_name),
    (identity.THE_NAME_IS, identity.this_is_name),
    (identity.MYSELF, identity.this_is_name),
    (identity.NAME_HERE, identity.name_here),
    (identity.HERE, identity.age),
    (identity.TURNED, identity.age),
    (livelihood.LAST_DAY, livelihood.last_day),
    (livelihood.STARTING_AT, livelihood.starting),
    (livelihood.STARTING_AS, livelihood.starting),
    (body.WEIGHED_MYSELF, body.weight),
    (teams.FAN_HERE, teams.supporter),
    (health.PUT_ON, health.takes),
    (health.TAKEN_OFF, health.off),
    (health.STOPPED_BY, health.stopped_by),
    (health.SWITCHED, health.switched),
    (health.SWITCHED_MY, health.switched),
    (homes.HOME, homes.home_is),
    (homes.HERE_IN, homes.here_in),
    (homes.TIMEZONE, homes.timezone),
    (skills.SPEAKER_HERE, skills.named_language),
    (interests.FAVORITE_IS, interests.favorite),
)
_BY_KIND = {"am": _AM, "do": _DO, "am_not": _AM_NOT, "do_not": _DO_NOT, "was": _WAS, "we": _WE}


def _heads(clause: Clause, at: int) -> Iterator[Said]:
    """The possible readings of how a clause begins. One that says something has ended rules out the rest.

    A denial may be read twice: "I don't have dairy" denies nothing that is known, and is a diet.
    """
    for kind, ended, pattern in _HEADS:
        if match := pattern.match(clause.low):
            yield Said(clause, kind, match.end(), at, ended)
            if ended and kind in ("am", "do"):
                return


def _facts(clause: Clause, at: int) -> Iterator[Draft]:
    low = clause.low
    for said in _heads(clause, at):
        yield from _by_rules(_BY_KIND[said.kind], said)
    said = Said(clause, "other", 0, at)
    yield from _by_rules(_OTHER, said)
    if low.startswith("my "):
        yield from _by_rules(_MY, said)
    elif " my " in low:
        yield from _by_rules(_IS_MY, said)
    if "my " in low or "our " in low:
        for match in people.MINE.finditer(low):
            yield from people.mine(said._replace(first=match.start()), match)
        for match in skills.MY_DEVICE.finditer(low):
            yield from skills.my_device(said._replace(first=match.start()), match)
    if shortly := people.MINE_SHORTLY.match(low):
        yield from people.mine(said, shortly)
    if "/" in low:
        for match in identity.PRONOUNS.finditer(low):
            yield from identity.pronouns(said._replace(first=match.start()), match)


def _by_rules(rules: Iterable[tuple[re.Pattern[str], Rule]], said: Said) -> Iterator[Draft]:
    for pattern, rule in rules:
        if match := pattern.match(said.clause.low, said.rest):
            yield from rule(said, match)


# ── Reading ──────────────────────────────────────────────────────────────────────────────────────


def read(text: str, at: int, *, answered: str = "") -> list[Draft]:
    """What a user message says, with the characters that say it.

    `at` is the time of the message in milliseconds; `answered` is what the assistant said just
    before, which makes "No, I meant ..." a correction and a bare "Oslo" an answer.

    >>> [(draft.key, draft.value) for draft in read("im 29 and live in oslo", 0) if draft.layer == "fact"]
    [('age', '29'), ('city', 'Oslo')]
    """
    if not promising(text):
        return []
    plain = composed(text)
    spelled = spelled_out(plain.text) if len(text) <= READ_MAX else plain
    drafts = [draft for draft in _read(spelled.text, at, answered) if not _is_cut_short(spelled.text, draft)]
    for step in (spelled, plain) if spelled is not plain else (plain,):
        if step.places:
            drafts = [replace(draft, span=step.span(draft.span)) for draft in drafts]
    return drafts


def takes_back(text: str) -> bool:
    """Whether a message takes back something that may be known of the user.

    >>> takes_back("Forget that I live in Bern."), takes_back("Don't forget that I live in Bern.")
    (True, False)
    """
    return any(retracted(text, lambda said: _stated(said, 0)))


def _is_cut_short(text: str, draft: Draft) -> bool:
    """Whether a value ends within a letter, as "Tọ" does in "Tọ́pẹ́": some letters have more than one character."""
    following = text[draft.span[1] : draft.span[1] + 1]
    return following != "" and unicodedata.category(following)[0] == "M"


def _read(text: str, at: int, answered: str) -> list[Draft]:
    if (answered and is_played(text, answered)) or is_withheld(text):
        return []
    named = sentences(text)
    stated = [sentence for sentence in named if not is_foreign(sentence.text, sentence.low)]
    found = _told(stated, at)
    if not any(draft.key == "name" for draft in found):
        found += names_put_right(stated, answered)
    found += other_names_put_right(stated, answered)
    found = [_with_quotes(text, draft) for draft in found]
    found += corrections(text, stated, answered, found)
    if not found:
        found += short_answers(text, at, answered)
        found += answered_yes(text, at, answered)
    if answered and not any(draft.layer == "fact" for draft in found):
        found += _otherwise(text, at, answered)
    found += _age_beside_birthday(stated, found, at)
    taken_back = list(retracted(text, lambda said: _stated(said, at)))
    found = _named_ends(_without(found, taken_back))
    found += list(mentions.from_facts(found))
    found += taken_back
    told = mentions.told(found)
    for sentence in named:
        found += mentions.of_others(sentence, told)
        found += list(mentions.named(sentence, told))[: mentions.MENTIONS_MAX]
    return _distinct(found)


def _without(found: list[Draft], taken_back: list[Draft]) -> list[Draft]:
    """What is said, less what the same message takes back: "I did not say I'm 40"."""
    gone = {(draft.layer, draft.key, draft.instead_of.casefold()) for draft in taken_back}
    return [draft for draft in found if (draft.layer, draft.key, draft.value.casefold()) not in gone]


def _stated(text: str, at: int) -> list[Draft]:
    """What a text says about the user, taken by itself."""
    return _told(sentences(text), at)


def _with_quotes(text: str, draft: Draft) -> Draft:
    """A request as written: what it quotes is blanked in the sentence, as in "stop saying 'great question'"."""
    if draft.layer != "learning" or "\x00" not in draft.value:
        return draft
    return replace(draft, value=" ".join(text[slice(*draft.span)].split()))


def _told(stated: Sequence[Sentence], at: int) -> list[Draft]:
    """What the sentences say, in order: some are about somebody whom the one before introduced."""
    found: list[Draft] = []
    introduced, before = False, ""
    last: tuple[Sentence, list[Draft], str, bool] | None = None
    for sentence in _own(stated):
        if last and (both := joined(last[0], sentence)):
            right = _of_sentence(both, at, *last[2:])
            if was_repaired(last[1], right, sentence.start):
                found[len(found) - len(last[1]) :] = right
                last, before = None, sentence.text
                continue
        drafts = [*_of_sentence(sentence, at, before, introduced), *_named_next(before, sentence, at)]
        began = before, introduced
        if "this is " in sentence.low and speaks_of_others(before):  # "There's someone you should meet. This is Ben"
            drafts = [draft for draft in drafts if draft.key != "name"]
        introduced = any(draft.key == "name" and not draft.ends for draft in drafts)
        if identity.HATES_IT.match(sentence.low):
            found = [draft for draft in found if draft.key != "nickname" or draft.ends]
        if last and livelihood.GOT_WORK.search(last[0].low):
            opened = OPENERS.match(sentence.low)
            found[len(found) - len(last[1]) :] = _begun_later(
                last[1], sentence.low[opened.end() if opened else 0 :], at
            )
        last, before = (sentence, drafts, *began), sentence.text
        found += drafts
    return found


def _begun_later(facts: list[Draft], low: str, at: int) -> list[Draft]:
    """The facts, where a job somebody just got is theirs from the day they name: "got it at Arup!! Start in March"."""
    begins = livelihood.start_of(low, at)
    if begins is None:
        return facts
    return [replace(x, valid_from=begins) if x.key in _OF_WORK and not x.ends else x for x in facts]


_OF_WORK = ("employer", "occupation")


def _named_next(before: str, sentence: Sentence, at: int) -> Iterator[Draft]:
    """'We have a cat. Her name is Miso.'"""
    match = people.NAMES_THEM.match(sentence.low)
    if match is None:
        return
    before = lowered(before)
    opened = OPENERS.match(before)
    told = people.TOLD_OF_ONE.match(before, opened.end() if opened else 0)
    if told:
        whole = Clause(sentence.text, sentence.low, sentence.start, sentence.start)
        yield from people.named_next(Said(whole, "other", 0, at), told, match)


_ANOTHERS_NAME = re.compile(r"name's ")


def _own(stated: Sequence[Sentence]) -> Iterator[Sentence]:
    """The sentences except those naming whoever the last introduced: "Got a dog! Name's Hattie, from a shelter"."""
    before = ""
    for sentence in stated:
        named = _ANOTHERS_NAME.match(sentence.low)
        if not (named and (people.TOLD_OF.search(before.lower()) or speaks_of_others(before))):
            yield sentence
        before = sentence.text


def _of_sentence(sentence: Sentence, at: int, before: str, introduced: bool) -> list[Draft]:

    def stated(sentence: Sentence) -> list[Draft]:
        said = clauses(sentence, before=before, introduced=introduced)
        return [corrected(draft, sentence) for clause in said for draft in _facts(clause, at)]

    facts = repaired(sentence, stated)
    whole = Said(Clause(sentence.text, sentence.low, sentence.start, sentence.start), "other", 0, at)
    if " and " in sentence.low and people.PARTING.search(sentence.low):
        facts = _parted(whole, facts)
    if any(draft.key == "age" for draft in facts):
        weighed = identity.WEIGHED.search(before.lower())
        if measured := identity.MEASURED.search(sentence.low) or weighed:
            after = sentence.start + (0 if weighed else measured.end())
            facts = [draft for draft in facts if draft.key != "age" or draft.span[0] < after]
    facts = list(_from_then(sentence, facts, at))
    if facts and livelihood.GOT_WORK.search(sentence.low):
        facts = _begun_later(facts, sentence.low, at)
    facts = [draft for draft in facts if not _is_unwelcome(draft, sentence)]
    if facts and livelihood.NOT_SURE.search(sentence.low):
        facts = [draft for draft in facts if draft.valid_from is None or draft.valid_from <= at]
    facts += _told_behind(whole)
    facts += _put_right(sentence, at)
    if facts and tastes.TOPPED.search(sentence.low):
        facts = [draft for draft in facts if draft.key not in _TASTES]
    settings = preferences(sentence)
    # "I like dark mode" is a setting, not a taste as well.
    meant = [setting.span for setting in settings]
    facts = [draft for draft in facts if draft.key not in _TASTES or not any(_overlap(draft.span, s) for s in meant)]
    return facts + settings


def _from_then(sentence: Sentence, facts: list[Draft], at: int) -> Iterator[Draft]:
    """The facts, where what begins later is true from then on: "from December I work at Initech"."""
    begins = beginning(sentence.low, at) if facts else None
    stays = bool(facts) and begins is None and is_a_stay(sentence.low)
    for draft in facts:
        lasting = not draft.ends and draft.valid_from is None and draft.key not in _BEFORE_ANYTHING
        first, last = (place - sentence.start for place in draft.span)
        told = begins and (
            _SAME_BREATH.fullmatch(sentence.low, last, begins.first)
            or (first >= begins.last and _ONESELF.match(sentence.low, begins.last))
        )
        if begins and told and lasting:
            draft = replace(draft, valid_from=begins.at)
        if not (stays and lasting) and not (told and draft.ends):
            yield draft


_ONESELF = re.compile(r"[\s,:–—-]{1,4}(?:(?:on|onwards?)[\s,]+)?(?:i|i'm|im|i'll|we|we're|me|my|our)\b")
_SAME_BREATH = re.compile(r"(?: (?!and\b|but\b|have\b|got\b)\w+){1,7} ")


_BEFORE_ANYTHING = ("name", "nickname", "age", "birthday", "hometown", "allergy", "pronouns")
"""What does not begin on a day that people plan."""


def _is_unwelcome(draft: Draft, sentence: Sentence) -> bool:
    """Whether it is a name that the user does not want to be called by: "everyone calls me Bobby, I hate it"."""
    named = draft.key == "nickname" and not draft.ends
    return named and identity.UNWELCOME.match(sentence.low, draft.span[1] - sentence.start) is not None


def _parted(said: Said, facts: list[Draft]) -> list[Draft]:
    """The facts, where a couple that has parted leaves only the parting, and no partner."""
    low = said.clause.low
    opened = OPENERS.match(low)
    for begins in {0, opened.end() if opened else 0}:
        for pattern in (people.BOTH_BROKE_UP, people.PARTNER_AND_I_PARTED):
            if parted := pattern.match(low, begins):
                facts = [draft for draft in facts if draft.key != "partner"] + list(people.broke_up(said, parted))
    return facts


_BEHIND: tuple[tuple[str, re.Pattern[str], Rule], ...] = (
    (" my ", people.NAME_THEN_MINE, people.name_then_mine),
    (" name", people.NAMED_LATER, people.named_later),
    ("my name", identity.NAME_WRONG, identity.name_put_right),
    (" name", identity.THATS_MY_NAME, identity.thats_my_name),
    (" live", homes.WHERE_I_LIVE, homes.where_i_live),
    (" based", homes.WHERE_I_LIVE, homes.where_i_live),
    ("zone", homes.IS_MY_TIMEZONE, homes.timezone),
    (" my birthday", identity.DAY_IS_BIRTHDAY, identity.day_is_birthday),
    (" born", identity.DAY_IS_BIRTHDAY, identity.day_is_birthday),
    (" time", interests.SPARE_TIME_FIRST, interests.in_spare_time),
    (" my ", interests.THATS_MY_HOBBY, interests.thats_my_hobby),
    ("veg", health.BOTH_EAT, health.both_eat),
    ("pescatarian", health.BOTH_EAT, health.both_eat),
    ("now i", livelihood.NOW_AT, livelihood.now_at),
    ("zone, which", homes.TIMEZONE, homes.timezone),
)
"""Statements in an order that clauses do not follow: the name first, and whose it is after it."""


def _told_behind(said: Said) -> Iterator[Draft]:
    low = said.clause.low
    for sign, pattern, rule in _BEHIND:
        if sign in low and (match := pattern.search(low)):
            yield from rule(said, match)


def _put_right(sentence: Sentence, at: int) -> Iterator[Draft]:
    """'My name is not Tim, it's Tom' says 'my name is Tom', and that it was never Tim."""
    match = DENIED_VALUE.search(sentence.low) if "my " in sentence.low else None
    if match is None:
        return
    old, new = (sentence.text[slice(*match.span(part))] for part in ("old", "new"))
    said = f"{sentence.text[slice(*match.span('whose'))]} is {match['named'] or ''}{new}"
    first, last = sentence.start + match.start(), sentence.start + match.end("new")
    for draft in _facts(Clause(said, lowered(said), 0, 0), at):
        yield replace(draft, span=(first, last), corrects=True, instead_of=old)


def _otherwise(text: str, at: int, answered: str) -> Iterator[Draft]:
    """'No, Basel' after 'You live in Bern' says 'I live in Basel', and that it was never Bern.

    A value in lower case must be a known one: "no, thanks" and "no, wait" are answers too. What is put right is what
    was said last: "no, Bergen" after "Your sister Ingrid lives in Oslo" does not give Ingrid another name.
    """
    if (otherwise := said_otherwise(text, answered)) is None:
        return
    told, other = otherwise
    wrong = [draft for draft in _facts(Clause(told, lowered(told), 0, 0), at) if not draft.ends]
    if len(wrong) != 1 or not _SAID_LAST.fullmatch(told.rpartition(wrong[0].value)[2]) or wrong[0].value not in told:
        return
    value = text[slice(*other.span("value"))]
    said = told.replace(wrong[0].value, value, 1)
    for draft in _facts(Clause(said, lowered(said), 0, 0), at):
        written = not value[0].islower() or draft.value != value
        if draft.key == wrong[0].key and not draft.ends and draft.value.casefold() == value.casefold() and written:
            yield replace(draft, span=other.span("value"), corrects=True, instead_of=wrong[0].value)


_SAID_LAST = re.compile(r"\W*(?:now|at the moment|these days|currently)?\W*")
_MARKED = re.compile(r"\s*[,;:–—-]\s*")


def _age_beside_birthday(stated: Sequence[Sentence], found: Sequence[Draft], at: int) -> Iterator[Draft]:
    """'It's my birthday today! 28 and already creaky'."""
    days = [draft for draft in found if draft.key == "birthday" and not draft.ends]
    if not days or any(draft.key == "age" for draft in found):
        return
    for sentence in stated:
        told = max(0, days[0].span[1] - sentence.start)
        # In the sentence of the birthday itself, what comes after it: "it's my birthday today, 35!"
        marked = _MARKED.match(sentence.low, told)
        begins = marked.end() if marked else told
        if match := identity.YEARS_NOW.match(sentence.low, begins):
            said = Said(Clause(sentence.text, sentence.low, sentence.start, sentence.start), "other", 0, at)
            yield from identity.age(said, match)
            return


def _named_ends(drafts: list[Draft]) -> list[Draft]:
    """The drafts without an unnamed end where another names who: "Hannes isn't my boyfriend any more, we split up"."""
    named = {draft.key for draft in drafts if draft.ends and draft.value}
    return [draft for draft in drafts if draft.value or draft.key not in named] if named else drafts


_TASTES = ("likes", "dislikes")


def _overlap(a: tuple[int, int], b: tuple[int, int]) -> bool:
    return a[0] < b[1] and b[0] < a[1]


def _distinct(drafts: Sequence[Draft]) -> list[Draft]:
    """Each thing once, at its surest, in order of first appearance."""
    best: dict[tuple[str, str, str, str], Draft] = {}
    for draft in drafts:
        identity_ = (draft.layer, draft.key, draft.value.casefold(), draft.subject)
        if identity_ not in best or best[identity_].confidence < draft.confidence:
            best[identity_] = draft
    return list(best.values())


_CUES = words(
    """
    i, im, ive, my, me, myself, speaking, calling, residing, reside, employed, settled, picked, home, it, its, thats,
    we, our, call, calls, name, names, fav, fave, favorite, favourite, here, this, today, tomorrow, yesterday,
    english, native, fluent, pronouns, him, her, them, born, been, diagnosed, raised, hired, laid, living, based,
    working, originally, live, work, grew, moved, relocated, started, joined, got, bought, adopted, left, quit,
    graduated, turned, switched, sold, broke, became, studied, handed, love, enjoy, being, as, no, nope, not, don,
    dont, stop, avoid, never, always, skip, drop, lose, leave, omit, cut, use, using, keep, make, limit, prefer, want,
    give, need, like, future, now, forward, default, every, each, wrong, incorrect, mistake, mistaken, false, right,
    correct, true, actually, wait, correction, sorry, is, died, passed, put, saving, dark, bday, bdays, tmrw,
    studying, allergic, intolerant, mums, moms, dads, trying, tryna, short, brief, switch, change, set, turn,
    stack, replaced, replacing, swapped, traded, wordy, verbose, long, spelling, called, named, max, commit, commits,
    line, naming, should, must, store, stopped, stopping, retired, they
    """
)
"""No rule can match a text without one of these words."""
_APART = str.maketrans(dict.fromkeys("'’‘`´\"“”.,;:!?()[]{}<>/\\-–—_*~|+=&#@\n\t\r\x00…", " "))


def promising(text: str) -> bool:
    """Whether the text is worth reading: never False for one that says anything, and fast to tell."""
    if len(text) <= ANSWER_MAX:
        return True
    looked = text if len(text) <= READ_MAX else f"{text[:HEAD_MAX]} {text[-TAIL_MAX:]}"
    return not _CUES.isdisjoint(looked.lower().translate(_APART).split())
