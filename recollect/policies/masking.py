"""Secrets and personal data in a text, found and masked before anything is stored, embedded or sent.

A list of our own, short and reliable: every row of `RULES` has a shape that hardly anything else has, and a
checksum where one exists. No library on the package index fits: Presidio and scrubadub pull in spaCy or
scikit-learn and take milliseconds per text, detect-secrets scans files with plugins and knows no personal
data, and DataFog verifies neither card nor account numbers by their checksums. Names, addresses and whatever
else needs understanding are not found; what is not certain is left as it was said.

Every pattern reads a bounded stretch from each position where it may begin, so time is linear in the text.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

from recollect.policies.patterns import pattern_of

GROUPS: Mapping[str, tuple[str, ...]] = {
    "secrets": ("private_key", "api_key", "token", "password"),
    "personal": ("card", "iban", "ssn", "email", "phone", "ip"),
}
KINDS = tuple(kind for kinds in GROUPS.values() for kind in kinds)
MASKS = {kind: f"[{kind.replace('_', ' ')}]" for kind in KINDS}

ROUNDS_MAX = 4
"""What is next to a mask may be a find that its neighbour hid, so masking looks again, at most this often."""
NUMBER_MIN = 10**12
"""JSON numbers below this have fewer digits than a card."""


PASSWORD_MIN, KEY_MIN = 4, 8
"""Shorter than this, what is said to be one is just a word of the sentence."""
Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Secret:
    """Something that should not be kept: its kind and its position, never its value."""

    kind: str
    span: Span


def parse_kinds(setting: str) -> frozenset[str]:
    """The kinds that a setting names, by group or one by one: `""`, `"secrets"`, `"secrets, card, iban"`.

    >>> sorted(parse_kinds("secrets"))
    ['api_key', 'password', 'private_key', 'token']
    """
    kinds: set[str] = set()
    for name in filter(None, (part.strip() for part in setting.split(","))):
        if name not in GROUPS and name not in KINDS:
            raise ValueError(f"unknown kind to mask; the kinds are {', '.join((*GROUPS, *KINDS))}")
        kinds.update(GROUPS.get(name, (name,)))
    return frozenset(kinds)


def find(text: str, kinds: frozenset[str]) -> list[Secret]:
    """What should not be kept of a text, in order; overlapping finds are joined."""
    if not kinds:
        return []
    lower = _lowered(text)
    known = [mask.span() for mask in _MASK.finditer(text)] if "[" in text else []
    numbers = not kinds.isdisjoint(_NUMERIC) and _NUMBER.search(text) is not None
    rules = [rule for rule in RULES if rule.kind in kinds and (numbers or rule.kind not in _NUMERIC)]
    spans = ((rule.kind, rule.span(match)) for rule in rules for match in rule.matches(text, lower))
    return _joined([Secret(kind, span) for kind, span in spans if span is not None and not _touches(span, known)])


def masked(text: str, kinds: frozenset[str]) -> tuple[str, tuple[str, ...]]:
    """The text with a mask in place of every find, and the kinds of what was found.

    >>> masked("Mail ann@example.com, my password is hunter2.", parse_kinds("secrets, personal"))
    ('Mail [email], my password is [password].', ('email', 'password'))
    """
    kinds_found: tuple[str, ...] = ()
    for _ in range(ROUNDS_MAX):
        found = find(text, kinds)
        if not found:
            break
        kinds_found += tuple(secret.kind for secret in found)
        text = _replaced(text, found)
    return text, kinds_found


def masked_value(value: Any, kinds: frozenset[str]) -> tuple[Any, tuple[str, ...]]:
    """A JSON value with every text in it masked, and the kinds of what was found; keys stay as they are.

    A text that is JSON itself, as the arguments of a tool call are, stays JSON. A text under a key
    such as `password` is masked whole, whatever it looks like.
    """
    if not kinds:
        return value, ()
    found: list[str] = []
    return _walked(value, kinds, found), tuple(found)


def _walked(value: Any, kinds: frozenset[str], found: list[str]) -> Any:
    if isinstance(value, str):
        return _text(value, kinds, found)
    if isinstance(value, list | tuple):
        return [_walked(item, kinds, found) for item in value]
    if isinstance(value, Mapping):
        return {key: _entry(key, item, kinds, found) for key, item in value.items()}
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= NUMBER_MIN:
        told = _text(str(value), kinds, found)
        return value if told == str(value) else told
    return value


def _entry(key: Any, value: Any, kinds: frozenset[str], found: list[str]) -> Any:
    """The value under a key; the key itself may say that it is a secret."""
    named = _NAMED.fullmatch(key) if isinstance(key, str) else None
    kind = named.lastgroup if named else None
    if kind in kinds and isinstance(value, str | int) and not isinstance(value, bool):
        said = str(value)
        if (
            said
            and said not in MASKS.values()
            and (_is_chance(said) if kind == "api_key" else said.lower() not in _ORDINARY)
        ):
            found.append(kind)
            return MASKS[kind]
    return _walked(value, kinds, found)


def _text(text: str, kinds: frozenset[str], found: list[str]) -> str:
    plain, kinds_found = masked(text, kinds)
    if kinds_found and text.lstrip()[:1] in ("{", "["):
        within: list[str] = []
        try:
            told = json.dumps(_walked(json.loads(text), kinds, within), ensure_ascii=False)
        except (ValueError, RecursionError):
            told = text
        # A find in a key, or in a number that only its key explains, is masked at the cost of valid JSON.
        if not find(told, kinds):
            found += within
            return told
    found += kinds_found
    return plain


def _lowered(text: str) -> str:
    """The text in lower case, position by position: a few letters become two, and then only ASCII ones are changed."""
    lower = text.lower()
    if len(lower) == len(text):
        return lower
    return "".join(character.lower() if character.isascii() else character for character in text)


def _touches(span: Span, masks: list[Span]) -> bool:
    """Whether a find overlaps a mask: what is masked is not examined again."""
    place = bisect_left(masks, (span[1], 0))
    return place > 0 and masks[place - 1][1] > span[0]


def _joined(found: list[Secret]) -> list[Secret]:
    """Finds in order, overlapping ones joined, with the kind of the longest."""
    joined: list[Secret] = []
    for secret in sorted(found, key=lambda each: (each.span[0], -each.span[1])):
        last = joined[-1] if joined else None
        if last is None or secret.span[0] >= last.span[1]:
            joined.append(secret)
        elif secret.span[1] > last.span[1]:
            longest = max(last, secret, key=lambda each: each.span[1] - each.span[0])
            joined[-1] = Secret(longest.kind, (last.span[0], secret.span[1]))
    return joined


def _replaced(text: str, found: list[Secret]) -> str:
    ends = [0, *(end for secret in found for end in secret.span), len(text)]
    kept = [text[start:end] for start, end in list(pairwise(ends))[::2]]
    return "".join(
        part for pair in zip(kept, [*(MASKS[each.kind] for each in found), ""], strict=True) for part in pair
    )


# ── what only looks like one ─────────────────────────────────────────────────────────────────────


def is_card(digits: str) -> bool:
    """Whether a number is one that a card can have: its issuer, its length and its checksum (Luhn)."""
    if not _ISSUERS.fullmatch(digits):
        return False
    doubled = (int(digit) * (1 + place % 2) for place, digit in enumerate(reversed(digits)))
    return sum(value - 9 if value > 9 else value for value in doubled) % 10 == 0


def is_iban(account: str) -> bool:
    """Whether an account number has the length of its country and the right checksum (mod 97)."""
    if _IBAN_LENGTHS.get(account[:2]) != len(account):
        return False
    return int("".join(str(int(character, 36)) for character in account[4:] + account[:4])) % 97 == 1


def _card(match: re.Match[str]) -> Span | None:
    return match.span() if is_card(_digits(match[0])) else None


def _iban(match: re.Match[str]) -> Span | None:
    """The country code and as much after it as that country's accounts are long."""
    start = match.start() - 2
    said = match.string[start : match.end(1)]
    left = _IBAN_LENGTHS.get(said[:2].upper(), 0)
    for place, character in enumerate(said, start=1):
        left -= character != " "
        if left == 0:
            ends = not match.string[start + place : start + place + 1].isalnum()
            account = said[:place].replace(" ", "").upper()
            return (start, start + place) if ends and is_iban(account) else None
    return None


