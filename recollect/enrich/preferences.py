"""How the user wants to be answered, when it is meant to last.

"Answer in French" may be meant for one answer; "from now on", "always", "I prefer" and "your answers"
are meant for all. Only requests phrased like that become preferences; a request about one text
("make this email shorter") never does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from recollect.enrich import Draft
from recollect.enrich.clauses import Clause
from recollect.enrich.names import LANGUAGES, PROGRAMMING_LANGUAGES, TOOLS, TOOLS_AND_WORDS
from recollect.enrich.sentences import Sentence
from recollect.enrich.values import known

_LASTING = re.compile(
    r"\b(?:from (?:now|here|this point) on(?:wards?)?|always|never|going forward|moving forward|in (?:the )?future"
    r"|by default|in general|generally|every time|each time|as a rule|i(?:'d| would)?(?: really| generally| usually"
    r"| much| always| also| strongly)? (?:prefer|like|love|rather|hate|dislike)|i(?: really| also)? (?:don't|do not"
    r"|dont) (?:like|want|need)|i can't stand|my preference|i want you to|i'd appreciate|(?:your|all|any|future"
    r"|these) (?:\w+ )?(?:answers?|repl(?:y|ies)|responses?|explanations?|messages?|outputs?)|with me|to me|stop|quit"
    r"|no more|any ?more|remember to|please remember|when (?:you )?(?:answer|reply|respond|explain|talk|speak)\w*"
    r"|in our (?:chats?|conversations?)|even (?:if|when) i\b|i'm used to|i use|i think in|i only (?:use|speak|read"
    r"|do)|don't ever"
    r"|set (?:your"
    r"|the) (?:default|tone))\b"
)
_ONCE = re.compile(
    r"\b(?:this (?:time|one|once|answer|question|text|email|essay|letter|message|paragraph|report|article|list|story"
    r"|code|part|section|website|app|page|project|document|recipe|post|function|method|class|file|line|loop|table"
    r"|column|branch|module|component|macro|test|script|query|endpoint|sprint|release)|line \d+|that (?:function"
    r"|method|file"
    r"|macro)|just (?:this|for)|for (?:this|the|a|my"
    r"|an) (?:\w+ )?(?:answer|question|essay|report|email|presentation|website|app|project|article|blog|class"
    r"|homework|assignment|site|page|client|meeting|interview|wedding|party|kids|audience)|in (?:the|this|that|my"
    r"|an?) (?:essay|article|email|letter|report|story|tweet|caption|post|bio|slide|logo|ad|message|text|title"
    r"|subject(?: line)?|headline|footer|header)"
    r"|this (?:tweet|caption|bio|slide|logo|ad|title)|an? (?:very |really )?(?:short|brief|quick|concise|long"
    r"|detailed|short and sweet) (?:answer|reply|response|explanation|summary|message)|for now|right now"
    r"|(?<!not just )today"
    r"|convert|here(?:'s| is)|would you)\b"
)
_FOR_OTHERS = re.compile(
    r"\b(?:in|for|on|to) (?:(?:my|our|all|any|the) )*(?:e-?mails?|mails|letters|posts|quotes|invoices|newsletters"
    r"|tweets"
    r"|captions|texts|messages|replies|slides|reports|essays|commit messages|commits|docs|documentation|articles"
    r"|pr descriptions)(?: (?:to|for) (?!me\b|you\b)(?:[\w'-]+ ?){1,3}|(?=[\s\x00]*(?:[,.;!]|\Z))"
    r"|(?= (?:please|pls|plz|thanks|ever|anymore)\b))"
)
"""What is written for others: "no emojis in mails to customers" is said of those, not of the answers."""
_ANSWERS = r"(?:answers?|repl(?:y|ies)|responses?|explanations?|messages?|summaries|outputs?)"
_AVOID = (
    r"(?:no(?: more)?|don't (?:use|add|include|give me|write|put|send|like|want|need|ever use)|do not (?:use|add"
    r"|include|want|like|need)|dont (?:use|add|include|like|want|need)|stop (?:using|adding|with|including|giving me"
    r"|writing|sending|it with)|quit (?:using|with)|avoid(?: using)?|without|never (?:use|add|include|give me|send)"
    r"|skip|drop|hate|lose|leave out|omit|dislike|can't stand|cut)(?: me)?(?: the| any| so many| all the| all| your"
    r"| those| these| too many)*"
)
_TONES = {
    "casual": "casual|casually|informal|informally|relaxed|laid[- ]back|chill|like a friend",
    "formal": "formal|formally",
    "friendly": "friendly|warm|warmly",
    "professional": "professional|professionally|businesslike",
    "direct": ("direct|directly|straightforward|straight with me|no-nonsense|frank|candid|(?<!to be )honest"),
    "blunt": "blunt|bluntly|brutally honest",
    "playful": "playful|humorous|funny|witty|humor|humour|sarcastic|jokes",
    "gentle": "(?:gentle|kind|patient)(?! with me)|gently|encouraging|supportive|polite",
    "simple": "simple language|simple terms|plain english|plain language|layman's terms|simple words",
}
_THINGS = {
    "bullet points": "bullet ?points?|bullets|bulleted lists?|bullet lists?",
    "lists": "(?:numbered )?lists",
    "tables": "tables|table (?:format|form)",
    "markdown": "markdown",
    "headings": "headings|headers",
    "plain text": "plain text",
    "code examples": "code (?:examples|samples|snippets)",
    "examples": "examples",
    "step by step": "step[- ]by[- ]step(?: (?:instructions|guides?))?",
    "disclaimers": "disclaimers?|caveats|warnings",
    "jargon": "(?:technical )?jargon",
    "filler": "filler|fluff|flattery|pleasantries",
    "paragraphs": "(?:full |short )?paragraphs",
    "em dashes": "em[- ]dashes",
    "exclamation marks": "exclamation (?:marks|points)",
    "American spelling": "american (?:spellings?|english)|americanisms",
    "abbreviations": "abbreviations|acronyms",
    "slang": "slang",
    "sources": "sources|citations|references",
    "analogies": "analogies|metaphors",
}
_CURRENCIES = {
    "EUR": "euros?|eur",
    "USD": "(?:us )?dollars|usd",
    "GBP": "pounds|gbp",
    "INR": "rupees|inr",
    "CHF": "chf|swiss francs",
    "CAD": "canadian dollars|cad",
}
_UNITS = {
    "metric": r"metric(?: units| system| measurements)?|si units",
    "imperial": r"imperial(?: units| system| measurements)?|us customary(?: units)?|american units|pounds and ounces"
    r"|feet and inches|stones? and pounds",
    "Celsius": "celsius|centigrade",
    "Fahrenheit": "fahrenheit",
    "kilometers": "kilomet(?:er|re)s|km",
    "miles": "miles",
    "kilograms": "kilograms|kilos|kg",
}


_TOPIC = re.compile(
    r"\b(?:answer|repl|respon|explain|explan|messag|summar|output|emo|smiley|short|brief|concise|succinct|terse|crisp"
    r"|point|chase|rambl|verbose|wordy|brevity|detail|thorough|long|dark|light|2?4|12[- ]|comment|code\b|metric"
    r"|imperial|celsius|centigrade|fahrenheit|kilo|km\b|kg\b|miles|si units|us cust|us doll|american|british"
    r"|uk (?:eng|spell)|price"
    r"|cost|amount|money|currency|euro|dollar|pound|rupee|tone|casual|informal|relaxed|laid|chill|like a|formal"
    r"|friendly|warm|professional|business|direct|blunt|straight|no-|frank|candid|honest|brutal|playful|humo|funny"
    r"|witty|sarcas|joke|gentl|kind\b|encourag|supportive|patient|polite|simple|plain|layman|bullet|list|number|table"
    r"|markdown|head(?:er|ing)|example|step|disclaimer|caveat|warning|technical|jargon|filler|fluff|flatter|pleasantr"
    r"|paragraph|full|em[- ]dash|exclam|abbrev|acronym|slang|source|citation|reference|analog|metaphor|sugar|minimal"
    r"|quick|tight|compact"
    r"|one[- ]line|bite|in-depth|comprehensive)"
)
"""A first filter: without one of these no rule can match, and most sentences have none."""


class _Rule(NamedTuple):
    """What expresses a preference. `alone`: it is lasting by itself, without another word that says so."""

    key: str
    value: str
    pattern: re.Pattern[str]
    alone: bool = False
    confidence: float = 0.8


def _rule(key: str, value: str, pattern: str, alone: bool = False, confidence: float = 0.8) -> _Rule:
    return _Rule(key, value, re.compile(pattern), alone, confidence)


_USE = (
    r"(?:use|using|prefer|like|love|want|give me|stick (?:to|with)|answer(?:ed)? (?:me )?(?:in|with|using)"
    r"|respond (?:in|with)"
    r"|reply (?:in|with)|write in|format .{0,30} (?:as|in|with)|include|add|explain (?:in|with|using)|respond using"
    r"|think in|only do|i use)"
)
_SHORT = (
    r"(?:short|brief|concise|succinct|terse|shorter|to the point|short and sweet|tight|compact|minimal|quick|crisp"
    r"|one[- ]line|short-form|bite-sized)"
)
_LONG = r"(?:detailed|long|longer|thorough|in[- ]depth|comprehensive|more detailed|elaborate|lengthy|extensive|full)"

_RULES: tuple[_Rule, ...] = (
    _rule("verbosity", "concise",
        rf"\b(?:prefer|like|love|want|give me|appreciate|keep|make|need)\b.{{0,24}}\b{_SHORT}(?:,? (?:and"
        rf"|but) [\w-]+)? {_ANSWERS}\b", True, 0.88),
    _rule("verbosity", "concise",
        rf"\b(?:keep|make) (?:all )?(?:your|ur|the|all|my|future) {_ANSWERS} (?:\w+ )?(?:more )?{_SHORT}\b", True, 0.9),
    _rule("verbosity", "concise",
        rf"\b(?:keep|like|prefer|want) (?:my |your |ur |the "
        rf"|all )?{_ANSWERS} (?:\w+ )?(?:more )?{_SHORT}\b", True, 0.85),
    _rule("verbosity", "concise",
        rf"(?:\A|\bso )(?:just |only )?{_SHORT} (?:answers|replies|responses|messages|sentences)"
        r"(?:,? (?:please|pls|for me))\W*\Z", True, 0.8),
    _rule("verbosity", "concise",
        rf"\b(?:be|keep (?:it|things|them|everything)|answer|reply|respond)(?: more| very)? (?:{_SHORT}|briefly"
        r"|concisely)\b"),
    _rule("verbosity", "concise",
        r"\b(?:write|talk|speak|reply|answer|respond|explain|text)(?: things)?(?: back)?(?: to)? me (?:a (?:bit|lot"
        r"|little) |much |way |more |in )*(?:shorter|less wordy|briefly|concisely|fewer words)\b", True, 0.8),
    _rule("verbosity", "concise",
        r"\A(?:(?:and|but|also|ok|sorry|honestly|btw) )*(?:your|ur) (?:answers|replies|responses|messages|explanations)"
        r" are (?:all |always |just |still )*(?:(?:way|much|a bit|far) )?too (?:long|wordy|verbose)\b", True, 0.8),
    _rule("verbosity", "concise",
        r"\b(?:get|cut|go|come) (?:straight |right )?to the (?:point|chase)\b(?! (?:where|that|of|when)\b)"
        r"|\bdon't (?:ramble|be (?:so "
        r"|too )?(?:verbose|wordy|long-winded))\b|\b(?:prefer|like|want) (?:brevity|conciseness|it (?:short|brief"
        r"|concise))\b|\b(?:hate|don't like|dislike) (?:long|lengthy|wordy|verbose) (?:answers|replies|responses"
        r"|explanations|texts|messages)\b"),
    _rule("verbosity", "concise",
        rf"\b(?:keep|make|limit) (?:your |ur |all |the )*{_ANSWERS} (?:to )?(?:under|below|within|less than|at most"
        r"|no (?:more|longer) than|max(?:imum)?(?: of)?) \w+ (?:words|sentences|lines|paragraphs)\b", True, 0.85),
    _rule("verbosity", "detailed",
        rf"\b(?:prefer|like|love|want|give me|appreciate|need)\b.{{0,24}}\b{_LONG} {_ANSWERS}\b", True, 0.85),
    _rule("verbosity", "detailed", rf"\b(?:make|keep) (?:your|ur|the|all) {_ANSWERS} (?:\w+ )?{_LONG}\b", True, 0.88),
    _rule("verbosity", "detailed",
        r"\b(?:explain (?:things|everything) in (?:more |great )?detail|go into (?:more )?detail"
        r"|be (?:more )?(?:detailed|thorough)|hate short answers|(?:prefer|like|love|want) (?:lots of |more "
        r"|a lot of )?details?)\b"),
    _rule("emoji", "none", rf"\b{_AVOID} (?:emojis?|emoticons?|smileys?)\b|\bemoji-free\b", True, 0.88),
    _rule("emoji", "yes", r"\b(?:use|add|include|love|like) (?:more |lots of |some |a few )?emojis?\b"),
    _rule("theme", "dark",
        r"\b(?:prefer|like|love|use|using|always use|set|i'm a|am a|everything in|fan of|turn on|switch to|go with"
        r"|want)\b.{0,16}\bdark[- ]?(?:mode|themes?)\b|\bdark mode (?:person|user|always)\b"),
    *(_rule("theme", theme,
        r"\A(?:please |pls |can you |could you |ok |and )*(?:switch|change|set|turn)(?: (?:it|me|everything|the \w+))?"
        rf" (?:to|on)(?: the| a)? {theme}[- ]?(?:mode|theme)(?:,? (?:please|pls|for me))?\W*\Z", True, 0.75)
      for theme in ("dark", "light")),
    _rule("theme", "dark",
        r"\Adark[- ]?(?:mode|theme)(?:,? please)?,? (?:everywhere|for everything|always|that's (?:the one"
        r"|what) i prefer)\b", True),
    _rule("theme", "dark", r"\Adark[- ]?(?:mode|theme) for me\b", True),
    _rule("theme", "light",
        r"\b(?:prefer|like|love|use|using|always use|set|i'm a|am a|fan of|go with|want)\b.{0,16}\blight[- ]?(?:mode"
        r"|themes?)\b|\blight mode (?:person|user|always)\b"),
    _rule("time_format", "24-hour",
        r"\b(?:use|prefer|like)\b.{0,12}\b24[- ]?(?:h|hours?)(?: (?:time|clock|format)| times)?\b", True, 0.75),
    _rule("time_format", "24-hour",
        r"\A24[- ]?(?:h|hours?)(?: (?:time|clock|format))?(?: please)?,? (?:always|from now on"
        r"|everywhere)\b", True),
    _rule("time_format", "12-hour",
        r"\b(?:use|prefer|like)\b.{0,12}\b12[- ]?(?:h|hours?)(?: (?:time|clock|format)| times)?\b", True, 0.75),
    _rule("format", "step by step",
        r"\bexplain (?:things|it|everything|stuff|concepts|(?:it |things )?(?:to )?me) step by step\b"),
    *(_rule("tone", value,
        r"\bprefer (?:it )?if you (?:were|are|could be|would be|sounded|stayed) (?:more |a bit more "
        rf"|a little more )?(?:{words})\b", True) for value, words in _TONES.items()),
    _rule("reply_language", "British English",
        r"\b(?:use|prefer|want|keep|stick to) british (?:english|spelling)\b", True),
    _rule("reply_language", "British English",
        r"\A(?:(?:and|also|please|ok) )*(?:british|uk) (?:english|spellings?)(?: only)?,? (?:please|pls|plz|thanks"
        r"|always"
        r"|from now on)\b", True, 0.75),
    _rule("reply_language", "American English", r"\b(?:use|prefer|want) american (?:english|spelling)\b", True),
    _rule("tone", "direct", r"\b(?:don't|do not|dont|no need to|never) sugar-?coat\b", True, 0.8),
    *(_rule("currency", value,
        rf"\b(?:prices?|costs?|amounts|money|currency)\b.{{0,24}}\bin (?:{words})\b|\buse (?:{words}) (?:for"
        r"|as) (?:all )?(?:prices|the currency|my currency|currency)\b")
      for value, words in _CURRENCIES.items()),
    *(_rule("currency", value, rf"\bprices? in (?:{words}),? (?:please|pls|plz|only)\b", True, 0.75)
      for value, words in _CURRENCIES.items()),
    _rule("code_comments", "none",
        rf"\b{_AVOID} (?:code )?comments (?:in|to) (?:the |my |your )?code\b|\b{_AVOID} code comments\b"
        r"|\bprefer code without comments\b", True),
    _rule("code_comments", "yes",
        r"\balways (?:add|include|put|write) (?:code )?comments\b|\bi (?:like|prefer) (?:well[- ])?commented code\b"),
    *(_rule("units", value,
        rf"\b(?:{_USE}|in|give .{{0,30}} in)(?: the| only)? (?:{words})\b(?! to\b)", False, 0.85)
      for value, words in _UNITS.items()),
    *(_rule("units", value,
        rf"\bi (?:prefer|use|like|want) [\w -]{{3,30}},? and (?:the )?(?:{words})(?=[\s\x00]*(?:[,.;!]|\Z))",
        True, 0.85)
      for value, words in _UNITS.items()),
    *(_rule("units", value,
        r"\A(?:please |pls |and |always )*(?:give|show|put|use|list) (?:me )?(?:all |the )*(?:distances|weights"
        r"|temperatures"
        rf"|measurements|lengths|heights)(?: and \w+)? in (?:{words})\b", True, 0.75)
      for value, words in _UNITS.items()),
    *(_rule("units", value,
        rf"\A(?:please |pls |and |so )*use (?:the )?(?:{words})(?: please| pls| only)?(?:\W*\Z|,? (?:not|instead of"
        rf"|rather than)\b)"
        rf"|\A(?:{words}) only(?:,? please)?\W*\Z|\A(?:please |only )*(?:{words}) (?:for me|only"
        rf"|please)?,? ?(?:always|from now on|by default)\b", True, 0.75)
      for value, words in _UNITS.items()),
    *(_rule("format", f"no {value}", rf"\b{_AVOID} (?:{words})\b", True, 0.82) for value, words in _THINGS.items()),
    *(_rule("format", value,
        rf"\b{_USE}(?: (?:your|the|my|more|some|lots of|me|using|with|in|(?:answers?|explanations?) (?:in|as|with)"
        rf"|responses? (?:in|as"
        r"|with)|it (?:in|as)|things (?:in|as)|to use|when you use|using|having|seeing|a|to see"
        rf"|short))* (?:{words})\b") for value, words in _THINGS.items()),
    *(_rule("format", value,
        rf"\A(?:please )?(?:{words})(?: please)?,? (?:always|only|by default|from now on|every time|whenever)\b"
        rf"|\A(?:from now on|always|going forward|in future|by default),? (?:please,? )?(?:just "
        rf"|only )?(?:{words})\b", True)
      for value, words in _THINGS.items()),
    *(
        _rule("tone", value,
            rf"\b(?:(?:talk|speak|write|respond|reply|chat)(?: to| with)? me(?: more| in a)?(?: very)? (?:{words})"
            r"|(?:(?<!could )(?<!can )use|prefer|like|want|keep|adopt|have|take|(?:answer|reply|respond|talk|speak"
            r"|write|explain)(?: \w+){0,3} with)(?: an?| the)?(?: tone)?(?: more"
            rf"| very)? (?:{words})(?: (?:tone|style|voice|language|manner|approach|replies|answers|communication"
            r"|conversation)))\b", True, 0.85)
        for value, words in _TONES.items()
    ),
    *(_rule("tone", value,
        rf"\bkeep (?:your|the) tone (?:more |very )?(?:{words})\b", True) for value, words in _TONES.items()),
    _rule("verbosity", "concise", rf"\b{_ANSWERS}\b.{{0,40}}\bshould (?:always |all )?be {_SHORT}\b", True),
    *(_rule("tone", value,
        r"\b(?:be|sound|stay|keep it|keep things)(?: more| very| a bit more| a little more"
        rf"| less stiff and more)? (?:{words})\b") for value, words in _TONES.items()),
    _rule("tone", "simple", rf"\b(?:explain .{{0,20}} in|use|prefer|in) (?:{_TONES['simple']})\b"),
    _rule("tone", "simple", rf"\b(?:please|pls) (?:only )?use (?:only )?(?:{_TONES['simple']})\b", True, 0.75),
)  # fmt: skip
_NEGATED = re.compile(r"(?:n't|\b(?:dont|not|never|stop|hate|dislike|no|without|avoid))\b(?:\s[\w']+){0,2}\s*\w?\Z")
_REPLY_IN = re.compile(
    r"\b(?:answer(?:ed)?|reply|replied|respond(?:ed)?|speak|spoke|talk(?:ed)?|write|wrote|communicate|chat|explain"
    r"|converse)(?: (?:to me|me|back|with me|only"
    r"|everything|things|always|your answers?))* (?:only )?in |\b(?:prefer|like|want|rather have)(?: (?:your|all|the"
    r"|my)){0,2}(?: (?:answers?|replies|responses|to (?:speak|talk|chat|write|communicate|converse)|speaking|talking"
    r"|chatting|it))? in (?:plain )?|\b(?:use|using|stick to|switch to) (?=(?:british|american|australian|plain"
    r"|canadian) |[a-z]+(?: (?:from now on|always|by default|going forward|in future|please from))|[a-z]+ (?:for"
    r"|in) (?:your|all) )|\bmy (?:preferred|default) language (?:is|for answers is) "
    r"|\Ain (?=[a-z]+,? (?:please,? )?(?:all |for all )?(?:your|from now on|always)\b)"
)
_BACK = re.compile(
    r"\b(?:(?:switch|go|change|come)(?: it)? back|back) to (?P<back>[a-z]+)(?=(?:,? (?:please|pls|now|then|thanks"
    r"|again))*\W*\Z)"
    r"|\b(?:answer|reply|respond|speak|talk|write)(?: (?:to )?me| back)? in (?P<again>[a-z]+) again\b"
)
"""The end of a lasting preference: "ok, switch back to English"."""
_PREFERS = re.compile(
    r"\bi(?: really| generally| usually| much| definitely| still"
    r"| always)* (?P<verb>prefer) (?P<what>[\w'’-]+(?: [\w'’-]+){0,4}?) (?:over|to|rather than|instead of"
    r"|more than) (?P<other>[\w'’-]+(?: [\w'’-]+){0,3}?)(?=\s*(?:[,.;!()\x00]|\Z|\b(?:because|but|and|so|since|when"
    r"|as|for)\b))"
)
_BEST = re.compile(
    r"\bi(?: usually| always| tend to| just)* (?P<verb>learn|understand|remember|concentrate) (?:things )?best "
    r"(?P<how>(?:with|by|from|through|when|in|if) [\w' -]{3,60})(?=\s*(?:[,.;!()\x00]|\Z))"
)
"""'I learn best with short dialogues'."""
_REACHED = re.compile(
    r"\bi(?:'d| would)? (?:rather|prefer to|like to|want to|prefer being) (?:be )?(?P<how>(?:contacted"
    r"|reached) (?:by|via|on|through|over) (?!(?:my|the|your|his|her|an?)\b)[\w' -]{3,40})(?=\s*(?:[,.;!()\x00]|\Z))"
)
"""'I'd rather be contacted by text than phone'."""
_STYLED = re.compile(
    r"\bi(?: really| generally| usually| much| always)* prefer (?P<what>(?!(?:the|this|that|these|those|your|my"
    r"|it)\b)(?:[\w-]+ ){0,2}"
    r"(?:sentences|paragraphs|wording|titles|headings|functions|classes|variables|names|commits|tests|imports|tabs|spaces"
    r"|quotes|types)(?: (?:in|for) [\w -]{3,30}?)?)(?=\s*(?:[,.;!()\x00]|\Z))"
)
"""'I prefer short sentences in dialogue'."""
_TASTE_STOP = re.compile(
    r"\b(?:you|your|this|that|it|be|the (?:first|second|former|latter|other)|these|those|not|have|see|know|do"
    r"|option)\b"
)


