"""The part of a message in which users speak for themselves, sentence by sentence.

Most of what looks like a fact is not one: it is asked, hypothetical, quoted, pasted, played, translated,
said about someone else or meant as a joke. All of that is left out here, so that the rules
for facts only see plain statements. When in doubt, a sentence is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from recollect.enrich.languages import is_ordinal
from recollect.policies.patterns import pattern_of

READ_MAX = 1_500
"""Maximum characters of a message that is read whole. Longer messages are mostly pasted."""
HEAD_MAX, TAIL_MAX = 900, 500
"""Characters read at the beginning and at the end of a longer message, which is where people speak."""
SENTENCE_MAX = 400
"""Maximum characters of a sentence. Anything longer without a full stop is not chat."""


class Sentence(NamedTuple):
    """What the user states: as written, in lower case (same length), and its position."""

    text: str
    low: str
    start: int


def lowered(text: str) -> str:
    """Lower case and one kind of apostrophe, every character at its position."""
    low = text.lower()
    if len(low) != len(text):
        low = "".join(letter.lower() if len(letter.lower()) == 1 else letter for letter in text)
    return low.replace("’", "'").replace("‘", "'").replace("`", "'").replace("´", "'")


# ── What is not the user's own speech is blanked, so that positions stay the same ─────────────────

_FENCE = pattern_of(r"(?:```|~~~).*?(?:```|~~~|\Z)|`[^`\n]{1,200}`", re.DOTALL)
_QUOTED_LINE = pattern_of(
    r"^[ \t]{0,8}(?:>|\||#{1,6} |[{}\[\]<]|\d{4}-\d\d-\d\d[ T]|\d{1,2}:\d\d|[A-Z]{4,5}[ :]).*$", re.M
)
_CODE_LINE = pattern_of(
    r"^.*(?:[;{}]|=>|;[ \t]*--[^\n]{0,80})[ \t]*$|^[ \t]*[\w.]+\([^)\n]*\);?[ \t]*$"
    r"|^[ \t]*(?:import|def|class|return|const|let|var|function)\b.*$"
    r"|^.*\b(?:SELECT|INSERT INTO|UPDATE|DELETE FROM|DROP TABLE|CREATE TABLE|ALTER TABLE)\b.*$",
    re.M,
)
_CODE_SIGNS = (
    ";", "{", "}", "=>", "(", "import", "def", "class", "return", "const", "let", "var", "function", "SELECT", "INSERT",
    "UPDATE", "DELETE", "DROP", "CREATE", "ALTER",
)  # fmt: skip
"""Every line of code has one of these, and most messages have none."""
_HEADER = pattern_of(r"^(?:subject|from|to|cc|sent|date|re|fwd?):", re.M | re.I)
_LETTER = pattern_of(r"^[ \t]{0,8}(?:dear\b|to whom it may concern)", re.M | re.I)
_SIGNED = pattern_of(
    r"^[ \t]{0,8}(?:(?:yours )?sincerely|(?:kind(?:est)?|best|warm(?:est)?|with) regards|regards|yours(?: truly"
    r"| faithfully)?"
    r"|best wishes|cordially|best|sent from my [\w ]{2,20}),?[ \t]*$",
    re.M | re.I,
)
_GREETED_LINE = pattern_of(r"^[ \t]{0,8}(?:hi|hello|hey)\b[^\n]{0,40},?[ \t]*$", re.M | re.I)
_QUOTE = pattern_of(
    r"(?=[\"“„«'])(?:(?<![\w\d])[\"“„«]([^\"“”„«»\n]{0,400})(?:[\"”»“]|$)"
    r"|(?<!\w)'([^'\n]{2,200}(?:'\w[^'\n]{0,200}){0,3})'(?!\w))",
    re.M,
)
_NAMING = pattern_of(
    r"(?:call(?:s|ed)?(?: me)?|named?|name is|name's|nickname is|go by|goes by|known as|movie is|book is"
    r"|song is)[ ,:]*\Z"
)


_DOCUMENT = (
    r"(?:texts?|essay|e-?mails?|letters?|messages?|msgs?|paragraphs?|passage|sentences?|drafts?|resum[eé]|résumé|cv|bio"
    r"|biography|profile|posts?|tweets?|thread|comments?|captions?|reviews?|testimonials?|statement|report|speech|story"
    r"|poem|lyrics?|song|article|blog|summary|transcript|translation|chat|conversation|convo|dialogue|log|logs|readme"
    r"|adverts?|advertisement|ad|ads|listing|posting|job description|description|application|quotes?|excerpt|extract"
    r"|snippet|code|script|config|fixture|file|page|leaflet|flyer|brochure|press release|announcement|newsletter"
    r"|invitation"
    r"|memo|minutes|diary|entry|joke|riddle|puzzle|exercise|scene|chapter|prompt|template|form|survey|feedback|reply"
    r"|response|clause|contract|policy|blurb|abstract|error|output|about (?:me|us)(?: page| section)?|section|intro"
    r"|introduction|reference|pitch|eulogy|toast|screenshot|notes?)"
)
_WORKED_ON = (
    r"(?:proof-?read|check|edit|tidy(?: up)?|clean(?: up)?|polish|improve|review|rate|critique|judge|roast|summari[sz]e"
    r"|translate|rewrite|re-?word|rephrase|paraphrase|shorten|tighten|simplify|fix|correct|analy[sz]e|explain"
    r"|look (?:over"
    r"|at|through)|read(?: over| through)?|go over|feedback on|thoughts on|opinion (?:on|of|about)|take on"
    r"|think (?:of|about)"
    r"|make of|say to|reply to|respond to|answer(?: to)?|format|parse|extract|turn|convert|wrong with|missing (?:from"
    r"|in)"
    r"|off about|going on in|debug|comment on)"
)
_HANDS_OVER = pattern_of(
    rf"\bhere(?:'s| is| are|s)\b[^.!?\n]{{0,60}}\b{_DOCUMENT}\b"
    r"|\bhere(?:'s| is) what (?!i\b|i'm\b|we\b|you\b)"
    rf"|\b(?:this|these|following|attached|pasted|forwarded) (?:[\w'-]+ ){{0,3}}?{_DOCUMENT}\b"
    rf"|\b{_WORKED_ON} (?:[\w'-]+ ){{0,5}}?{_DOCUMENT}\b"
    rf"|\b{_WORKED_ON} (?:this|these|it|the following|what)\b|\bis this (?:a |an )?(?:scam|spam|legit|real|ok|okay"
    rf"|good|fake)\b"
    r"|\bdoes (?:this|it) (?:sound|look|read|seem|make sense)\b|\bthoughts\?|\b(?:the )?(?:text|following"
    r"|below)[:.]?\s*\Z"
    rf"|\b{_WORKED_ON}[^\n.?!]{{0,30}}:\s*\Z"
    r"|\b(?:what|something|this is what) (?!i |we )(?:[\w'-]+ ){1,4}(?:wrote|sent|posted|said|says|e-?mailed|texted"
    r"|replied)\b"
    r"|\b(?:he|she|they|someone|somebody|my [\w-]+|an? [\w-]+|the [\w-]+) (?:just |has just |has )?(?:wrote|written"
    r"|sent|posted"
    r"|replied|texted|e-?mailed|messaged)\b[^\n.]{0,40}[:?]\s*\Z"
    r"|\b(?:forwarded|fwd|copied|pasted|pasting|copy-?pasted)\b[^\n.]{0,40}[:?]?\s*\Z"
    r"|\b(?:got|received|found|saw|came|handed)\b[^\n.]{0,40}:\s*\Z"
    r"|\b(?:got|received|found|saw|came across|handed|sent|posted|wrote|texted|e-?mailed|submitted"
    r"|turned) (?:[\w'-]+ ){0,3}this\b"
    r"|\bthis (?:came|arrived|landed|was (?:posted|sent|in))\b|\b(?:legit|scam|phishing|red flags?|tl;?dr)\b"
    r"|\b(?:main|key) (?:points|takeaways)\b|\b(?:tone|wording|grammar|spelling|phrasing)\b[^\n.]{0,40}[?:]\s*\Z"
    rf"|\A\W*(?:[\w'-]+ ){{0,3}}?{_DOCUMENT}(?:,|:| (?:of|from|by|below|attached|i (?:got|found|received)|we (?:got"
    rf"|found)"
    r"|that (?:came|was|i got))\b)"
)
"""How a line presents what comes after it to be worked on, read or judged: "what do you think of this bio?"."""
_OWN_STORY = pattern_of(
    r"\bhere(?:'s| is| are) (?:some |a (?:bit|little)(?: of)? |my |the |a )?(?:quick |short |brief "
    r"|bit of )?(?:situation|background"
    r"|context|info|information|details|thing|deal|problem|issue|question|setup|stats|plan|about me|intro|introduction"
    r"|summary (?:of (?:me|my))|notes? about me)\b"
)
_POINTS_BACK = pattern_of(r"\b(?:this|these|above|like that)\b")
_TITLED = pattern_of(
    r"^[ \t]{0,3}#{1,6} (?![^\n]*\b(?:me|myself|my|context|background)\b)\S|^[A-Z][A-Z &/'-]{3,40}:?[ \t]*$", re.M
)
"""The heading of a document, with `#` before it or in capitals."""
_GREETING = pattern_of(
    r"(?<=\n)[ \t]{0,8}(?:hi|hello|hey|good (?:morning|afternoon|evening)|greetings)\b[^\n.?]{0,30},[ \t]*$",
    re.M | re.I,
)


def _without_documents(text: str) -> str:
    """A message with the document it presents blanked: all after the line that presents it, or all before the last."""
    first = text.find("\n")
    if first < 0:
        return text
    if title := (None if text.isupper() else _TITLED.search(text)):
        text = text[: title.start()] + _blanks(text[title.start() :])
    if (greeted := _GREETING.search(text)) and text[: greeted.start()].strip():
        text = text[: greeted.start()] + _blanks(text[greeted.start() :])
    low, begins = lowered(text), 0
    while (ends := low.find("\n", begins)) >= 0:
        line = low[begins:ends]
        if _HANDS_OVER.search(line) and not _OWN_STORY.search(line) and low[ends:].strip():
            return text[:ends] + _blanks(text[ends:])
        begins = ends + 1
    if low[:begins].endswith("\n\n") and _POINTS_BACK.search(low, begins) and _HANDS_OVER.search(low[begins:]):
        return _blanks(text[:begins]) + text[begins:]
    return text


def spoken(text: str) -> str:
    """The text with code, quotes, quoted lines, letters and documents blanked. Positions stay the same."""
    if "`" in text or "~~~" in text:
        text = _blank(_FENCE, text)
    text = _without_documents(text)
    for opening in (_HEADER, _LETTER):
        if found := opening.search(text):
            text = text[: found.start()] + _blanks(text[found.start() :])
    if signed := _SIGNED.search(text):
        greeted = _GREETED_LINE.search(text)
        begins = greeted.start() if greeted and greeted.start() < signed.start() else 0
        text = text[:begins] + _blanks(text[begins:])
    text = _blank(_QUOTED_LINE, text)
    if any(map(text.__contains__, _CODE_SIGNS)):
        text = _blank(_CODE_LINE, text)
    return _QUOTE.sub(_unquoted, text)


def _blanks(text: str) -> str:
    return "".join("\n" if letter == "\n" else " " for letter in text)


def _blank(pattern: re.Pattern[str], text: str) -> str:
    return pattern.sub(lambda match: _blanks(match.group()), text)


def _unquoted(match: re.Match[str]) -> str:
    """A name in quotes stays ('call me "Pi"'); everything else in quotes is somebody else's words."""
    inside = match[1] or match[2] or ""
    if len(inside.split()) <= 3 and _NAMING.search(lowered(match.string[max(0, match.start() - 24) : match.start()])):
        return " " + match.group()[1:-1] + " " if len(match.group()) == len(inside) + 2 else _blanks(match.group())
    return "\x00" * len(match.group())