def _ssn(match: re.Match[str]) -> Span | None:
    """Only area, group and serial numbers that were ever issued."""
    digits = _digits(match[1])
    given = digits[:3] not in ("000", "666") and digits[0] != "9" and digits[3:5] != "00" and digits[5:] != "0000"
    return match.span(1) if given else None


def _phone(match: re.Match[str]) -> Span | None:
    """Only numbers as long as telephone numbers; a single point makes a decimal."""
    said, digits = match[0], _digits(match[0]).removeprefix("00")
    separated = not said.lstrip("+").isdigit()
    if digits.startswith("1") and (len(digits) != 11 or digits[1] in "01"):
        return None
    if said.count(".") == 1 and not re.search(r"[ ()/-]", said):
        return None
    return match.span() if (8 if separated else 9) <= len(digits) <= 15 else None


def _named_phone(match: re.Match[str]) -> Span | None:
    return match.span(1) if 7 <= len(_digits(match[1])) <= 15 and not _DATE.match(match[1]) else None


def _email(match: re.Match[str]) -> Span | None:
    """Not a login, as in `https://ann:secret@example.com` and `git@example.com`."""
    before = match.string[max(0, match.start() - 100) : match.start()]
    return None if match[0].startswith("git@") or _LOGIN.search(before) else match.span()