_BEFORE_A_LANGUAGE = (" in ", " to ", "use ", "using ", "language")
"""What `_REPLY_IN` and `_BACK` match has one of these, or begins the sentence with "in "."""


def preferences(sentence: Sentence) -> list[Draft]:
    """The settings that a statement asks for permanently.

    >>> from recollect.enrich.sentences import sentences
    >>> [(draft.key, draft.value) for draft in preferences(sentences("From now on, answer in French.")[0])]
    [('reply_language', 'French')]
    """
    asked = list(_asked_for(sentence))
    if any(draft.layer == "preference" for draft in asked) and (elsewhere := _FOR_OTHERS.search(sentence.low)):
        words = sentence.text.rstrip(" .!\x00")
        span = sentence.start, sentence.start + len(words)
        return [Draft("learning", "preference", words, 0.72, span)] if elsewhere.start() else []
    return [] if asked and _ONCE.search(sentence.low) else asked


def _asked_for(sentence: Sentence) -> Iterator[Draft]:
    """The same, and what is asked for only once."""
    low = sentence.low
    if _OTHERS_WISH.match(low):
        return
    if _WORK_RULE.match(low):  # "commit messages: no emoji" says nothing of the answers
        yield from _instructions(sentence)
        return
    topical = _TOPIC.search(low) is not None
    may_name_language = low.startswith("in ") or any(map(low.__contains__, _BEFORE_A_LANGUAGE))
    lasting = (topical or may_name_language) and _LASTING.search(low) is not None
    seen: set[str] = set()
    for rule in _RULES if topical else ():
        if rule.key in seen or not (rule.alone or lasting):
            continue
        match = rule.pattern.search(low)
        if match is None or (
            not _avoids(rule) and _NEGATED.search(low, 0, match.start() + 1) and rule.key != "verbosity"
        ):
            continue
        if (_avoids(rule) and _OWN_HABIT.search(low, 0, match.end())) or _OWN_DOING.search(low, 0, match.start()):
            continue
        if _FOR_ONCE.search(match.group()) and not _STANDING.search(low):
            continue
        seen.add(rule.key)
        yield Draft("preference", rule.key, rule.value, _confidence(rule, low), _span(sentence, match))
    if may_name_language and "reply_language" not in seen and (lasting or _BACK.search(low)):
        draft = _reply_language(sentence)
        if draft is not None:
            seen.add(draft.key)
            yield draft
    if not seen:
        yield from _instructions(sentence)
        yield from _tastes(sentence)