# ── Sentences ─────────────────────────────────────────────────────────────────────────────────────

_STOP = pattern_of(
    r"(?=[.!?…。！？؟।\n;•\U0001F300-\U0001FAFF☀-➿])(?:[.!?…]+(?=[\s\x00\"'”’)\]]|\Z)|[。！？؟।]+|\n+|[;•](?=\s)"
    r"|(?<=[\s\w])(?:[\U0001F300-\U0001FAFF☀-➿]\ufe0f?)+)"
)
_ASKED_ELSEWHERE = str.maketrans("？؟", "??")
_NO_STOP = pattern_of(r"\b(?:dr|mr|mrs|ms|prof|st|e\.g|i\.e|vs|approx|no|jr|sr|inc|ltd|u\.s|u\.k|d\.c|etc|[a-z])\Z")
_UNIT_ALONE = pattern_of(r"(?:\d|\b) ?(?:ft|lbs?|oz)\Z")
"""The dot behind a unit ends a sentence only where a new one begins: "I'm 6 ft. away"."""
_NUMBER = pattern_of(r"\. ?\d")
_LETTER_ALONE = pattern_of(r"(?<![\w.])[a-z]\Z")
_SELF_ASKED = pattern_of(r"\s*(?:my )?(?:all[- ]time )?(?:favou?rite|fav|fave) [a-z]+(?: [a-z]+)?\Z")
"""A question that the user answers at once: "My favourite food? Pierogi"."""
_BULLET = pattern_of(r"[\s\x00]*(?:[-*+•–—]|\d{1,2}[.)])?[\s\x00]*")


