"""The clauses of a sentence: what it says about the user, one thing at a time.

People join many things in one sentence and leave out the subject ("im 29, live in nyc and work at a
bakery"). A clause begins at a new subject, or at a verb that continues the old one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from recollect.enrich.names import FIRST_NAMES, NAMES_AND_WORDS, words
from recollect.enrich.sentences import OPENER, OPENERS, Sentence, lowered
from recollect.enrich.vocabulary import ADJECTIVE_CONDITIONS, DIETS, OCCUPATIONS


class Clause(NamedTuple):
    """One thing said in a sentence. `start` may lie before the text, where an omitted "I" was put back."""

    text: str
    low: str
    start: int
    begins: int

    def span(self, first: int, last: int) -> tuple[int, int]:
        """Convert positions in this clause to positions in the message."""
        return max(self.start + first, self.begins), self.start + last


_I = (
    r"(?:i'm|im|i've|ive|i'd|i|we|we're|we've|my|our|(?:just |please )?call me|(?:most )?people call me|every(?:one"
    r"|body) (?:(?:at|in|on) (?:the |my )?\w+(?: \w+)? )?(?:just )?calls me"
    r"|all my friends|(?:today|tomorrow|yesterday) (?:is|was) my|they call me|the (?:lads|guys|girls|boys|kids|team"
    r"|others|neighbou?rs)(?: (?:at|on"
    r"|in) \w+)?(?: just"
    r"| all)? call me|(?:so )?you can (?:just )?call me)"
)
_ELIDED = (
    r"(?:live|living|work|working|study|studying|studied|speak|have|had|love|enjoy|play|drive|use|code|write|am"
    r"|was born|moved|grew up|grow up|come from|go to|go by|own|prefer|hate|just moved|just started|recently moved"
    r"|used to|based in|originally from|born in|born and raised|raised in|currently|mostly|now live|now work"
    r"|also speak|also have|also work|also love|also like|also play|no longer|don't|suffer|have been|joined|left|quit"
    r"|graduated|got a job|run a|bought|collect|teach|sold|grew up speaking|became|now teach|now use|now drive"
    r"|now have|started|relocated|settled|adopted|reside|residing|employed|teaching|now living|now working|then moved"
    r"|then joined|then started|recently joined|just joined|adore|also like|really like|dislike|can't stand|follow"
    r"|code in|program in|ride|stopped|switched|gave up|married|got|turned|resigned|retired from|attend|attended"
    r"|majored|earned|hold|just turned|took up|now freelancing|been (?:living|working|in|at)|can (?:speak|read"
    r"|get by)|get by"
    r"|did my|am based|do)"
)
_ELIDED_AM = (
    r"(?:an? [a-z]|(?:also |severely |deathly |very )?allergic to|married to|engaged to|(?:newly |recently )?retired"
    r"|unemployed|self-employed|fluent in"
    r"|conversational in|into|vegan|vegetarian|pescatarian|diabetic|lactose intolerant|learning|dating"
    r"|now retired|originally from|from|\d\d ?[mf]?(?=[,. ]|\Z)|now an? [a-z])"
)
_MARK = r"(?:\s{0,3}[,;:(–—\x00]+\s{0,3}|\s-+\s)"
_WORD = (
    r"(?:(?:and|but|so|because|since|as|cause|cuz|coz|bc|though|although|even though|while|plus|then|also|given that"
    r"|given|considering|now that|now|currently|today|where|yet|honestly|actually|on top of that,?|besides(?: that)?,?"
    r"|apart from that,?|that said,?|at work|&"
    r")\s{1,3}){1,2}"
)
_PARTICIPLE = (
    r"(?:currently )?(?:living|based|working|studying|originally|residing|employed)\s(?:in|at|as|for|from|by|with)"
)
_PARTICIPLES = re.compile(_PARTICIPLE)
WITHIN_WORK = (
    r"(?:(?:on|in) (?:an?|the) (?:[\w&/-]+ ){0,3}(?:ward|unit|team|floor|desk|shift|department|dept|division|squad"
    r"|section|group"
    r"|lab|icu|itu|nicu|hdu|a&e|er)\b"
    r"|(?:on|in) (?!(?:an?|the|my|our|his|her|their|your|this|that|holidays?|break|leave|vacation|bed|line|town|front"
    r"|queue"
    r"|person|love|trouble|hospital|prison|jail|court|tears|lockdown|quarantine|time|site|vacation|a-?level|residence"
    r"|recovery|rehab|therapy)\b)[\w&/-]+(?: [\w&/-]+){0,2}?(?= at \w))"
)
"""What somebody works on, within the place they work at: "a nurse on the children's ward at St Mary's"."""
_JOINED = re.compile(
    # Only a space or a mark can join, so this lookahead rejects most letters at once.
    # Within a number a comma joins nothing: "I'm 1,70 m".
    r"(?=[\s,;:(–—\x00])(?!(?<=\d),\d)(?:"
    + "|".join(
        (
            rf"{_MARK}(?=(?:{_I})\b)",
            rf"(?:{_MARK}|\s){_WORD}(?=(?:{_I})\b)",
            r"\s(?=(?:i'm|im|i've|ive|i)\b)|(?<=[a-z,])\s(?=my (?:main |favou?rite |new |only )?(?:hobby|hobbies|goal"
            r"|job|name"
            r"|nickname|birthday|pronouns) (?:is|are)\b)",
            rf"(?:\s{{0,3}}[,;(]+\s{{0,3}}(?:and\s|but\s)?|\s(?:and|but|&)\s)(?=(?:{_ELIDED})\b|{_ELIDED_AM})",
            rf"\s(?=(?P<participle>{_PARTICIPLE})\b)",
            rf"\s(?:(?:thing|problem|issue|trouble|catch|truth|reason|point) (?:is|are) that"
            rf"|and that)\s(?=(?:{_I})\b)",
            rf",\s(?=(?P<role>[a-z-]+(?: [a-z-]+){{0,3}}?) (?:(?:at|in|from|for|with)\b|{WITHIN_WORK}))",
        )
    )
    + ")"
)
"""Where one clause ends and the next begins, from the surest sign to the weakest."""
_NOT_BEFORE_PARTICIPLE = words(
    """
    i'm, im, am, longer, been, not, to, of, by, about, currently, still, now, start, started, stop, stopped, enjoy,
    love, hate, like, my, a, the, was, is, are, were, just, quit, or, be, than, miss, we're, also
    """
)
"""After these words a participle does not start a clause: "I'm no longer living in Madrid"."""
_UNSAFE = re.compile(
    r"\b(?:if|whether|unless|wish|wishes|wished|(?<!\bi )(?<!\bwe )said(?! goodbye)|says|saying|told(?! (?:me|us|him"
    r"|her|them) to\b)|tells"
    r"|tell"
    r"|thinks|think|thought|believes?"
    r"|believed|claims?|claimed|swears?|wrote|writes|texted|asked|asks|heard|insists?|insisted|suspects?|suspected"
    r"|reckons?|reckoned|figures?|figured|assures?|assured|worries|fears?|feared|afraid|jokes?|joked|swore|argues?"
    r"|argued|denies|denied|complains?|complained|mentions?|implies|implied|guess|assumes?|assumed|according|dreamt"
    r"|dreamed|would|could|might|maybe|perhaps|when|whenever|until|once i|as soon|someday|one day|as though|feels? like"
    r"|felt like|sounds? like|seems? like|acts? like|than|instead of|not sure|unsure|doubt|convinced|know|knows"
    r"|wonder|wondering|chance|in case|hope|hopes|probably|(?:he|she|they)(?!/)|(?:ideal|perfect) world|in theory"
    r"|in another life|in the future|tempted)\b"
)
_TURNS = re.compile(r"\bbut(?: nah| no| in reality| actually| for now| instead| yeah)?[\s,]{1,3}\Z")
_REPORTED = re.compile(
    r"\b(?:(?<!i )(?<!we )said(?! goodbye)|says|saying|told(?! (?:me|us|him|her|them) to\b)|tells|thinks|thought"
    r"|believes?|believed|claims?|claimed|swears?|wrote|writes"
    r"|texted|asked|asks|heard"
    r"|insists?|insisted|suspects?|reckons?|jokes?|joked|argues?|argued|according|dreamt|dreamed|until|when|whenever)\b"
)
_DIAGNOSED = re.compile(
    r"(?:my |the )?(?:dr\.?|doctor|doc|gp|consultant|specialist|allergist|dermatologist|neurologist|cardiologist"
    r"|psychiatrist)(?: [a-z]+)?(?: now| just)? (?:says?|said|told me|tells me)(?: that)?,?\Z"
)
_ILL = re.compile(
    r"(?:i've(?: got)?|i have(?: got)?|i got|i'm|im|i am) (?!(?:a|an|the|to|not|no|fine|ok|okay|going|gonna)\b)"
    r"|(?:i'm|im|i am) (?:not|no longer) (?:actually |really |even )?(?:[a-z]+[ -])?(?:allergic|intolerant|diabetic"
    r"|asthmatic|celiac|coeliac)\b"
    r"|i (?:don't|do not|dont) (?:actually |really )?have (?!to\b)"
)
"""A doctor's report counts as fact, unlike a friend's: "the doctor says I have asthma", "... I'm not allergic"."""
_GIVES_REASON = re.compile(r"\b(?:because|cause|cuz|coz|bc)[\s,]{1,3}\Z")
_REPORTED_OR_SUPPOSED = re.compile(rf"{_REPORTED.pattern}|\b(?:if|wish|wishes|unless|whether|would|he|she|they)\b")
_CONFIRMED = re.compile(
    r"\b(?:confirmed|found out|learned|learnt|discovered|reali[sz]ed|established|shows?|showed|mentioned|means?|meant"
    r"|fact)"
    r"(?: (?:on|last|this|yesterday|today)(?: \w+)?)? that\Z"
)
"""What follows is stated as fact: "the doctor confirmed on Monday that I have ..."."""
_UNSAFE_LAST = re.compile(
    r"\b(?:that|how|what|who|which|why|like|before|after|the moment|until|till|til|the way|every time|the day|the year"
    r"|not|nobody|no one|can|should|do|did|does|must|will|may|or|is|are|was|everything|all|anything|whatever|wherever"
    r"|once|as soon as|scared|worried|terrified|paranoid|anxious|nervous|pretend|pretending|guessing|hoping"
    r"|the \w+|a \w+)\Z"
)


_REPORTS = re.compile(r"(?:my|our|the|his|her|their|every\w+|some\w+|people) (?!name)(?:[\w'-]+ ){0,2}[\w'-]{3,}s\Z")
"""Somebody's verb runs on into "I ...", so they most likely say or think it: "my doctor suspects I ..."."""