_OTHERS_WISH = re.compile(
    r"(?:(?:my|our|his|her|the) (?:[\w'-]+ ){1,2}|he |she |they )(?:says?|said|told|tells|wants?|insists?|prefers?"
    r"|likes?"
    r"|loves?|hates?|asked|asks)\b"
)
"""What somebody else wants: "my boss says no emojis"."""
_OWN_HABIT = re.compile(r"\bi (?:never|don't|do not|dont) (?:ever )?(?:use|add|include|write|put|send)\b")
"""What the user does in their own texts is not a request about the answers."""
_OWN_DOING = re.compile(
    r"\b(?:i'll|i will|i can|i could|i should|i might|we'll|we will|we can|we should|i'm going to|i'm gonna|i need to"
    r"|i have to|i try to|i'm trying to|i plan to|he|she|they)\s*\Z|\b(?:done|do|did|made|make) (?:it|this|that) \Z"
)
"""What the user is about to do, or could not have done: "I'll keep the tone professional"."""
_FOR_ONCE = re.compile(r"\bhonest\b")
"""Asked of one answer, unless it is asked of all: "be honest with me, is it bad?"."""
_STANDING = re.compile(
    r"\b(?:from now on|always|never|prefer|going forward|by default|in (?:the )?future|i want you to|in general"
    r"|every time|each time|brutally)\b"
)