def _window(text: str) -> tuple[str, int, int]:
    """What is read of a message, all of it or its two ends; where the second begins, and how far it was moved."""
    if len(text) <= READ_MAX:
        return text, len(text), 0
    head = text[: max(text.rfind(stop, 0, HEAD_MAX) for stop in (". ", "! ", "? ", "\n")) + 1]
    tails = [at for stop in (". ", "! ", "? ", "\n") if (at := text.find(stop, len(text) - TAIL_MAX)) >= 0]
    tail = min(tails, default=len(text) - 1) + 1
    return head + "\n" + text[tail:], len(head) + 1, tail - len(head) - 1


def _is_no_stop(text: str, low: str, start: int, at: int) -> bool:
    """True for the dot of an abbreviation. An initial has a name after it: "J. Smith", but "plan B. my goal"."""
    if _UNIT_ALONE.search(low, max(start, at - 8), at):
        return text[at + 2 : at + 3].islower() or text[at + 2 : at + 3].isdigit()
    if not _NO_STOP.search(low, max(start, at - 8), at) or (
        low.endswith("no", start, at) and not _NUMBER.match(low, at)
    ):
        return False
    return not (text[at + 2 : at + 3].islower() and _LETTER_ALONE.search(low, start, at))


def _split(text: str, low: str) -> Iterator[tuple[int, int, str]]:
    """Where sentences begin and end, and what they end with."""
    start = 0
    for stop in _STOP.finditer(text):
        if stop.group() == "." and _is_no_stop(text, low, start, stop.start()):
            continue
        if stop.group() == "." and is_ordinal(text, low, start, stop.start()):
            continue
        if stop.group() == "?" and _SELF_ASKED.match(low, start, stop.start()):
            continue
        yield start, stop.start(), stop.group().translate(_ASKED_ELSEWHERE)
        start = stop.end()
    yield start, len(text), ""