_ELSEWHERE = re.compile(
    r"(?:in|on|to|for) (?!\d|jan|feb|mar|apr|may\b|june?\b|july?\b|aug|sep|oct|nov|dec|the (?:past|last|weekend"
    r"|spring|summer|autumn|fall|winter|meantime|evening|morning|end)|fact|real life|reality|general|short|addition"
    r"|total|all|week|mon"
    r"|tues|wednes|thurs|fri|satur|sun|spring|summer|autumn|winter|top|average|be (?:honest|fair|clear)|a (?:good"
    r"|normal|typical)|my (?:free|spare|own|day))[\w' -]{1,30}\Z"
)
"""A setting other than the user's own life: "in Skyrim I'm an orc", "on Tinder I'm 25"."""


_ASIDE = re.compile(r"[\s,]{1,3}(?:fyi|tbh|ngl|imo|imho|tho|smh|fwiw)[\s.!,]*\Z")
"""Fillers at the end of a clause that say nothing."""


_MAIN_CLAUSE = re.compile(r"[,\s]{1,3}(?:i|i'm|im|i've|ive|i'd|we)\b")
"""The subject that "having finished ..." refers to."""
_BACK_THEN = re.compile(
    r"[,\s]{1,3}i (?:just |only |also |once |always |never )?(?:was|had|did|went|used to|couldn't|didn't|got|spent|ate"
    r"|slept|drank|thought|saw|knew|took|made|came|[a-z]{2,}(?<!ne)(?<!fe)(?<!ble)(?<!ce)ed)\b"
)
"""What follows a role that may be long over: "as a student I lived on noodles"."""