def _avoids(rule: _Rule) -> bool:
    return rule.value.startswith("no")


def _confidence(rule: _Rule, low: str) -> float:
    sure = re.search(r"\b(?:from now on|always|never|prefer|going forward|by default|in future)\b", low)
    return max(rule.confidence, 0.9) if sure else rule.confidence


def _span(sentence: Sentence, match: re.Match[str]) -> tuple[int, int]:
    return sentence.start + match.start(), sentence.start + match.end()


def _reply_language(sentence: Sentence) -> Draft | None:
    clause = Clause(sentence.text, sentence.low, sentence.start, sentence.start)
    if (back := _BACK.search(sentence.low)) and (name := back["back"] or back["again"]) in LANGUAGES:
        return Draft("preference", "reply_language", LANGUAGES[name], 0.85, clause.span(*back.span()))
    for match in _REPLY_IN.finditer(sentence.low):
        language = known(LANGUAGES, clause, match.end())
        if language and not _NEGATED.search(sentence.low, 0, match.start() + 1):
            return Draft("preference", "reply_language", language.text, 0.9, clause.span(match.start(), language.last))
    return None


_VERB = (
    r"(?:use|write|answer|reply|include|give(?! up\b)|show|cite|explain|ask|start|end|begin|add|mention|format|suggest"
    r"|recommend|respond|provide|assume|check|tell(?= (?:me|us)\b)|send|put|address|start with"
    r"|summari[sz]e|remind|double-?check"
    r"|quote|link|avoid|say|repeat|apologi[sz]e|lecture|call|skip|end"
    r"|correct|translate|convert|commit|push|merge|deploy|delete|remove|rename|install|run|edit|modify"
    r"|touch(?! a running)|test|text|phone|email|e-mail|message|contact|sign|confirm|spell|highlight|mark|speak|talk"
    r"|refer|treat|stick to|order|book)\b"
)
_LASTS = (
    r"(?:from (?:now|here) on|in (?:the )?future|going forward|always|each time|every time)"
    r"(?:,? (?:please|pls|thanks|ok))?\W*\Z"
)
_LASTS_OF_NOT = (
    r"(?:unless i (?:(?:explicitly |specifically )?(?:ask|say so|tell you|want (?:it|them))(?: to| for (?:it|them))?)"
    r"(?:,? (?:please|pls))?\W*\Z|ever again\b|(?:me|us) any ?more\b|(?:me|us)\b.{0,40} any ?more\W*\Z"
    r"|(?:me|us)\b.{0,40} (?:when(?:ever)?|while) (?:i'm|im|i am)\b|without asking(?: me)?(?: first)?\W*\Z"
    r"|the (?:words?|phrases?|terms?)\b.{0,60} in any\b)"
)
"""What makes a request a standing one when it comes last: "don't add comments unless I ask"."""
_INSTRUCTION = re.compile(
    r"(?:please |pls |can you |could you |and |also |i(?:'d like| want| need) you to )*(?:(?:from now on|going forward"
    r"|in (?:the )?future|by default|every time"
    rf"|always|never|don't ever|do not ever|dont ever),? (?:please |you should |always |never |don't |do not "
    rf"|only )*{_VERB}.{{3,150}}|stop (?:apologi[sz]ing"
    r"|repeating|giving|saying|adding|starting|ending|lecturing|being|suggesting|recommending|explaining|mentioning|reminding"
    r"|calling|asking (?!(?:me )?(?:that|this|it)\b))\b.{3,150}"
    r"|stop (?:apologi[sz]ing|lecturing(?: me)?|repeating yourself)(?=\W*\Z)"
    rf"|(?!call me\b){_VERB}(?=.{{0,80}}\b{_LASTS}).{{3,150}}"
    r"|use (?!(?:this|that|it|these|those|the)\b)[\w -]{3,40} everywhere(?=(?:,? (?:please|pls))?\W*\Z)"
    rf"|(?:don't|do not|dont) {_VERB}(?! (?:it|this|that)\b)(?=.{{0,80}}\b(?:{_LASTS}|{_LASTS_OF_NOT})).{{3,150}}"
    r"|not (?:start|begin|end|use|say|repeat|add|apologi[sz]e)\b(?=.{0,40}\b(?:every|each|all (?:your|the)"
    r"|any) (?:single )?"
    r"(?:answers?|repl(?:y|ies)|responses?|messages?|sentences?|explanations?|time)\b).{3,150})"
)
_WHEN_SAID = re.compile(
    r"(?:(?:and|so|also|please|ok|from now on|remember|btw|by the way)[\s,]{1,2}){0,3}(?:when(?:ever)?|every time|if"
    r"|any ?time) i (?:just |only )?(?:say|type|write|ask(?: you)? (?:for|to|about)|paste|send(?: you)?|give you"
    r"|show you"
    r"|tell you|upload|drop|post)\b(?! (?:that i|i)\b)[^.!?]{2,80}?(?:, (?:then )?| then |(?<=\x00) ?)(?:please |just"
    rf" |only |always |never |don't |dont |do not |i want you to |you (?:should |must |can )?)*(?:{_VERB}|(?:run|open"
    rf"|do"
    r"|make|keep|look|list|reply|describe|convert|fix|review|compare|pick|draw|count|sort|stop|wait|go|take)\b"
    r"|(?<=i want you to )\w).{3,150}|(?:(?:and|so|also)[\s,]{1,2})*(?:when(?:ever)?|if) i (?:just )?(?:say|write|type)"
    r" [^.!?,]{2,40},? (?:it means|that means|i mean|i always mean|i'm talking about|you can take that as) .{3,80}"
)
"""What certain words of the user stand for: "when I say \"ship it\", run the tests and open the PR"."""
_NOT_THAT = re.compile(
    r"(?:(?:we|please|and|also|so) )*(?:use|write|format|name|indent|deploy|log|lint|style|tests?|queries|commits?"
    r"|branches|dates|times|prices|imports|errors|names|variables|indentation) [^,.!?]{2,50}, never"
    r" (?!again\b|mind\b|ever\b|the\b|an?\b|in\b|on\b|at\b|for\b|when\b|stops?\b|fails?\b"
    r"|works?\b)[\w .+/'-]{2,30}\W*\Z"
)
"""A rule in few words: "tests with pytest, never unittest"."""
_AND_ALSO = re.compile(r"(?:and |also |so )+")
_RATHER = re.compile(
    r"(?:(?:please|and|also|so|ok|no) )*(?:use|prefer|stick (?:to|with)) (?P<this>[\w.+-]{2,20}),? (?:not|instead of"
    r"|rather"
    r" than|over) (?P<that>[\w.+-]{2,20})(?: (?:for|in|when|on) (?!(?:this|the|that)\b).{3,60})?\W*\Z"
)
"""'Use httpx not requests for outgoing calls': one tool rather than another, of which at least one is known."""
_KNOWN = frozenset({*TOOLS, *PROGRAMMING_LANGUAGES}) - TOOLS_AND_WORDS - {"c", "r", "go", "basic", "swift"}
_WORK_RULE = re.compile(
    r"(?:(?:and|also|btw|oh) )*(?:(?:all|our|the) )*(?:(?:commit messages?|commits|branch names|branches|prs?"
    r"|pull requests"
    r"|functions|endpoints|migrations|docstrings|imports|line length|indentation) (?:should|must)(?: always| never| all"
    r"| not)? (?:be|have|follow|use|go|live|start|end|stay|contain)\b(?!.*\bin (?:the|my|this) (?:report|essay"
    r"|thesis)\b)"
    r".{2,120}"
    r"|(?:commit messages|branch names|line length|indentation|docstrings|error handling"
    r"|naming(?=:.*(?:case\b|prefix|suffix|plural|singular))): (?!\d+\W*\Z|[^,.]*\b(?:fail|pass|miss|error|warn"
    r"|found"
    r"|broken|wrong)).{2,120}"
    r"|(?:prs?|pull requests|functions|lines|commits)(?: are| is)? (?:max(?:imum)?|at most|up to|under|no more than"
    r"|no longer than) \d[\d.,k]* ?(?:lines?|loc|files?|changes|characters|chars|columns)\b.{0,30}"
    r"|line length(?: is|:)? \d{2,3}\b.{0,30})\Z"
)
"""How the work is to look, said as a rule: "commit messages: imperative, no emoji", "PRs max 400 lines"."""
_HABIT_AT_WORK = re.compile(
    r"(?:and |but |also |so )*we (?:(?:always|never|only|don't|dont|do not) (?:ever )?(?:mock|commit(?! to (?!main"
    r"|master|develop))|push (?:to|directly|straight|without)|merge"
    r"|deploy|squash|rebase"
    r"|lint|pin"
    r"|hard-?code|invoice|quote)\b(?! (?:my|her|his|about|on the)\b).{3,120}"
    r"|(?:store|log|represent|save|keep|write|format|name) [^,.!?]{3,40} (?:as|in)"
    r" (?:utc|cents|integers?|integer cents|decimals?|iso|json|strings|uuids?|snake|camel|kebab|pascal|lower|upper)\b"
    r"[^,.!?]{0,40}(?:,.{0,40})?)\Z"
)
"""What a team does as a rule: "we never mock the database", "we store money as integer cents everywhere"."""
_LEADS = re.compile(r"[^:.!?\x00]{3,40}: (?=\w)")
"""What comes before a colon, when the sentence goes on behind it: "our conventions: always use ruff"."""
_WHEN_YOU = re.compile(
    r"i (?:really |also |just )*(?:don't like|dont like|do not like|hate|can't stand|dislike|like|love"
    r"|prefer) (?:it )?when you"
    r" (?:always |just |only |also )?(?:say|use|explain|answer|reply|write|add|give(?! up)|end|start|begin|repeat"
    r"|apologi[sz]e|call me|ask|list|summari[sz]e|include|put|format|quote|respond)\b(?! (?:that|this|it)\W*\Z).{2,100}"
)
"""'I don't like it when you apologise': of the answers, not of people."""
_PROVERBS = re.compile(
    r"\b(?:always|never) (?:say|ask) (?:never|die|yes|no)\b|\bwinning team\b|\b(?:lol|haha+)\b"
    r"|\A\W*stop \w+ (?:that|this|it)\W*\Z"
    r"|(?:my \w+|mum|mom|dad|granny|nan|he|she|they)(?: always)? (?:said|says|say|told me|tells me)\W*\Z"
)
"""Sayings, jokes, and what somebody else says: "always write home, mum said"."""
_BEFORE_IT = re.compile(
    r"(?:(?!(?:i|i'm|i've|he|she|they|we|my|our|his|her|their|says?|said|told|rules?|motto|saying|advice|in|on|if|when)\b)"
    r"[\w';/.-]{1,20} ){0,5}[\w';/.-]{1,20}[,;] (?:and |so |but )?(?=(?:please |pls )?(?:always|never) )"
)
"""A word or two before a standing request: "tl;dr please, always start with one"."""