_ASKS = (
    r"(?:what|what's|whats|where|where's|when|who|who's|whose|which|why|how|how's|hows|do|does|did(?! my\b)|is|are"
    r"|can|could"
    r"|would|will|should|shall|has"
    r"|had(?! (?:a |an |some |the )?(?:(?:great|good|nice|lovely|quick|long|late|early|little|bad|rough|busy) )?"
    r"(?:breakfast|brunch|lunch|dinner|supper|tea|coffee|drinks?|beers?|cake|pizza|fun|day|week|weekend|evening|night"
    r"|morning|afternoon|time|chat|call|walk|meal|party|meeting)\b)"
    r"|isn't|aren't|don't you|doesn't|didn't|won't|wouldn't|any (?:\w+ ){0,2}(?:idea"
    r"|ideas|tips|advice|suggestions?|recommendations?|thoughts|chance|recipes|tricks|pointers|books|resources"
    r"|options)|am i|was i|were|was (?:it|that|he|she|there)|have (?:i|you|we|they)|may i|wanna know|tell me (?:if"
    r"|whether|what|where|how)|guess (?:what|where|who|how))\b(?!'t)"
)
OPENER = (
    r"(?:(?:hi+|hello|he+y+|heya|hiya|yo+|sup|wassup|what'?s (?:up|good)|kindly|ok|okay|so|well|and|but|also|btw"
    r"|by the way|fyi|oh|ah|um|uh|hmm|yes|yeah|yep|yup|sure|no|nope|nah|actually|honestly|tbh|anyway|anyways|please"
    r"|pls|thanks|thank you|thx|sorry|great|cool|nice|perfect|right|look|listen|plus|oh and|ok so|good (?:morning"
    r"|evening|afternoon|day)|there|everyone(?! (?:just |always |still |usually |mostly |really |here )?(?:calls?|at"
    r"|here|in|on)\b)|all|guys|again|just so you know"
    r"|for context|for reference|for the record|for what it's worth|fwiw|as (?:i|you) (?:said|mentioned|know)"
    r"|like i said|as a reminder|reminder|remember(?: that)?|keep in mind(?: that)?|note(?: that)?"
    r"|please note(?: that)?|please remember(?: that)?|bear in mind(?: that)?|fun fact|full disclosure"
    r"|i (?:already said|(?:already |just )?(?:told you|mentioned))(?: that)?"
    r"|(?:i )?should (?:say|mention|add|note)(?: that)?"
    r"|(?:i )?forgot to (?:mention|say|add)(?: that)?|oops|whoops"
    r"|the reason i(?:'m)? ask(?:ing)?(?: this)? is(?: that| because)?"
    r"|(?:i'm )?asking because|did i mention(?: that)?|let me introduce myself|to introduce myself"
    r"|a (?:bit|little) about me(?: first)?|about me|the thing is(?: that)?|mine (?:is|are)(?: that)?|it's just that"
    r"|turns out|you should know that"
    r"|you should know|i want you to (?:know|remember)(?: that)?|to be clear|in fact|as for me|me|personally"
    r"|basically|currently|right now|nowadays|these days|at the moment|today(?! (?:is|was) |'s )|believe it or not"
    r"|recently|lately|unfortunately|sadly"
    r"|luckily|fortunately|finally|first|first of all|firstly|second|secondly|next|then|yesterday|last (?:week|month"
    r"|year)|this (?:week|month|year)|since then|correction|update|quick update|good news|big news|guess what|lol"
    r"|haha|dude|bro|man|mate|dear(?= (?:assistant|bot|ai|sir|madam|friend|all|team)\b)|sir|madam|assistant|bot|buddy"
    r"|friend|again|evening|morning|afternoon|i'll have you know(?: that)?|i'd like you to know(?: that)?"
    r"|good to (?:meet|e-?meet) you|nice to (?:meet|e-?meet) you|pleased to meet you|greetings|hola|namaste|hallo"
    r"|bonjour|salut|ciao|howdy|g'day|aloha|kia ora|dear|remind me that|when i'm not working|when i have time"
    r"|i meant(?: to (?:say|type|write))?(?: that)?|what i meant (?:is|was)(?: that)?"
    r"|in my (?:free|spare) time|outside (?:of )?work|on (?:the |my )?weekends|after work|for fun|for work"
    r"|for a living)\b[\s,.:!\-–—…\x00]*)"
)
OPENERS = pattern_of(OPENER + "{0,6}")
_ASKED = pattern_of(_ASKS)
_ANY_LATER = pattern_of(
    r"[,;:–—-]\s{0,3}(?:so |and |but )?(?:(?:any|got any|know any|thoughts|ideas|recommendations|tips)\b"
    r"|(?:[\w'-]+ ){0,3}"
    r"(?:ideas?|tips?|recs?|recommendations?|suggestions?|advice|thoughts|help|exercises|options|pointers|tricks"
    r"|alternatives"
    r"|similar|stretches|recipes?|resources|solutions|hacks|inspo|gifts?|presents?)(?: please| thanks)?\W*\Z)"
)
"""Where a question begins without a verb of its own: "I hate small talk, any icebreakers?"."""
_RELATIVE = (
    r"(?:who|which|whose|where|when)(?! (?:ones?|of (?:these|those|them|the)|should|can|could|would|do|does|did|will"
    r"|kind|sort|type|way|to"
    r"|(?:is|are|'s) (?:it|the|that|there|this|better|best|cheaper|easier|faster|safer|closer|more|worth|your|my)"
    r"|[a-z]+ (?:should|do|would|can|is"
    r" (?:better|best)))\b)"
)
"""The beginning of a clause that only adds detail and asks nothing: "my parents, who live in Naples"."""
_MODAL = (
    r"(?:do|does|did|is|are|can|could|would|will|should|shall|has|had)(?! (?:i|you|u|we|they|he|she|it|this|that"
    r"|there|the|my|your|his|her|our"
    r"|an?|any\w*|some\w*|these|those|people|[A-Z]\w*)\b)"
)
_ASKED_LATER = pattern_of(
    rf"(?:[,;:)–—]|\s-|\s(?:so|and|but)(?! {_MODAL}))\s{{0,3}}(?:(?:so|and|but|then|please|now)\s)?{_ASKS}"
    rf"|\s(?:(?:what|how|where"
    r"|which|why|who)\s(?:should|do|can|would|could|are|is|does|much|many|long|often|kind|sort|type)|(?:can|could"
    r"|should|would|do)\s(?:i|you|we|u)|does (?:it|this|that|anyone)|is (?:there|it)|are (?:there|you))\b"
)

