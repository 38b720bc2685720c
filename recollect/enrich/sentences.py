"""The part of a message in which the user speaks for themselves, sentence by sentence.

Most of what looks like a fact is none: it is asked, supposed, quoted, pasted, played, translated,
said of someone else or meant as a joke. All of that is left out here, so that the rules
for facts only meet plain statements. In doubt a sentence is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from recollect.policies.patterns import pattern_of

READ_MAX = 1_500
"""Characters of a message that are read whole. Longer ones are mostly pasted."""
HEAD_MAX, TAIL_MAX = 900, 500
"""Of a longer message: how much is read where it begins and where it ends, which is where people speak."""
SENTENCE_MAX = 400
"""Characters of a sentence. What is longer without a stop is no chat."""


@dataclass(frozen=True, slots=True)
class Sentence:
    """What the user states: as written, in small letters (same length), and where it stands."""

    text: str
    low: str
    start: int


def lowered(text: str) -> str:
    """Small letters and one kind of apostrophe, every character in its place."""
    low = text.lower()
    if len(low) != len(text):
        low = "".join(letter.lower() if len(letter.lower()) == 1 else letter for letter in text)
    return low.replace("’", "'").replace("‘", "'").replace("`", "'").replace("´", "'")


# ── What is not the user's own speech is blanked, so that all places stay ─────────────────────────

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
_HEADER = pattern_of(r"^(?:subject|from|to|cc|sent|date|re|fwd?):", re.M | re.I)
_LETTER = pattern_of(r"^[ \t]{0,8}(?:dear\b|to whom it may concern)", re.M | re.I)
_SIGNED = pattern_of(
    r"^[ \t]{0,8}(?:sincerely|(?:kind|best|warm) regards|regards|yours truly|cordially|best),?[ \t]*$", re.M | re.I
)
_GREETED_LINE = pattern_of(r"^[ \t]{0,8}(?:hi|hello|hey)\b[^\n]{0,40},?[ \t]*$", re.M | re.I)
_QUOTE = pattern_of(
    r"(?<![\w\d])[\"“„«]([^\"“”„«»\n]{0,400})(?:[\"”»“]|$)|(?<!\w)'([^'\n]{2,200}(?:'\w[^'\n]{0,200}){0,3})'(?!\w)",
    re.M,
)
_NAMING = pattern_of(
    r"(?:call(?:s|ed)?(?: me)?|named?|name is|name's|nickname is|go by|goes by|known as|movie is|book is"
    r"|song is)[ ,:]*\Z"
)


def spoken(text: str) -> str:
    """The text with code, quotes, quoted lines and letters blanked. Places stay."""
    text = _blank(_FENCE, text)
    for opening in (_HEADER, _LETTER):
        if found := opening.search(text):
            text = text[: found.start()] + _blanks(text[found.start() :])
    if signed := _SIGNED.search(text):
        greeted = _GREETED_LINE.search(text)
        begins = greeted.start() if greeted and greeted.start() < signed.start() else 0
        text = text[:begins] + _blanks(text[begins:])
    text = _blank(_QUOTED_LINE, text)
    text = _blank(_CODE_LINE, text)
    return _QUOTE.sub(_unquoted, text)


def _blanks(text: str) -> str:
    return "".join("\n" if letter == "\n" else " " for letter in text)


def _blank(pattern: re.Pattern[str], text: str) -> str:
    return pattern.sub(lambda match: _blanks(match.group()), text)


def _unquoted(match: re.Match[str]) -> str:
    """A name in quotes stays ('call me "Pi"'); everything else in quotes is somebody's words."""
    inside = match[1] or match[2] or ""
    if len(inside.split()) <= 3 and _NAMING.search(lowered(match.string[max(0, match.start() - 24) : match.start()])):
        return " " + match.group()[1:-1] + " " if len(match.group()) == len(inside) + 2 else _blanks(match.group())
    return "\x00" * len(match.group())


# ── Sentences ─────────────────────────────────────────────────────────────────────────────────────