def _address(match: re.Match[str]) -> Span | None:
    """Not this machine, not a wildcard or broadcast address, and not a version or a section: 1.2.3.4."""
    octets = [int(part) for part in match[0].split(".")]
    before = match.string[max(0, match.start() - 10) : match.start()].lower().rstrip()
    plausible = 9 < max(octets) <= 255 and octets[0] not in (0, 127, 255)
    return match.span() if plausible and not before.endswith(("version", "release", "section")) else None


def _password(match: re.Match[str]) -> Span | None:
    """What is said to be a password, unless it is code, a type, or how the sentence continues."""
    value, quoted, (start, end) = _value(match)
    if _CODE.match(value) or _is_placeholder(value) or value.rstrip("!").lower() in _ORDINARY:
        return None
    if not quoted and len(value) < PASSWORD_MIN:
        return None
    if _WORD.fullmatch(value) and not quoted and match["given"] not in ("=", ":="):
        return (start, end) if _CLAUSE_END.match(match.string, end) else None
    return start, end


def _named_key(match: re.Match[str]) -> Span | None:
    """What is said to be a key or token and looks random: letters and digits, not a word and not a count."""
    value, _, span = _value(match)
    if _CODE.match(value) or _is_placeholder(value) or len(value) < KEY_MIN:
        return None
    return span if _is_chance(value) else None


def _value(match: re.Match[str]) -> tuple[str, bool, Span]:
    """The value after a name and its sign, without the end of the sentence; whether it was quoted; and its span."""
    place = match.lastindex or 0
    quoted = match.end(place) != match.end()
    value = match[place] if quoted else match[place].rstrip(".:?)]}")
    return value, quoted, (match.start(place), match.start(place) + len(value))


def _chance(match: re.Match[str]) -> Span | None:
    return match.span(match.lastindex or 0) if _is_chance(match[match.lastindex or 0]) else None


def _long_chance(match: re.Match[str]) -> Span | None:
    return match.span() if _is_chance(match[0]) and _RUN.search(match[0]) else None


def _mixed(match: re.Match[str]) -> Span | None:
    """Forty characters of base64, which a hash in hexadecimal digits is not."""
    value = match[1]
    return match.span(1) if _is_chance(value) and value != value.lower() and value != value.upper() else None


def _whole(match: re.Match[str]) -> Span | None:
    return match.span(match.lastindex or 0)


def _digits(text: str) -> str:
    return "".join(filter(str.isdigit, text))


def _is_chance(value: str) -> bool:
    return any(map(str.isdigit, value)) and any(map(str.isalpha, value))


def _is_placeholder(value: str) -> bool:
    lower = value.lower()
    return set(lower) <= set("*•.x_-?") or any(word in lower for word in ("your", "example", "placeholder", "redacted"))