_REQUEST = pattern_of(
    r"(?:(?:can|could|would|will) (?:you|u)|help me|i need(?: you)? to|please)\b(?![^,;]*\b(?:say|repeat|write"
    r"|tell (?:him|her|them)|reply"
    r"|respond|compose|draft|pretend|imagine|quote|sing|type)\b)[^,;:\x00]{3,80}(?:[,;]|\s[-–—])\s(?:(?:and|but"
    r"|because|since|as|cause|cuz|bc|coz) )?"
    r"(?=(?:i'm|im|i am|i've|ive|i live|i work|i have|i use|i drive|i speak|i code|my|that's|we live|we're)\b)"
)
"""A request with a statement after it: "can you suggest a gym, I live in Leeds"."""
_GOES_ON = pattern_of(
    r", (?:is|are|was|were|has|had|does|did|will|can|could|would|should)(?! (?:i|you|u|we|they|it|this|that|there|he"
    r"|she|the|my|your)\b)"
)
"""How a sentence continues after an insertion: "my best friend, Noor, is ..."."""
_AGREED = pattern_of(r"[\s,]{1,2}(?:ok|okay|k|please|thanks)\s*\Z")
"""What makes a request polite, not a question: "be blunt with me, ok?"."""
_TELLS_MORE = pattern_of(rf"\s?[,)–—-]\s{{0,3}}{_RELATIVE}")
_POLITE = pattern_of(
    r"(?:can|could|would|will) you (?:please |pls |just |kindly )*(?:always\b|never\b|stop\b"
    r"|keep (?:your\b|(?:all )?(?:the )?(?:answers|replies|responses)\b|all\b)"
    r"|not (?=(?:start|begin|end|use|add|say|repeat|call|send|give|put|include|apologi[sz]e|assume|write|mention)\b)"
    r"|remember\b|call me\b|[^,;?]{3,40} and (?:stop|always|never)\b|.{0,60}\b(?:from now on|going forward"
    r"|in (?:the )?future|by default|every time)\b)"
)


_WISHED = pattern_of(
    r"(?:[,;:)–—]|\s-)?\s{0,3}(?:(?:so|and|but|then|please|now)[\s,]{1,2}){0,2}(?=(?:can|could|would|will) you\b)"
)
"""A polite wish behind its reason: "my eyes are tired, so could you keep your answers short?"."""


_WHEN_TOLD = pattern_of(r"when i (?:just |only )?(?:say|type|write|ask|paste|send|give|show|tell|upload|drop|post)\b")
"""When a standing request applies, which is no question: "when I say \"ship it\", run the tests"."""


def _statement_end(low: str, mark: str) -> int:
    """How far a sentence is a statement: all of it, up to its question, or not at all."""
    opened = OPENERS.match(low)
    begins = opened.end() if opened else 0
    if _ASKED.match(low, begins):
        standing = _POLITE.match(low, begins) or ("?" not in mark and _WHEN_TOLD.match(low, begins))
        return len(low) if standing else 0
    for asked in _ASKED_LATER.finditer(low, begins):
        at = asked.start()
        if (wished := _WISHED.match(low, at)) and _POLITE.match(low, wished.end()):
            return len(low)
        if "?" in mark or not (_TELLS_MORE.match(low, at) or (_GOES_ON.match(low, at) and "," in low[begins:at])):
            return at
    if "?" not in mark:
        return len(low)
    if agreed := _AGREED.search(low, begins):
        return agreed.start()
    wanted = _ANY_LATER.search(low, begins)
    return wanted.start() if wanted else 0


# ── Speech that is not meant ─────────────────────────────────────────────────────────────────────