_STOP = pattern_of(
    r"[.!?…。！？]+(?=[\s\x00\"'”’)\]]|\Z)|\n+|[;•](?=\s)|(?<=[\s\w])(?:[\U0001F300-\U0001FAFF☀-➿]\ufe0f?)+"
)
_NO_STOP = pattern_of(r"\b(?:dr|mr|mrs|ms|prof|st|e\.g|i\.e|vs|approx|no|jr|sr|inc|ltd|u\.s|u\.k|d\.c|etc|[a-z])\Z")
_BULLET = pattern_of(r"[\s\x00]*(?:[-*+•–—]|\d{1,2}[.)])?[\s\x00]*")


def _window(text: str) -> tuple[str, int, int]:
    """What is read of a message: all of it, or its two ends; where the second begins, and how far it was moved."""
    if len(text) <= READ_MAX:
        return text, len(text), 0
    head = text[: max(text.rfind(stop, 0, HEAD_MAX) for stop in (". ", "! ", "? ", "\n")) + 1]
    tails = [at for stop in (". ", "! ", "? ", "\n") if (at := text.find(stop, len(text) - TAIL_MAX)) >= 0]
    tail = min(tails, default=len(text) - 1) + 1
    return head + "\n" + text[tail:], len(head) + 1, tail - len(head) - 1


def _split(text: str, low: str) -> Iterator[tuple[int, int, str]]:
    """Where sentences begin and end, and what they end with."""
    start = 0
    for stop in _STOP.finditer(text):
        if stop.group() == "." and _NO_STOP.search(low, max(start, stop.start() - 8), stop.start()):
            continue
        yield start, stop.start(), stop.group()
        start = stop.end()
    yield start, len(text), ""


_ASKS = (
    r"(?:what|what's|whats|where|where's|when|who|who's|whose|which|why|how|how's|hows|do|does|did|is|are|can|could"
    r"|would|will|should|shall|has|had|isn't|aren't|don't you|doesn't|didn't|won't|wouldn't|any (?:\w+ ){0,2}(?:idea"
    r"|ideas|tips|advice|suggestions?|recommendations?|thoughts|chance|recipes|tricks|pointers|books|resources"
    r"|options)|am i|was i|were|was (?:it|that|he|she|there)|have (?:i|you|we|they)|may i|wanna know|tell me (?:if"
    r"|whether|what|where|how)|guess (?:what|where|who|how))\b"
)
OPENER = (
    r"(?:(?:hi|hello|hey|heya|hiya|yo|sup|wassup|what'?s (?:up|good)|kindly|ok|okay|so|well|and|but|also|btw"
    r"|by the way|fyi|oh|ah|um|uh|hmm|yes|yeah|yep|yup|sure|no|nope|nah|actually|honestly|tbh|anyway|anyways|please"
    r"|pls|thanks|thank you|thx|sorry|great|cool|nice|perfect|right|look|listen|plus|oh and|ok so|good (?:morning"
    r"|evening|afternoon|day)|there|everyone(?! (?:calls?|at|here|in|on)\b)|all|guys|again|just so you know"
    r"|for context|for reference|for the record|for what it's worth|fwiw|as (?:i|you) (?:said|mentioned|know)"
    r"|like i said|as a reminder|reminder|remember|remember that|keep in mind|keep in mind that|note|note that"
    r"|please note|please note that|please remember|please remember that|bear in mind that|fun fact|full disclosure"
    r"|i (?:already said|(?:already |just )?(?:told you|mentioned))(?: that)?|i should (?:mention|add|note)(?: that)?"
    r"|i forgot to (?:mention|say|add)(?: that)?|did i mention(?: that)?|let me introduce myself|to introduce myself"
    r"|a (?:bit|little) about me(?: first)?|about me|the thing is|it's just that|turns out|you should know that"
    r"|you should know|i want you to (?:know|remember)(?: that)?|to be clear|in fact|as for me|me|personally"
    r"|basically|currently|right now|nowadays|these days|at the moment|today|recently|lately|unfortunately|sadly"
    r"|luckily|fortunately|finally|first|first of all|firstly|second|secondly|next|then|yesterday|last (?:week|month"
    r"|year)|this (?:week|month|year)|since then|correction|update|quick update|good news|big news|guess what|lol"
    r"|haha|dude|bro|man|mate|dear(?= (?:assistant|bot|ai|sir|madam|friend|all|team)\b)|sir|madam|assistant|bot|buddy"
    r"|friend|again|evening|morning|afternoon|i'll have you know(?: that)?|i'd like you to know(?: that)?"
    r"|good to (?:meet|e-?meet) you|nice to (?:meet|e-?meet) you|pleased to meet you|greetings|hola|namaste|hallo"
    r"|bonjour|salut|ciao|howdy|g'day|aloha|kia ora|dear|remind me that|when i'm not working|when i have time"
    r"|in my (?:free|spare) time|outside (?:of )?work|on (?:the |my )?weekends|after work|for fun|for work"
    r"|for a living)\b[\s,.:!\-–—…\x00]*)"
)
OPENERS = pattern_of(OPENER + "{0,6}")
_ASKED = pattern_of(_ASKS)
_ANY_LATER = pattern_of(
    r"[,;:–—-]\s{0,3}(?:so |and |but )?(?:any|got any|know any|thoughts|ideas|recommendations|tips)\b"
)
"""Where a question begins without a verb of its own: "I hate small talk, any icebreakers?"."""
_ASKED_LATER = pattern_of(
    rf"(?:[,;:)–—]|\s-|\s(?:so|and|but))\s{{0,3}}(?:(?:so|and|but|then|please|now)\s)?{_ASKS}|\s(?:(?:what|how|where"
    r"|which|why|who)\s(?:should|do|can|would|could|are|is|does|much|many|long|often|kind|sort|type)|(?:can|could"
    r"|should|would|do)\s(?:i|you|we|u)|does (?:it|this|that|anyone)|is (?:there|it)|are (?:there|you))\b"
)

