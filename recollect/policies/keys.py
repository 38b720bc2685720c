"""The keys of a profile: what can be known about a user by name, and how each key behaves.

The table is open-ended. A key that is not in it works just as well: it has one value at a
time and does not fade. `key_of` maps every spelling of a key to the same name.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from unicodedata import normalize

from recollect.policies.patterns import pattern_of
from recollect.policies.words import LETTERS

KEY_MAX = 64
"""Maximum characters of a key. A longer one is a sentence, not a name."""
NAMES_KEPT = 4_096
"""How many names have their key cached: every query reads a profile, which looks up each of its names three times."""


@dataclass(frozen=True, slots=True)
class Key:
    """How a fact or preference behaves.

    With `many` it holds a set of values, otherwise a new value ends the old one. Confidence in it
    halves every `half_life_days` (None: it does not fade). `label` is how people would say it,
    `asked` other words they ask for it with, which are true of any value.
    """

    name: str
    many: bool = False
    half_life_days: int | None = None
    label: str = ""
    asked: str = ""


# A half-life is roughly how long such a thing stays true of people who no longer talk about it:
# an age is wrong within a year, a goal is reached or dropped within months, jobs last about three
# years and homes about five. Names, birthdays, families and allergies do not fade.
_AGE, _GOAL, _JOB, _HOME, _HABIT, _GEAR = 365, 180, 1_095, 1_825, 1_095, 730

_FACTS = (
    Key("name", label="is called"),
    Key("nickname", label="likes to be called"),
    Key("pronouns", label="uses the pronouns"),
    Key("age", half_life_days=_AGE, label="is this old"),
    Key("birthday", label="has their birthday on", asked="born"),
    Key("city", half_life_days=_HOME, label="lives in", asked="home"),
    Key("region", half_life_days=_HOME, label="lives in the region of"),
    Key("country", half_life_days=_HOME, label="lives in the country"),
    Key("hometown", label="comes from", asked="born"),
    Key("nationality", label="is a national of"),
    Key("timezone", half_life_days=_HOME, label="is in the time zone"),
    Key("occupation", half_life_days=_JOB, label="works as", asked="job profession"),
    Key("employer", half_life_days=_JOB, label="works at", asked="job company"),
    Key("industry", half_life_days=_JOB, label="works in", asked="job"),
    Key("education", many=True, label="studied", asked="university degree"),
    Key("partner", half_life_days=_HOME, label="has as partner", asked="spouse wife husband girlfriend boyfriend"),
    Key("child", many=True, label="has as child", asked="kid"),
    Key("parent", many=True, label="has as parent"),
    Key("sibling", many=True, label="has as sibling"),
    Key("relative", many=True, label="has as relative", asked="family"),
    Key("friend", many=True, label="has as friend"),
    Key("roommate", many=True, half_life_days=_HABIT, label="shares a home with", asked="flatmate housemate"),
    Key("neighbour", many=True, half_life_days=_HOME, label="lives next to"),
    Key("teacher", many=True, half_life_days=_HABIT, label="is taught by"),
    Key("colleague", many=True, half_life_days=_JOB, label="works with"),
    Key("pet", many=True, half_life_days=_HOME, label="has as pet", asked="animal"),
    Key("language", many=True, label="speaks"),
    Key("programming_language", many=True, half_life_days=_HABIT, label="programs in"),
    Key("tool", many=True, half_life_days=_GEAR, label="uses"),
    Key("device", many=True, half_life_days=_GEAR, label="has the device"),
    Key("vehicle", many=True, half_life_days=_HOME, label="drives", asked="car"),
    Key("weight", half_life_days=_AGE, label="weighs"),
    Key("height", label="has the height", asked="tall"),
    Key("supports", many=True, label="supports the team", asked="club football fan"),
    Key("hobby", many=True, half_life_days=_HABIT, label="enjoys", asked="sport"),
    Key("likes", many=True, half_life_days=_HABIT, label="likes"),
    Key("dislikes", many=True, half_life_days=_HABIT, label="does not like"),
    Key("diet", half_life_days=_HABIT, label="eats", asked="food"),
    Key("avoids", many=True, half_life_days=_HABIT, label="does not eat or drink", asked="diet food"),
    Key("allergy", many=True, label="is allergic to"),
    # Many conditions stay for life, and a wrong "no longer" does more harm than a stale "still".
    Key("medical_condition", many=True, label="has the condition"),
    Key("medication", many=True, half_life_days=_GEAR, label="takes the medicine", asked="pills"),
    Key("goal", many=True, half_life_days=_GOAL, label="wants to"),
)

_PREFERENCES = (
    Key("tone", label="tone of answers"),
    Key("verbosity", label="length of answers"),
    Key("format", label="form of answers"),
    Key("emoji", label="emoji in answers"),
    Key("units", label="units of measure"),
    Key("theme", label="colours of the screen"),
    Key("reply_language", label="language of answers"),
    Key("code_comments", label="comments in code"),
    Key("currency", label="currency"),
    Key("date_format", label="form of dates"),
    Key("time_format", label="form of times"),
)

_ROLES = (
    "accountant au_pair babysitter cardiologist childminder chiropractor cleaner counsellor counselor dentist "
    "dermatologist dietitian doctor endocrinologist gp gynaecologist gynecologist hairdresser landlady landlord lawyer "
    "midwife nanny neurologist nutritionist oncologist optician orthodontist osteopath paediatrician pediatrician "
    "physio physiotherapist psychiatrist psychologist rheumatologist social_worker solicitor surgeon therapist "
    "urologist vet"
)
ROLES = frozenset(_ROLES.split())
"""What people may be to the user by their work. Each is a key of its own, with one person at a time."""
PEOPLE = (
    "partner", "child", "parent", "sibling", "relative", "friend", "roommate", "neighbour", "teacher", "colleague",
    "pet", *ROLES,
)  # fmt: skip
"""Keys whose values are somebody one meets."""

KEYS: dict[str, Key] = {key.name: key for key in (*_FACTS, *_PREFERENCES)}
"""Every key that is known by name, facts first."""
PREFERENCES = frozenset(key.name for key in _PREFERENCES)
"""The keys that are settings of the user, not facts."""

FOLLOWERS = {"city": ("region", "country", "timezone")}
"""Keys whose value depends on that of another: with a new city they are unknown until they are said again."""

OPPOSITES = {"likes": ("dislikes",), "hobby": ("dislikes",), "dislikes": ("likes", "hobby")}
"""Keys that exclude each other: somebody who likes a thing no longer dislikes it, and vice versa."""

AT_ODDS = {"occupation": "employer", "employer": "occupation"}
"""Keys of which one may end the other: somebody out of work has no employer, and vice versa."""

_WITHOUT_WORK = frozenset(
    ("unemployed", "retired", "between jobs", "out of work", "housewife", "househusband", "homemaker")
)


def is_without_work(occupation: str) -> bool:
    """Whether somebody with this occupation works for nobody.

    >>> is_without_work("Retired"), is_without_work("stay-at-home dad"), is_without_work("freelancer")
    (True, True, False)
    """
    low = occupation.casefold()
    return low in _WITHOUT_WORK or low.startswith(("stay-at-home", "stay at home"))


_SPELLINGS = {
    "name": "full_name first_name given_name user_name real_name called",
    "nickname": "nick_name preferred_name goes_by call_me",
    "pronouns": "pronoun gender_pronouns preferred_pronouns",
    "age": "years_old how_old",
    "birthday": "birth_date birthdate date_of_birth dob bday born born_on",
    "city": "location town lives_in residence home_city current_city current_location place",
    "region": "state province county us_state",
    "country": "home_country current_country nation",
    "hometown": "home_town birthplace birth_place place_of_birth grew_up_in born_in from origin comes_from",
    "nationality": "citizenship citizen_of",
    "timezone": "time_zone tz",
    "occupation": "job profession job_title role career work works_as position title",
    "employer": "company workplace works_at works_for organization organisation employer_name place_of_work",
    "industry": "sector field works_in business_sector",
    "education": "school university college degree studied alma_mater major field_of_study studies",
    "partner": "spouse wife husband girlfriend boyfriend fiance fiancee fiancé fiancée significant_other married_to",
    "child": "children kid kids son daughter sons daughters",
    "parent": "parents mother father mom mum dad mama papa stepmother stepfather stepmom stepdad",
    "sibling": "siblings brother sister brothers sisters half_brother half_sister stepbrother stepsister",
    "relative": (
        "relatives family grandmother grandfather grandma grandpa gran granny nan nana grandad granddad grandson "
        "granddaughter aunt auntie uncle cousin niece nephew"
    ),
    "friend": "friends best_friend bestie",
    "roommate": "roommates flatmate flatmates housemate housemates",
    "neighbour": "neighbours neighbor neighbors",
    "teacher": "teachers tutor professor coach instructor",
    "colleague": "colleagues coworker coworkers co_worker boss teammate",
    "pet": "pets dog cat dogs cats pet_name",
    "language": "languages speaks spoken_language spoken_languages native_language mother_tongue",
    "programming_language": "programming_languages coding_language coding_languages codes_in",
    "tool": "tools software app apps uses editor",
    "device": "devices phone laptop computer hardware",
    "vehicle": "vehicles car cars bike motorbike motorcycle drives",
    "hobby": "hobbies interest interests pastime pastimes likes_to_do enjoys",
    "likes": "like loves love taste tastes",
    "dislikes": "dislike hates hate cannot_stand",
    "diet": "dietary_preference dietary_preferences dietary_restriction dietary_restrictions eating_habits",
    "avoids": "does_not_eat not_eaten foods_avoided",
    "allergy": "allergies allergic_to allergic food_allergy food_allergies intolerance",
    "medical_condition": "medical_conditions condition health_condition illness disease diagnosis health",
    "medication": "medications medicine medicines meds med pills tablets prescription prescriptions drug drugs",
    "goal": "goals objective objectives aim ambition resolution dream",
    "tone": "style voice communication_style manner",
    "verbosity": "length answer_length reply_length response_length detail level_of_detail conciseness",
    "format": "formatting output_format response_format answer_format",
    "emoji": "emojis use_emojis",
    "units": "unit unit_system measurement_units measurement_system temperature_unit",
    "theme": "color_theme color_scheme ui_theme display_mode appearance",
    "reply_language": "response_language answer_language preferred_language output_language",
    "code_comments": "comments comments_in_code",
}
ALIASES: dict[str, str] = {spelling: name for name, spellings in _SPELLINGS.items() for spelling in spellings.split()}
"""Other names of known keys, normalised: `job` is `occupation`."""

_BRITISH = (("favourite", "favorite"), ("colour", "color"), ("flavour", "flavor"))
_NOT_IN_A_KEY = pattern_of(rf"(?:[^{LETTERS}]|_)+")
_ARTICLE = pattern_of(r"(?:the|a|an) (?=\S)")


@lru_cache(NAMES_KEPT)
def key_of(name: str) -> Key:
    """The key that a free-form name means; an unknown one is open, with one value at a time.

    The key's name is in lower case with `_` between words, and empty if there are no letters at all.

    >>> key_of("Favourite Food").name, key_of("job").name, key_of("Allergies").many
    ('favorite_food', 'occupation', True)
    """
    plain = _plain(name)[:KEY_MAX].strip("_")
    plain = ALIASES.get(plain, plain)
    return KEYS.get(plain) or Key(plain, label=plain.replace("_", " "))


def is_sentence(name: str) -> bool:
    """Whether a name is too long to be that of a key: only its beginning would count."""
    return len(_plain(name)) > KEY_MAX


def _plain(name: str) -> str:
    return _NOT_IN_A_KEY.sub("_", as_in_keys(normalize("NFC", name.casefold()))).strip("_")


def as_in_keys(low: str) -> str:
    """Words in lower case, spelled as the names of keys are.

    >>> as_in_keys("my favourite colour")
    'my favorite color'
    """
    for british, american in _BRITISH:
        low = low.replace(british, american)
    return low


def same_value(a: str, b: str) -> bool:
    """True when two values say the same, however they are written.

    >>> same_value("NYC", " nyc."), same_value("The Guardian", "guardian")
    (True, True)
    """
    return plain_value(a) == plain_value(b)


def plain_value(value: str) -> str:
    """A value as it is compared: values that say the same have it in common."""
    words = " ".join(value.casefold().replace("’", "'").split()).strip(" .,;:!?\"'")
    article = _ARTICLE.match(words)
    return words[article.end() :] if article else words
