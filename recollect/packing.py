"""Pack a context: what fits the budget, in a stable order.

What seldom changes comes first and is rendered byte for byte the same while its content is the same; then the recent
messages, which are only appended to; and last, with the question, what was found for it. So providers' prompt caches
hit up to the last turn. Memories are fenced as data; only standing instructions, the org's defaults and the user's
own, are outside the fence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from recollect.context import Context, ContextSection, ContextSource, Kept, Report
from recollect.context_policy import ContextPolicy
from recollect.conversation import spoken
from recollect.found import Question
from recollect.index import PartitionIndex
from recollect.layers import LASTING, SECTIONS
from recollect.pace import CHARACTERS, Pace, apart
from recollect.policies import fitting, scoring
from recollect.policies.fencing import fenced
from recollect.policies.fitting import Item, LeftOut, Section
from recollect.policies.learnings import Shown
from recollect.policies.notes import common_month, undated
from recollect.policies.tokens import TokenCounter, message_tokens
from recollect.policies.trimming import trimmed
from recollect.policies.words import terms
from recollect.prompt import Prompt, Talk, heading
from recollect.recall import Recall
from recollect.records import Clock, Hit, Record, Scope, iso
from recollect.reranking import Reranker
from recollect.sections import FOUND_SECTIONS, Asking, dated_line, gather, line_of, shortened_state
from recollect.windows import Windows

SHARES = {
    "instructions": 0.10,
    "profile": 0.12,
    "learnings": 0.05,
    "summary": 0.12,
    "episodes": 0.08,
    "knowledge": 0.30,
    "entities": 0.08,
    "working": 0.10,
    "recent": 0.40,
}
"""The share a section may take before the others are served. They add up to more than one, because few are full."""
PRIORITY = (
    "instructions", "recent", "profile", "working", "knowledge", "summary", "learnings", "episodes", "entities",
)  # fmt: skip
"""The order in which sections get what is left over."""
GIVING_WAY = (
    "entities", "episodes", "knowledge", "working", "recent", "learnings", "summary", "profile", "instructions",
)  # fmt: skip
"""The order in which sections give way when the whole is a little too long: what lasts gives way last."""
LASTING_SHARE, LASTING_ALONE = 0.5, 0.7
"""What the sections that seldom change may take together, with messages and without. They are packed first and on
their own: if other sections gave them room or took it from them, they would change with every question."""
FOUND_SHARE, RECENT_LEAST = 0.35, 0.25
"""The share that the recent messages leave free for what is found and for the question. It is left free even if these
do not need it, for the same reason. And the least share that the messages get, whatever the lasting sections take."""
SMALL, SMALL_SHARE = 400, 0.4
"""In a budget below this, all that is known goes into one fence, since a second would take a tenth of it or more; and
what lasts takes no more than this share, so that the best of what was found has room. No cache is needed there."""
RECENT_FLOOR = 400
"""Tokens that the newest messages always get, if the budget has them."""
FLOORS = {
    "instructions": 1.0,
    "profile": 0.04,
    "working": 0.04,
    "knowledge": 0.10,
    "summary": 0.05,
    "learnings": 0.03,
    "episodes": 0.04,
    "entities": 0.03,
}
"""The share a section gets however much the others hold: room for its best. Instructions are followed, so they come
before all else that lasts; the other floors, with the newest messages, add up to less than the whole."""
BEST_FOUND = 0.20
"""The floor for what was found, if its best line needs so much: a shorter one would go in instead of the best."""
FOUND_MAX = 50
"""Hits that are considered for a context."""
FEWEST, NEAR = 10, 0.55
"""Beyond the first ten, a hit with less than this share of the best score is left out: hardly one in a hundred of
the turns that answer a LongMemEval question lies there, and half of the others do."""
WORDS_LEAST, LITTLE_CHARACTERS = 3, 100
"""Turns with fewer words are left out, unless one of them is in the question. Longer texts are not checked."""
LINE_LEAST = 60
"""No remembered line is cut below this many tokens: shorter ones too often lose what was asked for."""
CHARACTERS_A_TOKEN, LINE_HEAD = 4, 14
"""Estimates the length of a line that is not counted: its text, and the tokens of the day and name before it."""
LONG_TEXTS = 5
"""How much longer it takes to shorten a text than to read it, in the units of `pace.py`."""
LAST_TURN = 6
"""Of a last turn that is too long for the recent messages, so many messages are remembered: the newest."""
JUDGED = 5
"""Whether there is an answer is judged by the best of this many first hits."""


@dataclass(frozen=True, slots=True)
class _Room:
    """What the sections share: their tokens together, the most that each may take, and the most recent messages."""

    tokens: int
    most: Mapping[str, int]
    window: int | None

    def bounds(self, section: Section) -> Section:
        """The section with the part that is reserved for it, and the most that it may take."""
        floor = max(section.floor, int(FLOORS.get(section.name, 0.0) * self.tokens))
        return replace(section, floor=floor, most=self.most.get(section.name))


@dataclass(frozen=True, slots=True)
class _Found:
    """What a question found, and how rare each of its terms is among the user's records."""

    question: Question
    hits: Sequence[Hit]
    wanted: Mapping[str, float]
    language: str
    also: Mapping[str, Sequence[Record]] = field(default_factory=dict)

    @classmethod
    def of(cls, question: Question, hits: Sequence[Hit], index: PartitionIndex) -> _Found:
        posted = zip(question.terms, index.posted(question.terms), strict=True)
        size = len(index.records)
        wanted = {term: scoring.rarity(size, len(rows[0]) if rows else 0) for term, rows in posted}
        return cls(question, hits, wanted, index.language)

    def answerable(self) -> float:
        """The relevance of the best of the first hits."""
        return max((hit.relevance for hit in self.hits[:JUDGED]), default=0.0)