_POLITE = pattern_of(
    r"(?:can|could|would|will) you (?:please |pls |just |kindly )*(?:always\b|never\b|stop\b|keep (?:your|all)\b"
    r"|remember\b|call me\b|.{0,60}\b(?:from now on|going forward|in (?:the )?future|by default|every time)\b)"
)


def _statement_end(low: str, mark: str) -> int:
    """How far a sentence is a statement: all of it, up to its question, or not at all."""
    opened = OPENERS.match(low)
    begins = opened.end() if opened else 0
    if _ASKED.match(low, begins):
        return len(low) if _POLITE.match(low, begins) else 0
    asked = _ASKED_LATER.search(low, begins)
    if asked is not None:
        return asked.start()
    if "?" not in mark:
        return len(low)
    wanted = _ANY_LATER.search(low, begins)
    return wanted.start() if wanted else 0


# ── Speech that is not meant ─────────────────────────────────────────────────────────────────────

_PLAYED = pattern_of(
    r"\b(?:(?:repeat|say) (?:this )?after me|as an? (?:ai|chatbot|(?:large )?language model)(?=,| i\b| language"
    r"| assistant| model)|pretend\w*|imagine|suppose|supposing|assume|assuming|let'?s say(?! \d)|let us say"
    r"|hypothetical(?:ly)?|role-?\s?play\w*|act as|acting as|act like|you are now|i want you to act|simulate|let's play"
    r"|lets play|we're playing|fictional|(?:in|for|from) (?:my|this|the|our|a|his|her) (?:\w+ )?(?:novel|story|book"
    r"|game|scenario|dreams?|campaign|fanfic|script|play|movie|film|screenplay|simulation|show|series|sketch|comic"
    r"|musical|roleplay|video game)|my (?:[\w&'-]+ )?(?:character|protagonist|persona|oc|avatar)(?:'s)?"
    r"|the (?:main )?(?:character|protagonist|narrator|hero|heroine|villain|speaker|singer|author|lyrics|song|poem"
    r"|text|quote|sentence|prompt|article|passage)(?:'s)? (?:is|are|says?|go|goes|reads?)|persona|first[- ]person"
    r"|test prompt|test message|this is (?:just )?a test|testing|fill in|in the blank|complete the|finish the"
    r"|finish this|continue the|as the (?:song|saying|poem|joke) goes|sample|template|placeholder|example"
    r"|for instance|e\.g\.?|i'm playing (?:a|an|the)|in character|dungeon|backstory|write as|speak as|respond as"
    r"|answer as|from the (?:perspective|point of view) of|what would you (?:say|do) if|dating profile|my bio"
    r"|a bio)\b"
)
_STAGED = pattern_of(
    r"(?:you are|you're|your name is|your role is|you will be|you will act|system:|user:|human:|assistant:|q:)\b"
)
_TEXT = (
    r"(?:text|essay|e-?mail|letter|grammar|english|spelling|sentences?|paragraphs?|draft|resume|cv|cover|bio|post"
    r"|message|statement|report|speech|story|poem|article|writing|summary|intro|introduction|blog|caption|review|code"
    r"|function|script|query|translation|wording|prompt|tweet|profile|thesis|paper|abstract|reply|response)\b"
)
"""What one has worked on: who wants to improve their running has no text in mind."""
_EDITED = pattern_of(
    r"(?<!\bi )\b(?:translat(?:e|ion)|proof-?read|paraphrase|rephrase|re-?write|reword|summari[sz]e|classify|extract"
    r"|parse|transcribe|critique|spell ?check|grammar|grammatically|sentiment|reformat|analy[sz]e (?:this|the)"
    r"|how (?:do|would|can) (?:you|i|we) say|(?:correct|fix|edit|improve|polish|revise|shorten|simplify|check"
    rf"|review) (?:this|these|(?:the |my )?following|(?:the|my) (?:\w+ ){{0,2}}?{_TEXT})"
    r"|make (?:this|it|my \w+) (?:sound|more|better|shorter)|(?:reply|respond"
    r"|answer) to (?:this|the|my)|what does .{0,60} mean|following (?:text|sentence|paragraph|email|message|story"
    r"|passage)|here(?:'s| is) (?:my|the|a|an) (?:\w+ )?(?:draft|essay|text|email|letter|paragraph|bio|resume|cv"
    r"|story|poem|sample|message|statement|post|article|log|code|transcript))\b"
)
_EDIT_ALL = pattern_of(
    r"(?:please |pls |kindly |now |can you |could you )*(?:translate|proof-?read|paraphrase|rephrase|re-?write|reword"
    r"|summari[sz]e)(?: please| pls| for me)?\W*\Z"
)
_POINTS = pattern_of(r"\b(?:this|these|above|following|it)\b")
_WRITTEN = pattern_of(
    r"\b(?:write|draft|compose|generate|create|make|give me|tell me|need|want|help me (?:write|with)"
    r"|come up with)\b[^.!?\n]{0,60}?\b(?:(story|poem|song|rap|lyrics|haiku|limerick|dialogue|dialog|scene|script"
    r"|monologue|persona|fanfic|novel|tale|joke|narrative|sonnet|diary|roleplay|skit|sentences?|examples?)|letter"
    r"|e-?mail|message|bio|essay|speech|profile|post|tweet|paragraph|caption|blurb|review|introduction|toast|vows"
    r"|reply|response|resume|cv|text|statement|article|blog)\b"
)
_INTRODUCES = pattern_of(
    r"(?:\b(?:me|myself|info|information|context|background|details|fyi"
    r"|(?:\A|(?:my|some|quick|side|a|small|personal|please) )notes?|btw|profile|update|facts|also|that"
    r"|this|now|today|correction|edit|reminder|remember|mind|ps|p\.s|hi|hello|hey|situation|thing|preferences|request"
    r"|case|setup|stats|stack)|\A)[\s\x00]*\Z"
)
_LISTS = pattern_of(
    r"(?:i|i've|ive|i'm|im|we|we've|my (?:hobbies|kids|pets|dogs|cats|languages|allergies|goals?|job|occupation)"
    r"|(?:my )?fav(?:ou?rite|e)? \w+)\b"
)
_JOKED = pattern_of(
    r"\b(?:jk|j/k|kidding|joking|sarcasm|just messing|not really|obviously not|as a joke)\b|(?<!\w)/s\b|(?<!\w)/j\b"
)


