"""Which teams the user supports: known clubs, or any name where the words leave no doubt that a team is meant."""

from __future__ import annotations

import re

from recollect.enrich.clauses import Clause
from recollect.enrich.names import words
from recollect.enrich.values import Drafts, Match, Said, Value, known, name_run

_SPORT = r"(?:football|soccer|rugby|cricket|hockey|basketball|baseball|handball|volleyball|nfl|nba|nhl|mlb|afl|esports)"
SUPPORT = re.compile(r"(?:have )?(?:(?:still|also|always|only) )*support(?:ed)? (?:the (?=\S))?")
SUPPORTER = re.compile(
    r"an? (?:(?:big|huge|massive|lifelong|life-long|die-?hard|avid|proud|mad|passionate|long-suffering|true) )*"
    r"(?P<team>[\w'&. -]{2,30}?) (?:fan|supporter|season[- ]ticket holder)\b(?! (?:of|club|page|fiction|base)\b)"
)
FAN_HERE = re.compile(
    r"(?:a )?(?:(?:mad|big|huge|massive|lifelong|life-long|die-?hard|proud|long-suffering) )+(?P<team>[\w'&. -]{2,30}?)"
    r" (?:fan|supporter)(?=[\s\x00]*(?:[,.!]|\Z|(?:here|since|all my life|for (?:life|years))\b))"
)
"""Without a subject, as people introduce themselves: "lifelong Everton fan here"."""
FAN_OF_TEAM = re.compile(
    r"an? (?:(?:big|huge|massive|lifelong|life-long|die-?hard|avid|proud|mad) )*(?:fan|supporter) of (?:the (?=\S))?"
)
TEAM_IS = re.compile(rf"my (?:(?P<sport>{_SPORT}) )?(?:team|club)(?:'s| is|:) (?:the (?=\S))?")
_CLUB = re.compile(
    r"(?:FC|AFC|CF|SC|AC|AS|SV|TSV|VfB|VfL|RB|Borussia|Inter|Werder|Eintracht|Hertha|Club|Deportivo|Sporting|Dynamo"
    r"|Dinamo|Olympique|Wisła|Celta|Hellas|Grasshopper) [A-ZÀ-ÖØ-Þ][\w-]+(?: [A-ZÀ-ÖØ-Þ][\w-]+)?"
    r"|(?:[A-ZÀ-ÖØ-Þ][\w'&.-]* ){0,3}(?:FC|AFC|CF|SC|United|Rovers|Wanderers|Albion|Athletic|Hotspur)\b"
)
"""How clubs are named, whichever they are."""
_SINCE_BEFORE = re.compile(r"[\s\x00]*(?:since (?:19|20)\d\d|since i was|all my life|my whole life)\b")
_OF_SPORT = re.compile(
    rf"\b(?:{_SPORT}|footy|match(?:es)?|league|season ticket|stadium|relegat\w+|promoted|away games?|home games?|derby"
    r"|(?:esports |sports )?team|the cup|goals?)\b"
)
_END = re.compile(
    r"[\s\x00]*(?:[,.;:!?()\x00…]|\Z|[^\w\s'’]|(?:and(?! (?:her|his|their|my|the|our)\b)|but|since|now|because|cause"
    r"|so|all my|my whole|too|though|tho|btw|even|lol|haha|till|until|these|for (?:life|years|ages|\d+|as long)"
    r"|who|when|fc|here)\b)"
)
_IN_CAPITALS = frozenset({"fc", "afc", "cf", "sv", "psg", "psv", "ac", "as", "rb", "bvb", "hsv"})
_NAMES = words(
    """
    arsenal, aston villa, bournemouth, brentford, brighton, burnley, chelsea, crystal palace, everton, fulham, leeds,
    leeds united, leicester, leicester city, liverpool, man city, man united, man utd, manchester city, manchester
    united, newcastle, newcastle united, norwich city, nottingham forest, portsmouth, sheffield united, sheffield
    wednesday, southampton, spurs, stoke city, sunderland, swansea city, tottenham, watford, west ham, west brom,
    derby county, millwall, preston north end, wrexham, celtic, rangers, hibs, aberdeen fc, gateshead, juventus, juve,
    napoli, ac milan, inter milan, lazio, as roma, fiorentina, atalanta, barcelona, barca, barça, real madrid,
    atletico madrid, sevilla, valencia cf, real betis, athletic bilbao, bayern, bayern munich, borussia dortmund, bvb,
    dortmund, schalke, schalke 04, werder bremen, st pauli, eintracht frankfurt, hamburger sv, hsv, union berlin,
    hertha, rb leipzig, bayer leverkusen, gladbach, vfb stuttgart, psg, marseille, ajax, feyenoord, psv, benfica, fc
    porto, sporting lisbon, galatasaray, fenerbahce, besiktas, boca juniors, river plate, flamengo, corinthians,
    palmeiras, santos fc, al ahly, kaizer chiefs, orlando pirates, lakers, celtics, knicks, chicago bulls, golden
    state warriors, miami heat, yankees, red sox, dodgers, chicago cubs, mets, packers, green bay packers, dallas
    cowboys, new england patriots, steelers, seahawks, 49ers, detroit lions, kansas city chiefs, buffalo bills,
    philadelphia eagles, maple leafs, canadiens, bruins, all blacks, springboks, collingwood, mumbai indians, chennai
    super kings
    """
)
TEAMS = {
    name: " ".join(part.upper() if part in _IN_CAPITALS else part.capitalize() for part in name.split())
    for name in _NAMES
}


def supports(said: Said, match: Match) -> Drafts:
    """'I support Everton', 'my football team is Wrexham': people also support causes, parties and users."""
    found = _team(said, match.end(), open_end=bool(match.groupdict().get("sport")))
    over = "supported" in match.group() and not said.clause.low.startswith(("i've ", "ive ", "i have "))
    if found and (said.ended or not over or _SINCE_BEFORE.match(said.clause.low, found.last)):
        yield said.fact("supports", found, 0.85)


def supporter(said: Said, match: Match) -> Drafts:
    """'I'm a lifelong Sunderland fan': a known team, or any name said by a supporter."""
    first, last = match.span("team")
    found = known(TEAMS, said.clause, first)
    if found and found.last == last:
        yield said.fact("supports", found, 0.85)


def _team(said: Said, at: int, *, open_end: bool = False) -> Value | None:
    """A known team, one that is named as clubs are, or any name beside words of sport."""
    clause = said.clause
    named = [each for each in (known(TEAMS, clause, at), _club(clause, at)) if each]
    found = max(named, key=lambda each: each.last, default=None)
    if found is None and (open_end or _OF_SPORT.search(clause.low, at)):
        found = name_run(clause, at)
    return found if found and _END.match(clause.low, found.last) else None


def _club(clause: Clause, at: int) -> Value | None:
    match = _CLUB.match(clause.text, at)
    return Value(match.group(), at, match.end()) if match else None