def clauses(sentence: Sentence, *, before: str = "", introduced: bool = False) -> Iterator[Clause]:
    """Yield what a statement says about the user, one thing at a time.

    A clause that leaves out "I" ("I'm 29 and live in Oslo") gets it back. What follows a doubt, a report or a
    condition ("she said", "if") is skipped. `before` is the sentence before: after one about somebody else, the
    next goes on about them where it leaves out who ("Ilyas is here. Born on Friday"). `introduced` means that the
    user has just given their name: what they do may then stand alone.
    """
    low, text = sentence.low, sentence.text
    opened = OPENERS.match(low)
    first = opened.end() if opened else 0
    alone = _ROLE_ALONE.match(text, first) if introduced else None
    addressed = alone is not None and first > 0 and alone["role"].lower() in _ADDRESSED
    if alone and not addressed and _is_occupation(alone["role"].lower()):
        lead = "I'm a "
        text = text[:first] + _small(alone["role"]) + text[alone.end("role") :]
    else:
        lead = _first_lead(low[first:], low)
        if (lead == "I was " and speaks_of_others(before)) or (lead and _is_about_somebody(before)):
            lead = ""
    joints = _joints(low, first, lead)
    for (joint, begins, lead), (ends, _, _) in zip(joints, [*joints[1:], (len(low), 0, "")], strict=True):
        if ends <= begins:
            continue
        if before := low[first:joint]:
            # What follows a "but" is true again: "if I were rich I'd have a Porsche, but I drive a Fiat".
            # What follows "because" is true as well, unless all of it is hypothetical.
            turned, reason = _TURNS.search(low, first, begins), _GIVES_REASON.search(low, first, begins)
            doubt = _REPORTED if turned else _REPORTED_OR_SUPPOSED if reason else _UNSAFE
            diagnosed = _DIAGNOSED.match(before) is not None and _ILL.match(low, begins) is not None
            if not diagnosed and doubt.search(before):
                continue
            run_on = low[joint:begins].isspace() and not _PARTICIPLES.match(low, begins)
            if run_on and (
                (not diagnosed and _leads_elsewhere(before, low[begins:ends]))
                or _IN_A_TITLE.search(text, first, begins + 4)
            ):
                continue
        if low.startswith("having ", begins) and not _MAIN_CLAUSE.match(low, ends):
            continue
        if low.startswith("as a", begins) and _BACK_THEN.match(low, ends):
            continue
        if aside := _ASIDE.search(low, begins, ends):
            ends = aside.start()
        at = sentence.start + begins
        yield Clause(lead + text[begins:ends], lead.lower() + low[begins:ends], at - len(lead), at)