@dataclass(frozen=True, slots=True)
class _Fitted:
    """What goes in of what changes from turn to turn, what does not, and the records and messages it was taken from."""

    kept: dict[str, tuple[Item, ...]]
    left_out: tuple[LeftOut, ...]
    records: dict[str, list[Record]]
    talk: Talk


class ContextBuilder:
    """Builds contexts: queries every layer, packs, renders. It writes nothing."""

    def __init__(self, recall: Recall, count: TokenCounter, clock: Clock, learnings: Shown) -> None:
        self._recall = recall
        self._count = count
        self._clock = clock
        self._learnings = learnings

    def counting(self, count: TokenCounter) -> ContextBuilder:
        """The same builder with another way to count tokens."""
        return ContextBuilder(self._recall, count, self._clock, self._learnings)

    async def build(
        self,
        scope: Scope,
        windows: Windows | None,
        question: Question,
        max_tokens: int,
        policy: ContextPolicy,
        reranker: Reranker | None = None,
    ) -> Context:
        """The context for a question, never above `max_tokens`."""
        # Everything is as of one moment, and the store is queried for it once.
        indexes = await self._recall.read(scope, question)
        hits: Sequence[Hit] = ()
        if policy.searched and any(map(policy.has_section, FOUND_SECTIONS)):
            layers = policy.searched if policy.layers else ()
            hits = await self._recall.search(
                scope, question, layers=layers, limit=FOUND_MAX, reranker=reranker, indexes=indexes
            )
            if reranker is not None:  # it takes a while: what was forgotten meanwhile must not be shown
                indexes = await self._recall.read(scope, question)
        index, shared = indexes[0], indexes[-1]
        summary: Record | None = None
        recent: list[Record] = []
        if windows is not None and policy.has_layer("conversation"):
            summary, recent = await windows.recent(max_tokens, index)
            recent = recent if policy.has_section("recent") else []
        knows_profile = policy.has_section("profile") and policy.has_layer("fact")
        asking = Asking(scope, question.text, self._clock(), summary, recent, knows_profile, self._learnings)
        found = _Found.of(question, hits, index)
        gathered = (await gather(index, shared, asking, hits)).only(policy)
        found, asked = replace(found, also=gathered.also), _asked(question.text, recent)
        return await self._pack(found, gathered.records, recent, max_tokens, asked, policy)

    async def _pack(
        self,
        found: _Found,
        records: dict[str, list[Record]],
        recent: Sequence[Record],
        max_tokens: int,
        asked: list[dict[str, Any]],
        policy: ContextPolicy,
    ) -> Context:
        """First what lasts, then the newest messages beside it, then everything else into the room that is left."""
        question_tokens = sum(message_tokens(self._count, "user", m["content"]) for m in asked)
        small = max_tokens < SMALL
        room = _Room(max_tokens - self._frames(records, small), policy.most(max_tokens), policy.window)
        most = int((SMALL_SHARE if small else LASTING_SHARE if recent else LASTING_ALONE) * room.tokens)
        if small:
            most = min(most, room.tokens - question_tokens - self._best(records["knowledge"]))
        lasting = self._fit_lasting(records, room, most)
        pace, size = Pace(), sum(map(len, records.values()))
        await pace.done(size)
        talk, out = self._window(recent, room, lasting.tokens)
        out += lasting.left_out
        if asked and question_tokens > max_tokens // 2:
            out.append(
                LeftOut("question", "", question_tokens, "the question alone takes more than half of the budget")
            )
            asked, question_tokens = [], 0
        records, behind = _without_the_far(found, records)
        out += behind
        left = room.tokens - lasting.tokens - question_tokens
        last = recent[-LAST_TURN:] if not small and policy.window is None and policy.has_section("knowledge") else ()
        fitted = await self._fit_each_turn_once(found, records, last, talk, left, room)
        kept = {name: list(items) for name, items in (lasting.kept | fitted.kept).items()}
        records, talk = fitted.records, fitted.talk
        put_together = partial(Prompt.of, kept, records, talk, asked, found.question.text, in_one=small)
        prompt = put_together()
        while (tokens := prompt.tokens(self._count)) > max_tokens and any(kept.values()):
            out.append(_drop_least(kept))  # the counts of lines do not add up exactly to the count of the whole
            prompt = put_together()
        await pace.done(size)
        return self._context(found, kept, records, prompt, tokens, (*out, *fitted.left_out), max_tokens)

    def _best(self, found: Sequence[Record]) -> int:
        """Tokens of the best record found, with its heading. A long text can be shortened."""
        if not found:
            return 0
        return self._heading_tokens("knowledge") + min(self._count(dated_line(found[0])) + 1, LINE_LEAST)

    def _frames(self, records: dict[str, list[Record]], small: bool) -> int:
        """Tokens of the fences: one around what lasts and one around what was found, if there is any."""
        fences = [
            any(records[name] for name in LASTING),
            any(records[name] for name in SECTIONS if name not in LASTING),
        ]
        return (any(fences) if small else sum(fences)) * message_tokens(self._count, "system", fenced([]))

    def _fit_lasting(self, records: dict[str, list[Record]], room: _Room, most: int) -> fitting.Packed:
        """Pack what seldom changes, by nothing but itself and the budget, so that it is the same turn after turn."""
        shares = sum(SHARES[name] for name in LASTING)
        month = common_month([record.content for record in records["profile"]])
        sections = [
            Section(name, tuple(self._item(name, record, month) for record in records[name]), SHARES[name] / shares)
            for name in LASTING
        ]
        packing = [room.bounds(each) for each in sections]
        return fitting.pack(packing, max(most, 0), lambda name: self._heading_tokens(name, month), PRIORITY)

    def _window(self, recent: Sequence[Record], room: _Room, lasting: int) -> tuple[Talk, list[LeftOut]]:
        """The newest messages that fit beside what lasts, cut by halves so that a prompt begins like the one before."""
        talk = Talk.of(recent, self._count)
        pieces = talk.units
        sizes = [talk.tokens_of(unit) for unit in pieces]
        share = max(int(RECENT_LEAST * room.tokens), int((1 - FOUND_SHARE) * room.tokens) - lasting)
        share, most = min(share, room.most.get("recent", share)), room.window
        start, kept = fitting.by_halves(sizes, share), f"{share} tokens of the conversation"
        if most is not None and (counted := fitting.by_halves([len(unit) for unit in pieces], most)) > start:
            start, kept = counted, f"{most} messages"
        reason = f"older than the last {kept}; the window moves on by half its size at a time"
        out = [LeftOut("recent", unit[0].id, size, reason) for unit, size in zip(pieces[:start], sizes, strict=False)]
        return Talk(pieces[start:], talk.tokens), out

    async def _fit_each_turn_once(
        self,
        found: _Found,
        records: dict[str, list[Record]],
        last: Sequence[Record],
        talk: Talk,
        left: int,
        room: _Room,
    ) -> _Fitted:
        """Pack what changes, and leave no turn in it twice: one among the newest messages is not also remembered.

        Which of the newest messages fit is known only after packing. If one does not that was also found, or that is
        of the `last` turn, all is packed once more with it among what is remembered.
        """
        said = {message.id for unit in talk.units for message in unit}
        packed = await self._fit(found, _without(records, said), talk, left, room)
        out: tuple[LeftOut, ...] = ()
        unsaid = said - _said_in(packed, talk)
        with_last = _with_last_turn(records, last, said - unsaid)
        if with_last is not records or any(record.id in unsaid for record in records["knowledge"]):
            out = tuple(each for each in packed.left_out if each.section == "recent")
            records, talk = with_last, talk.without(unsaid)
            packed = await self._fit(found, _without(records, said - unsaid), talk, left, room)
        doubled = _said_in(packed, talk)
        once = tuple(item for item in packed.kept["knowledge"] if item.id not in doubled)
        return _Fitted(packed.kept | {"knowledge": once}, (*out, *packed.left_out), records, talk)

    async def _fit(
        self, found: _Found, records: dict[str, list[Record]], talk: Talk, left: int, room: _Room
    ) -> fitting.Packed:
        """Pack what changes from turn to turn into the room that is left; shares are those of the whole room."""
        scale = room.tokens / max(left, 1)
        sections = [
            Section(name, tuple(self._item(name, record) for record in held), SHARES[name] * scale)
            for name, held in records.items()
            if name not in (*LASTING, "recent", "knowledge")
        ]
        sections.append(_recent_section(talk, room.tokens, scale))
        sections = [room.bounds(each) for each in sections]
        taken = sum(section.size for section in sections)
        share = max(int(SHARES["knowledge"] * room.tokens), left - taken)
        share = min(share, room.most.get("knowledge", share))
        knowledge = await self._knowledge_section(found, records["knowledge"], share, scale)
        best = sum(item.tokens for item in knowledge.items[:1]) + self._heading_tokens("knowledge")
        sections.append(room.bounds(replace(knowledge, floor=min(best, int(BEST_FOUND * room.tokens)))))
        packed = fitting.pack(sections, max(left, 0), self._heading_tokens, PRIORITY)
        if all(out.section != "working" for out in packed.left_out):
            return packed
        spare = max(int(SHARES["working"] * room.tokens), left - packed.tokens)
        shorter = self._shortened_working(records["working"], min(spare, room.most.get("working", spare)))
        sections = [replace(each, items=shorter) if each.name == "working" else each for each in sections]
        return fitting.pack(sections, max(left, 0), self._heading_tokens, PRIORITY)

    def _shortened_working(self, states: Sequence[Record], room: int) -> tuple[Item, ...]:
        """The state of the task without its longest parts, as far as there is no room for it as it is."""
        items = []
        room -= self._heading_tokens("working")
        for record in states:
            item = self._item("working", record)
            if item.tokens > room and (text := shortened_state(record, room, self._count)):
                item = Item(record.id, text, self._count(text) + 1, whole=False)
            items.append(item)
            room -= item.tokens
        return tuple(items)

    def _item(self, section: str, record: Record, month: str = "") -> Item:
        text = line_of(section, record)
        text = undated(text, month) if section == "profile" else text
        return Item(record.id, text, self._count(text) + 1)

    def _dated_item(self, record: Record, text: str) -> Item:
        line = dated_line(record, text)
        return Item(record.id, line, self._count(line) + 1, whole=text == record.content)

    async def _knowledge_section(self, found: _Found, records: Sequence[Record], room: int, scale: float) -> Section:
        """What was found, each line as long as it deserves: if room is short, long texts are shortened."""
        scores = {hit.id: hit.score for hit in found.hits}
        best = max(scores.values(), default=1.0)  # of the last turn, which need not have been found
        items = []
        pace = Pace()
        for record in records:
            items.append(self._dated_item(record, record.content))
            await pace.done(characters=len(record.content))
        sizes = [item.tokens for item in items]
        room -= self._heading_tokens("knowledge")
        allowed = fitting.allowances(sizes, [scores.get(record.id, best) for record in records], room, LINE_LEAST)
        for place, (record, tokens_max) in enumerate(zip(records, allowed, strict=True)):
            if sizes[place] > tokens_max:
                size = LONG_TEXTS * len(record.content)
                room = tokens_max - LINE_HEAD
                shortened = partial(trimmed, record.content, found.wanted, room, self._count, found.language)
                text = await apart(shortened, size // CHARACTERS)
                items[place] = self._dated_item(record, text)
                await pace.done(characters=size)
        return Section("knowledge", tuple(items), SHARES["knowledge"] * scale)

    def _context(
        self,
        found: _Found,
        kept: Mapping[str, Sequence[Item]],
        records: Mapping[str, Sequence[Record]],
        prompt: Prompt,
        tokens: int,
        left_out: Sequence[LeftOut],
        max_tokens: int,
    ) -> Context:
        """The prompt with an account of it: what each section costs, what is in and out, where it all comes from."""
        sections = [
            ContextSection(name, text, self._count(text), len(kept[name])) for name, text in prompt.texts.items()
        ]
        if prompt.said:
            spoken_text = "\n".join(f"{message.data['role']}: {spoken(message)}" for message in prompt.said)
            sections.append(ContextSection("recent", spoken_text, prompt.said_tokens, len(prompt.said)))
            sections.sort(key=lambda section: SECTIONS.index(section.name))
        listed = [Kept(name, item.id, item.tokens, item.whole) for name in SECTIONS for item in kept.get(name, ())]
        # What is among the messages is not left out just because it is not remembered as well, nor the other way round.
        stands = {message.id: message for message in prompt.said}
        inside = stands.keys() | {each.id for each in listed}
        by_id = {record.id: record for held in records.values() for record in held} | stands
        return Context(
            query=found.question.text,
            system=prompt.system,
            messages=prompt.messages(),
            sections=tuple(sections),
            tokens=tokens,
            report=Report(tuple(listed), tuple(out for out in left_out if out.id not in inside), max_tokens),
            sources=tuple(
                _source(record, each.section)
                for each in listed
                for record in (by_id[each.id], *found.also.get(each.id, ()))
            ),
            hits=tuple(found.hits),
            answerable=found.answerable(),
            lasting=prompt.lasting,
            found=prompt.found,
            recent=prompt.recent,
        )

    def _heading_tokens(self, name: str, month: str = "") -> int:
        return 0 if name == "recent" else self._count(f"\n\n## {heading(name, month)}\n") + 1


def _drop_least(kept: Mapping[str, list[Item]]) -> LeftOut:
    """Drop the last item of the section that gives way first."""
    name = next(name for name in GIVING_WAY if kept.get(name))
    item = kept[name].pop()
    return LeftOut(name, item.id, item.tokens, "no room once everything was put together")


def _recent_section(talk: Talk, room: int, scale: float) -> Section:
    items = tuple(Item(unit[0].id, "", talk.tokens_of(unit)) for unit in talk.units[::-1])
    share = max(1 - FOUND_SHARE * scale, SHARES["recent"] * scale)
    return Section("recent", items, share, floor=min(RECENT_FLOOR, room // 2), unbroken=True)


def _without_the_far(found: _Found, records: dict[str, list[Record]]) -> tuple[dict[str, list[Record]], list[LeftOut]]:
    """The records without those that scored far behind the best or say little, and the latter with their reasons."""
    scores = {hit.id: hit.score for hit in found.hits}
    known = records["knowledge"]
    near = fitting.cut([scores[record.id] for record in known], FEWEST, NEAR)
    behind = [
        LeftOut(
            "knowledge",
            record.id,
            len(record.content) // CHARACTERS_A_TOKEN + LINE_HEAD,
            f"not worth its tokens: scored {scores[record.id]:.2f}, the best scored {scores[known[0].id]:.2f}",
        )
        for record in known[near:]
    ]
    said = [(record, _says_little(record, found)) for record in known[:near]]
    little = [LeftOut("knowledge", each.id, LINE_HEAD, "says too little by itself") for each, idle in said if idle]
    return records | {"knowledge": [each for each, idle in said if not idle]}, [*behind, *little]


def _says_little(record: Record, found: _Found) -> bool:
    """Whether a turn is a mere "Will do.": few words, and none of the question's."""
    if record.layer != "conversation" or len(record.content) > LITTLE_CHARACTERS:
        return False
    words = terms(record.content, found.language)
    return len(words) < WORDS_LEAST and found.wanted.keys().isdisjoint(words)


def _with_last_turn(
    records: dict[str, list[Record]], recent: Sequence[Record], said: set[str]
) -> dict[str, list[Record]]:
    """The records with what the recent messages cannot hold of the last turn: behind the best hit, to be shortened."""
    turn = [message for message in _last_turn(recent) if message.id not in said]
    if not turn:
        return records
    best, rest = records["knowledge"][:1], records["knowledge"][1:]
    held = {message.id for message in turn}
    turn = [message for message in turn if message not in best]
    return records | {"knowledge": [*best, *turn, *(each for each in rest if each.id not in held)]}


def _last_turn(recent: Sequence[Record]) -> list[Record]:
    """The newest messages, back to the last one of the user that was answered."""
    turn: list[Record] = []
    answered = False
    for message in reversed(recent):
        turn.append(message)
        if answered and message.data["role"] == "user":
            break
        answered = answered or message.data["role"] != "user"
    return turn


def _without(records: dict[str, list[Record]], said: set[str]) -> dict[str, list[Record]]:
    """The records without those found turns that are among the recent messages."""
    return records | {"knowledge": [record for record in records["knowledge"] if record.id not in said]}


def _said_in(packed: fitting.Packed, talk: Talk) -> set[str]:
    """The ids of the recent messages that fitted in."""
    first = {item.id for item in packed.kept["recent"]}
    return {message.id for unit in talk.units if unit[0].id in first for message in unit}


def _asked(text: str, recent: Sequence[Record]) -> list[dict[str, Any]]:
    """The question as the last message, unless it is already there."""
    if recent and recent[-1].data["role"] == "user" and recent[-1].content == text:
        return []
    return [{"role": "user", "content": text}]


def _source(record: Record, section: str) -> ContextSource:
    message_id = record.id if record.layer == "conversation" else (record.source.message_id if record.source else None)
    return ContextSource(record.id, record.layer, section, record.scope.session, message_id, iso(record.when))
