"""What the user studies and studied, and where."""

from __future__ import annotations

import re

from recollect.enrich.names import SCHOOLS, words
from recollect.enrich.values import CALENDAR, Drafts, Match, Said, Value, school

STUDY = re.compile(
    r"(?:have )?(?:study|studying|studied|major(?:ed|ing)? in|minored in|am majoring in"
    r"|(?:did|doing|getting|finishing|finished|completing|started|starting) (?:an?"
    r"|my) (?P<degree>(?:part-time )?(?:degree|masters?|master's|phd"
    r"|doctorate|bachelors?|bachelor's|mba|diploma|bsc|msc)) in|pursuing (?:a"
    r"|my) (?:[\w'’]+ ){0,2}(?:degree )?in|read(?= [a-z]+(?: [a-z]+){0,2} at (?:oxford|cambridge|durham|ucl|lse|trinity"
    r"|the university|[a-z]+ university))) "
)
STUDY_AT = re.compile(
    r"(?:have )?(?:study|studying|studied|am enrolled|enrolled|doing my (?:masters?|master's|phd|bachelors?|degree"
    r"|mba)|did my (?:masters?|master's|phd|undergrad|bachelors?|bachelor's|degree|mba)) at "
    r"|in my (?:first|second|third|fourth|final|last) year at |an? (?:\w+ )?(?:freshman"
    r"|sophomore|junior|senior|student|undergrad|postdoc|professor|lecturer) (?:at|in) (?=\S)"
)
GRADUATED = re.compile(r"(?:have )?(?:just |recently )?graduated? from ")
ATTEND = re.compile(
    r"(?:go|went|going|attend|attended|attending|am enrolled at|enrolled at|transferred"
    r"|dropped out of)(?: to(?: (?:college"
    r"|university|school|uni))?)?(?: at)? "
)
DEGREE = re.compile(
    r"(?:(?:have|hold|got|earned|completed|finished|received) )?(?:a|an|my) (?P<what>(?:(?:bachelor|master|doctorate"
    r"|doctoral|associate)(?:'?s)?(?: degree)?|ph\.?d|mba|bsc|msc|ba|bs|ma|ms|jd|llb|llm|degree|diploma"
    r"|double major)(?: in [a-z][\w &'-]{2,50}?)?)(?=\s*(?:[,.;!()\x00]|\Z|\b(?:from|at|and|but|so|which|with|that"
    r"|because)\b))"
)
_SUBJECT_END = re.compile(
    r"\s*(?:[,.;:!?()\x00]|\s(?:at|in|and i|but|so|for|because|with|which|right now|now|this|last|on|as|when|while"
    r"|abroad|there|online|part|full|since|before|after|from|by|to|behind|under|during|more|again|too|most|mostly"
    r"|every|all|best|hard|alone|together)\b|\Z)"
)
_NOT_SUBJECTS = words(
    """
    hard, abroad, for, at, in, from, with, late, all, the, a, an, it, that, this, my, more, together, online,
    tonight, today, now, every, until, better, by, alone, on, how, what, everything, harder, too, about, as,
    them, these, those, their, your, his, her, part, full, to, best, again, so, mornings, evenings, nights, days,
    weekends, really, very, well, less, most, mostly, quite, always, also, only, half, enough, behind, during
    """
)
_CARES_FOR = re.compile(r"(?<=ing) for (?!(?:the|a|my|an) (?:exam|degree|test|masters?|phd)\b)")
"""An activity, not a subject: "I study caring for people"."""
_PLURAL_SUBJECT = re.compile(
    r"(?:ics|ss|us|is|ies|arts|sciences|languages|relations|resources|communications|systems|graphics|games|textiles"
    r"|laws|affairs|classics|humanities|letters|media|cultures|materials|operations|sports)\Z"
)
"""Subjects that end in s; any other plural is only looked at: "I'm studying beans"."""


def _is_subject(words_: list[str]) -> bool:
    """Whether these words may name what somebody studies."""
    head = words_[: words_.index("of")] if "of" in words_[1:] else words_
    looked_at = head[-1].endswith("s") and not _PLURAL_SUBJECT.search(head[-1])
    return words_[0] not in _NOT_SUBJECTS and words_[0] not in CALENDAR and "exam" not in words_ and not looked_at