_PLAYED = pattern_of(
    r"\b(?:(?:repeat|say) (?:this )?after me|as an? (?:ai|chatbot|(?:large )?language model)(?=,| i\b| language"
    r"| assistant| model)|pretend\w*|imagine|suppose|supposing"
    r"|(?<!free to )(?<!can )(?<!safe to )(?<!may )assume(?! i (?:know|understand)\b)|assuming|let'?s say(?! \d)"
    r"|let us say"
    r"|hypothetical(?:ly)?|role-?\s?play\w*|act as|acting as|act like|you are now|i want you to act|simulate|let's play"
    r"|lets play|we're playing|fictional|(?:in|for|from) (?:my|this|the|our|a|his|her) (?:\w+ )?(?:novel|story|book"
    r"|game|scenario|dreams?|campaign|fanfic|script|play|movie|film|screenplay|simulation|show|series|sketch|comic"
    r"|musical|roleplay|video game|fixture|test case)|in (?:chapter|act|scene|verse|stanza) \w+"
    r"|my (?:[\w&'-]+ )?(?:character|protagonist|persona|oc|avatar)(?:'s)?"
    r"|the (?:main )?(?:character|protagonist|narrator|hero|heroine|villain|speaker|singer|author|lyrics|song|poem"
    r"|text|quote|sentence|prompt|article|passage)(?:'s)? (?:is|are|says?|go|goes|reads?)|persona|first[- ]person"
    r"|test prompt|test message|this is (?:just )?a test|testing|fill in|in the blank|complete the|finish the"
    r"|finish this|continue the|as the (?:song|saying|poem|joke) goes|sample|(?:in|from|on) (?:this|the|my) template"
    r"|placeholder|example"
    r"|for instance|e\.g\.?|i'm playing (?:a|an|the)|in character|dungeon|backstory|write as|speak as|respond as"
    r"|answer as|from the (?:perspective|point of view) of|what would you (?:say|do) if|dating profile|my bio"
    r"|a bio)\b"
)
_ACTED = pattern_of(r"\s*\*(?!\*)(?:[a-z]+ly )?[a-z]{2,}s\b[^*\n]{0,80}\*(?:\s|\Z)")
"""What a player does in a game of roles, between asterisks: "*walks in* I'm Kael, a ranger"."""
_ONLY_HERE = ("example", "for instance", "e.g.", "e.g", "sample", "my bio", "a bio", "dating profile", "template")
"""Signs whose effect lasts no longer than the sentence."""
_OF_YOU = (
    r"(?:(?:all|so|such|too|very|really|just|totally|completely|absolutely|quite|both|not|always|never|still|simply) )*"
    r"(?:wrong|mistaken|incorrect|right|correct|welcome|kidding|great|awesome|amazing|brilliant|fantastic|wonderful"
    r"|helpful|kind|sweet|funny|fast|slow|annoying|useless|hopeless|the best|a star|a (?:life ?saver|legend|gem|genius)"
    r"|repeating|forgetting|confusing|mixing|misunderstanding|thinking of)\b"
)
"""What users say about the assistant's answers, not about a role it should play: "you're wrong, I live in ..."."""
_STAGED = pattern_of(
    rf"(?:(?:you are|you're)(?! {_OF_YOU})|your name is|your role is|you will be|you will act|system:|user:|human:"
    rf"|assistant:|q:)\b"
)
_OPENS_A_STORY = pattern_of(
    r"(?:(?:chapter|scene|act|prologue|epilogue)(?: (?:\d{1,3}|[ivx]{1,5}|one|two|three|four|five|six|seven|eight|nine"
    r"|ten|last))?(?:\s*[:–—]|\W*\Z)|dear diary\b)"
)
"""What follows is told by somebody who is made up: "Chapter 1. I was born in a cellar."."""
_TEXT = (
    r"(?:text|essay|e-?mail|letter|grammar|english|spelling|sentences?|paragraphs?|draft|resume|cv|cover|bio|post"
    r"|message|statement|report|speech|story|poem|article|writing|summary|intro|introduction|blog|caption|review|code"
    r"|function|script|query|translation|wording|prompt|tweet|profile|thesis|paper|abstract|reply|response)\b"
)
"""What people want edited: a user who wants to improve their running has no text in mind."""
_EDITED = pattern_of(
    r"\b(?<!\bi )(?:translate|(?<!machine )translation|proof-?read|paraphrase|rephrase|re-?write|reword|summari[sz]e"
    r"|classify|extract|parse|transcribe|critique|spell ?check|grammar|grammatically|sentiment|reformat"
    r"|analy[sz]e (?:this|the)|how (?:do|would|can) (?:you|i|we) say"
    r"|(?:correct|fix|edit|improve|polish|revise|shorten|simplify|check"
    rf"|review) (?:this|these|(?:the |my )?following|(?:the|my) (?:\w+ ){{0,2}}?{_TEXT})"
    r"|make (?:this|it|my \w+) (?:sound|more|better|shorter)|(?:reply|respond"
    r"|answer) to (?:this|the|my)|what does .{0,60} mean|following (?:text|sentence|paragraph|email|message|story"
    r"|passage)|here(?:'s| is) (?:my|the|a|an) (?:\w+ )?(?:draft|essay|text|email|letter|paragraph|bio|resume|cv"
    r"|story|poem|sample|message|statement|post|article|log|code|transcript))\b"
)
_CORRECT_ME = pattern_of(
    r"(?:please |pls |can you |could you |and |also )*(?:always|from now on,?(?: please)?"
    r"|feel free to) correct (?:my|all my|any)"
    r" (?:\w+ ){0,2}(?:grammar|spelling|english|mistakes?|errors?|typos|pronunciation)\b"
)
"""A standing wish of somebody who learns the language, with no text to work on."""
_EDIT_ALL = pattern_of(
    r"(?:please |pls |kindly |now |can you |could you )*(?:translate|proof-?read|paraphrase|rephrase|re-?write|reword"
    r"|summari[sz]e)(?: please| pls| for me)?\W*\Z"
)
_OF_ANOTHER_TEXT = pattern_of(
    r"\b(?:below|attached)\b|\b(?:so|when you|can (?:you|u)|could you)\b[^,;]{0,30}\b(?:this|the|my) (?:[\w']+ ){0,2}"
    r"(?:e-?mail|letter|bio|cv|resume|code|function|script|query|invoice|speech|post)\b"
)
"""The text to be worked on is not the sentence itself: "..., so fix the bio below"."""
_POINTS = pattern_of(r"\b(?:this|these|above|following|it)\b")
_WRITTEN = pattern_of(
    r"\b(?:(?<!\bi )(?:write|draft|compose|generate|create|make)|give me|tell me|need|want|help me (?:write|with)"
    r"|come up with)\b[^.!?\n]{0,60}?\b(?:(story|poem|song|rap|lyrics|haiku|limerick|dialogue|dialog|scene|script"
    r"|monologue|persona|fanfic|novel|tale|joke|narrative|sonnet|diary|roleplay|skit|sentences?|examples?)|letter"
    r"|e-?mail|message|bio|essay|speech|profile|post|tweet|paragraph|caption|blurb|review|introduction|toast|vows"
    r"|reply|response|resume|cv|(?<!walls of )(?<!wall of )text|statement|article|blog|template)\b"
)
_INTRODUCES = pattern_of(
    r"(?:\b(?:me|myself|info|information|context|background|details|fyi"
    r"|(?:\A|(?:my|some|quick|side|a|small|personal|please) )notes?|btw|profile|update|facts|also|that"
    r"|(?<!read )(?<!saw )(?<!got )(?<!found )this|now|today|correction|edit|reminder|remember|mind|ps|p\.s|hi|hello"
    r"|hey|situation|thing|preferences|request"
    r"|case|setup|stats|stack|(?:quick|short|brief|small) intro(?:duction)?|we (?:start|begin)|typo|my mistake"
    r"|your (?:notes|files?|records?"
    r"|memory)|heads[- ]up|follow-?up(?: q(?:uestion)?)?|disclosure|confession|in general|(?:quick|another|one"
    r"|my) question|nutshell|starters"
    r"|(?:(?:coding|code|team|our|my|house|project|ground) )*conventions|(?:ground|house|coding|team) rules"
    r"|(?:our|my|coding|code|team|house) (?:style|rules|standards|guidelines)"
    r"|commit messages|branch names|naming|line length|indentation|docstrings|error handling|always|forget|ooc)"
    r"|\A(?:(?:quick|another|one|next|small|random|weird|dumb|stupid|last|a|two|first) )*(?:question|thing|point"
    r"|request|favou?r|note"
    r"|intro(?:duction)?) (?!is\b|was\b|says?\b|reads?\b)[^:\x00]{2,60}|\A)[\s\x00]*\Z"
)
_OWN_LEAD = pattern_of(
    r"(?:(?:well|ok|okay|so|and|but|now|then|sorry|oops|wait|no)\b,? ){0,3}(?:(?:it's|that's) (?:official|settled"
    r"|true|simple|confirmed|decided)"
    r"|i (?:typed|put|got|gave|made|wrote|mixed)\b[^:\x00]{0,30}\b(?:wrong|mistake|typo|up)|(?:quick|short"
    r"|brief) intro[^:\x00]{0,12}"
    r"|for the (?:kitchen|bedroom|bathroom|hallway|living room|garden|house|flat|record|party|wedding|trip|menu|cake)):"
)
"""Before a colon, what people only say for themselves: "it's official: ..."."""
_WHEN_YOU = pattern_of(
    r"(?:(?:and|but|so|also|please|ok|okay),? )?(?:when(?:ever)?|before|after|while|once|if (?=you (?:need|want|must"
    r"|wonder|care|ask)))"
    r" ?(?:you|we)\b[^,:;\x00]{2,80}[,:] "
)
"""What leads up to what is meant: "before you answer, ..." does not matter, even where it mentions a text."""
_LISTS = pattern_of(
    r"(?:(?:the|my) \w+(?: [^\W\d_]+)? and (?=i\b))?(?:i(?! (?:just |recently |also )?(?:read|saw|heard|got|found"
    r"|received|wrote|write|need|want)\b)|i've|ive|i'm|im|we|we've"
    r"|my (?:hobbies|kids|pets|dogs|cats|languages|allergies|goals?|job|occupation)"
    r"|(?:my )?fav(?:ou?rite|e)? \w+)\b"
)
_JOKED = pattern_of(r"\b(?:jk|j/k|kidding|joking|sarcasm|just messing|not really|obviously not|as a joke)\b")
_JOKE_OVER = pattern_of(
    r"(?:(?:haha\w*|lol|ok|okay|no|nah)[\s,]+){0,2}(?:(?:i'm |im |i am )?(?:just |only )?(?:kidding|joking)|jk|j/k"
    r"|(?:all )?(?:jokes|kidding|joking) aside)[,.:!\s–—-]{1,3}(?=(?:i|i'm|im|my|we|it's|actually|in reality)\b)"
)
"""After a joke, what is meant: "just kidding, I live in Milan"."""
_OF_ANOTHER = pattern_of(
    r"(?:oh |no|wait|sorry|hang on|nope)[\s,.…-]*(?:no|wait|sorry|hang on)[\s,.…-]*that(?: was|'s|s| is) "
)
"""Taken back at once: "I'm lactose intolerant. No wait, that was Ola"."""
_JOKED_BY_SIGN = pattern_of(r"(?<!\w)/[sj]\b")