_LOGIN = pattern_of(r"://[^\s/]*$")
_RUN = pattern_of(r"[A-Za-z0-9]{16}")
_DATE = pattern_of(r"\d{4}[-/.]\d\d?[-/.]\d\d?\b|\d\d?[-/.]\d\d?[-/.](?:\d{4}|\d\d)\b")
_WORD = pattern_of(r"[^\W\d_]+(?:[-'’][^\W\d_]+)*!?")
_CLAUSE_END = pattern_of(r"\s*(?:$|[\n.,;:!?)\]}])|\s+(?:and|but|so|for|on|now|please|thanks)\b")
_CODE = pattern_of(
    r"\$[A-Z_{(]|[{<%]|https?:|[A-Za-z_][\w.]*[(\[]|[A-Za-z_]+(?:\.[A-Za-z_]+)+$|(?:process|os|self|env|config)\."
)
_ORDINARY_WORDS = (
    "about again almost already also always any anything blank bool boolean broken bytes case-sensitive changed "
    "compromised correct default different empty enough enter expired expiring false field fine forgotten from good "
    "gone hard hashed here hidden incorrect input int invalid just known leaked length long lost mandatory missing "
    "must needed never none null number optional outdated password please protected protection random really "
    "required reset rotated safe same secret secretstr secure shared short simple something still stored str strong "
    "string stuck synced temporary text that their there this true type undefined unchanged under unique unknown unset "
    "used valid value varchar very weak what working wrong your"
)
_ORDINARY = frozenset(_ORDINARY_WORDS.split())
_ISSUERS = pattern_of(
    r"4\d{15}|4\d{18}|5[1-5]\d{14}|2(?:22[1-9]|2[3-9]\d|[3-6]\d\d|7[01]\d|720)\d{12}|3[47]\d{13}"
    r"|3(?:0[0-5]|[689]\d)\d{11}|35(?:2[89]|[3-8]\d)\d{12}|6(?:011|4[4-9]\d|5\d\d|2\d\d)\d{12,15}|(?:50|5[678]|6)\d{14,17}"
)
_IBAN_ROWS = (
    "AD24 AE23 AL28 AT20 AZ28 BA20 BE16 BG22 BH22 BR29 BY28 CH21 CR22 CY28 CZ24 DE22 DK18 DO28 EE20 EG29 ES24 "
    "FI18 FO18 FR27 GB22 GE22 GI23 GL18 GR27 GT28 HR21 HU28 IE22 IL23 IQ23 IS26 IT27 JO30 KW30 KZ20 LB28 LC32 "
    "LI21 LT20 LU20 LV21 LY25 MC27 MD24 ME22 MK19 MR27 MT31 MU30 NL18 NO15 PK24 PL28 PS29 PT25 QA29 RO24 RS22 "
    "SA24 SC31 SE24 SI19 SK24 SM27 ST25 SV28 TL23 TN24 TR26 UA29 VA22 VG24 XK20"
)
_IBAN_LENGTHS = {row[:2]: int(row[2:]) for row in _IBAN_ROWS.split()}


# ── the table ────────────────────────────────────────────────────────────────────────────────────


class Rule(NamedTuple):
    """One shape. It is matched where one of its `starts` occurs, or searched for in a text that has what it `needs`."""

    kind: str
    pattern: re.Pattern[str]
    span: Callable[[re.Match[str]], Span | None] = _whole
    starts: tuple[str, ...] = ()
    needs: str = ""

    def matches(self, text: str, lower: str) -> Iterator[re.Match[str]]:
        """The matches of the shape, located by literals: `in` and `find` are many times faster than a pattern."""
        if self.needs not in lower:
            return
        if not self.starts:
            yield from self.pattern.finditer(text)
        for start in self.starts:
            place = lower.find(start)
            while place >= 0:
                match = self.pattern.match(text, place)
                if match is not None:
                    yield match
                place = lower.find(start, match.end() if match is not None else place + 1)