_IN_A_TITLE = re.compile(r"(?<![^\W_])(?P<word>[A-Z]\w+) im (?!(?P=word)\w)[A-Z]\Z")
"""German "im", not "I'm": "Spiegel im Spiegel"."""
_DONE_THERE = re.compile(r"i (?:(?:mostly|mainly|usually|only|always|also) )?(?:use|speak|write|code|drive|do)\b")


def _leads_elsewhere(before: str, clause: str) -> bool:
    """Whether "I ..." right after these words is part of what they say, rather than a statement of its own."""
    if _REPORTS.match(before) or (
        _ELSEWHERE.match(before) and not (_DONE_THERE.match(clause) and before.startswith("for my "))
    ):
        return True
    return _UNSAFE_LAST.search(before) is not None and _CONFIRMED.search(before) is None


_ROLE_ALONE = re.compile(
    r"(?P<role>[A-Za-z]+(?: [a-z]+){0,3})(?:,? (?:at|in|from|for|with) (?:the )?[A-Z][\w'’&.-]*"
    r"(?: (?:[A-Z][\w'’&.-]*|of|in|and|&))*)?[\s\x00.!]*\Z"
)
"""A role that follows the user's name: "Raj here. Product manager at Zomato in Gurgaon."."""


def _joints(low: str, first: int, lead: str) -> list[tuple[int, int, str]]:
    """Where clauses end and begin, with the subject that each leaves out; `lead` is the first clause's."""
    joints = [(first, first, lead)]
    subject = ("i'm" if lead.startswith("I'm") else "i") if lead else _subject(low[first:])
    closes = 0
    for match in _JOINED.finditer(low, first):
        if match.start() < closes:
            continue
        part = low[match.end() :]
        left_out = _lead(part, subject)
        if match["role"]:
            left_out = "I'm a " if subject == "i'm" and _is_occupation(match["role"]) else None
        if left_out is None or (match["participle"] and _last_word(low, match.start()) in _NOT_BEFORE_PARTICIPLE):
            continue
        if part.startswith(("my ", "our ")) and _ACCOMPANIED.search(low, joints[-1][1], match.start()):
            continue
        if left_out and "(" in match.group() and _MARKED.search(low, joints[-1][1], match.start()):
            closes = low.find(")", match.end())  # not the user: "I have two candidates, Faiz (24, retired) and ..."
            continue
        if left_out and _WHAT_ONE_IS.match(part) and _UNDERWAY.match(low, joints[-1][1]):
            continue
        joints.append((match.start(), match.end(), left_out))
        subject = left_out.strip().lower() or _subject(part)
    return joints


