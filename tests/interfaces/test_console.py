"""The console over HTTP: every page, who may see what, forms only from our own pages, and text shown as text."""

from __future__ import annotations

import asyncio
import copy
import html
import json
import re
import shlex
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from server_stage import LOCAL, client_of, opened, process, proof_in, shown, signed_in

from recollect.layers import PUBLIC_LAYERS
from recollect.policies.ages import GROWING
from recollect.profile import Fact
from recollect.records import DAY_MS, Partition, as_datetime
from recollect.server import console, sample
from recollect.server.console import overview
from recollect.server.console.pages import HEADERS, LAST_PAGE, STATIC
from recollect.server.console.teaching import CHANGED
from recollect.server.console.timeline import LETTERS_MAX, WIDTHS_PX, Label, Row, draw
from recollect.server.metrics import Metrics, Shared
from recollect.stores.in_memory import InMemoryStore
from recollect.testing.fakes import FailingEmbedder, ManualClock

NOOR = "/users/noor"
BY_SCRIPT = {"HX-Request": "true"}
HOSTILE = ("<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "{{ 7 * 7 }}", "javascript:alert(1)")


@pytest.fixture(scope="module")
def sampled() -> dict[Partition, Any]:
    """What a store holds after the sample was loaded, which takes a while: tests get copies of it."""

    async def load() -> dict[Partition, Any]:
        store, clock = InMemoryStore(), ManualClock()
        async with opened(store, clock=clock) as service:
            await sample.load(service.memory, "default", clock())
        return store._rooms

    return asyncio.run(load())


@pytest.fixture
def store(request) -> InMemoryStore:
    store = InMemoryStore()
    if "noor" in request.fixturenames:
        store._rooms = copy.deepcopy(request.getfixturevalue("sampled"))
    return store


@pytest.fixture
async def service(store, clock):
    async with opened(store, clock=clock) as service:
        yield service


@pytest.fixture
async def noor(service):
    """The user of the sample, which is in the store."""
    return service.memory.user(sample.USER)


async def send(client: httpx.AsyncClient, path: str, proof: str | None = None, **fields: str) -> httpx.Response:
    """Submit a form as one of our pages would."""
    given = proof if proof is not None else proof_in(await shown(client, "/users"))
    return await client.post(path, data={"proof": given, **fields})


async def sent(client: httpx.AsyncClient, path: str, **fields: str) -> str:
    """Send a form that must succeed, and follow it to the page it leads to."""
    answer = await send(client, path, **fields)
    assert answer.status_code == 303, (path, answer.status_code, re.sub("<[^>]+>", " ", answer.text)[-400:])
    return await shown(client, answer.headers["location"])


# ── Every page ───────────────────────────────────────────────────────────────────────────────────

PAGES = {
    "/users": "<h1>Choose a user</h1>",
    f"{NOOR}/chat/otters": "Show it for the last message",
    f"{NOOR}/chat/otters?prompt=true": "of 4,000 tokens",
    f"{NOOR}/sessions": "Moving south",
    f"{NOOR}/sessions/moving": "Claim BX-2291",
    f"{NOOR}/memories": "Only the newest are listed.",
    f"{NOOR}/memories?layer=long_term": "hydrophones of Aquatone",
    f"{NOOR}/memories?q=accordion": "Shares words with the question",
    f"{NOOR}/memories?q=quantum+tax+helicopter+zebra": "Nothing here really fits.",
    f"{NOOR}/memories?layer=fact": "allergy: shellfish",
    f"{NOOR}/profile": "Over time",
    f"{NOOR}/profile?as_of=2020-01-01": "Nothing was known about this user then",
    f"{NOOR}/graph": "Biscuit",
    f"{NOOR}/learnings": "No emoji, please.",
    f"{NOOR}/privacy": "Erase everything",
    "/overview": "Growth",
    "/jobs": "No failed jobs",
    "/keys": "No keys yet",
    "/docs": "Talk to an agent",
}


async def test_each_hit_has_a_bar_for_its_relevance(client, noor):
    answered = await shown(client, f"{NOOR}/memories?q=Who+gets+married+in+the+lighthouse%3F")
    assert "Nothing here really fits." not in answered
    bars = [float(width) for width in re.findall(r'relevance</span>.*?<rect width="([\d.]+)"', answered)]
    assert bars[0] > 90 and min(bars) < 10, bars
    nonsense = await shown(client, f"{NOOR}/memories?q=quantum+tax+helicopter+zebra")
    assert all(float(width) < 20 for width in re.findall(r'relevance</span>.*?<rect width="([\d.]+)"', nonsense))


async def test_layers_have_the_names_people_type(client, noor):
    listed = await shown(client, f"{NOOR}/memories")
    assert all(f">{layer}</a>" in listed for layer in PUBLIC_LAYERS)


async def test_the_sample_was_learned_over_weeks(client, noor):
    days = set(re.findall(r"since (\d+ \w+ \d{4})", await shown(client, f"{NOOR}/learnings")))
    assert len(days) >= 4, days


@pytest.mark.parametrize("path", PAGES)
async def test_every_page_shows_the_sample(client, noor, path):
    assert PAGES[path] in await shown(client, path)


async def test_memories_that_were_said_are_listed_with_who_said_them(client, service):
    chat = service.memory.user("ann").session("s")
    await chat.add_interaction("Jasmine tea, please.", "Jasmine tea it is.")
    await chat.add_message("user", "Tea for me too.", name="<b>Bo")
    for path in ("memories?layer=conversation", "memories?q=jasmine+tea"):
        speakers = re.findall(r'<span class="speaker">([^<]+)</span>', await shown(client, f"/users/ann/{path}"))
        assert sorted(speakers) == ["&lt;b&gt;Bo", "assistant", "user"], path


async def test_labels_of_a_memory_are_shown_as_json_not_as_python(client, service):
    record = await service.memory.user("ann").add_memory(
        "Tea.", metadata={"tags": ["a", "ü"], "kept": True, "topic": "it"}
    )
    text = html.unescape(await shown(client, f"/users/ann/memories/{record.id}"))
    assert '["a", "ü"]' in text and "<dd>true</dd>" in text and "<dd>it</dd>" in text


async def test_every_link_leads_somewhere(client, noor):
    seen = set(PAGES)
    waiting = list(PAGES)
    while waiting:
        path = waiting.pop()
        answer = await client.get(path)
        assert answer.status_code in (200, 303), (path, answer.status_code)
        links = {html.unescape(each) for each in re.findall(r' href="([^"#]+)', answer.text)}
        links = {each for each in links if "/static/" not in each and "chat-new" not in each} - seen
        seen |= links
        waiting += sorted(links)
    assert len(seen) > 150


@pytest.mark.parametrize("page", ["chat-new", "sessions", "memories", "profile", "graph", "learnings", "privacy"])
async def test_every_page_of_a_user_without_memories_says_what_it_is_for(client, page):
    answer = await client.get(f"/users/nobody/{page}", follow_redirects=True)
    assert answer.status_code == 200
    words = re.sub(r"\s+", " ", re.sub("<[^>]+>", " ", answer.text))
    assert any(each in words for each in ("Tell me something", "No ", "Nothing")), words


async def test_memories_begin_with_the_newest_of_all_layers_and_an_empty_layer_says_where_what_was_said_is(
    client, service
):
    await service.memory.user("ann").session("s").add_interaction("I live in Bergen.", "By the sea!")
    await service.memory.work()
    newest = await shown(client, "/users/ann/memories")
    assert "By the sea!" in newest and "city: Bergen" in newest
    assert "What was said is in the layer conversation" in await shown(client, "/users/ann/memories?layer=long_term")
    assert "By the sea!" in await shown(client, "/users/ann/memories?layer=conversation")
    assert "What was said" not in await shown(client, "/users/ann/memories?layer=episodic")


async def test_the_start_page_leads_to_the_user_viewed_last(client, noor):
    first = await client.get("/")
    assert first.headers["location"] == "/users"
    chat = await client.get(f"{NOOR}/chat")
    assert chat.headers["location"] == f"{NOOR}/chat/otters"
    await shown(client, chat.headers["location"])
    assert (await client.get("/")).headers["location"] == f"{NOOR}/chat"


async def test_a_button_loads_the_sample_once(client, service):
    for _ in range(2):
        await sent(client, "/sample")
    talks = await service.memory.user("noor").sessions()
    assert [len(talks), sum(each.messages for each in talks)] == [8, sum(2 * len(each.turns) for each in sample.TALKS)]


async def test_the_command_serves_the_console_with_the_sample(tmp_path):
    with process(tmp_path, "--sample") as (address, _):
        async with httpx.AsyncClient(base_url=address) as client:
            assert "noor" in await shown(client, "/")
            assert "Moving south" in await shown(client, f"{NOOR}/sessions")


async def test_a_user_with_an_odd_name_has_pages_like_any_other(client, service):
    odd = "a/b?c#d %&ü"
    await service.memory.user(odd).session("x/y").add_interaction("I live in Oslo.", "Nice.")
    await service.memory.work()
    assert (await client.post("/users", data={"proof": proof_in(await shown(client, "/users")), "user": odd})).headers[
        "location"
    ] == f"/users/{quote(odd, safe='')}/chat"
    page = await shown(client, f"/users/{quote(odd, safe='')}/sessions")
    assert f"/users/{quote(odd, safe='')}/sessions/x%2Fy" in page
    assert "I live in Oslo." in await shown(client, f"/users/{quote(odd, safe='')}/sessions/x%2Fy")


@pytest.mark.parametrize("odd", [".", "..", "~.", "~~.."])
async def test_an_id_that_browsers_would_take_for_a_path_step_has_a_safe_address(client, service, odd):
    await service.memory.user(odd).session(odd).add_interaction("I live in Oslo.", "Nice.")
    record = await service.memory.user(odd).add_memory("Likes tea.", id=odd)
    await service.memory.work()
    whose = f"/users/~{odd}"
    answer = await send(client, "/users", user=odd)
    assert answer.headers["location"] == f"{whose}/chat"
    assert f'href="{whose}/chat"' in await shown(client, "/users")
    assert f'href="{whose}/sessions/~{odd}"' in await shown(client, f"{whose}/sessions")
    assert "I live in Oslo." in await shown(client, f"{whose}/sessions/~{odd}")
    assert "Likes tea." in await shown(client, f"{whose}/memories/~{record.id}")


async def test_a_key_of_one_user_gets_no_further_with_another_form_of_an_address(service):
    await service.memory.user(".").add_memory("Likes tea.")
    await service.memory.user("~.").add_memory("Likes coffee.")
    _, token = await service.keys.create(org="default", user="~.")
    async with client_of(service) as client:
        await signed_in(client, token)
        assert "Likes coffee." in await shown(client, "/users/~~./memories")
        assert (await client.get("/users/~./memories")).status_code == 404


# ── What people do there ─────────────────────────────────────────────────────────────────────────


async def test_a_turn_of_the_chat_is_answered_stored_and_learned_from(client, service):
    ann = service.memory.user("ann")
    proof = proof_in(await shown(client, "/users/ann/chat/monday"))
    said = {"proof": proof, "message": "I live in Oslo and I'm allergic to walnuts."}
    turn = await client.post("/users/ann/chat/monday", data=said, headers=BY_SCRIPT)
    events = [line.partition(": ")[2] for line in turn.text.splitlines() if line.startswith("data: ")]
    page = json.loads(events[-1])["html"]
    assert "".join(json.loads(each)["text"] for each in events[:-1]) == "I'll remember that."
    assert page.count("<article") == 2 and 'id="prompt"' in page
    look = re.search(r'hx-get="([^"]+)"', page)[1].replace("&amp;", "&")
    await service.memory.work()
    later = await shown(client, look)
    assert "Oslo" in later and "walnuts" in later and "allergy" in later
    for _ in range(9):
        again = re.search(r'hx-get="([^"]+)"', later)
        if again is None:
            break
        later = await shown(client, again[1].replace("&amp;", "&"))
    assert "hx-get" not in later, "the page would ask for ever"
    assert (await ann.sessions())[0].messages == 2


async def test_looking_at_a_conversation_does_not_count_as_using_what_is_in_it(client, noor, service):
    for _ in range(3):
        await shown(client, f"{NOOR}/chat/otters")
    await service.memory.work()
    assert {each.usage_count for each in await noor.learnings.list()} == {0}
    await shown(client, f"{NOOR}/chat/otters?prompt=true")
    await service.memory.work()
    assert {each.usage_count for each in await noor.learnings.list()} == {0, 1}


async def test_an_agent_that_fails_says_so_and_the_users_message_is_kept(clock, tmp_path):
    (tmp_path / "recollect.toml").write_text('[agents.default]\nurl = "http://127.0.0.1:9/v1"\nmodel = "none"\n')
    async with opened(clock=clock, folder=tmp_path) as service, client_of(service) as client:
        proof = proof_in(await shown(client, "/users/ann/chat/s"))
        said = {"proof": proof, "message": "My cat is called Admiral."}
        answer = await client.post("/users/ann/chat/s", data=said, headers=BY_SCRIPT)
        assert answer.text.startswith("event: error") and '"status": 50' in answer.text
        plain = await client.post("/users/ann/chat/s", data=said)
        assert plain.status_code in (502, 503) and "That did not work." in plain.text
        assert "My cat is called Admiral." in await shown(client, "/users/ann/chat/s")


async def test_what_is_sent_again_after_a_failure_is_stored_once_and_other_words_as_well(clock, tmp_path):
    (tmp_path / "recollect.toml").write_text('[agents.default]\nurl = "http://127.0.0.1:9/v1"\nmodel = "none"\n')
    async with opened(clock=clock, folder=tmp_path) as service, client_of(service) as client:
        page = await shown(client, "/users/ann/chat/s")
        said = {"proof": proof_in(page), "turn": re.findall(r'name="turn" value="(\w+)"', page)[0]}
        for words in ("Is anybody there?", "Is anybody there?", "Hello?"):
            answer = await client.post("/users/ann/chat/s", data=said | {"message": words}, headers=BY_SCRIPT)
            assert answer.text.startswith("event: error")
        messages, _ = await service.memory.user("ann").session("s").messages()
        assert [message.content for message in messages] == ["Is anybody there?", "Hello?"]


async def test_without_javascript_a_turn_leads_back_to_the_conversation(client):
    page = await sent(client, "/users/ann/chat/monday", message="My cat is called Admiral.")
    assert "My cat is called Admiral." in page and "I&#39;ll remember that." in page


async def test_a_session_is_renamed_branched_exported_and_deleted(client, noor):
    assert "A yellow coat" in await sent(client, f"{NOOR}/sessions/moving/rename", title="A yellow coat")
    messages, _ = await noor.session("moving").messages()
    branched = await sent(client, f"{NOOR}/sessions/moving/branch", message=messages[1].id)
    said = re.findall(r"<article.*?<p>(.*?)</p>", branched, re.S)
    assert said == ["We moved to Bergen. The flat looks over Vågen.", messages[1].content]
    exported = await client.get(f"{NOOR}/sessions/moving/export")
    assert exported.json()["session_id"] == "moving" and "attachment" in exported.headers["content-disposition"]
    assert "Forgotten for good" in await sent(client, f"{NOOR}/sessions/moving/delete")
    assert (await client.get(f"{NOOR}/sessions/moving")).status_code == 404


async def test_a_memory_shows_the_exact_words_it_was_learned_from(client, noor):
    (fact,) = await noor.facts.get("favorite_food")
    page = await shown(client, f"{NOOR}/memories/{fact.id}")
    assert "<mark>My favourite food is harira</mark>, the way my mother makes it." in page


@pytest.mark.parametrize("place", [3, 150, 249])
async def test_a_memory_links_to_the_conversation_page_that_has_its_words(client, service, place):
    chat = service.memory.user("ann").session("long")
    said = [{"role": "user", "content": f"Line {number}."} for number in range(250)]
    said[place]["content"] = "I live in Oslo."
    for start in range(0, 250, 50):
        await chat.add_messages(said[start : start + 50])
    await service.memory.work()
    (fact,) = await service.memory.user("ann").facts.get("city")
    fact_page = await shown(client, f"/users/ann/memories/{fact.id}")
    there, name = re.search(r'href="([^"#]+)#(m-[^"]+)">in its conversation', fact_page).groups()
    page = await shown(client, html.unescape(there))
    assert f'id="{name}"' in page and "I live in Oslo." in page
    assert page.count("<article") == min(100, 250 - place // 100 * 100)
    assert ("From the beginning" in page) == (place >= 100)


async def test_a_message_from_another_conversation_opens_the_first_page(client, noor):
    elsewhere = (await noor.session("otters").messages(limit=1))[0][0].id
    for message in ("nowhere", elsewhere):
        assert "From the beginning" not in await shown(client, f"{NOOR}/sessions/moving?message={message}")


async def test_a_message_lists_what_was_learned_from_it_and_each_leads_to_its_memory(client, service):
    ann = service.memory.user("ann")
    said, answered = await ann.session("s").add_interaction("My sister Maya lives in Porto.", "Nice!")
    await service.memory.work()
    page = await shown(client, f"/users/ann/memories/{said.id}")
    (found,) = re.findall(r'<a class="value" href="([^"]+)">Maya</a>', page)
    assert "My sister Maya" in await shown(client, found) and "Undo what was learned" in page
    assert "What was learned from it" not in await shown(client, f"/users/ann/memories/{answered.id}")
    quiet = await ann.session("s").add_message("user", "What a day.")
    await service.memory.work()
    page = await shown(client, f"/users/ann/memories/{quiet.id}")
    assert "Nothing: it is kept word for word." in page and "Undo what was learned" not in page


async def test_of_a_very_long_message_the_beginning_is_shown_and_all_of_it_on_demand(client, service):
    text = "Once upon a time. " * 3000 + "The end."
    await service.memory.user("ann").session("s").add_message("user", text)
    for page in ("chat/s", "sessions/s"):
        (said,) = re.findall(r'<details class="long">.*?</details>', await shown(client, f"/users/ann/{page}"), re.S)
        shut, unfolded = said.split("</summary>")
        assert "Show all 54,008 characters" in shut and len(shut) < 2000 and "The end." in unfolded


async def test_a_first_turn_says_that_nothing_was_there_to_put_into_its_prompt(client):
    answer = await client.post(
        "/users/ann/chat/s",
        data={"proof": proof_in(await shown(client, "/users")), "message": "Hi!"},
        headers=BY_SCRIPT,
    )
    assert "Nothing was remembered before this message" in answer.text


async def test_every_memory_of_every_layer_has_a_page(client, noor, service):
    await noor.session("otters", agent="support").working.set({"plan": ["feed Magnus"]})
    for layer in set(PUBLIC_LAYERS) - {"entity_cache"}:  # which is the org's
        found = (await noor.list_memories(layer=layer))[0][:2]
        assert found, layer
        for record in found:
            page = await shown(client, f"{NOOR}/memories/{record.id}")
            assert record.id in page and ("feed Magnus" in page or layer != "working")


async def test_a_memory_is_added_changed_with_its_history_and_forgotten(client, service):
    ann = service.memory.user("ann")
    assert "Remembered." in await sent(client, "/users/ann/memories", content="Prefers window seats.")
    ((seat,), _) = await ann.list_memories()
    place = f"/users/ann/memories/{seat.id}"
    page = await sent(client, f"{place}/edit", content="Prefers aisle seats.", version=str(seat.version))
    assert "Prefers aisle seats." in page and "Prefers window seats." in page
    stale = await send(client, f"{place}/edit", content="Stands.", version=str(seat.version))
    assert stale.status_code == 412 and (await ann.get_memory(seat.id)).content == "Prefers aisle seats."
    await sent(client, f"{place}/forget")
    assert (await client.get(place)).status_code == 404


async def test_a_merged_memory_counts_again_when_it_is_restored(client, service, clock):
    ann = service.memory.user("ann")
    await ann.add_memory("The boat leaves at seven in the morning.", id="first")
    await ann.add_memory("The boat leaves at seven in the morning!", id="second")
    await service.memory.work()
    ended = next(each for each in (await ann.list_memories())[0] if each.valid_to is not None)
    assert "merged into another that says the same" in await shown(client, f"/users/ann/memories/{ended.id}")
    await sent(client, f"/users/ann/memories/{ended.id}/restore")
    assert (await ann.get_memory(ended.id)).valid_to is None


async def test_what_a_message_taught_is_undone_and_redone(client, service):
    ann = service.memory.user("ann")
    message = await ann.session("s").add_message("user", "I live in Oslo.")
    await service.memory.work()
    undone = await send(client, f"/users/ann/memories/{message.id}/undo")
    assert undone.status_code == 200 and "<h1>Undone</h1>" in undone.text and await ann.facts.get("city") == []
    again = re.search(r'name="undone" value="([^"]+)"', undone.text)[1]
    await sent(client, "/users/ann/redo", undone=again)
    assert [fact.value for fact in await ann.facts.get("city")] == ["Oslo"]


async def test_facts_are_told_confirmed_pinned_corrected_and_rejected(client, service):
    ann = service.memory.user("ann")
    place = "/users/ann/profile/facts"
    await sent(client, place, key="city", value="Oslo")
    for verdict, status in (("confirm", "confirmed"), ("pin", "pinned"), ("unpin", "confirmed")):
        await sent(client, f"{place}/{verdict}", key="city", value="Oslo")
        assert (await ann.facts.get("city"))[0].status == status
    assert "Bergen" in await sent(client, f"{place}/correct", key="city", value="Oslo", right="Bergen")
    assert (await ann.facts.history("city"))[0].status == "corrected"
    await sent(client, f"{place}/reject", key="city", value="Bergen")
    assert await ann.facts.get("city") == []
    await sent(client, "/users/ann/profile/preferences", key="tone", value="concise")
    assert [each.value for each in await ann.preferences.get("tone")] == ["concise"]
    assert (await send(client, "/users/ann/profile/facts/adore", key="tone", value="x")).status_code == 422
    assert (await send(client, "/users/ann/profile/rumours", key="tone", value="x")).status_code == 404


async def test_a_value_is_drawn_for_as_long_as_it_was_valid(client, noor):
    page = await shown(client, f"{NOOR}/profile")
    lane = re.search(r">(city: [^<]+)<", page)[1]
    assert re.fullmatch(r"city: Tromsø from \d+ \w+ 20\d\d to (\d+ \w+ 20\d\d); Bergen from \1 to now", lane)


async def test_the_graph_can_be_walked_from_one_entity_to_the_next(client, noor):
    page = await shown(client, f"{NOOR}/graph?depth=1")
    links = re.findall(r'<a href="([^"]+)" class="node[^"]*" aria-label="Bergen Aquarium', page)
    there = await shown(client, links[0].replace("&amp;", "&"))
    assert "located in" in there and '<h2 id="start">Bergen Aquarium</h2>' in there
    assert (await client.get(f"{NOOR}/graph?entity=Atlantis")).status_code == 404


async def test_of_a_great_many_values_the_profile_shows_the_latest_and_leads_to_the_others(client, service):
    ann = service.memory.user("ann")
    for number in range(30):
        await ann.facts.add("friend", f"Friend{number}")
        await ann.facts.add("city", f"City{number}")
    page = await shown(client, "/users/ann/profile")
    assert "Friend29" in page and "Friend22" in page and "Friend21" not in page
    assert "City29" in page and "City6" in page and "City4<" not in page
    (more,) = re.findall(r'href="([^"]+)">22 more of friend', page)
    others = await shown(client, html.unescape(more))
    assert "Friend0<" in others and "City29" not in others


async def test_among_a_great_many_entities_one_is_found_by_name(client, service):
    ann = service.memory.user("ann")
    for number in range(70):
        await ann.graph.relate("user", "knows", f"Person {number:02}")
    page = await shown(client, "/users/ann/graph")
    assert "Only the nearest 40 are drawn, of 71." in page and page.count('class="node') == 40
    assert "and 11 more; find them by name." in page
    found = await shown(client, "/users/ann/graph?find=son+69")
    assert re.findall(r"<li><a class=\"chip\"[^>]*>([^<]+)<", found) == ["Person 69"]
    assert "None has a name like that." in await shown(client, "/users/ann/graph?find=Zoe")


async def test_what_holds_of_an_entity_comes_before_what_is_over(client, service):
    ann = service.memory.user("ann")
    await ann.graph.relate(
        "user",
        "lives_in",
        "Lyon",
        valid_from=datetime(2020, 1, 1, tzinfo=UTC),
        valid_to=datetime(2021, 1, 1, tzinfo=UTC),
    )
    await ann.graph.relate("user", "lives_in", "Oslo", valid_from=datetime(2021, 1, 1, tzinfo=UTC))
    aside = (await shown(client, "/users/ann/graph")).split("<aside")[1]
    assert aside.index("Oslo") < aside.index("Lyon") and 'class="over"' in aside


async def test_instructions_are_switched_moved_edited_and_deleted(client, service):
    ann = service.memory.user("ann")
    for text in ("Be brief.", "Be polite.", "Be kind."):
        await sent(client, "/users/ann/instructions", text=text, agent="")
    first, second, third = await ann.customizations.list()
    await sent(client, f"/users/ann/instructions/{first.id}/off", agent="")
    await sent(client, f"/users/ann/instructions/{third.id}/up", agent="")
    await sent(client, f"/users/ann/instructions/{second.id}/edit", agent="", text="Be very polite.")
    found = [(each.text, each.on) for each in await ann.customizations.list()]
    assert found == [("Be brief.", False), ("Be kind.", True), ("Be very polite.", True)]
    await sent(client, f"/users/ann/instructions/{first.id}/delete", agent="")
    assert len(await ann.customizations.list()) == 2
    assert (await send(client, f"/users/ann/instructions/{second.id}/praise", agent="")).status_code == 404


@pytest.mark.parametrize("step", ["edit", "off", "on", "up", "down", "delete"])
async def test_whatever_is_done_to_an_instruction_is_confirmed_on_the_next_page(client, service, step):
    held = await service.memory.user("ann").customize("Be brief.")
    page = await sent(client, f"/users/ann/instructions/{held.id}/{step}", agent="", text="Be kind.")
    assert CHANGED[step] in page.partition('id="notices"')[2].partition("<h1>")[0]


async def test_what_belongs_to_the_org_is_shown_and_links_to_no_missing_page(client, service):
    org = service.memory.org("default")
    for id in ((await org.learnings.add("Everybody likes tables.")).id, (await org.add_memory("Tables are blue.")).id):
        pages = [await shown(client, f"/users/ann/{page}") for page in ("learnings", "memories?q=tables")]
        assert all("org-wide" in page and f"memories/{id}" not in page for page in pages)


async def test_an_old_conversation_has_its_title_and_its_page(client, service, clock):
    ann = service.memory.user("ann")
    for number in range(40):
        await ann.session(f"s{number}").add_message("user", f"Talk number {number} about boats.")
        clock.advance(hours=3)
    for page in ("chat", "sessions"):
        assert re.search("<h1[^>]*>Talk number 0 about boats", await shown(client, f"/users/ann/{page}/s0"))
    assert ">New conversation</h1>" in await shown(client, "/users/ann/chat/not-begun")


async def test_what_has_ended_is_not_shown_as_current(client, noor, service):
    ended = [each for each in (await service.memory.user("noor").list_memories(layer="relation"))[0] if each.valid_to]
    page = await shown(client, f"{NOOR}/memories/{ended[0].id}")
    assert "ended: another one began" in page and ">now<" not in page and ">until <time" in page


async def test_learnings_are_added_confirmed_contradicted_and_restored(client, service):
    ann = service.memory.user("ann")
    await sent(client, "/users/ann/learnings", content="Asks for a summary first.", type="pattern")
    (learning,) = await ann.learnings.list()
    await sent(client, f"/users/ann/learnings/{learning.id}/confirm")
    surer = (await ann.learnings.get(learning.id)).confidence
    for _ in range(6):
        await sent(client, f"/users/ann/learnings/{learning.id}/contradict")
    assert surer > learning.confidence and (await ann.learnings.get(learning.id)).retired
    await sent(client, f"/users/ann/learnings/{learning.id}/restore")
    assert not (await ann.learnings.get(learning.id)).retired


async def test_work_that_was_given_up_is_shown_and_tried_again(clock):
    async with opened(clock=clock, embedder=FailingEmbedder(), settings={"job_attempts_max": 1}) as service:
        await service.memory.user("ann").add_memory("Tea.")
        await service.memory.work()
        async with client_of(service) as client:
            page = await shown(client, "/jobs")
            assert "for ann" in page
            retry = re.search(r'action="(/jobs/[^"]+/retry)"', page)[1]
            assert "No failed jobs" in await sent(client, retry)
            await service.memory.work()
            assert "No failed jobs" in await sent(client, "/jobs/retry-all")


async def test_a_user_is_exported_then_erased_with_a_receipt(client, noor, service):
    exported = await client.get(f"{NOOR}/export")
    assert exported.text.count("\n") > 100 and "attachment" in exported.headers["content-disposition"]
    slip = await send(client, f"{NOOR}/erase", user="nora")
    assert slip.status_code == 422 and await noor.sessions()
    receipt = await send(client, f"{NOOR}/erase", user="noor")
    assert receipt.status_code == 200 and "Nothing about noor is left here" in receipt.text
    assert "noor" not in {each.user for each in await service.memory.users()}


# ── The door ─────────────────────────────────────────────────────────────────────────────────────


async def test_from_another_machine_nothing_opens_without_a_key(service, noor):
    async with client_of(service, address="203.0.113.9") as stranger:
        for path in ("/", f"{NOOR}/memories", "/overview", f"{NOOR}/export"):
            answer = await stranger.get(path)
            assert (answer.status_code, answer.headers["location"]) == (303, "/sign-in")
        assert "Only from this machine" in await shown(stranger, "/sign-in")
    async with client_of(service, base_url="http://evil.example") as rebound:
        assert (await rebound.get("/users")).headers["location"] == "/sign-in"


async def test_a_key_signs_in_and_out_and_its_cookie_is_safe(service, noor):
    _, token = await service.keys.create(org="default", scope="admin")
    async with client_of(service) as client:
        assert (await client.get("/users")).headers["location"] == "/sign-in"
        wrong = await signed_in(client, "rk_000000000000_" + "x" * 43)
        assert wrong.status_code == 401 and "is not valid" in wrong.text
        right = await signed_in(client, token)
        cookie = next(each for each in right.headers.get_list("set-cookie") if each.startswith("recollect_console="))
        assert "HttpOnly" in cookie and "SameSite=strict" in cookie and token not in cookie
        page = await shown(client, "/users")
        assert "noor" in page
        stolen = dict(client.cookies)
        out = await client.post("/sign-out", data={"proof": proof_in(page)})
        assert out.headers["location"] == "/sign-in"
        client.cookies.update(stolen)
        assert (await client.get("/users")).headers["location"] == "/sign-in"


async def test_behind_https_the_cookie_is_sent_only_over_https(service):
    _, token = await service.keys.create(org="default")
    async with client_of(service, base_url="https://memory.example") as client:
        proof = proof_in(await shown(client, "/sign-in"))
        answer = await client.post(
            "/sign-in", data={"proof": proof, "key": token}, headers={"Origin": "https://memory.example"}
        )
        assert "Secure" in next(each for each in answer.headers.get_list("set-cookie") if "recollect_console" in each)


async def test_after_signing_in_people_are_on_the_page_they_asked_for_or_were_on(service):
    _, token = await service.keys.create(org="default", scope="admin")
    asked = f"{NOOR}/memories?q=a%26b&layer=fact"
    async with client_of(service) as client:
        await client.get(asked)
        assert (await signed_in(client, token)).headers["location"] == asked
        assert (await signed_in(client, token)).headers["location"] == "/"  # it is remembered once
    was_on = {"Referer": f"{LOCAL}{NOOR}/chat/otters?prompt=true"}
    async with client_of(service) as client:
        await client.get(f"{NOOR}/chat/otters/remembered?message=m", headers=BY_SCRIPT | was_on)
        await client.post(f"{NOOR}/chat/otters", data={"message": "Hello"}, headers=BY_SCRIPT | was_on)
        assert (await signed_in(client, token)).headers["location"] == f"{NOOR}/chat/otters?prompt=true"


@pytest.mark.parametrize(
    "address", ["//evil.example/", "https://evil.example/", "/\\evil.example", "javascript:x", "/a\r\nb"]
)
async def test_signing_in_never_leads_to_another_site(service, address):
    _, token = await service.keys.create(org="default")
    async with client_of(service, cookies={LAST_PAGE: quote(address, safe="")}) as client:
        assert (await signed_in(client, token)).headers["location"] == "/"


async def test_guessing_keys_is_slowed_down(service):
    await service.keys.create(org="default")
    async with client_of(service) as client:
        answers = [(await signed_in(client, "rk_guess")).status_code for _ in range(25)]
        last = await signed_in(client, "rk_guess")
    assert answers[0] == 401 and last.status_code == 429 and int(last.headers["retry-after"]) > 0


async def test_a_key_of_one_user_sees_that_user_alone(service, noor):
    await service.memory.user("ann").add_memory("Ann's own.")
    _, token = await service.keys.create(org="default", user="noor", scope="admin")
    async with client_of(service) as client:
        await signed_in(client, token)
        assert (await client.get("/")).headers["location"] == f"{NOOR}/chat"
        page = await shown(client, f"{NOOR}/memories")
        assert "Overview" not in page
        for path in ("/users", "/overview", "/jobs", "/keys", "/users/ann/memories", "/users/ann/export"):
            assert (await client.get(path)).status_code == 404, path
        proof = proof_in(page)
        for path in ("/users/ann/erase", "/keys", "/sample"):
            assert (await client.post(path, data={"proof": proof, "user": "ann"})).status_code == 404
    assert (await service.memory.user("ann").list_memories())[0]


async def test_a_key_that_may_read_cannot_write(service, noor):
    _, token = await service.keys.create(org="default", scope="read")
    async with client_of(service) as client:
        await signed_in(client, token)
        page = await shown(client, f"{NOOR}/chat/otters")
        assert "This key is read-only." in page and "textarea" not in page
        proof = proof_in(page)
        forms = [f"{NOOR}/chat/otters", f"{NOOR}/memories", f"{NOOR}/sessions/otters/delete", f"{NOOR}/profile/facts"]
        forms += [f"{NOOR}/learnings", f"{NOOR}/erase", "/sample", "/keys", "/jobs/retry-all"]
        for path in forms:
            answer = await client.post(path, data={"proof": proof, "message": "x", "content": "x", "user": "noor"})
            assert answer.status_code == 403, path
        for path in ("/overview", "/jobs", "/keys"):
            assert (await client.get(path)).status_code == 403
    assert len(await noor.sessions()) == 8


async def test_a_key_of_another_org_sees_nothing_of_ours(service, noor):
    _, ours = await service.keys.create(org="default", scope="admin", name="ours")
    _, theirs = await service.keys.create(org="other", scope="admin", name="theirs")
    async with client_of(service) as client:
        await signed_in(client, theirs)
        assert "noor" not in (await shown(client, "/users")).replace('placeholder="noor"', "")
        assert "shellfish" not in await shown(client, f"{NOOR}/profile")
        keys = await shown(client, "/keys")
        assert "theirs" in keys and "ours</span>" not in keys
        (our_key,) = [key for key in await service.keys.list() if key.org == "default"]
        revoked = await client.post(f"/keys/{our_key.id}/revoke", data={"proof": proof_in(keys)})
        assert revoked.status_code == 404 and await service.keys.find(ours)
        made = await client.post("/keys", data={"proof": proof_in(keys), "scope": "read", "name": "mine"})
        assert made.status_code == 200
    assert {key.org for key in await service.keys.list() if key.name == "mine"} == {"other"}


async def test_making_the_first_key_signs_its_maker_out(client, service):
    made = await send(client, "/keys", scope="admin", name="first", expires="90d", user="")
    token = re.search(r"rk_[0-9a-f]{12}_[\w-]{43}", made.text)[0]
    assert "From now on everybody needs a key" in made.text
    assert (await client.get("/keys")).headers["location"] == "/sign-in"
    await signed_in(client, token)
    page = await shown(client, "/keys")
    assert "this is you" in page and token not in page
    own = (await service.keys.list())[0].id
    assert (await client.post(f"/keys/{own}/revoke", data={"proof": proof_in(page)})).status_code == 403


# ── Forms only from our own pages ────────────────────────────────────────────────────────────────


def every_form() -> list[str]:
    """The path of every console form, with its placeholders filled in."""
    paths = [route.path for page in console.PAGES for route in page.routes.routes if "POST" in route.methods]
    return sorted(re.sub(r"\{(\w+)\}", lambda name: {"user": "noor"}.get(name[1], "x"), path) for path in paths)


@pytest.mark.parametrize("path", every_form())
async def test_no_form_is_accepted_without_the_proof_from_our_page(client, service, noor, path):
    before = await noor.export()
    fields = {"user": "noor", "message": "Hello", "content": "x", "key": "city", "value": "x", "scope": "admin"}
    for proof in ({}, {"proof": ""}, {"proof": "0" * 64}):
        answer = await client.post(path, data=fields | proof)
        assert answer.status_code == 403, (path, answer.status_code)
    assert await noor.export() == before and not await service.keys.exist()


async def test_an_outdated_form_leads_back_to_the_same_user(client):
    odd = quote("a/b?c#d %&ü", safe="")
    answer = await client.post(f"/users/{odd}/chat/s", data={"proof": "old", "message": "Hello"})
    links = re.findall(r'href="(/users/[^"/]+)/sessions"', answer.text)
    assert answer.status_code == 403 and links == [f"/users/{odd}"]


async def test_one_visitors_proof_is_useless_to_another(service, noor):
    tokens = [(await service.keys.create(org="default", scope="admin"))[1] for _ in range(2)]
    async with client_of(service) as one, client_of(service) as other:
        await signed_in(one, tokens[0])
        await signed_in(other, tokens[1])
        proof = proof_in(await shown(one, "/users"))
        assert (await other.post(f"{NOOR}/erase", data={"proof": proof, "user": "noor"})).status_code == 403


async def test_a_page_older_than_the_server_is_told_the_proof_that_counts_now_but_only_while_there_are_no_keys(service):
    async with client_of(service) as client:
        old = {"proof": "0" * 64, "content": "Likes tea."}
        refused = await client.post("/users/ann/memories", data=old, headers=BY_SCRIPT)
        again = old | {"proof": refused.headers["x-proof"]}
        assert refused.status_code == 403 and "x-proof" not in (await client.post("/users", data=old)).headers
        assert (await client.post("/users/ann/memories", data=again, headers=BY_SCRIPT)).status_code == 200
        elsewhere = BY_SCRIPT | {"Origin": "http://evil.example"}
        assert "x-proof" not in (await client.post("/users/ann/memories", data=old, headers=elsewhere)).headers
        _, token = await service.keys.create(org="default")
        await signed_in(client, token)
        refused = await client.post("/users/ann/memories", data=old, headers=BY_SCRIPT)
        assert refused.status_code == 403 and "x-proof" not in refused.headers


async def test_a_page_of_another_site_is_refused_even_with_a_proof(client):
    proof = proof_in(await shown(client, "/users"))
    for origin in ("http://evil.example", "null", "http://127.0.0.1:9999"):
        answer = await client.post("/sample", data={"proof": proof}, headers={"Origin": origin})
        assert answer.status_code == 403
    own = await client.post("/sample", data={"proof": proof}, headers={"Origin": LOCAL})
    assert own.status_code == 303


async def test_a_body_that_is_not_a_form_is_refused(client):
    document = await client.post("/users", json={"user": "ann"})
    broken = await client.post(
        "/users", content=b"user=%ff", headers={"Content-Type": "application/x-www-form-urlencoded"}
    )
    many = await client.post(
        "/users", content=b"a=1&" * 300, headers={"Content-Type": "application/x-www-form-urlencoded"}
    )
    assert [document.status_code, broken.status_code, many.status_code] == [415, 400, 413]


# ── Text is shown as text ────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("text", HOSTILE)
async def test_hostile_text_is_shown_as_text_on_every_page(client, service, text):
    ann = service.memory.user("ann")
    chat = ann.session("s")
    await chat.add_interaction(text, text)
    await chat.rename(text)
    record = await ann.add_memory(text, metadata={"topic": text})
    await ann.add_fact("city", text)
    await ann.update_preference("tone", text)
    learning = await ann.add_learning(text)
    await ann.customize(text)
    await ann.graph.relate("Ann", "knows", text)
    await ann.graph.relate("user", "knows", "Ann")
    await service.memory.work()
    await chat.close()
    city = (await ann.facts.get("city"))[0]
    pages = ["chat/s", "sessions", "sessions/s", "memories", "profile", "graph", "graph?entity=Ann", "learnings"]
    pages += [f"memories/{id}" for id in (record.id, city.id, learning.id)]
    pages += [f"memories?q={quote(text)}", "memories?layer=conversation", "memories?layer=relation", "privacy"]
    for page in pages:
        found = await shown(client, f"/users/ann/{page}")
        assert "<script>alert" not in found and "<img src=x" not in found, page
        assert 'href="javascript:' not in found and "49" not in re.findall(r"<h1>(.*?)</h1>", found), page
    shown_as = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&#34;")
    assert shown_as in await shown(client, "/users/ann/chat/s")


async def test_characters_that_hide_or_reverse_text_are_stripped_from_pages_but_not_from_the_memory(client, service):
    ann = service.memory.user("ann")
    text = "pay \u202eeerht\u202c \u200bnow\U000e0041\x1b[31m"
    record = await ann.add_memory(text)
    page = await shown(client, f"/users/ann/memories/{record.id}")
    assert "pay eerht now[31m" in page
    assert (await ann.get_memory(record.id)).content == text
    assert not re.search("[\u202a-\u202e\u2066-\u2069\u200b\x1b]", (await shown(client, "/users/ann/memories")))


async def test_a_notice_is_shown_as_text_too(client):
    client.cookies.set("recollect_notice", quote("<b>x</b>"))
    assert "&lt;b&gt;x&lt;/b&gt;" in await shown(client, "/users")


# ── What browsers are told ───────────────────────────────────────────────────────────────────────


async def test_every_answer_carries_the_rules_for_browsers(client, noor):
    for path in ("/", "/users", "/sign-in", f"{NOOR}/memories/none", f"{NOOR}/export", "/static/console.js"):
        headers = (await client.get(path)).headers
        assert {name: headers[name] for name in HEADERS} == HEADERS, path
        assert headers["x-content-type-options"] == "nosniff"
    policy = HEADERS["Content-Security-Policy"]
    assert "default-src 'none'" in policy and "script-src 'self';" in policy and "unsafe" not in policy


async def test_pages_have_no_inline_script_or_style(client, noor):
    for path in PAGES:
        page = await shown(client, path)
        assert not re.search(r"<script(?![^>]* src=)|<style| style=|\son\w+=", page), path
        assert not re.search(r'(?:src|href)="(?:https?:)?//', page), "a page must not need a network"


async def test_static_files_are_cached_by_browsers_and_nothing_else_is_served(client):
    page = await shown(client, "/users")
    address = re.search(r'href="(/static/console.css\?v=\w+)"', page)[1]
    file = await client.get(address)
    assert file.headers["content-type"] == "text/css; charset=utf-8" and "immutable" in file.headers["cache-control"]
    assert (await client.get("/static/console.css")).headers["cache-control"] == "no-store"
    assert {"htmx.min.js", "alpine.csp.min.js", "console.js", "inter.woff2", "mark.svg"} <= set(STATIC)
    for path in ("/static/..%2Fpages.py", "/static/README.md", "/static/htmx.LICENSE", "/static/%2e%2e/door.py"):
        assert (await client.get(path)).status_code == 404


@pytest.mark.parametrize(
    ("referer", "is_offered"),
    [
        (f"{LOCAL}/users/ann/learnings?agent=default", True),
        ("http://evil.example/users/ann/learnings", False),
        ("javascript://127.0.0.1:8765/%0Aalert(1)", False),
        ("http://[", False),
        ("", False),
    ],
)
async def test_a_failed_form_links_back_to_its_own_page_and_to_no_other(client, referer, is_offered):
    proof = proof_in(await shown(client, "/users"))
    answer = await client.post("/users/ann/learnings", data={"proof": proof, "type": "x"}, headers={"Referer": referer})
    assert answer.status_code == 422
    assert ("Back</a>" in answer.text, bool(referer) and referer in answer.text) == (is_offered, is_offered)


async def test_errors_in_a_form_are_shown_beside_it(client):
    proof = proof_in(await shown(client, "/users"))
    answer = await client.post("/users/ann/chat/s", data={"proof": proof, "message": " "}, headers=BY_SCRIPT)
    assert answer.status_code == 422 and answer.headers["hx-retarget"] == "#notices"
    assert "message" in answer.text and "<html" not in answer.text


async def test_a_script_that_sends_a_form_is_told_the_next_page_and_the_notice_waits_for_it(client, noor):
    proof = proof_in(await shown(client, "/users"))
    answer = await client.post(
        f"{NOOR}/learnings", data={"proof": proof, "type": "pattern", "content": "Likes tea."}, headers=BY_SCRIPT
    )
    assert (answer.status_code, answer.headers["hx-redirect"], answer.text) == (200, f"{NOOR}/learnings", "")
    assert 'class="notice"' in await shown(client, f"{NOOR}/learnings")


async def test_an_htmx_request_is_redirected_to_sign_in_and_not_filled_with_it(service):
    await service.keys.create(org="default")
    async with client_of(service) as client:
        answer = await client.get("/users/ann/memories?q=x", headers=BY_SCRIPT)
        assert (answer.status_code, answer.headers["hx-redirect"]) == (401, "/sign-in")


async def test_a_missing_page_is_a_page_for_people_and_a_problem_for_programs(client):
    person = await client.get("/nowhere", headers={"Accept": "text/html,*/*"})
    program = await client.get("/nowhere")
    interface = await client.get("/api/nowhere", headers={"Accept": "text/html"})
    assert [each.status_code for each in (person, program, interface)] == [404, 404, 404]
    assert "There is nothing here." in person.text and person.headers["x-frame-options"] == "DENY"
    assert program.json()["status"] == interface.json()["status"] == 404


async def test_a_missing_page_has_the_menu_of_whoever_went_there(service, noor):
    _, token = await service.keys.create(org="default", user="noor", scope="read")
    async with client_of(service) as client:
        stranger = await client.get("/nowhere", headers={"Accept": "text/html"})
        await signed_in(client, token)
        person = await client.get("/nowhere", headers={"Accept": "text/html"})
    assert "<h1>There is nothing here.</h1>" in person.text and f'href="{NOOR}/memories"' in person.text
    assert "Sign out" in person.text and 'href="/keys"' not in person.text
    assert stranger.status_code == 404 and "noor" not in stranger.text


@pytest.mark.parametrize("user", ["ann", ".", "a/b"])
async def test_an_address_that_ends_with_the_user_leads_to_the_conversation(client, user):
    whose = "/users/~." if user == "." else f"/users/{quote(user, safe='')}"
    answer = await client.get(whose)
    assert (answer.status_code, answer.headers["location"]) == (303, f"{whose}/chat")


async def test_unknown_or_invalid_parameters_in_an_address_are_refused(client):
    assert (await client.get("/users/ann/memories?limit=7")).status_code == 422
    assert (await client.get("/users/ann/graph?depth=many")).status_code == 422


async def test_the_console_is_not_in_the_api_description(client):
    described = (await client.get("/openapi.json")).json()["paths"]
    assert not [path for path in described if not path.startswith(("/api", "/health", "/ready", "/metrics"))]


async def test_a_server_that_is_about_to_stop_says_so(client, service):
    service.draining = True
    assert (await client.get("/users")).status_code == 503


@pytest.mark.parametrize("name", ["overview", "jobs", "keys", "docs"])
async def test_a_page_about_the_server_leads_back_to_the_user_viewed_before(client, noor, name):
    beside = re.search(rf'href="(/{name}[^"]*)"', await shown(client, f"{NOOR}/memories"))[1]
    await shown(client, "/users/somebody-else/memories")  # in another tab
    page = await shown(client, beside)
    assert f'href="{NOOR}/chat"' in page and "somebody-else" not in page
    assert (await client.get("/")).headers["location"] == f"{NOOR}/chat"
    assert f'href="{NOOR}/chat"' in await shown(client, f"/{name}")
    assert (await client.get(f"/{name}", params={"user": "x" * 500})).status_code == 422
    assert "<b>" not in (await client.get(f"/{name}", params={"user": "<b>"})).text


async def test_the_overview_counts_what_people_stored(client, noor):
    kept = (await client.get("/api/stats")).json()["records"]
    page = await shown(client, "/overview")
    assert "session" in kept and ">session<" not in page and ">fact<" in page


async def test_the_overview_adds_up_what_all_processes_did(clock, tmp_path):
    elsewhere = Metrics()
    elsewhere.count("turns", 4_321)
    (tmp_path / "other.json").write_text(json.dumps(elsewhere.to_dict()))
    async with opened(clock=clock, shared=Shared(tmp_path)) as service, client_of(service) as client:
        await client.post("/api/chat", json={"chat_id": "s", "user_id": "ann", "message": "I live in Oslo."})
        assert "4,322" in await shown(client, "/overview")


async def test_growth_and_latency_are_drawn_from_what_happened(client, noor):
    await client.post(f"/api{NOOR}/context", json={"query": "Who is Biscuit?"})
    page = await shown(client, "/overview")
    days = re.findall(r'class="told"[^>]*>(\d+ \w+ \d+): ([\d,]+)<', page)
    told = {day: int(number) for day, number in days}
    held = [each for layer in GROWING for each in (await noor.list_memories(layer=layer, limit=1000))[0]]
    assert len(told) == len(days) == 42 and sum(told.values()) == len(held)
    talk = await noor.session("otters").info()
    assert told[f"{talk.created_at.day} {talk.created_at:%b %Y}"] >= talk.messages
    assert "POST /api/users/{user}/context" in page and "of 1 context<" in page


async def test_growth_is_drawn_from_all_that_came_in_or_only_for_the_days_that_were_read_to_their_end(
    client, service, clock, monkeypatch
):
    monkeypatch.setattr(overview, "RECORDS_READ", 50)
    chat = service.memory.user("ann").session("s")
    for back in range(8, -1, -1):
        then = as_datetime(clock() - back * DAY_MS)
        await chat.add_messages([{"role": "user", "content": "Hi.", "created_at": then} for _ in range(40)])
    assert await drawn(client) == [0] * 33 + [40] * 9
    assert ", of the newest 50 messages" in await shown(client, "/overview")
    monkeypatch.setattr(overview, "GROWTH_READ", 200)
    assert await drawn(client) == [40] * 4


async def drawn(client: httpx.AsyncClient) -> list[int]:
    """The values of the days in the plot."""
    return [int(value) for value in re.findall(r'class="told"[^>]*>[^:]+: ([\d,]+)<', await shown(client, "/overview"))]


async def test_an_org_is_counted_apart_from_users_in_the_index(client, noor):
    await client.post(f"/api{NOOR}/context", json={"query": "Who is Biscuit?"})
    assert "of 2 users and orgs in memory" in await shown(client, "/overview")


# ── The API, for people ──────────────────────────────────────────────────────────────────────────


def lines_in(page: str) -> list[list[str]]:
    """The terminal commands on the page, as a shell would split them."""
    return [
        shlex.split(html.unescape(each)) for each in re.findall(r'<pre class="quote"[^>]*>(curl .*?)</pre>', page, re.S)
    ]


def sent_by(words: list[str]) -> dict[str, Any]:
    """What curl would send."""
    headers = dict(words[place + 1].split(": ", 1) for place, word in enumerate(words) if word == "-H")
    method = words[words.index("-X") + 1] if "-X" in words else "GET"
    (address,) = [word for word in words if word.startswith("http")]
    return {
        "method": method,
        "url": address,
        "headers": headers,
        "content": next((words[words.index(each) + 1] for each in ("-d", "--data-binary") if each in words), None),
    }


async def test_every_api_call_is_shown_with_a_command_that_works(client, noor, service):
    await shown(client, f"{NOOR}/chat")
    page = await shown(client, "/docs")
    described = (await client.get("/openapi.json")).json()["paths"]
    lines = lines_in(page)
    assert len(lines) == sum(len(methods) for methods in described.values())
    for path in described:
        assert f'<code class="path">{path}</code>' in page
    # Deletions come last; an id in capitals is a placeholder, so nothing has it.
    for words in sorted(lines, key=lambda each: "DELETE" in each):
        answer = await client.request(**sent_by(words))
        is_order = any(word.endswith("/order") for word in words)  # which must name every existing one
        assert answer.status_code in (200, 201, 204, 404, 409) or is_order, (words, answer.status_code, answer.text)
    assert (await client.get("/api/users/noor/memories")).json()["memories"] == []  # the last command erased her


async def test_with_keys_the_commands_take_one_from_the_environment_and_say_what_it_must_allow(clock):
    async with opened(clock=clock) as service, client_of(service) as client:
        _, token = await service.keys.create(org="acme", user="ann", scope="read")
        assert (await client.get("/docs")).headers["location"].endswith("/sign-in")
        await signed_in(client, token)
        page = await shown(client, "/docs")
        assert token not in page and "The key you signed in with may not do this." in page
        profile = next(words for words in lines_in(page) if words[1].endswith("/api/users/ann/profile"))
        sent = sent_by(profile)
        assert sent["headers"] == {"Authorization": "Bearer $RECOLLECT_KEY"}
        client.cookies.clear()
        sent["headers"] = {"Authorization": f"Bearer {token}"}
        assert (await client.request(**sent)).status_code == 200
        health = next(words for words in lines_in(page) if words[1].endswith("/health"))
        assert sent_by(health)["headers"] == {}


async def test_the_page_of_the_api_says_what_a_key_for_one_user_may_not_do_for_the_org(clock):
    async with opened(clock=clock) as service, client_of(service) as client:
        for user in (None, "ann"):
            _, token = await service.keys.create(org="acme", user=user, scope="admin")
            await signed_in(client, token)
            refused = (await shown(client, "/docs")).count("The key you signed in with may not do this.")
            described = (await client.get("/openapi.json")).json()["paths"]
            for_orgs = [
                path for path, methods in described.items() for told in methods.values() if told.get("x-org-key")
            ]
            assert len(for_orgs) > 30 and refused == (0 if user is None else len(for_orgs))
            client.cookies.clear()


async def test_a_user_with_a_hostile_name_breaks_no_command(client):
    name = "a'$(id)`b`;<b>"
    client.cookies.set("recollect_user", quote(name, safe=""))
    for words in lines_in(await shown(client, "/docs")):
        assert sent_by(words)["url"].startswith("http://127.0.0.1")
        assert not {"$(id)", ";", "`b`"} & set(words)


def test_labels_of_values_that_changed_every_minute_do_not_overlap():
    now = datetime(2026, 11, 15, tzinfo=UTC)
    began = [now - timedelta(days=90), *(now - timedelta(minutes=minutes) for minutes in (3, 2, 1))]
    facts = [
        Fact(id=str(place), key="city", value=f"Town {place}", valid_from=start, valid_to=end, status=status)
        for place, (start, end, status) in enumerate(
            zip(began, [*began[1:], None], ["ended", "ended", "ended", "learned"], strict=True)
        )
    ]
    (lane,) = draw([Row("city", "1", facts)], now).lanes
    for width in WIDTHS_PX:
        assert [spell.labels[width] for spell in lane.spells] == [Label("inside", "Town 0"), None, None, None]
    (lane,) = draw([Row("city", "1", facts[1:])], now).lanes
    for width in WIDTHS_PX:
        assert [spell.labels[width] for spell in lane.spells] == [None, None, Label("left", "Town 3")]
    long = draw([Row("city", "1", [replace(facts[0], value="x" * 400)])], now).lanes[0].spells[0]
    assert len(long.labels["roomy"].text) == LETTERS_MAX


def test_a_value_too_long_for_its_bar_is_shortened_if_enough_of_it_remains():
    now = datetime(2026, 11, 15, tzinfo=UTC)
    moved = now - timedelta(days=40)
    before = Fact(id="1", key="job", value="marine biologist", valid_from=now - timedelta(days=90), valid_to=moved)
    after = Fact(id="2", key="job", value="head of research", valid_from=moved)
    (lane,) = draw([Row("job", "1", [before, after])], now).lanes
    written = {
        width: [label and label.text for label in (spell.labels[width] for spell in lane.spells)] for width in WIDTHS_PX
    }
    assert written["roomy"] == ["marine biologist", "head of research"]
    for text, whole in zip(written["narrow"], written["roomy"], strict=True):
        assert text.endswith("…") and whole.startswith(text[:-1]) and len(text) > 3
    (lane,) = draw([Row("job", "1", [replace(after, value="senior reliability engineer", valid_from=now)])], now).lanes
    assert lane.spells[0].labels["tiny"] == Label("left", "senior reliability…")
    last = replace(before, value="東京都特許許可局長", valid_from=now - timedelta(days=50))
    (lane,) = draw([Row("job", "1", [before, last, after])], now).lanes
    assert lane.spells[1].labels["tiny"] is None


def test_no_two_ticks_of_a_timeline_say_the_same():
    now = datetime(2026, 11, 18, 4, tzinfo=UTC)
    ticks = draw([Row("city", "1", [Fact("city", "Oslo", valid_from=now)])], now).ticks
    assert [tick.label for tick in ticks] == ["17 Nov 2026", "09:38", "15:45", "21:52", "18 Nov 2026"]
