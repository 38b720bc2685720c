"""Masking through the front door: when it is on, no entry point lets a card number or a key reach a file."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from recollect import Memory
from recollect.errors import ValidationError
from recollect.filters import Filter
from recollect.testing.fakes import HashingEmbedder
from recollect.trust import Trust

CARD = "4111 1111 1111 1111"
KEY = "sk-proj-Zt4Qm8Lw2Xv9Rb6Ny3Kc7Hd5Jf1Pg0As"
SECRETS = (CARD, CARD.replace(" ", ""), KEY)
TEXT = f"Remember my card {CARD} and my key {KEY}, please."


@pytest.fixture
async def masking(open_memory):
    return await open_memory(masking="secrets, personal")


async def talk(memory, ann):
    """Use everything a conversation can hold."""
    chat = ann.session("s", agent="support")
    call = {"id": "c1", "type": "function", "function": {"name": "pay", "arguments": json.dumps({"card": CARD})}}
    await chat.add_message("user", TEXT, metadata={"note": TEXT})
    await chat.add_message("user", [{"type": "text", "text": TEXT}], name="Ann")
    await chat.add_message("assistant", None, tool_calls=[call])
    await chat.add_message("tool", TEXT, tool_call_id="c1")
    await chat.add_messages([{"role": "user", "content": f"I decided: {TEXT}"}])
    said = (await chat.add_interaction(TEXT, f"Noted: {TEXT}"))[0]
    await chat.rename(f"About {CARD}")
    await chat.branch(said.id, "branch")
    await chat.working.set({"card": CARD, "steps": [TEXT]})
    await chat.working.push("steps", KEY)
    await ann.working.patch({"key": KEY})
    await memory.work()
    await chat.compress()
    await chat.close()


async def keep(memory, ann):
    """Use everything that can be stored directly."""
    note = await ann.add_memory(TEXT, metadata={"note": TEXT})
    await ann.add_memories([{"content": f"Once more: {TEXT}"}, f"And again: {TEXT}"])
    await ann.update_memory(note.id, content=f"Changed: {TEXT}", metadata={"other": KEY})
    await ann.upsert_facts([{"key": "card", "value": CARD}, {"key": "note", "value": TEXT}])
    await ann.add_fact("api_key", KEY)
    await ann.facts.correct("note", f"Rather: {TEXT}", reason=TEXT)
    await ann.facts.end("note", reason=TEXT)
    await ann.facts.reject("card", CARD, reason=TEXT)
    await ann.update_preference("signature", TEXT)
    learning = await ann.add_learning(TEXT)
    await ann.learnings.contradict(learning.id)
    rule = await ann.customize(TEXT)
    await ann.customizations.update(rule.id, text=f"Rather: {TEXT}")
    await Trust(memory._flow.ledger, memory._flow.indexes, ann._scope).quarantine(ids=[note.id], reason=TEXT)


async def connect(memory, ann):
    """Use everything that can be stored about people and things."""
    graph = ann.graph
    await graph.add_entity(f"Card {CARD}", aliases=[KEY], metadata={"note": TEXT})
    await graph.add_alias(f"Card {CARD}", f"The key {KEY}")
    owns = await graph.relate("user", "owns", f"Wallet {CARD}")
    await graph.end_relation(owns.id, reason=TEXT)
    await graph.merge(f"Card {CARD}", f"Wallet {CARD}", reason=TEXT)
    await graph.undo_merge(f"Wallet {CARD}")
    cache = memory.entities()
    await cache.put("customer", "1", {"card": CARD, "note": TEXT}, name=f"Owner of {CARD}", aliases=[KEY])
    loaded = await cache.get("customer", "2", loader=lambda type, id: {"note": TEXT})
    assert CARD not in str(loaded)
    assert await cache.find(f"Owner of {CARD}") == [] or CARD not in str(await cache.list())


async def bring_in(memory, ann):
    lines = [
        {"id": "i1", "layer": "long_term", "content": f"Imported: {TEXT}", "metadata": {"note": TEXT}},
        {"id": "i2", "layer": "conversation", "scope": {"session": "old"}, "content": TEXT, "data": {"role": "user"}},
        {"id": "i3", "layer": "working", "data": {"state": {"password": "hunter22", "card": CARD}}},
    ]
    assert await ann.import_records(lines) == 3


@pytest.mark.parametrize("way", [talk, keep, connect, bring_in])
async def test_what_is_masked_is_in_no_file_no_export_and_no_log(masking, way, store_name, tmp_path, caplog):
    caplog.set_level(logging.DEBUG)
    ann = masking.user("ann")
    await way(masking, ann)
    await masking.work()
    users = [f"{record.to_dict()}" async for record in masking._flow.ledger.walk(Filter(ann._scope.partition))]
    org = [f"{record.to_dict()}" async for record in masking._flow.ledger.walk(Filter(masking.org()._scope.partition))]
    told = [*users, *org, json.dumps(await ann.export(), ensure_ascii=False), caplog.text]
    assert any("[card]" in text or "[api key]" in text for text in told)
    assert not [text for text in told for secret in SECRETS if secret in text]
    if store_name == "sqlite":
        await masking.close()
        raw = b"".join(path.read_bytes() for path in Path(tmp_path).rglob("*") if path.is_file())
        assert b"[card]" in raw
        assert not [secret for secret in SECRETS if secret.encode() in raw]


async def test_the_rest_of_a_message_with_a_secret_is_still_learned(masking):
    ann = masking.user("ann")
    await ann.session("s").add_message("user", f"I live in Lisbon. My card is {CARD}.")
    await masking.work()
    assert [fact.value for fact in await ann.facts.get("city")] == ["Lisbon"]


async def test_a_masked_value_is_found_by_its_original_words(masking):
    """Naming a secret again refers to what is stored in its place."""
    ann = masking.user("ann")
    await ann.add_fact("note", f"card {CARD}")
    assert [fact.value for fact in await ann.facts.confirm("note", f"card {CARD}")] == ["card [card]"]
    await ann.graph.add_entity(f"Card {CARD}")
    assert (await ann.graph.find(f"Card {CARD}")).name == "Card [card]"


async def test_without_masking_everything_is_stored_as_it_was_said(memory):
    ann = memory.user("ann")
    await ann.add_fact("note", TEXT)
    await ann.session("s").add_message("user", TEXT)
    assert TEXT in (await ann.facts.get("note"))[0].value
    assert (await ann.session("s").window())[0].content == TEXT


def test_an_unknown_kind_is_refused():
    with pytest.raises(ValidationError) as caught:
        Memory.open("memory://", embedder=HashingEmbedder(), masking="everything")
    assert caught.value.field == "masking"