_TAKEN_BACK = pattern_of(
    r"[\s,.…-](?:i wish|in my dreams|as if|yeah,? right|(?<!'m )(?<!\bim )(?<!\bam )(?<!\bis )(?<!'s )not"
    r"|well,? (?:i )?was"
    r"|i think|i guess|i suppose|hopefully|or so (?:it|i"
    r"|they) .{2,20}|allegedly|supposedly|apparently|or so my .{2,20}|if only|or something|or whatever|at heart"
    r"|in spirit|deep down"
    r"|mentally)\W*\Z"
)
_SUPPOSED = pattern_of(
    r"\bi(?:'d| would) (?:name|call) (?:my|our|him|her|them|it|the)\b|\bif i (?:had (?:one|a|an|kids|two)|were)\b"
    r"|\A(?:ok |okay |so |now )?say (?:i'm|im|i am|i|my|we)\b"
)
_SAID_BY = pattern_of(r"(?:\bsaid|, says|\breplied) (?!that\b|hi\b|hello\b|no\b|yes\b)[a-z]+(?: [a-z]+)?\W*\Z")
"""Somebody else's words: "I have gout, said Ann"."""
_SARCASTIC = pattern_of(
    r"(?:oh,? |well,? |ha,? )?(?:yeah,? (?:right|sure)|sure,? (?:and|because) |right,? (?:and|because) i|oh,? sure"
    r"|oh,? great|oh,? yeah,? |oh,? joy|oh,? wonderful|and i'm the )"
)
TO_FORGET = pattern_of(
    r"(?:please,? )?(?:(?:can|could|would) you |i(?:'d like| want) you to )?(?:please )?"
    r"(?:forget|unlearn|don't remember|do not remember|stop remembering) (?:that|about|my|our)\b"
)
"""A request to forget something is not a new statement of it."""
_FAMOUS_LINES = pattern_of(
    r"\b(?:yellow submarine|big butts|barbie (?:girl|world)|slim shady|inigo montoya|born in the u\.?s\.?a"
    r"|no strangers to love|poor boy|little teapot|the walrus|master of my fate|king of the world|material girl"
    r"|rocket man|highway to hell|hotel california|call me ishmael|call me maybe|real slim)\b"
)