_SCHOOL_KINDS = re.compile(r"\b(?:university|college|school|institute|academy|polytechnic)\b", re.I)


_VISITS_SCHOOL = re.compile(
    r" (?:hospital|clinic|library|stadium|bookstore|shop|store|museum|for (?:a|an|the|treatment|work|lunch)|yesterday"
    r"|today|tomorrow|last (?:week|weekend|month|night)|this|once|on|to)\b"
)
_AT_SCHOOL = re.compile(r" at ")


_AS_A_PUPIL = re.compile(
    r" (?:(?:back )?in|at) (?:(?:high|secondary|primary|middle|elementary|grammar|sunday) )?school\b"
)
MAJOR_IS = re.compile(r"my (?:college |university |main |double )?majors?(?:'s| is| was| are) (?:in )?(?P<degree>\Z)?")
_OF_A_MAJOR = words(
    """
    undecided, undeclared, boring, useless, worthless, interesting, fun, difficult, easy, tough, not, called, going,
    similar, related, different, unrelated, complaint, problem, concern, issue, competitive, demanding
    """
)


def major(said: Said, match: Match) -> Drafts:
    """'My major is mechanical engineering'."""
    first_word = said.clause.low[match.end() :].split(" ", 1)[0].strip(".,!")
    if first_word not in _OF_A_MAJOR:
        yield from studies(said, match)


def studies(said: Said, match: Match) -> Drafts:
    """'I studied physics at MIT': the subject, with the school if it is named."""
    clause = said.clause
    end = _SUBJECT_END.search(clause.low, match.end())
    subject = clause.text[match.end() : end.start() if end else len(clause.low)].strip()
    words = subject.lower().split()
    if not 1 <= len(words) <= 5 or not _is_subject(words) or "for fun" in clause.low:
        return
    first, last = match.start("degree") if match["degree"] else match.end(), match.end() + len(subject)
    if _CARES_FOR.match(clause.low, last) or ("studied" in match.group() and _AS_A_PUPIL.match(clause.low, last)):
        return  # a subject at school is nothing that one has studied
    at_school = _AT_SCHOOL.match(clause.low, last)
    where = school(clause, at_school.end()) if at_school else None
    if where is not None:
        last = where.last
    yield said.fact("education", Value(clause.text[first:last], first, last), 0.82)


_GIVEN_BY = re.compile(r" (?:from|at) ")
_WITH_DEGREE = re.compile(r" with (?=(?:a|an|my) )")


def school_of(said: Said, match: Match) -> Drafts:
    """'I graduated from Stanford', 'I go to NYU'.

    One graduates from, and studies at, whatever is named; what one goes to must be a school by its name or on the list.
    """
    found = school(said.clause, match.end())
    if found is None:
        return
    if _VISITS_SCHOOL.match(said.clause.low, found.last):
        return
    rank = match.group().startswith(("a ", "an ", "in "))
    surely_school = (
        (match.re in (GRADUATED, STUDY_AT) and not rank)
        or found.text.lower() in SCHOOLS
        or _SCHOOL_KINDS.search(found.text)
    )
    if surely_school:
        yield said.fact("education", found, 0.85)
        earned = _WITH_DEGREE.match(said.clause.low, found.last)
        if earned and (what := DEGREE.match(said.clause.low, earned.end())):
            yield from degree(said, what)


def degree(said: Said, match: Match) -> Drafts:
    """'I have a PhD in molecular biology from Leiden'."""
    clause, (first, last) = said.clause, match.span("what")
    text = clause.text[first:last].rstrip()
    if text.lower() in ("degree", "diploma", "ms", "ma", "ba", "bs"):
        return
    given = _GIVEN_BY.match(clause.low, first + len(text))
    where = school(clause, given.end()) if given else None
    last = where.last if where else first + len(text)
    yield said.fact("education", Value(clause.text[first:last], first, last), 0.88)
