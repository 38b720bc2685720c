"""Facts and preferences: current values, their history, what was true and what was believed, and the profile."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

from recollect.enrich import Draft, Found
from recollect.errors import Conflict, NotFound, TooLarge, ValidationError
from recollect.exports import Exports
from recollect.filters import Filter
from recollect.indexes import Indexes
from recollect.layers import LAYERS
from recollect.ledger import Ledger
from recollect.long_term import past_ids
from recollect.privacy import Privacy
from recollect.profile import APPLIED_PUTS, UPSERT_MAX, Facts, read_profile
from recollect.records import DAY_MS, HOUR_MS, Changes, Record, Scope, as_datetime, derived_id
from recollect.stores import open_store
from recollect.testing.fakes import NOON_MS, ManualClock, MeddlingStore

ANN = Scope(user="ann")


@pytest.fixture
def facts(ledger):
    return Facts(ledger, ANN)


def message(text: str, at: int, id: str | None = None, trust: str = "trusted") -> Record:
    name = id or derived_id("message", text, str(at))
    scope = Scope(user="ann", session="chat")
    return Record(name, "conversation", scope, text, {"role": "user"}, created_at=at, event_at=at, trust=trust)


def found(text: str, key: str, value: str, at: int, *, id: str | None = None, trust: str = "trusted", **more) -> Found:
    given = {"layer": "fact", "confidence": 0.8, "span": (0, len(text))} | more
    return Found(message(text, at, id, trust), Draft(key=key, value=value, **given))


async def learn(ledger: Ledger, *drafts: Found, layer: str = "fact") -> tuple[Found, ...]:
    """What the worker does: store the messages, decide, commit."""
    messages = {each.message.id: each.message for each in drafts}
    known = {record.id for record in await ledger.get(ANN.partition, list(messages))}
    new = tuple(each for id, each in messages.items() if id not in known)
    if new:
        await ledger.commit(Changes(ANN.partition, put=new))
    changes, later = await Facts(ledger, ANN, layer).apply(drafts, "rules-1")
    await ledger.commit(changes)
    return later


async def values(facts: Facts, key: str) -> list[str]:
    return [fact.value for fact in await facts.get(key)]


async def told(facts: Facts, key: str) -> list[tuple[str, str]]:
    return [(fact.value, fact.status) for fact in await facts.history(key)]


# ── Saying ───────────────────────────────────────────────────────────────────────────────────────


async def test_a_fact_is_read_back_as_it_was_stored(facts, clock):
    added = await facts.add("City", "Oslo", confidence=0.9, source_message_id="m-1")
    assert (added.key, added.value, added.confidence, added.source_message_id) == ("city", "Oslo", 0.9, "m-1")
    assert (added.status, added.seen, added.valid_to) == ("told", 1, None)
    assert added.valid_from == datetime(2026, 3, 1, 12, tzinfo=UTC)
    assert await facts.get("lives in") == [added], "every spelling of a key means the same"
    assert added.to_dict()["valid_from"] == "2026-03-01T12:00:00Z"
    assert list(added.to_dict())[:6] == ["key", "value", "confidence", "source_message_id", "valid_from", "valid_to"]


async def test_a_new_value_ends_the_previous_one_in_the_same_commit(ledger, facts, clock):
    await facts.add("city", "Rome")
    clock.advance(days=10)
    await facts.add("city", "Oslo")
    assert await values(facts, "city") == ["Oslo"]
    past = await facts.history("city")
    assert [(fact.value, fact.status) for fact in past] == [("Rome", "ended"), ("Oslo", "told")]
    assert past[0].valid_to == past[1].valid_from
    (head,) = [record async for record in ledger.walk(Filter(ANN.partition, layers=("fact",)))]
    assert head.content == "city: Oslo"
    (kept,) = await ledger.get(ANN.partition, past_ids(head))
    assert (kept.layer, kept.content, kept.data["of"]) == ("past", "city: Rome", head.id)


async def test_repeating_a_value_raises_its_confidence(facts):
    first = await facts.add("city", "Oslo", confidence=0.6)
    second = await facts.add("city", "oslo ", confidence=0.6)
    assert second.confidence == pytest.approx(first.confidence + 0.4 * 0.3)
    assert (second.seen, second.value) == (2, "Oslo")
    assert len(await facts.history("city")) == 1


async def test_a_key_that_holds_a_set_keeps_all_of_its_values(facts):
    await facts.upsert([{"key": "hobby", "value": each} for each in ("chess", "rowing", "Chess")])
    assert await values(facts, "hobbies") == ["chess", "rowing"]
    await facts.end("hobby", "chess")
    assert await values(facts, "hobby") == ["rowing"]
    await facts.add("hobby", "chess")
    await facts.end("hobby")
    assert await values(facts, "hobby") == []
    assert {fact.value for fact in await facts.history("hobby")} == {"chess", "rowing"}


async def test_a_batch_is_stored_completely_or_not_at_all(facts):
    good = {"key": "city", "value": "Oslo"}
    for bad in ({"key": "x"}, {"key": "x", "value": 5}, {"key": "!", "value": "y"}, {"key": "", "value": "y"}, 5,
                {"key": "x", "value": " "}, {"key": "x", "value": "y", "confidence": 2}, {**good, "color": 1},
                {**good, "valid_from": "2026-01-02", "valid_to": "2026-01-01"}):  # fmt: skip
        with pytest.raises(ValidationError):
            await facts.upsert([good, bad])
    with pytest.raises(TooLarge):
        await facts.upsert([{"key": f"key {n}", "value": "x"} for n in range(UPSERT_MAX + 1)])
    with pytest.raises(TooLarge):
        await facts.add("x", "y" * 5_000)
    assert await facts.list() == []
    many = await facts.upsert([{"key": f"key {n}", "value": f"value {n}"} for n in range(UPSERT_MAX)])
    assert await facts.list() == many


async def test_a_batch_may_change_one_key_several_times(facts):
    await facts.upsert([{"key": "city", "value": each} for each in ("Rome", "Oslo", "Paris")])
    assert await values(facts, "city") == ["Paris"]
    assert [value for value, _ in await told(facts, "city")] == ["Rome", "Oslo", "Paris"]


async def test_values_from_before_the_current_one_go_into_the_history(facts):
    await facts.add("city", "Oslo", valid_from="2024-01-01")
    await facts.add("city", "Rome", valid_from="2020-01-01")
    await facts.add("employer", "Acme", valid_from="2015-01-01", valid_to="2018-01-01")
    assert await values(facts, "city") == ["Oslo"]
    rome, oslo = await facts.history("city")
    assert (rome.value, rome.valid_to) == ("Rome", oslo.valid_from)
    assert await values(facts, "employer") == []
    assert await told(facts, "employer") == [("Acme", "ended")]


async def test_a_time_elsewhere_in_between_leaves_the_current_value_as_every_prompt_has_it(memory):
    ann = memory.user("ann")
    await ann.add_fact("city", "Oslo", valid_from="2015-01-01")
    await ann.add_fact("city", "Rome", valid_from="2018-01-01", valid_to="2019-01-01")
    assert "Lives in Oslo" in (await ann.get_context("Where do I live?")).system
    assert await values(ann.facts, "city") == ["Oslo"]
    for year, city in (("2016", "Oslo"), ("2018", "Rome"), ("2020", "Oslo")):
        assert [fact.value for fact in (await ann.profile(as_of=f"{year}-06-01")).facts] == [city]


async def test_a_value_that_begins_later_is_not_valid_before(facts, clock):
    await facts.add("city", "Rome")
    await facts.add("city", "Oslo", valid_from="2026-06-01")
    assert await values(facts, "city") == ["Rome"]
    clock.advance(days=100)
    assert await values(facts, "city") == ["Oslo"]


async def test_a_corrected_value_stays_in_the_history_and_was_true_at_no_time(facts, clock):
    await facts.add("city", "Oslo")
    believed_at = clock()
    clock.advance(days=2)
    right = await facts.correct("city", "Bergen", reason="a misunderstanding")
    assert (right.value, right.status) == ("Bergen", "confirmed")
    assert await told(facts, "city") == [("Oslo", "corrected"), ("Bergen", "confirmed")]
    assert (await facts.history("city"))[0].reason == "a misunderstanding"
    assert [fact.value for fact in await facts.list(as_of=believed_at)] == ["Bergen"]
    assert [fact.value for fact in await facts.list(known_at=believed_at)] == ["Oslo"]


async def test_to_correct_a_set_the_wrong_value_must_be_named(facts):
    await facts.upsert([{"key": "pet", "value": "Rex"}, {"key": "pet", "value": "Tom"}])
    with pytest.raises(ValidationError) as caught:
        await facts.correct("pet", "Max")
    assert caught.value.field == "instead_of"
    await facts.correct("pet", "Max", instead_of="rex")
    assert sorted(await values(facts, "pet")) == ["Max", "Tom"]


async def test_the_right_value_of_a_set_holds_since_the_wrong_one_was_thought_to(ledger, facts, clock):
    told_at = clock()
    await facts.add("pet", "Rex")
    await learn(ledger, found("I have a cat, Tim.", "pet", "Tim", told_at))
    clock.advance(days=2)
    await facts.correct("pet", "Max", instead_of="Rex")
    await learn(ledger, found("It is Tom, not Tim.", "pet", "Tom", clock(), corrects=True, instead_of="Tim"))
    await facts.correct("pet", "Bob", instead_of="Unheard of")
    assert sorted(fact.value for fact in await facts.list(as_of=told_at)) == ["Max", "Tom"]
    assert sorted(fact.value for fact in await facts.list(known_at=told_at)) == ["Rex", "Tim"]
    assert sorted(await values(facts, "pet")) == ["Bob", "Max", "Tom"]


async def test_an_end_may_lie_in_the_past_but_not_before_the_beginning(facts, clock):
    await facts.add("city", "Oslo", valid_from="2020-01-01")
    with pytest.raises(ValidationError):
        await facts.end("city", at="2019-01-01")
    (ended,) = await facts.end("city", at="2025-01-01", reason="moved away")
    assert (ended.status, ended.valid_to, ended.reason) == ("ended", datetime(2025, 1, 1, tzinfo=UTC), "moved away")
    assert [fact.value for fact in await facts.list(as_of="2024-12-31")] == ["Oslo"]
    assert await facts.list(as_of="2025-01-01") == []


async def test_only_what_is_current_can_be_confirmed_pinned_ended_or_rejected(facts):
    await facts.add("city", "Oslo")
    for verb in (facts.confirm, facts.pin, facts.unpin, facts.end, facts.reject):
        with pytest.raises(NotFound):
            await verb("employer")
        with pytest.raises(NotFound):
            await verb("city", "Rome")
    await facts.end("city")
    with pytest.raises(NotFound):
        await facts.confirm("city")


@pytest.mark.parametrize("verb", ["confirm", "correct"])
async def test_what_a_user_vouched_for_follows_them_when_they_move(ledger, facts, clock, verb):
    await learn(ledger, found("I live in Oslo.", "city", "Oslo" if verb == "confirm" else "Olso", clock()))
    clock.advance(days=1)
    earlier = clock()
    clock.advance(days=1)
    await (facts.confirm("city") if verb == "confirm" else facts.correct("city", "Oslo"))
    await learn(ledger, found("I'm in Rome, I live here.", "city", "Rome", earlier))
    assert await values(facts, "city") == ["Oslo"], "said before, read later"
    clock.advance(days=90)
    await learn(ledger, found("I moved to York.", "city", "York", clock()))
    assert await values(facts, "city") == ["York"]


async def test_a_pinned_fact_stays_until_it_is_unpinned(ledger, facts, clock):
    await facts.add("city", "Oslo")
    (pinned,) = await facts.pin("city")
    assert pinned.status == "pinned"
    clock.advance(days=1)
    await learn(ledger, found("I live in Rome.", "city", "Rome", clock()))
    assert await values(facts, "city") == ["Oslo"]
    assert await told(facts, "city") == [("Oslo", "pinned"), ("Rome", "not_taken")]
    assert (await facts.unpin("city"))[0].status == "told"
    clock.advance(days=1)
    await learn(ledger, found("Really, I live in Rome.", "city", "Rome", clock()))
    assert await values(facts, "city") == ["Rome"]


async def test_a_rejected_fact_is_not_learned_again_from_the_same_text(ledger, facts, clock):
    text = "My friend lives in Rome."
    await learn(ledger, found(text, "city", "Rome", clock()))
    (rejected,) = await facts.reject("city", reason="that is my friend")
    assert rejected.status == "rejected"
    clock.advance(days=1)
    await learn(ledger, found(text, "city", "Rome", clock()), found(text, "city", "Rome", clock() - DAY_MS))
    assert await values(facts, "city") == []
    await learn(ledger, found("I do live in Rome.", "city", "Rome", clock()))
    assert await values(facts, "city") == ["Rome"]


async def test_rejecting_a_value_brings_back_the_one_that_it_had_replaced(ledger, facts, clock):
    await facts.add("city", "Oslo")
    clock.advance(days=1)
    await learn(ledger, found("My friend lives in Rome.", "city", "Rome", clock()))
    believed_at = clock()
    clock.advance(days=1)
    (rejected,) = await facts.reject("city", reason="that is my friend")
    assert (rejected.value, rejected.status, rejected.reason) == ("Rome", "rejected", "that is my friend")
    assert await values(facts, "city") == ["Oslo"]
    assert await told(facts, "city") == [("Oslo", "told"), ("Rome", "rejected")]
    assert [fact.value for fact in await facts.list(known_at=believed_at)] == ["Rome"], "what was believed then stays"
    clock.advance(days=1)
    await facts.add("city", "Bergen")
    assert await told(facts, "city") == [("Oslo", "ended"), ("Rome", "rejected"), ("Bergen", "told")]


async def test_rejecting_one_value_after_the_other_goes_back_through_the_history(facts, clock):
    for city in ("Oslo", "Rome", "Paris"):
        await facts.add("city", city)
        clock.advance(days=1)
    for left in (["Rome"], ["Oslo"], []):
        await facts.reject("city")
        assert await values(facts, "city") == left
    with pytest.raises(NotFound):
        await facts.reject("city")


async def test_a_value_that_has_yet_to_begin_can_be_rejected_by_its_name(facts, clock):
    await facts.add("employer", "Acme")
    await facts.add("employer", "Initech", valid_from=clock() + 30 * DAY_MS)
    with pytest.raises(NotFound):
        await facts.reject("employer", "Globex")
    (rejected,) = await facts.reject("employer", "Initech", reason="it fell through")
    assert (rejected.value, rejected.status) == ("Initech", "rejected")
    clock.advance(days=60)
    assert await values(facts, "employer") == ["Acme"]


async def test_a_value_that_changes_while_it_is_being_rejected_is_read_again(clock):
    store = MeddlingStore(await open_store("memory://"))
    facts, elsewhere = Facts(Ledger(store, clock, LAYERS), ANN), Facts(Ledger(store, clock, LAYERS), ANN)
    await facts.add("city", "Oslo")
    clock.advance(days=1)
    await facts.add("city", "Rome")
    clock.advance(days=1)
    store.before(lambda changes: True, lambda: elsewhere.add("city", "Paris"))
    await facts.reject("city")
    assert await told(facts, "city") == [("Oslo", "ended"), ("Rome", "told"), ("Paris", "rejected")]
    await store.close()


async def test_what_a_rejected_city_had_made_outdated_holds_again(ledger, facts, clock):
    home = "I live in Oslo, Norway."
    await learn(ledger, found(home, "city", "Oslo", clock()), found(home, "country", "Norway", clock()))
    clock.advance(days=1)
    await learn(ledger, found("Rome it is!", "city", "Rome", clock()))
    assert await values(facts, "country") == []
    await facts.reject("city")
    assert (await values(facts, "city"), await values(facts, "country")) == (["Oslo"], ["Norway"])


async def test_what_the_user_ended_stays_over_when_another_value_is_rejected(ledger, facts, clock):
    home = "I live in Oslo, Norway."
    await learn(ledger, found(home, "city", "Oslo", clock()), found(home, "country", "Norway", clock()))
    clock.advance(days=1)
    await facts.end("country")
    await learn(ledger, found("Rome it is!", "city", "Rome", clock()))
    await facts.reject("city")
    assert (await values(facts, "city"), await values(facts, "country")) == (["Oslo"], [])


async def test_a_key_that_is_too_long_is_refused_and_not_cut_off(facts):
    first, second = (
        f"{'what the user said about the garden ' * 2}in May",
        f"{'what the user said about the garden ' * 2}in June",
    )
    await facts.add("x" * 64, "kept")
    for name in (first, second):
        with pytest.raises(ValidationError) as refused:
            await facts.add(name, "roses")
        assert refused.value.field == "key"
    assert [(fact.key, fact.value) for fact in await facts.list()] == [("x" * 64, "kept")]


async def test_confidence_in_volatile_facts_falls_with_age(facts, clock):
    await facts.upsert([{"key": "age", "value": "33", "confidence": 0.8}, {"key": "name", "value": "Ann"}])
    clock.advance(days=365)
    assert (await facts.get("age"))[0].confidence == pytest.approx(0.4)
    assert (await facts.get("name"))[0].confidence == 1.0
    await facts.add("age", "33", confidence=0.8)
    assert (await facts.get("age"))[0].confidence == pytest.approx(0.86)


# ── Learning ─────────────────────────────────────────────────────────────────────────────────────


async def test_a_learned_fact_names_its_message_and_the_character_span(ledger, facts, clock):
    await learn(ledger, found("I live in Oslo.", "city", "Oslo", clock(), id="m-7", span=(10, 14)))
    (fact,) = await facts.get("city")
    assert (fact.value, fact.status, fact.source_message_id, fact.span) == ("Oslo", "learned", "m-7", (10, 14))
    (record,) = [record async for record in ledger.walk(Filter(ANN.partition, layers=("fact",)))]
    assert (record.source.session_id, record.source.role, record.source.extractor) == ("chat", "user", "rules-1")


async def test_the_same_message_again_teaches_nothing(ledger, facts, clock):
    drafts = [
        found("I moved from Rome to Oslo.", "city", "Rome", clock(), ends=True),
        found("I moved from Rome to Oslo.", "city", "Oslo", clock()),
        found("I like chess.", "hobby", "chess", clock()),
    ]
    await learn(ledger, *drafts)
    before = [record async for record in ledger.walk(Filter(ANN.partition))]
    clock.advance(hours=1)
    changes, later = await facts.apply(drafts, "rules-2")
    assert (changes.put, later) == ((), ())
    await learn(ledger, *drafts)
    assert [record async for record in ledger.walk(Filter(ANN.partition))] == before


async def test_only_trusted_messages_teach(ledger, facts, clock):
    await learn(
        ledger,
        found("He lives in Rome.", "city", "Rome", clock(), trust="untrusted"),
        found("I work at Acme.", "employer", "Acme", clock(), trust="quarantined"),
        found("I like tea.", "drink", "tea", clock(), layer="preference"),
    )
    assert await facts.list() == []


async def test_a_forgotten_message_teaches_nothing(ledger, facts, clock):
    draft = found("I live in Oslo.", "city", "Oslo", clock())
    await ledger.commit(Changes(ANN.partition, put=(draft.message,)))
    changes, _ = await facts.apply([draft], "rules-1")
    await ledger.commit(Changes(ANN.partition, drop=(draft.message.id,)))
    with pytest.raises(Conflict) as caught:
        await ledger.commit(changes)
    assert caught.value.field == "needs"
    assert await facts.list() == []


async def test_late_messages_go_into_the_history(ledger, facts, clock):
    now = clock()
    await learn(ledger, found("I live in Oslo.", "city", "Oslo", now))
    await learn(ledger, found("I live in Rome.", "city", "Rome", now - 10 * DAY_MS))
    await learn(ledger, found("I live in Paris.", "city", "Paris", now - 5 * DAY_MS))
    assert [value for value, _ in await told(facts, "city")] == ["Rome", "Paris", "Oslo"]
    assert [fact.value for fact in await facts.list(as_of=now - 7 * DAY_MS)] == ["Rome"]
    assert [fact.value for fact in await facts.list(as_of=now - 3 * DAY_MS)] == ["Paris"]


async def test_a_draft_can_end_correct_or_replace_a_value(ledger, facts, clock):
    now = clock()
    await learn(
        ledger,
        found("I live in Rome and have a dog, Rex, and a cat, Tom.", "city", "Rome", now),
        found("I live in Rome and have a dog, Rex, and a cat, Tom.", "pet", "Rex", now),
        found("I live in Rome and have a dog, Rex, and a cat, Tom.", "pet", "Tom", now),
        found("I work at Acme.", "employer", "Acme", now),
    )
    clock.advance(hours=1)
    now = clock()
    await learn(
        ledger,
        found("Not Rome, Oslo!", "city", "Oslo", now, corrects=True, instead_of="Rome"),
        found("His name is Max, not Rex.", "pet", "Max", now, corrects=True, instead_of="Rex"),
        found("I no longer work there.", "employer", "", now, ends=True),
    )
    assert await told(facts, "city") == [("Rome", "corrected"), ("Oslo", "learned")]
    assert sorted(await values(facts, "pet")) == ["Max", "Tom"]
    assert await values(facts, "employer") == []
    clock.advance(hours=1)
    await learn(ledger, found("I have no pets any more.", "pet", "", clock(), ends=True))
    assert await values(facts, "pet") == []


async def test_drafts_beyond_one_commit_wait_for_another(ledger, facts, clock):
    drafts = [found(f"I like number {n}.", "hobby", f"number {n}", clock()) for n in range(90)]
    later = tuple(drafts)
    rounds = 0
    while later:
        changes, rest = await facts.apply(later, "rules-1")
        assert len(changes.put) <= APPLIED_PUTS + 2
        later = await learn(ledger, *later)
        assert later == rest
        rounds += 1
    assert rounds == 3
    assert len(await facts.list()) == 90


async def test_unusable_drafts_are_left_out(ledger, facts, clock):
    await learn(
        ledger,
        found("?", "!!", "x", clock()),
        found("?", "city", "", clock()),
        found("?", "city", "x" * 5_000, clock()),
        found("?", "city", "", clock(), corrects=True),
    )
    assert await facts.list() == []


async def test_what_is_not_eaten_stands_beside_the_diet_and_who_shares_a_home_beside_each_other(memory, clock):
    ann = memory.user("ann")
    for said in (
        "I'm vegetarian.",
        "I don't eat eggs or mushrooms.",
        "My roommate Kofi cooks.",
        "My roommate Emre sings.",
    ):
        await ann.session("talk").add_interaction(said, "Noted.")
        clock.advance(days=1)
        await memory.work()
    assert {(fact.key, fact.value) for fact in (await ann.profile()).facts} == {
        ("roommate", "Kofi"), ("roommate", "Emre"), ("diet", "vegetarian"), ("avoids", "eggs"), ("avoids", "mushrooms"),
    }  # fmt: skip
    await ann.session("talk").add_interaction("I eat eggs again.", "Enjoy!")
    await memory.work()
    assert [fact.value for fact in await ann.facts.get("avoids")] == ["mushrooms"]


async def test_one_has_one_dentist_at_a_time_and_any_number_of_neighbours(memory, clock):
    ann = memory.user("ann")
    for said in (
        "My dentist is Dr Kaur.",
        "My neighbour Stan sings.",
        "My neighbour Rosa too.",
        "My dentist is Dr Lund.",
    ):
        await ann.session("talk").add_interaction(said, "Noted.")
        clock.advance(days=1)
        await memory.work()
    assert [fact.value for fact in await ann.facts.get("dentist")] == ["Dr Lund"]
    assert [fact.value for fact in await ann.facts.get("neighbour")] == ["Stan", "Rosa"]
    assert "Dentist: Dr Lund" in (await ann.session("talk").get_context("Who is my dentist?")).system


# ── Reading ──────────────────────────────────────────────────────────────────────────────────────


async def test_what_was_true_and_what_was_believed_are_two_questions(facts, clock):
    start = clock()
    await facts.add("city", "Rome", valid_from=start - 100 * DAY_MS)
    clock.advance(days=10)
    await facts.add("city", "Oslo", valid_from=start - 50 * DAY_MS)

    async def city(**asked):
        return [fact.value for fact in await facts.list(**asked)]

    assert await city() == ["Oslo"]
    assert await city(as_of=start - 60 * DAY_MS) == ["Rome"]
    assert await city(as_of=start - 40 * DAY_MS) == ["Oslo"], "as it is known today"
    assert await city(as_of=start - 40 * DAY_MS, known_at=start) == ["Rome"], "as it was known then"
    assert await city(known_at=start) == ["Rome"]
    assert await city(known_at=start - 1) == []


async def test_a_profile_has_facts_preferences_a_name_and_the_last_message(ledger, facts, clock):
    await facts.upsert([{"key": "name", "value": "Ann"}, {"key": "city", "value": "Oslo"}])
    preferences = Facts(ledger, ANN, "preference")
    await preferences.upsert([{"key": "tone", "value": "formal"}, {"key": "theme", "value": "dark"}])
    then = clock()
    clock.advance(days=3)
    await preferences.add("tone", "concise")
    await ledger.commit(Changes(ANN.partition, put=(message("hello", clock()),)))
    profile = await read_profile(ledger, ANN)
    assert (profile.user_id, profile.name) == ("ann", "Ann")
    assert profile.last_interaction == datetime(2026, 3, 4, 12, tzinfo=UTC)
    assert profile.preferences == {"tone": "concise", "theme": "dark"}
    told = profile.to_dict()
    assert [(fact["key"], fact["value"]) for fact in told["facts"]] == [("name", "Ann"), ("city", "Oslo")]
    assert told["last_interaction"] == "2026-03-04T12:00:00Z"
    assert (await read_profile(ledger, ANN, known_at=then)).preferences == {"tone": "formal", "theme": "dark"}
    empty = await read_profile(ledger, Scope(user="bob"))
    assert (empty.name, empty.facts, empty.preferences, empty.last_interaction) == (None, (), {}, None)


async def test_who_imports_old_chats_newest_first_was_last_heard_when_the_newest_was_said(memory, clock):
    ann = memory.user("ann")
    for session, days_ago in (("newest", 40), ("older", 400), ("oldest", 4_000)):
        said_at = as_datetime(clock() - days_ago * DAY_MS)
        await ann.session(session).add_message("user", f"This is the {session}.", created_at=said_at)
    assert (await ann.profile()).last_interaction == as_datetime(clock() - 40 * DAY_MS)
    await ann.session("today").add_message("user", "Hello again.")
    assert (await ann.profile()).last_interaction == as_datetime(clock())


async def test_facts_and_preferences_of_the_same_name_stay_apart_and_so_do_users_and_orgs(ledger, facts):
    await facts.add("style", "baroque")
    await Facts(ledger, ANN, "preference").add("style", "short")
    await Facts(ledger, Scope("acme", "ann")).add("style", "gothic")
    assert [fact.value for fact in await facts.list()] == ["baroque"]
    assert [fact.value for fact in await Facts(ledger, Scope("acme", "ann")).list()] == ["gothic"]
    with pytest.raises(ValidationError):
        Facts(ledger, ANN, "learning")


async def test_a_clock_that_goes_back_hides_nothing(ledger, facts, clock):
    await facts.add("city", "Rome")
    clock.advance(hours=-3)
    assert await values(facts, "city") == ["Rome"]
    assert (await read_profile(ledger, ANN)).facts[0].value == "Rome"
    await facts.confirm("city")
    assert len(await facts.history("city")) == 1


async def test_forgetting_a_fact_takes_its_history_with_it_and_an_export_restores_both(ledger, facts, clock):
    await facts.add("city", "Rome")
    clock.advance(days=1)
    await facts.add("city", "Oslo", source_message_id="m-1")
    await facts.reject("city")
    await facts.add("city", "Bergen")
    await facts.end("city", at=clock() + DAY_MS)
    indexes = Indexes(ledger.store, "", 1, "en", 1 << 20)
    privacy, exports = Privacy(ledger, indexes, ANN.partition), Exports(ledger, ANN.partition)
    lines = [line async for line in exports.export()]
    before = await facts.history("city")
    await privacy.forget_ids([before[-1].id])
    assert [record async for record in ledger.walk(Filter(ANN.partition))] == []
    assert await facts.history("city") == []
    await exports.import_records(lines)
    assert await facts.history("city") == before
    await facts.add("city", "Paris")
    assert len(await facts.history("city")) == 4


# ── Many at once ─────────────────────────────────────────────────────────────────────────────────


async def test_no_write_is_lost_when_many_write_one_key(ledger, facts):
    await asyncio.gather(*(facts.add("city", f"City {n}") for n in range(64)))
    assert len(await facts.get("city")) == 1
    assert {value for value, _ in await told(facts, "city")} == {f"City {n}" for n in range(64)}
    await asyncio.gather(*(facts.add("name", "Ann", confidence=0.5) for _ in range(32)))
    assert (await facts.get("name"))[0].seen == 32


async def test_writes_of_two_processes_to_one_key_both_stay_in_its_history(tmp_path):
    url = f"sqlite:///{tmp_path}/shared.db"
    clock = ManualClock()
    stores = [await open_store(url), await open_store(url)]
    sides = [Facts(Ledger(store, clock, LAYERS), ANN) for store in stores]
    for n in range(8):
        await asyncio.gather(*(side.add("city", f"City {n} of {place}") for place, side in enumerate(sides)))
        clock.advance(minutes=1)
    assert len(await sides[0].get("city")) == 1
    assert await sides[0].history("city") == await sides[1].history("city")
    assert len(await sides[0].history("city")) == 16
    for store in stores:
        await store.close()


async def test_a_fact_that_changes_while_another_is_written_is_decided_anew(store, clock):
    facts = Facts(Ledger(store, clock, LAYERS), ANN)
    await facts.add("city", "Rome")
    other = Facts(Ledger(store, clock, LAYERS), ANN)
    store.before(lambda changes: True, lambda: other.add("city", "Paris"))
    await facts.add("city", "Oslo")
    assert [value for value, _ in await told(facts, "city")] == ["Rome", "Paris", "Oslo"]
    await store.close()


async def test_the_place_of_a_fact_cannot_be_taken_by_another_memory(ledger, facts):
    id = LAYERS["fact"].head_id(ANN, "city")
    await ledger.commit(Changes(ANN.partition, put=(Record(id, "long_term", ANN, "hello", created_at=NOON_MS),)))
    with pytest.raises(Conflict):
        await facts.add("city", "Oslo")
    assert await facts.get("city") == []


async def test_a_profile_is_read_with_few_calls_however_long_its_history(store, clock):
    ledger = Ledger(store, clock, LAYERS)
    facts = Facts(ledger, ANN)
    for n in range(20):
        await facts.upsert([{"key": f"key {key}", "value": f"{n}"} for key in range(20)])
        clock.now_ms += HOUR_MS
    store.reset()
    assert len((await read_profile(ledger, ANN)).facts) == 20
    assert sum(store.calls.values()) <= 5
    await store.close()


async def test_liking_something_ends_disliking_it_and_vice_versa(memory, clock):
    ann = memory.user("ann", org="acme")
    chat = ann.session("tastes")
    for text in ("I hate cilantro. I love hiking.", "I love cilantro now. I can't stand hiking."):
        clock.advance(days=1)
        await chat.add_message("user", text)
        await memory.work()
    known = {(fact.key, fact.value) for fact in await ann.facts.list()}
    assert known == {("likes", "cilantro"), ("dislikes", "hiking")}


async def test_moving_city_ends_the_region_too_unless_it_is_said_again(memory, clock):
    ann = memory.user("ann")
    chat = ann.session("s")
    for text in ("I live in Portland, Oregon.", "I moved to Bergen, Norway.", "I live in Bergen."):
        await chat.add_message("user", text)
        await memory.work()
        clock.advance(days=40)
    known = {fact.key: fact.value for fact in await ann.facts.list()}
    assert (known["city"], known["country"], "region" in known) == ("Bergen", "Norway", False)
    assert [fact.value for fact in await ann.facts.history("region")] == ["Oregon"]


async def test_an_older_move_told_later_goes_into_the_history(memory, clock):
    ann = memory.user("ann")
    for text in ("I moved to Munich in 2020.", "I moved to Berlin in 2015."):
        clock.advance(minutes=5)
        await ann.session("s").add_message("user", text)
        await memory.work()
    assert [fact.value for fact in await ann.facts.get("city")] == ["Munich"]
    assert [fact.value for fact in await ann.facts.list(as_of="2017-05-01")] == ["Berlin"]


async def test_there_is_always_one_current_city_whatever_start_dates_are_given(memory, clock):
    ann = memory.user("ann")
    for text in ("I moved to Munich last month.", "I live in New York City.", "I have lived in Bremen for 3 years."):
        clock.advance(minutes=5)
        await ann.session("s").add_message("user", text)
        await memory.work()
    assert [fact.value for fact in await ann.facts.get("city")] == ["Bremen"]


async def test_a_message_from_the_future_does_not_freeze_a_fact(memory, clock):
    ann = memory.user("ann")
    await ann.session("s").add_message("user", "I live in Oslo.", created_at="2099-01-01")
    await memory.work()
    clock.advance(days=1)
    await ann.add_fact("city", "Bergen")
    assert [fact.value for fact in await ann.facts.get("city")] == ["Bergen"]


async def test_a_prompt_does_not_contradict_a_users_correction_with_the_graph(memory, clock):
    ann = memory.user("ann")
    await ann.session("s").add_message("user", "I live in Oslo.")
    await memory.work()
    clock.advance(days=1)
    await ann.facts.correct("city", "Rome")
    system = (await ann.get_context("Is Oslo where I live?")).system
    assert "Lives in Rome" in system
    assert "lives in oslo" not in system.lower()


async def test_a_job_that_begins_later_is_known_from_then_on(memory, clock):
    ann = memory.user("ann")
    chat = ann.session("s")
    for text in ("I work at Acme.", "I'm starting at Siemens in two months."):
        await chat.add_message("user", text, created_at=as_datetime(clock()))
        clock.advance(days=1)
        await memory.work()

    async def told():
        hits = await ann.search_memory("Where do I work?", layer=("fact", "relation"), limit=9)
        return [fact.value for fact in await ann.facts.get("employer")], sorted(hit.content for hit in hits)

    assert await told() == (["Acme"], ["employer: Acme", "user works at Acme"])
    clock.advance(days=70)
    await memory.work()
    assert await told() == (["Siemens"], ["employer: Siemens", "user works at Siemens"])


async def test_a_job_that_begins_later_is_not_told_as_the_present_one_when_no_other_is_known(memory, clock):
    ann = memory.user("ann")
    await ann.session("s").add_message(
        "user", "I'm starting at Siemens in two months.", created_at=as_datetime(clock())
    )
    await memory.work()
    assert (await ann.profile()).facts == ()
    assert await ann.search_memory("Where do I work?", layer=("fact", "relation")) == []
    assert "Works at" not in (await ann.get_context("Where do I work?")).system


@pytest.mark.parametrize(
    "left, sold", [(["Kia Sorento"], "I sold the Touran."), (["VW Touran", "Kia Sorento"], "I sold the Corsa.")]
)
async def test_a_car_is_sold_by_the_name_that_people_use_for_it(memory, clock, left, sold):
    ann = memory.user("ann")
    for text in ("I drive a VW Touran.", "I bought a Kia Sorento.", sold):
        await ann.session("s").add_message("user", text, created_at=as_datetime(clock()))
        clock.advance(days=1)
        await memory.work()
    assert [fact.value for fact in await ann.facts.get("vehicle")] == left
    relations, _ = await ann.list_memories(layer="relation")
    driven = [record.content for record in relations if record.valid_to is None]
    assert driven == [f"user drives {car}" for car in left]


async def test_a_car_told_to_the_graph_alone_is_in_the_context_of_a_question_about_it(memory):
    ann = memory.user("ann")
    await ann.add_fact("vehicle", "Skoda")
    await ann.graph.relate("user", "drives", "Volvo")
    await memory.work()
    context = await ann.get_context("What about the Volvo?")
    assert "drives Volvo" in f"{context.system} {context.messages}"


async def test_a_future_value_does_not_hide_the_current_one(memory, clock):
    ann = memory.user("ann")
    await ann.add_fact("city", "Oslo")
    june = clock() + 90 * DAY_MS
    await ann.add_fact("city", "Bergen", valid_from=as_datetime(june))
    await memory.work()

    async def told():
        context = await ann.get_context("Where do I live?")
        hits = [hit.content for hit in await ann.search_memory("Which city?", layer="fact")]
        return [fact.value for fact in (await ann.profile()).facts], context.system.split("Lives in ")[1][:4], hits

    assert await told() == (["Oslo"], "Oslo", ["city: Oslo"])
    assert [fact.value for fact in (await ann.profile(as_of=as_datetime(june))).facts] == ["Bergen"]
    assert [(fact.value, fact.status) for fact in await ann.facts.history("city")] == [
        ("Oslo", "told"),
        ("Bergen", "told"),
    ]
    clock.advance(days=91)
    await memory.work()
    assert await told() == (["Bergen"], "Berg", ["city: Bergen"])
    await ann.add_fact("city", "Rome")
    assert [(fact.value, fact.status) for fact in await ann.facts.history("city")] == [
        ("Oslo", "ended"),
        ("Bergen", "ended"),
        ("Rome", "told"),
    ]


async def test_all_changes_due_on_a_day_take_effect_on_that_day(memory, clock):
    ann = memory.user("ann")
    await ann.upsert_facts([{"key": "city", "value": "Oslo"}, {"key": "employer", "value": "Acme"}])
    june = as_datetime(clock() + 90 * DAY_MS)
    moves = {"city": "Bergen", "employer": "Globex"}
    await ann.upsert_facts([{"key": key, "value": value, "valid_from": june} for key, value in moves.items()])
    clock.advance(days=91)
    await memory.work()
    context = await ann.get_context("Where do I live, and for whom do I work?")
    assert "Bergen" in context.system and "Globex" in context.system
    assert {hit.content for hit in await ann.search_memory("city, employer", layer="fact")} == {
        "city: Bergen",
        "employer: Globex",
    }


async def test_a_call_with_the_maximum_number_of_facts_may_hold_only_future_ones(facts, clock):
    known = [{"key": f"key {n}", "value": "now"} for n in range(UPSERT_MAX)]
    await facts.upsert(known)
    times = [as_datetime(clock() + wait) for wait in range(1, UPSERT_MAX + 1)]
    await facts.upsert([each | {"value": "then", "valid_from": at} for each, at in zip(known, times, strict=True)])
    clock.advance(days=1)
    assert {fact.value for fact in await facts.list()} == {"then"}


async def test_a_former_value_can_be_forgotten_alone_by_its_own_id(memory, clock):
    ann = memory.user("ann")
    for city in ("Oslo", "Secretville", "Rome"):
        await ann.add_fact("city", city)
        clock.advance(days=1)
    then = clock() - int(1.5 * DAY_MS)
    oslo, secret, rome = await ann.facts.history("city")
    assert len({oslo.id, secret.id, rome.id}) == 3
    await ann.quarantine(ids=[oslo.id])
    assert [fact.value for fact in await ann.facts.history("city")] == ["Secretville", "Rome"]
    await ann.release(ids=[oslo.id])
    receipt = await ann.forget(secret.id)
    assert receipt.forgotten == {"fact": 1}
    assert [fact.value for fact in await ann.facts.history("city")] == ["Oslo", "Rome"]
    assert (await ann.profile(as_of=then)).facts == ()
    assert "Secretville" not in str(await ann.export())
    await ann.forget(rome.id)
    assert await ann.facts.history("city") == [], "a fact goes with all values that it had"


async def test_asking_to_forget_something_does_not_count_as_saying_it_again(memory):
    ann = memory.user("ann")
    await ann.session("s").add_message("user", "My cat is called Admiral.")
    await memory.work()
    before = (await ann.profile()).facts
    for words in ("Could you forget about my cat Admiral?", "Please forget the cat called Admiral."):
        await ann.session("s").add_message("user", words)
    await memory.work()
    assert [(fact.key, fact.value) for fact in before] == [("pet", "Admiral")]
    assert (await ann.profile()).facts == before


@pytest.mark.parametrize(
    "said, known",
    [
        (["I work at Acme as a baker.", "I'm unemployed now."], [("occupation", "unemployed")]),
        (["I work at Acme as a baker.", "I retired last month."], [("occupation", "retired")]),
        (["I'm retired.", "I work at Tesco now."], [("employer", "Tesco")]),
        (["I'm retired.", "I work at Tesco as a cashier."], [("occupation", "cashier"), ("employer", "Tesco")]),
        (["I'm a freelance designer.", "I joined Figma last week."],
         [("occupation", "freelance designer"), ("employer", "Figma")]),
        (["I have a dog called Rex.", "Rex died yesterday."], []),
        (["I work at Acme.", "I quit my job last week."], []),
    ],
)  # fmt: skip
async def test_what_contradicts_the_latest_statement_ends(memory, clock, said, known):
    ann = memory.user("ann")
    for text in said:
        await ann.session("s").add_interaction(text, "I see.")
        clock.advance(minutes=1)
        await memory.work()
    assert [(fact.key, fact.value) for fact in (await ann.profile()).facts] == known