_KEYS = (
    r"gh[pousr]_[A-Za-z0-9]{30,255}|github_pat_\w{22,255}|glpat-[\w-]{20,255}|xox[abeoprs]-[A-Za-z0-9-]{10,255}"
    r"|xapp-[A-Za-z0-9-]{20,255}|AIza[\w-]{35,255}|[srp]k_(?:live|test)_[A-Za-z0-9]{16,255}|whsec_[A-Za-z0-9+/=]{20,255}"
    r"|(?:AKIA|ASIA)[A-Z0-9]{16,255}|hf_[A-Za-z0-9]{30,255}|npm_[A-Za-z0-9]{36,255}|pypi-AgE[\w-]{40,512}"
    r"|SG\.[\w-]{16,64}\.[\w-]{16,128}|dop_v1_[a-f0-9]{64,255}|gsk_[A-Za-z0-9]{30,255}|xai-[A-Za-z0-9]{30,255}"
    r"|shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32,255}|lin_api_[A-Za-z0-9]{30,255}|dapi[a-f0-9]{32,255}|ya29\.[\w-]{20,512}"
)
_KEY = pattern_of(rf"(?<![^\W_])(?:{_KEYS})")
_KEY_STARTS = ("glpat-", "xox", "xapp-", "aiza", "akia", "asia", "pypi-", "sg.", "xai-", "dapi", "ya29.")
_KEY_STARTS_LOW = (
    "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "sk_live_", "sk_test_", "rk_live_", "rk_test_", "pk_live_",
    "pk_test_", "whsec_", "hf_", "npm_", "dop_v1_", "gsk_", "shpat_", "shpca_", "shppa_", "shpss_", "lin_api_",
)  # fmt: skip
_KEY_NAME = (
    r"(?:(?:(?<=api)|(?<=api[ _-])|(?<=secret)|(?<=secret[ _-])|(?<=access)|(?<=access[ _-])|(?<=private[ _-]))key"
    r"|secret|token)"
)
_NAMED = pattern_of(
    r"(?P<password>.*(?:passwor[dt]|passphrase|passcode|passwd|pwd)|pin(?:[ _-]?code)?)"
    r"|(?P<api_key>.*(?:(?:api|secret|access|private)[ _-]?key|secret|token))",
    re.IGNORECASE | re.DOTALL,
)
_GIVEN = r"""(?:\\?["'`])?\s{0,3}(?P<given>:=|=>|[:=]|\bis\b)\s{0,3}"""
_QUOTED = r""""([^"\\\n]{1,200})"|\\"([^"\\\n]{1,200})\\"|'([^'\n]{1,200})'|`([^`\n]{1,200})`"""
_BARE = r"""([^\s"'`\\,;&]{1,200}(?:&(?!\w{1,30}=)[^\s"'`\\,;&]{1,200}){0,4})"""