_UNDERWAY = re.compile(
    r"(?:i'm|im|i am|i've been) (?:(?:[a-z]+ly|just|now|still|also|so) )*(?!living|working|studying|residing|teaching"
    r"|freelancing|training|interning|being|staying|speaking|calling)[a-z]+ing\b"
)
_WHAT_ONE_IS = re.compile(r"(?:now )?(?:an? |from |\d)")
"""A state, which does not continue something under way: "I'm walking to Santiago, from Le Puy"."""
_MARKED = re.compile("[,;:]")
_ACCOMPANIED = re.compile(r"\b(?:live|lives|lived|living) with (?:my|our) [\w' ]{2,30}\Z")
"""One more person the user lives with, not a new clause: "I live with my parents and my sister in Leeds"."""


def _small(role: str) -> str:
    """A role as written inside a sentence: "Product manager" becomes "product manager", "UX designer" stays."""
    return role if role[1:2].isupper() else role[0].lower() + role[1:]


def _is_occupation(words_: str) -> bool:
    """Whether the words that stand alone after a name or an age are an occupation: "I'm Ola, 24, nurse at ..."."""
    role = words_.split()
    return _NOT_IN_A_ROLE.isdisjoint(role) and any(" ".join(role[-count:]) in OCCUPATIONS for count in (1, 2, 3))


_NOT_IN_A_ROLE = words(
    """
    a, an, the, not, no, never, my, your, his, her, our, their, its, some, any, this, that, these, those, each, every,
    another, other, need, needs, needed, want, wants, wanted, require, seeking, looking, look, see, seeing, saw, visit,
    call, calling, called, ask, asked, tell, told, hire, hiring, hired, find, finding, found, get, getting, got, have,
    is, was, am, are, be, been, wait, wrong, hello, hi, hey, good, morning, evening, dear, thank, thanks, you, me, him,
    them, to, for, by, than, like, love, hate, miss, meet, met, sorry, please, yes, ok, okay, urgently, book, booked
    """
)
"""Words of another sentence than one that only names a role: "I'm Bob. Need a plumber."."""
_ADDRESSED = words("doctor, nurse, professor, teacher, coach, chef, captain, officer, assistant, driver, operator")
"""Whoever is greeted by their role: "I'm Bob. Good morning doctor."."""