def _instructions(sentence: Sentence) -> Iterator[Draft]:
    """A standing request that matches none of the settings, kept as it was said."""
    low = sentence.low
    match = _INSTRUCTION.match(low) or (_WHEN_YOU.match(low) if " when you " in low else None)
    if match is None and (" always " in low or " never " in low) and (before := _BEFORE_IT.match(low)):
        match = _INSTRUCTION.match(low, before.end())
    if match is None and ": " in low and (led := _LEADS.match(low)):
        match = _INSTRUCTION.match(low, led.end()) or _NOT_THAT.match(low, led.end())
    if match is None and " i " in low:
        match = _WHEN_SAID.match(low)
    if match is None and ", never " in low:
        match = _NOT_THAT.match(low)
    if match is None:
        match = _WORK_RULE.match(low) or (_HABIT_AT_WORK.match(low) if "we " in low else None)
    if match is None and (chosen := _RATHER.match(low)) and not {chosen["this"], chosen["that"]}.isdisjoint(_KNOWN):
        match = chosen
    if match and not _PROVERBS.search(match.group()) and match.group().replace("\x00", "").strip(" .,!"):
        joint = _AND_ALSO.match(low, match.start())
        first, last = joint.end() if joint else match.start(), match.end()
        words = sentence.text[first:last].strip()
        yield Draft("learning", "preference", words, 0.72, (sentence.start + first, sentence.start + last))