_TAKEN_BACK = pattern_of(
    r"[\s,.…-](?:i wish|in my dreams|as if|yeah,? right|(?<!'m )(?<!\bim )(?<!\bam )(?<!\bis )(?<!'s )not|i think"
    r"|i guess|i suppose|hopefully|or so (?:it|i"
    r"|they) .{2,20}|allegedly|supposedly|apparently|or so my .{2,20}|if only|or something|or whatever|at heart"
    r"|in spirit|deep down"
    r"|mentally)\W*\Z"
)
_SUPPOSED = pattern_of(
    r"\bi(?:'d| would) (?:name|call) (?:my|our|him|her|them|it|the)\b|\bif i (?:had (?:one|a|an|kids|two)|were)\b"
    r"|\Asay (?:i'm|i am|i|my|we)\b|,? (?:said|says|replied) (?!that\b)[a-z]+(?: [a-z]+)?\W*\Z"
)
_SARCASTIC = pattern_of(
    r"(?:oh,? |well,? |ha,? )?(?:yeah,? (?:right|sure)|sure,? (?:and|because) |right,? (?:and|because) i|oh,? sure"
    r"|oh,? great|oh,? yeah,? |oh,? joy|oh,? wonderful|and i'm the )"
)
TO_FORGET = pattern_of(
    r"(?:please,? )?(?:(?:can|could|would) you |i(?:'d like| want) you to )?(?:please )?"
    r"(?:forget|unlearn|don't remember|do not remember|stop remembering) (?:that|about|my|our)\b"
)
"""What someone wants forgotten is not told once more."""
_FAMOUS_LINES = pattern_of(
    r"\b(?:yellow submarine|big butts|barbie (?:girl|world)|slim shady|inigo montoya|born in the u\.?s\.?a"
    r"|no strangers to love|poor boy|little teapot|the walrus|master of my fate|king of the world|material girl"
    r"|rocket man|highway to hell|hotel california|call me ishmael|call me maybe|real slim)\b"
)