_IN_A_PLAY = pattern_of(
    r"\s*(?:\*\*)?[(\[](?!(?:Note|Edit|Optional|Source|Sources|Update|Image|Link|Hint|Tip"
    r"|Example)\b)[A-Z][a-z'-]{1,15}[)\]](?:\*\*)? \S"
    r"|\s*(?:\*\*)?[A-Z][a-z'-]{1,15}:(?:\*\*)? (?:\*|[\"“])"
)
"""What an assistant says in a role: "(Ada) You are late", "Ada: *frowns*"."""
_OUT_OF_IT = pattern_of(
    r"\b(?:ooc|out of (?:character|role|rp)|in real life|irl|end (?:of )?(?:the )?scene|(?:stop|end|pause"
    r"|leave) (?:the |this )?"
    r"(?:role-?\s?play|game|story|scene|rp))\b"
)


def is_played(text: str, answered: str) -> bool:
    """Whether a message goes on with a game of roles: its answer was given in one, and it does not step out of it."""
    return bool(_ACTED.match(answered) or _IN_A_PLAY.match(answered)) and not _OUT_OF_IT.search(lowered(text))


def sentences(text: str) -> list[Sentence]:
    """What the user states in a message, in order; questions, games, quotes and pasted text left out.

    >>> [sentence.text for sentence in sentences('Hi! I am vegan, what can I eat? She said "I cook".')]
    ['Hi', 'I am vegan', 'She said \\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00']
    """
    if _ACTED.match(text):
        return []
    window, tail, moved = _window(text)
    own = spoken(window)
    low = lowered(own)
    found: list[Sentence] = []
    for first, last, mark in _split(own, low):
        bullet = _BULLET.match(own, first, last)
        first = bullet.end() if bullet else first
        if first >= last or last - first > SENTENCE_MAX:
            continue
        sentence = low[first:last]
        if (before := _WHEN_YOU.match(sentence)) and not _made_up(before.group()):
            first += before.end()
            sentence = low[first:last]
        if (serious := _JOKE_OVER.match(sentence)) and not _JOKED.search(sentence, serious.end()):
            found.clear()  # what was said before was the joke
            first += serious.end()
            sentence = low[first:last]
        if _OF_ANOTHER.match(sentence):
            del found[-1:]  # what was said just before was about somebody else
            continue
        if _JOKED.search(sentence) or ("/" in sentence and _JOKED_BY_SIGN.search(sentence)):
            found.clear()
            continue
        if _not_meant(sentence):
            continue
        unmeant, goes_on = _unmeant_from(sentence)
        if not goes_on and _EDITED.search(sentence) and (_POINTS.search(sentence) or _EDIT_ALL.match(sentence)):
            found.clear()  # what was said before was only the text to work on
            if not _OF_ANOTHER_TEXT.search(sentence):
                return found
        end = min(_statement_end(sentence, mark), len(sentence) if unmeant is None else unmeant)
        if end == 0 and unmeant is None and (asked := _REQUEST.match(sentence)):
            first, sentence = first + asked.end(), sentence[asked.end() :]
            end = _statement_end(sentence, mark)
        start = first if first < tail else first + moved
        if end > 0:
            found.append(Sentence(own[first : first + end], sentence[:end], start))
        if not goes_on or (sentence.endswith(":") and not _INTRODUCES.search(sentence, 0, len(sentence) - 1)):
            break
    return found


def _not_meant(low: str) -> bool:
    """True for what is taken back in the same breath, hypothetical, said with a wink, sung, or to be forgotten."""
    names_or_calls = " name " in low or " call " in low
    supposed = (names_or_calls or "if i " in low or "say " in low) and _SUPPOSED.search(low)
    supposed = supposed or TO_FORGET.match(low) or (("sa" in low or "replied" in low) and _SAID_BY.search(low))
    return bool(supposed or _TAKEN_BACK.search(low) or _SARCASTIC.match(low) or _FAMOUS_LINES.search(low))


def _made_up(low: str) -> bool:
    """True where a story, a song or a game is being made up."""
    written = _WRITTEN.search(low)
    return bool(_PLAYED.search(low) or (written and written[1]))


def _lists(low: str) -> bool:
    """Whether what follows a colon is what the user has or is: "so I have three kids: ..."."""
    opened = OPENERS.match(low)
    return _LISTS.match(low, opened.end() if opened else 0) is not None


def _unmeant_from(low: str) -> tuple[int | None, bool]:
    """Where a sentence turns into play, or into text to work on; and whether the next one is meant again."""
    staged = OPENERS.match(low)
    if _STAGED.match(low, staged.end() if staged else 0) or _OPENS_A_STORY.match(low):
        return 0, False
    if played := _PLAYED.search(low):
        asked = _ASKED_LATER.search(low, 0, played.start())
        return asked.start() if asked else 0, played.group() in _ONLY_HERE
    if (edited := _EDITED.search(low)) and not _CORRECT_ME.match(low):
        return edited.start(), False
    if written := _WRITTEN.search(low):
        return written.start(), written[1] is None and ":" not in low
    if (colon := low.find(": ")) > 0 and not (
        _INTRODUCES.search(low, 0, colon) or _lists(low) or _OWN_LEAD.match(low[: colon + 1])
    ):
        return colon, True
    return None, True