def _tastes(sentence: Sentence) -> Iterator[Draft]:
    """'I prefer tea over coffee' is not a setting, but worth knowing."""
    for match in _BEST.finditer(sentence.low) if " best " in sentence.low else ():
        verb, how = match["verb"], sentence.text[slice(*match.span("how"))].strip()
        yield Draft("learning", "preference", f"the user {verb}s best {how}", 0.75, _span(sentence, match))
    for match in _REACHED.finditer(sentence.low) if "contact" in sentence.low or "reach" in sentence.low else ():
        how = sentence.text[slice(*match.span("how"))].strip()
        yield Draft("learning", "preference", f"the user would rather be {how}", 0.75, _span(sentence, match))
    for match in _STYLED.finditer(sentence.low) if "prefer" in sentence.low else ():
        what = sentence.text[slice(*match.span("what"))]
        yield Draft("learning", "preference", f"the user prefers {what}", 0.75, _span(sentence, match))
    for match in _PREFERS.finditer(sentence.low) if "prefer" in sentence.low else ():
        if not _TASTE_STOP.search(match.group()[match.start("what") - match.start() :]):
            first, last = match.span()
            words = sentence.text[match.start("what") : last]
            yield Draft(
                "learning",
                "preference",
                f"the user prefers {words}",
                0.75,
                (sentence.start + first, sentence.start + last),
            )