RULES = (
    Rule("private_key", pattern_of(
        r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
        r"(?:(?:(?!-----)[\s\S])*-----END [A-Z0-9 ]{0,60}-----|(?:(?:\s|\\n)+[A-Za-z0-9+/=]{16,})+)"),
        starts=("-----begin ",)),
    Rule("api_key", pattern_of(r"(?<![\w-])sk-[A-Za-z0-9_-]{16,255}"), _long_chance, starts=("sk-",)),
    Rule("api_key", _KEY, _chance, starts=_KEY_STARTS),
    Rule("api_key", _KEY, _chance, starts=_KEY_STARTS_LOW, needs="_"),
    Rule("api_key", pattern_of(r"(?<!\w)\d{8,10}:AA[\w-]{33}(?!\w)"), needs=":aa"),
    Rule("api_key", pattern_of(r"hooks\.slack\.com/services/(T\w{6,20}/B\w{6,20}/\w{16,40})"),
         starts=("hooks.slack.com",)),
    Rule("api_key", pattern_of(
        r"A[KS]IA[A-Z0-9]{16}[\s\S]{1,60}?(?<![\w/+=])([A-Za-z0-9/+]{40})(?![\w/+=])"), _mixed,
        starts=("akia", "asia")),
    Rule("api_key", pattern_of(f"{_KEY_NAME}{_GIVEN}(?:{_QUOTED}|{_BARE})", re.IGNORECASE), _named_key,
         starts=("key", "secret", "token")),
    Rule("token", pattern_of(r"(?<![\w-])eyJ[\w-]{8,4096}\.eyJ[\w-]{8,8192}\.[\w-]{0,2048}", re.ASCII),
         starts=("eyj",)),
    Rule("token", pattern_of(r"(?<!\w)bearer[ \t]{1,4}([\w.~+/=-]{12,4096})", re.IGNORECASE), _chance,
         starts=("bearer",)),
    Rule("token", pattern_of(
        r"authorization[\"']?\s{0,3}[:=]\s{0,3}[\"']?(?:basic|token)[ \t]{1,4}([\w.~+/=-]{12,4096})", re.IGNORECASE),
        _chance, starts=("authorization",)),
    Rule("password", pattern_of(
        r"(?<![\w+.-])[A-Za-z][A-Za-z0-9+.-]{1,20}://[^\s:/@]{0,64}:([^\s/]{1,128})@"), needs="://"),
    Rule("password", pattern_of(
        f"(?:passwor[dt]|passphrase|passcode|passwd|(?<![^\\W_])pwd){_GIVEN}(?:{_QUOTED}|{_BARE})", re.IGNORECASE),
        _password, starts=("passw", "passphrase", "passcode", "pwd")),
    Rule("password", pattern_of(
        r"(?<!\w)pin(?: ?code| number)?[\"']?\s{0,3}(?:[:=]|\bis\b)\s{0,3}[\"']?(\d{4,8})(?![\w:/-]|\.\d)",
        re.IGNORECASE), starts=("pin",)),
    Rule("card", pattern_of(
        r"[2-6](?<![\w.,-].)(?:\d{13,18}|\d{3}(?: \d{4}){3}(?: \d{3})?|\d{3}(?:-\d{4}){3}(?:-\d{3})?"
        r"|\d{3}([ -])\d{6}\1\d{4,5})(?!\w|[.,-]\d)"), _card),
    Rule("iban", pattern_of(r"\d(?<=(?<!\w)[A-Za-z]{2}\d)(?=(\d(?: ?[A-Za-z0-9]){11,28}))"), _iban),
    Rule("ssn", pattern_of(r"(\d(?<![\w-].)\d\d-\d\d-\d{4})(?![\w-])"), _ssn, needs="-"),
    Rule("ssn", pattern_of(
        r"(?:(?<!\w)ssn|social security(?: number| no\.?)?)(?:\W{1,3}is)?\W{1,3}(\d{3}([ -]?)\d\d\2\d{4})(?![\w-])",
        re.IGNORECASE), _ssn, starts=("ssn", "social security")),
    Rule("email", pattern_of(
        r"(?<![\w.+%-])[\w.+%-]{1,64}@(?!\dx\.)(?:[\w-]{1,63}\.){1,8}[^\W\d_]{2,24}(?![\w-])"), _email, needs="@"),
    Rule("phone", pattern_of(r"(?<![\w+.\]])\+[1-9](?:[ ./-]{0,2}\(?\d\)?){6,16}(?!\w|[.,-]\d)"), _phone,
         starts=("+",)),
    Rule("phone", pattern_of(
        r"(?<![\w+.])(?<!\d )00[1-9]\d{0,2}(?=[ -])(?:[ ./-]{0,2}\(?\d\)?){5,15}(?!\w|[.,-]\d)"), _phone,
        starts=("00",)),
    Rule("phone", pattern_of(
        r"[(2-9](?<![\w.+\]-].)(?:(?<=\()[2-9]\d\d\) ?[2-9]\d\d[-. ]|\d\d-[2-9]\d\d-|\d\d\.[2-9]\d\d\.)\d{4}"
        r"(?![\w-]|\.\d)")),
    Rule("phone", pattern_of(
        r"(?<!\w)(?:(?:tele)?phone|tel|mobile|cell|whatsapp|(?:call|text|reach) me)(?: number| no)?(?: is| at| on)?"
        r"[:.]?\s{1,3}(\(?\d(?:[ ()./-]{0,2}\d){6,14})(?![\w:-])", re.IGNORECASE), _named_phone,
        starts=("phone", "tel", "mobile", "cell", "whatsapp", "call me", "text me", "reach me")),
    Rule("ip", pattern_of(r"\d(?<![\w.-].)\d{0,2}(?:\.\d{1,3}){3}(?![\w-]|\.\d)"), _address),
)  # fmt: skip
_MASK = pattern_of("|".join(map(re.escape, MASKS.values())))
_NUMERIC = frozenset(GROUPS["personal"]) - {"email"}
_NUMBER = pattern_of(r"\d(?:[ ()./-]{0,2}\d){4}")
"""The least that a number of these kinds has: five digits close together."""