def sentences(text: str) -> list[Sentence]:
    """What the user states in a message, in order; questions, games, quotes and pasted text left out.

    >>> [sentence.text for sentence in sentences('Hi! I am vegan, what can I eat? She said "I cook".')]
    ['Hi', 'I am vegan', 'She said \\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00']
    """
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
        if _JOKED.search(sentence):
            found.clear()
            continue
        if _not_meant(sentence):
            continue
        unmeant, goes_on = _unmeant_from(sentence)
        if not goes_on and _EDITED.search(sentence) and (_POINTS.search(sentence) or _EDIT_ALL.match(sentence)):
            return []  # what was said before was only the text to work on
        end = min(_statement_end(sentence, mark), len(sentence) if unmeant is None else unmeant)
        start = first if first < tail else first + moved
        if end > 0:
            found.append(Sentence(own[first : first + end], sentence[:end], start))
        if not goes_on or (sentence.endswith(":") and not _INTRODUCES.search(sentence, 0, len(sentence) - 1)):
            break
    return found


def _not_meant(low: str) -> bool:
    """True for what is taken back in the same breath, only supposed, said with a wink, sung, or to be forgotten."""
    supposed = _SUPPOSED.search(low) or TO_FORGET.match(low)
    return bool(supposed or _TAKEN_BACK.search(low) or _SARCASTIC.match(low) or _FAMOUS_LINES.search(low))


def _unmeant_from(low: str) -> tuple[int | None, bool]:
    """Where a sentence turns into play, or into text to work on; and whether the next one is meant again."""
    staged = OPENERS.match(low)
    if _STAGED.match(low, staged.end() if staged else 0):
        return 0, False
    if played := _PLAYED.search(low):
        return 0, played.group() in ("example", "for instance", "e.g.", "e.g", "sample")
    if edited := _EDITED.search(low):
        return edited.start(), False
    if written := _WRITTEN.search(low):
        return written.start(), written[1] is None and ":" not in low
    if (colon := low.find(": ")) > 0 and not (_INTRODUCES.search(low, 0, colon) or _LISTS.match(low)):
        return colon, True
    return None, True