def _last_word(low: str, end: int) -> str:
    return low[max(0, end - 16) : end].rpartition(" ")[2]


_SUBJECT = re.compile(
    rf"{OPENER}{{0,6}}(?:(?P<am>i'm|im|i am|i've been|my name|name's|(?:every(?:one|body)(?: just)? calls|call) me"
    rf"|[^\W\d_]+ here\b|\d\d ?[mf]\b)|(?P<do>i've|ive|i))\b"
)
_STARTS = re.compile(
    r"(?:(?:currently|now|just|recently|finally|also) )?(?:(?:was )?(?P<was>born|diagnosed|raised|hired|laid off)"
    r"|(?P<been>been)|living in|residing in|based (?:in|out of)|working (?:as|at|for)|employed (?:at|by|with|as)"
    r"|originally from|live in|reside in|work (?:as|at|for)|grew up|moved|relocated|started|joined|got|bought|adopted"
    r"|left|quit|graduated|turned|switched|sold|replaced|swapped|traded in|broke up|became|studied|handed in"
    r"|picked up|love"
    r"|gave up|stopped taking|came off|retired(?= (?:in \d{4}|last (?:week|month|year)|(?:an?|two|three|four|five"
    r"|\d+) (?:week"
    r"|month|year)s? ago)\b)"
    r"|enjoy(?! (?:the|your|yourself|it|this|that|every|each|an?)\b)"
    r"|did my (?:phd|masters?|master's|mba|degree|bachelors?|bachelor's)|(?:don't|dont) (?:live|work|drive|speak"
    r"|own)(?= .*\bany ?(?:more|longer)\b)"
    r"|(?P<am>retired(?= since\b)|saving up for|doing my (?:phd|masters?|master's|mba|degree) in"
    r"|studying(?= [\w ]{3,40} at )"
    r"|(?:also |severely |deathly )?allergic to|(?:also )?(?:lactose|gluten|dairy)[ -]intolerant|trying to(?= (?:run"
    r"|lose|save|learn|quit)\b)|not(?= .*\bany ?(?:more"
    r"|longer)\b)"
    r"|no longer (?:a )?(?:vegan|vegetarian)|not (?:really )?a (?:big |huge )?fan of))\b"
)
_STANDS_ALONE = re.compile(
    r"(?!not\b|no\b|any\b|an?\b|the\b)(?P<what>[a-z][\w-]*(?: [\w-]+){0,2}) here(?=[\s\x00]*(?:[,.;!:()\x00-]|\Z"
    r"|(?:and|but|with|trying|looking)\b))"
)
"""What the user is, said in passing: "type 1 diabetic here"."""
_GOES_ON = re.compile(
    r"\b(?:is|are|was|were|can|could|would|must|has|sounds?|seems?|makes?|means|costs?|vs(?! code)|versus|or|for \w+ing"
    r"|requires?)\b"
)


_FINITE = re.compile(
    r"(?:(?:currently|now|just|recently|finally|also) )?(?:was|grew|moved|relocated|started|joined|got|bought|adopted"
    r"|left|quit|graduated|turned"
    r"|switched|sold|replaced|swapped|traded|broke|became|studied|handed|picked|did|gave|stopped|came|retired)\b"
)
_DANGLING = re.compile(r"[^,]{2,30}, (?:this|that|the|these|those|it|he|she|they|his|her|its|my|our)\b")
"""Somebody or something else is meant: "originally from Lagos, this dish ..."."""
_FINITE_ABOUT = re.compile(r"[^,]{2,30}, (?:the|these|those|he|she|they|his|her|its|my|our)\b")
"""The same after a verb that can only be the user's: "gave up the gym, it bored me" goes on about the gym."""
_BECAUSE = re.compile(r" (?:since|because|when|after|until|and|but) ")
_RETIRED = re.compile(r"(?:now )?retired(?: now)?[\s\x00]*(?:[,.;!]|\Z)")
"""What the user is now, after the past just described: "I was a teacher for 38 years, retired now"."""
_LEFT_OUT, _LEFT_OUT_AM = re.compile(rf"(?:{_ELIDED})\b"), re.compile(_ELIDED_AM)


