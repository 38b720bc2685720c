"""A profile as the notes of a careful assistant: one line for each thing, in plain words, dated once."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from recollect.policies.keys import KEYS, PREFERENCES


@dataclass(frozen=True, slots=True)
class Noted:
    """A value in the notes: what it is to the user, when it was said if it may change, and whether it is sure."""

    value: str
    kind: str = ""
    month: str = ""
    is_sure: bool = True


TOGETHER: dict[str, tuple[str, ...]] = {
    "name": ("nickname",),
    "city": ("region", "country"),
    "occupation": ("employer",),
}
"""Keys whose line includes the lines of others."""
_JOINED = {"nickname": ", called {}", "region": ", {}", "country": ", {}", "employer": " at {}"}
_WORDS = {
    "nickname": "Goes by {}",
    "city": "Lives in {}",
    "region": "Lives in {}",
    "country": "Lives in {}",
    "hometown": "Comes from {}",
    "timezone": "Time zone: {}",
    "employer": "Works at {}",
    "industry": "Works in {}",
    "programming_language": "Programs in {}",
    "tool": "Uses {}",
    "vehicle": "Drives {}",
    "hobby": "Enjoys {}",
    "likes": "Likes {}",
    "dislikes": "Does not like {}",
    "avoids": "Does not eat or drink {}",
    "allergy": "Allergic to {}",
    "medical_condition": "Health: {}",
    "medication": "Takes {}",
}
_MANY = {"child": "Children", "goal": "Goals"} | {
    name: f"{name.capitalize()}s"
    for name in (
        "parent",
        "sibling",
        "relative",
        "friend",
        "roommate",
        "neighbour",
        "teacher",
        "colleague",
        "pet",
        "device",
        "language",
    )
}
_OWN = {"my": "their", "our": "their", "me": "them", "us": "them", "myself": "themselves", "mine": "theirs"}
_AS_OF = re.compile(r" \(as of ([A-Z][a-z]+ \d{4})\)\Z")
_OF_THE_USER = re.compile(rf"\b(?:{'|'.join(_OWN)})\b")


def note(key: str, values: Sequence[Noted], more: Sequence[tuple[str, Noted]] = ()) -> str:
    """The line of a key; `more` are values of other keys that it includes.

    >>> note("sibling", [Noted("Ana", "sister")])
    'Sibling: Ana (sister)'
    >>> note("city", [Noted("Bergen", month="March 2026")], [("country", Noted("Norway", month="March 2026"))])
    'Lives in Bergen, Norway (as of March 2026)'
    """
    every = [*values, *(noted for _, noted in more)]
    months = {noted.month for noted in every}
    month = months.pop() if len(months) == 1 else ""
    show = _shown(month, third_person if key == "goal" else str)
    told = _words(key, len(values)).format(", ".join(map(show, values)))
    told += "".join(_JOINED[name].format(show(noted)) for name, noted in more)
    return f"{told} (as of {month})" if month else told


def common_month(lines: Sequence[str]) -> str:
    """The month that most of the notes share, for their heading; empty when no two share one.

    >>> common_month(["Name: Ann", "Lives in Oslo (as of May 2026)", "Enjoys chess (as of May 2026)"])
    'May 2026'
    """
    months = Counter(match[1] for line in lines if (match := _AS_OF.search(line)))
    month, count = months.most_common(1)[0] if months else ("", 0)
    return month if count > 1 else ""


def undated(line: str, month: str) -> str:
    """A note without its month where the heading says the same.

    >>> undated("Lives in Oslo (as of May 2026)", "May 2026"), undated("Lives in Oslo (as of May 2026)", "June 2026")
    ('Lives in Oslo', 'Lives in Oslo (as of May 2026)')
    """
    return line.removesuffix(f" (as of {month})") if month else line


def third_person(words: str) -> str:
    """What users said about themselves, as others would say it: "improve my French" is "improve their French"."""
    return _OF_THE_USER.sub(lambda match: _OWN[match.group()], words)


def _words(key: str, count: int) -> str:
    if count > 1 and key in _MANY:
        return f"{_MANY[key]}: {{}}"
    named = KEYS[key].label if key in PREFERENCES else key.replace("_", " ")
    # Braces in a custom key are not placeholders for a value.
    plain = f"{named[:1].upper()}{named[1:]}".replace("{", "{{").replace("}", "}}")
    return _WORDS.get(key, f"{plain}: {{}}")


def _shown(common: str, words: Callable[[str], str]) -> Callable[[Noted], str]:
    def show(noted: Noted) -> str:
        month = f"as of {noted.month}" if noted.month and noted.month != common else ""
        details = [detail for detail in (noted.kind, month, "" if noted.is_sure else "not sure") if detail]
        value = words(noted.value)
        return f"{value} ({', '.join(details)})" if details else value

    return show