def _subject(part: str) -> str:
    """What a clause begins with: `i'm`, `i`, or empty when it is not about the user."""
    match = _SUBJECT.match(part)
    return "" if match is None else "i'm" if match["am"] else "i"


_GREETED = re.compile(r"(?:hi|hello|hey|hiya|good (?:morning|afternoon|evening|day)|g'day|dear)\b.{0,40}\Z")
_RELATIVE = (
    "friend|sister|brother|mom|mum|mother|dad|father|wife|husband|partner|girlfriend|boyfriend|son|daughter|kid|aunt"
    "|uncle|cousin|niece|nephew|grandmother|grandfather|grandma|grandpa|boss|manager|colleague|coworker|flatmate"
    "|roommate|neighbou?r|teacher|ex"
)
_SOMEBODY = re.compile(
    r"\b(?i:he|she|it|they|him|her|his|their|them|someone|somebody|boy|girl|baby|twins|people|friends)\b"
    r"|(?<=[\w,] )(?!I\b)[A-Z][\w'’-]+"
    r"|\A(?!The|This|That|There|Here|What|My|Our|We|I\b)[A-Z][\w'’-]+(?:'s|,| (?:is|was|has|had|and)\b)"
)


_ABOUT_SOMEBODY = re.compile(rf"(?:(?:my|our) (?:[\w'-]+ ){{0,2}}?(?:{_RELATIVE})|he|she|they)\b(?! and (?:i|me)\b)")
"""How a sentence begins that tells of somebody else."""
_WHOEVER = re.compile(r"(?P<name>[a-z'-]+)(?:'s| is| was| has| had| just| finally) ")


def _is_about_somebody(before: str) -> bool:
    """Whether the sentence before has somebody else as its subject: "My brother Tom is well. Moved to Perth"."""
    low = lowered(before)
    opened = OPENERS.match(low)
    begins = opened.end() if opened else 0
    if _ABOUT_SOMEBODY.match(low, begins):
        return True
    named = _WHOEVER.match(low, begins)
    return named is not None and named["name"] in FIRST_NAMES and named["name"] not in NAMES_AND_WORDS


def speaks_of_others(before: str) -> bool:
    """Whether the sentence before is about somebody else, so that one without a subject goes on about them."""
    low = lowered(before)
    return not (_subject(low) or _GREETED.match(low)) and _SOMEBODY.search(before) is not None


def _lead(part: str, subject: str) -> str | None:
    """The subject that a later clause leaves out; empty when it has its own, None when it cannot be determined."""
    if _LEFT_OUT_AM.match(part):
        return "I'm " if subject == "i'm" or (subject and _RETIRED.match(part)) else None
    if _LEFT_OUT.match(part):
        return "I " if subject else None
    return ""


def _first_lead(part: str, low: str) -> str:
    """'Living in Oslo at the moment' is about the user, 'Living in Oslo is expensive' is not."""
    if (found := _STANDS_ALONE.match(part)) and not low.startswith("no "):
        what = found["what"]
        if what in ADJECTIVE_CONDITIONS or what in DIETS:
            return "I'm "
        return "I'm a " if _is_occupation(what) else ""
    match = _STARTS.match(part)
    if match is None or (_FINITE_ABOUT if _FINITE.match(part) else _DANGLING).match(part, match.end()):
        return ""
    rest = _BECAUSE.split(part[match.end() :], maxsplit=1)[0]
    # "Moved to Perth" can only be about the user; "living in Perth" may turn into "living in Perth is ...".
    if _GOES_ON.search(rest.split(",", 1)[0] if _FINITE.match(part) else rest):
        return ""
    if match["was"]:
        return "I " if part.startswith("was ") else "I was "
    return "I'm " if match["am"] else "I've " if match["been"] else "I "
