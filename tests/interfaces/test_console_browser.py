"""The console in a real browser: a person clicks through every page, and the browser reports no errors."""

from __future__ import annotations

import asyncio
import re
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, Route, async_playwright, expect
from server_stage import listening, opened

from recollect.server import sample
from recollect.server.seats import Seats, secret_of
from recollect.stores.in_memory import InMemoryStore

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)

PATIENCE_MS = 20_000
"""How long a page may take on a busy machine."""
expect.set_options(timeout=PATIENCE_MS)

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium here"),
    pytest.mark.xdist_group("browser"),
    pytest.mark.asyncio(loop_scope="module"),
]

BROWSERS: list[Browser] = []
"""The one that is open for all tests of this file: starting one takes as long as most of them."""


@pytest_asyncio.fixture(scope="module", loop_scope="module", autouse=True)
async def browser() -> AsyncIterator[None]:
    async with async_playwright() as playwright:
        BROWSERS.append(await playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS)))
        yield
        await BROWSERS.pop().close()


@asynccontextmanager
async def browsing(*, expected: str = "", **more: Any) -> AsyncIterator[Page]:
    """A page for somebody new. Any complaint of the browser is an error, and so is a request to another server.

    `expected` is a pattern for complaints that the test provokes.
    """
    context = await BROWSERS[-1].new_context(**({"viewport": {"width": 1280, "height": 800}} | more))
    page = await context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    complaints: list[str] = []
    page.on("console", lambda said: complaints.append(f"{said.type}: {said.text}") if is_bad(said.type) else None)
    page.on("pageerror", lambda error: complaints.append(f"error: {error}"))
    page.on("request", lambda asked: None if is_ours(asked.url) else complaints.append(f"asked {asked.url}"))
    try:
        yield page
        assert [each for each in complaints if not expected or not re.search(expected, each)] == []
    finally:
        await context.close()


def is_bad(kind: str) -> bool:
    return kind in ("error", "warning")


def is_ours(address: str) -> bool:
    return address.startswith(("http://127.0.0.1:", "data:", "about:", "blob:"))


@pytest_asyncio.fixture(loop_scope="module")
async def address() -> AsyncIterator[str]:
    """A server with the sample, and a worker running beside it."""
    async with opened(settings={"worker": True}) as service:
        await sample.load(service.memory, "default", service.clock())
        async with listening(service) as address:
            yield address


async def go(page: Page, name: str) -> None:
    """Go to another page through the side menu."""
    await page.get_by_role("navigation", name="Pages").get_by_role("link", name=name, exact=True).click()


async def test_a_person_talks_and_sees_what_was_remembered(address):
    async with browsing() as page:
        await page.goto(address)
        await page.get_by_role("link", name="noor").click()
        await page.get_by_role("link", name="New", exact=True).click()
        await page.get_by_label("Message", exact=True).fill("My brother is called Samir and I'm allergic to walnuts.")
        await page.keyboard.press("Enter")
        await expect(page.locator("#log .bubble.assistant")).to_contain_text("I'll remember that.")
        await expect(page.get_by_role("heading", level=1)).to_contain_text("My brother is called Samir")
        await expect(page.locator("#remembered")).to_contain_text("walnuts")
        await expect(page.locator("#remembered")).to_contain_text("Samir")
        await expect(page.locator("#remembered .dots")).to_have_count(0)
        await expect(page.locator("#news")).to_contain_text("allergy walnuts")
        await expect(page.get_by_label("Message", exact=True)).to_be_focused()
        await page.get_by_label("Message", exact=True).fill("What am I allergic to?")
        await page.get_by_role("button", name="Send").click()
        await expect(page.locator("#log .bubble.assistant").nth(1)).to_contain_text("walnuts")
        await expect(page.locator("#prompt")).to_contain_text("tokens")
        await page.locator("#prompt summary", has_text="profile").click()
        await expect(page.locator("#prompt pre", has_text="About the user")).to_be_visible()
        await page.reload()
        await expect(page.locator("#log .bubble")).to_have_count(4)


async def test_when_the_agent_fails_the_message_can_be_sent_again(tmp_path: Path):
    (tmp_path / "recollect.toml").write_text('[agents.default]\nurl = "http://127.0.0.1:9/v1"\nmodel = "none"\n')
    async with opened(folder=tmp_path) as service, listening(service) as address, browsing() as page:
        await page.goto(f"{address}/users/ann/chat/monday")
        await page.get_by_label("Message", exact=True).fill("Is anybody there?")
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("alert")).to_be_visible()
        await expect(page.get_by_label("Message", exact=True)).to_have_value("Is anybody there?")


async def test_a_person_searches_and_follows_a_memory_to_its_source(address):
    async with browsing() as page:
        await page.goto(f"{address}/users/noor/memories")
        await page.get_by_label("Search memories").press_sequentially("favourite food", delay=10)
        await expect(page.locator(".hit .relevance").first).to_be_visible()
        await expect(page).to_have_url(re.compile(r"q=favourite\+food"))
        await expect(page.locator("#told")).to_contain_text("found")
        await page.get_by_role("link", name="fact", exact=True).click()
        await page.get_by_role("link", name="favorite food: harira").click()
        await expect(page.locator("mark")).to_have_text("My favourite food is harira")
        await page.get_by_role("link", name="in its conversation").click()
        await expect(page.locator(".bubble:target")).to_contain_text("harira")


async def test_a_memorys_source_on_a_later_page_of_a_long_conversation_is_visible_below_the_top_bar():
    async with opened() as service, listening(service) as address, browsing() as page:
        ann = service.memory.user("ann")
        for start in range(0, 160, 40):
            said = [f"Line {start + n}." if start + n != 120 else "I live in Oslo." for n in range(40)]
            await ann.session("long").add_messages([{"role": "user", "content": text} for text in said])
        await service.memory.work()
        (fact,) = await ann.facts.get("city")
        await page.goto(f"{address}/users/ann/memories/{fact.id}")
        await page.get_by_role("link", name="in its conversation").click()
        await expect(page.locator(".bubble:target")).to_contain_text("I live in Oslo.")
        words, bar = await page.locator(".bubble:target").bounding_box(), await page.locator(".top").bounding_box()
        assert bar["y"] + bar["height"] < words["y"] < 800
        await page.get_by_role("link", name="From the beginning").click()
        await expect(page.locator(".bubble").first).to_contain_text("Line 0.")


@pytest.mark.parametrize("user", [".", ".."])
async def test_users_named_like_a_path_step_are_opened_like_others(user):
    async with opened() as service, listening(service) as address, browsing() as page:
        await service.memory.user(user).add_memory("The kettle is green.", id="..")
        await page.goto(f"{address}/users")
        await page.get_by_role("link", name=user, exact=True).click()
        await go(page, "Memories")
        await page.get_by_role("link", name="The kettle is green.").click()
        await expect(page.locator(".statement")).to_contain_text("The kettle is green.")
        await page.get_by_label("Text").fill("The kettle is blue.")
        await page.get_by_role("button", name="Save").click()
        await expect(page.locator(".past")).to_contain_text("green")


async def test_a_person_changes_a_memory_and_thinks_twice_before_forgetting_it(address):
    async with browsing() as page:
        await page.goto(f"{address}/users/noor/memories?layer=long_term")
        await page.get_by_role("link", name="The lighthouse near Ålesund").click()
        await page.get_by_label("Text").fill("The lighthouse near Ålesund holds fifty guests.")
        await page.get_by_role("button", name="Save").click()
        await expect(page.locator(".past")).to_contain_text("forty guests")
        await page.get_by_role("button", name="Forget").click()
        await page.get_by_role("button", name="Cancel").click()
        await expect(page.locator(".statement")).to_contain_text("fifty guests")
        await page.get_by_role("button", name="Forget").click()
        await page.locator("dialog").get_by_role("button", name="Forget").click()
        await expect(page.locator("#notices")).to_contain_text("Forgotten for good")


async def test_a_page_that_is_still_on_its_way_asks_too_before_it_forgets(address):
    async def half(route: Route) -> None:
        answer = await route.fetch()
        text = await answer.text()
        end = text.index("</form>", text.rindex(">Forget<"))
        await route.fulfill(response=answer, body=text[: end + len("</form>")])

    async with browsing() as page:
        await page.goto(f"{address}/users/noor/memories?layer=long_term")
        await page.route(re.compile("/memories/[^/]+$"), half)
        await page.get_by_role("link", name="Buses from Bergen").click()
        await page.get_by_role("button", name="Forget").click()
        await page.get_by_role("button", name="Cancel").click()
        await expect(page.locator(".statement")).to_contain_text("Buses from Bergen")


async def test_a_person_corrects_the_profile_and_looks_back(address):
    async with browsing() as page:
        await page.goto(f"{address}/users/noor/chat")
        await go(page, "Profile")
        city = page.locator(".known", has_text="Bergen").first
        await city.get_by_text("history").click()
        await expect(city).to_contain_text("Tromsø")
        await city.get_by_text("Correct").click()
        await city.get_by_label("The right value").fill("Bergen, Nordnes")
        await city.get_by_role("button", name="Save").click()
        await expect(page.locator("#notices")).to_contain_text("Corrected")
        await page.locator(".known", has_text="shellfish").get_by_role("button", name="Pin").click()
        await expect(page.locator(".known", has_text="shellfish")).to_contain_text("pinned")
        await page.locator(".lane svg a").first.click()
        await expect(page.get_by_role("heading", level=1)).to_have_text("Memory")
        await expect(page.get_by_role("definition").first).to_have_text("fact")


async def test_a_person_walks_through_the_graph(address):
    async with browsing() as page:
        await page.goto(f"{address}/users/noor/graph")
        await page.locator(".web .node", has_text="Bergen Aquarium").click()
        await expect(page.locator("#start")).to_have_text("Bergen Aquarium")
        await page.get_by_role("link", name="3 steps").click()
        await page.locator(".web .node", has_text="Magnus").focus()
        await page.keyboard.press("Enter")
        await expect(page.locator("#start")).to_have_text("Magnus")


async def test_a_person_reads_renames_and_branches_a_session(address):
    async with browsing() as page:
        await page.goto(f"{address}/users/noor/sessions")
        await page.get_by_role("link", name="Moving south", exact=True).click()
        await page.get_by_label("Title").fill("Rain")
        await page.get_by_role("button", name="Rename").click()
        await expect(page.get_by_role("heading", level=1)).to_have_text("Rain")
        bubble = page.locator(".bubble", has_text="yellow coat for Biscuit")
        await bubble.hover()
        await bubble.get_by_role("button", name="Branch here").click()
        await expect(page.locator("#log .bubble")).to_have_count(4)
        await go(page, "Sessions")
        await page.get_by_role("link", name="Otters", exact=True).click()
        await page.get_by_role("button", name="Delete").click()
        await page.locator("dialog").get_by_role("button", name="Delete").click()
        await expect(page.locator("#notices")).to_contain_text("Forgotten for good")


async def test_a_person_teaches_the_assistant(address):
    async with browsing() as page:
        await page.goto(f"{address}/users/noor/learnings")
        await page.get_by_label("Instruction", exact=True).last.fill("Answer in Norwegian.")
        await page.get_by_role("button", name="Add").first.click()
        await expect(page.locator(".order")).to_have_count(4)
        await page.locator(".order", has_text="Norwegian").get_by_role("button", name="Up").click()
        await expect(page.locator(".order").nth(2)).to_contain_text("Norwegian")
        await page.locator(".order", has_text="No emoji").get_by_role("button", name="On").click()
        await expect(page.locator(".order", has_text="No emoji").get_by_role("button", name="Off")).to_be_visible()
        learning = page.locator(".known", has_text="nautical miles")
        before = await learning.locator(".sure .numbers").inner_text()
        await learning.get_by_role("button", name="Confirm").click()
        await expect(learning.locator(".sure .numbers")).not_to_have_text(before)


async def test_an_operator_looks_around_makes_a_key_and_signs_in_with_it(address):
    async with browsing() as page:
        await page.goto(f"{address}/users/noor/chat")
        await go(page, "Overview")
        today = page.locator(".plot .day").last
        await expect(today.locator(".told")).to_have_css("opacity", "0")
        await today.locator(".touch").hover(force=True)
        await expect(today.locator(".told")).to_have_css("opacity", "1")
        await page.clock.install()
        await go(page, "Jobs")
        await expect(page.get_by_text("No failed jobs")).to_be_visible()
        async with page.expect_request("**/jobs") as asked:  # it counts again by itself
            await page.clock.fast_forward(11_000)
        assert (await (await asked.value).response()).status == 200
        await page.clock.resume()
        await go(page, "Keys")
        await page.get_by_label("Name").fill("the laptop")
        await page.get_by_role("button", name="Create key").click()
        token = await page.locator("pre.quote").inner_text()
        await page.get_by_role("link", name="Sign in").click()
        await page.get_by_label("API key").fill(token)
        await page.get_by_role("button", name="Sign in").click()
        await expect(page.get_by_role("heading", level=1)).to_have_text("Choose a user")
        await page.get_by_role("button", name="Sign out").click()
        await expect(page.get_by_role("heading", level=1)).to_have_text("Sign in")


async def test_a_person_exports_everything_and_is_forgotten(address, tmp_path: Path):
    async with browsing() as page:
        await page.goto(f"{address}/users/noor/chat")
        await go(page, "Export and erase")
        async with page.expect_download() as coming:
            await page.get_by_role("link", name="Download").click()
        download = await coming.value
        await download.save_as(tmp_path / "memory.jsonl")
        assert "harira" in (tmp_path / "memory.jsonl").read_text(encoding="utf-8")
        await page.get_by_label("Type noor to confirm").fill("noor")
        await page.get_by_role("button", name="Erase everything").click()
        await page.locator("dialog").get_by_role("button", name="Erase everything").click()
        await expect(page.get_by_role("heading", level=1)).to_have_text("Erased")
        await page.get_by_role("link", name="Other users").click()
        await page.get_by_role("button", name="Load the sample").click()
        await expect(page.locator("#notices")).to_contain_text("sample memory of noor")


async def test_the_theme_can_be_switched_and_stays(address):
    async with browsing(color_scheme="light") as page:
        await page.goto(f"{address}/users/noor/sessions")
        light = await page.evaluate("getComputedStyle(document.body).backgroundColor")
        await page.get_by_role("button", name="Switch to dark").click()
        dark = await page.evaluate("getComputedStyle(document.body).backgroundColor")
        await page.reload()
        assert light != dark == await page.evaluate("getComputedStyle(document.body).backgroundColor")


PATHS = (
    "chat/otters",
    "sessions",
    "sessions/moving",
    "memories",
    "memories?q=wedding",
    "profile",
    "graph",
    "learnings",
)
EVERYWHERE = (
    *(f"users/noor/{each}" for each in PATHS),
    "users/noor/privacy",
    "overview",
    "jobs",
    "keys",
    "users",
    "docs",
)


async def test_after_an_action_on_a_long_page_people_are_where_they_were(address):
    async with browsing() as page:
        await page.goto(f"{address}/users/noor/profile")
        allergy = page.locator(".known", has_text="shellfish")
        await allergy.get_by_role("button", name="Pin").focus()
        before = await page.evaluate("scrollY")
        await page.keyboard.press("Enter")
        await expect(page.locator("#notices .notice", has_text="Pinned")).to_be_in_viewport(ratio=1)
        await expect(allergy.get_by_role("button", name="Unpin")).to_be_focused()
        assert before > 200 and abs(await page.evaluate("scrollY") - before) < 2
        await page.goto(f"{address}/users/noor/learnings")
        await page.locator(".order").first.get_by_role("button", name="Down").click()
        await expect(page.locator(".order").nth(1).get_by_role("button", name="Down")).to_be_focused()


async def test_what_is_wrong_with_a_form_is_said_on_its_page_and_nothing_typed_is_lost(address):
    async with browsing(expected="413") as page:
        await page.goto(f"{address}/users/noor/profile")
        value = page.get_by_label("Value of the fact")
        await page.get_by_label("Key of a fact").fill("motto")
        await value.fill("x" * 5000)
        await value.press("Enter")
        await expect(page.get_by_role("alert")).to_contain_text("value: must have at most")
        await expect(page.get_by_role("alert")).to_be_in_viewport(ratio=1)
        await expect(value).to_be_focused()
        await value.fill("Slowly, but surely.")
        await value.press("Enter")
        await expect(page.locator(".known", has_text="motto")).to_contain_text("Slowly, but surely.")


async def test_when_the_server_is_gone_the_page_says_so_and_keeps_what_was_typed():
    async with browsing(expected="ERR_CONNECTION|Failed to fetch") as page, opened() as service:
        chat, learnings = [await page.context.new_page() for _ in range(2)]
        async with listening(service) as address:
            await chat.goto(f"{address}/users/ann/chat-new")
            await page.goto(f"{address}/users/ann/memories")
            await learnings.goto(f"{address}/users/ann/learnings")
        await page.get_by_label("Search memories").fill("otters")
        await expect(page.get_by_role("alert")).to_contain_text("The server did not answer.")
        await chat.get_by_label("Message", exact=True).fill("Hello?")
        await chat.keyboard.press("Enter")
        await expect(chat.get_by_role("alert")).to_contain_text("The server did not answer.")
        await expect(chat.get_by_label("Message", exact=True)).to_have_value("Hello?")
        await expect(chat.get_by_role("button", name="Send")).to_be_in_viewport(ratio=1)
        await expect(chat.get_by_text("Tell me something")).to_be_visible()
        await learnings.get_by_label("Learning", exact=True).fill("Likes tea.")
        await learnings.keyboard.press("Enter")
        await expect(learnings.get_by_role("alert")).to_contain_text("The server did not answer.")
        await expect(learnings.get_by_label("Learning", exact=True)).to_have_value("Likes tea.")


async def test_what_is_typed_while_an_answer_fails_is_kept_with_what_was_not_answered():
    typed = asyncio.Event()

    async def broken(route: Route) -> None:
        await typed.wait()
        await route.abort()

    failed = "ERR_FAILED|Failed to fetch"
    async with browsing(expected=failed) as page, opened() as service, listening(service) as address:
        await page.goto(f"{address}/users/ann/chat/monday")
        await page.route("**/chat/monday", broken)
        box = page.get_by_label("Message", exact=True)
        await box.fill("Is anybody there?")
        await box.press("Enter")
        await expect(box).to_have_value("")
        await box.fill("I can wait.")
        typed.set()
        await expect(page.get_by_role("alert")).to_be_visible()
        await expect(box).to_have_value("Is anybody there?\nI can wait.")


async def test_when_the_server_is_back_a_page_from_before_goes_on_as_if_nothing_had_happened():
    refused = "ERR_CONNECTION|Failed to fetch|403"
    async with browsing(expected=refused) as page, opened() as service:
        async with listening(service) as address:
            port = int(address.rpartition(":")[2])
            await page.goto(f"{address}/users/ann/chat/monday")
            learnings = await page.context.new_page()
            await learnings.goto(f"{address}/users/ann/learnings")
            await page.get_by_label("Message", exact=True).fill("I live in Oslo.")
            await page.keyboard.press("Enter")
            await expect(page.locator("#log .bubble.assistant")).to_have_count(1)
        await page.get_by_label("Message", exact=True).fill("My dog is called Rex.")
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("alert")).to_contain_text("The server did not answer.")
        await expect(page.get_by_text("Tell me something")).to_be_hidden()
        service._seats = Seats(InMemoryStore(), service.clock, secret_of(""))  # as in a server started again
        async with listening(service, port=port):
            await page.keyboard.press("Enter")
            await expect(page.locator("#log .bubble.assistant:not([data-waiting])")).to_have_count(2)
            await expect(page.get_by_role("alert")).to_have_count(0)
            await learnings.get_by_label("Learning", exact=True).fill("Likes tea.")
            await learnings.keyboard.press("Enter")
            await expect(learnings.locator(".known", has_text="Likes tea.")).to_be_visible()


async def test_whoever_has_to_sign_in_again_finds_what_they_typed_where_they_typed_it():
    async with browsing(expected="401") as page, opened() as service, listening(service) as address:
        _, token = await service.keys.create(org="default", scope="admin")
        forms = (
            ("chat/monday", page.get_by_label("Message", exact=True), "A long thought, line by line."),
            ("learnings", page.get_by_label("Learning", exact=True), "Likes tea."),
        )
        for where, field, words in forms:
            await page.goto(f"{address}/users/ann/{where}")
            if "sign-in" in page.url:
                await page.get_by_label("API key").fill(token)
                await page.keyboard.press("Enter")
            await field.fill(words)
            await page.context.clear_cookies()
            await field.press("Enter")
            await page.get_by_label("API key").fill("rk_wrong")
            await page.keyboard.press("Enter")
            await expect(page.get_by_text("This key is not valid")).to_be_visible()
            await page.get_by_label("API key").fill(token)
            await page.keyboard.press("Enter")
            await expect(field).to_have_value(words)
            assert page.url == f"{address}/users/ann/{where}"


async def test_escape_closes_what_was_opened_and_the_focus_goes_back_to_its_button(address):
    async with browsing(viewport={"width": 390, "height": 844}) as page:
        await page.goto(f"{address}/users/noor/profile")
        await page.get_by_role("button", name="Pages").click()
        menu = await page.locator(".side").bounding_box()
        assert menu is not None and menu["y"] + menu["height"] == 844  # nothing of the page is seen below it
        await page.get_by_role("link", name="Sessions").focus()
        await page.keyboard.press("Escape")
        await expect(page.get_by_role("button", name="Pages")).to_be_focused()
        corrects = page.locator("details.over summary")
        await corrects.nth(1).click()
        await corrects.nth(0).click()
        await expect(page.locator("details.over[open]")).to_have_count(1)
        await page.keyboard.press("Tab")
        await page.keyboard.press("Escape")
        await expect(page.locator("details.over[open]")).to_have_count(0)
        await expect(corrects.nth(0)).to_be_focused()


async def test_text_from_right_to_left_ends_on_the_left():
    """The mark that ends a Hebrew or Arabic sentence stands at its left end, in a conversation and in a list."""
    ends = """(each) => {
      const last = document.createRange(), text = each.firstChild;
      last.setStart(text, text.length - 1);
      last.setEnd(text, text.length);
      return last.getBoundingClientRect().left < each.getBoundingClientRect().left + 30;
    }"""
    async with opened() as service, listening(service) as address, browsing() as page:
        await service.memory.user("ann").session("s").add_message("user", "שלום, אני גרה בתל אביב.")
        await page.goto(f"{address}/users/ann/chat/s")
        assert await page.locator("#log .bubble p").evaluate(ends)
        await page.goto(f"{address}/users/ann/sessions")
        assert await page.locator(".session .value").evaluate(ends)


async def test_on_a_phone_every_page_fits_and_the_menu_opens(address):
    async with browsing(viewport={"width": 390, "height": 844}, has_touch=True) as page:
        for path in EVERYWHERE:
            await page.goto(f"{address}/{path}")
            width = await page.evaluate("document.documentElement.scrollWidth")
            assert width <= 390, (path, width)
        await page.goto(f"{address}/users/noor/sessions")
        await expect(page.get_by_role("link", name="Profile")).to_be_hidden()
        await page.get_by_role("button", name="Pages").click()
        await page.get_by_role("link", name="Profile").click()
        await expect(page.get_by_role("heading", level=1)).to_have_text("Noor")


COVERED = """() => {
  const shown = [...document.querySelectorAll(".web text")]
    .filter((each) => each.checkVisibility() && getComputedStyle(each).opacity > 0)
    .map((each) => [each.textContent, each.getBoundingClientRect()]);
  const over = (a, b) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 2
    && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 4;
  const {left, right} = document.querySelector(".web").getBoundingClientRect();
  return [
    ...shown.flatMap(([text, box], at) =>
      shown.slice(at + 1).filter(([, other]) => over(box, other)).map(([other]) => [text, other])),
    ...shown.filter(([, box]) => box.left < left - 1 || box.right > right + 1).map(([text]) => [text, "the edge"]),
  ];
}"""


@pytest.mark.parametrize("width", [390, 1280])
async def test_no_labels_in_the_graph_overlap(address, width):
    async with browsing(viewport={"width": width, "height": 844}) as page:
        for path in ("graph", "graph?depth=1", "graph?depth=3", "graph?entity=Bergen"):
            await page.goto(f"{address}/users/noor/{path}")
            assert await page.evaluate(COVERED) == [], path
            assert await page.locator(".web .node text:visible").count() > 3, path


FREE_POINT = """(words) => {
  const line = words.parentNode.querySelector(".touch");
  const [start, end] = [0, 1].map((at) => new DOMPoint(
    line[at ? "x2" : "x1"].baseVal.value, line[at ? "y2" : "y1"].baseVal.value).matrixTransform(line.getScreenCTM()));
  for (let part = 0.1; part < 0.9; part += 0.02) {
    const x = start.x + (end.x - start.x) * part, y = start.y + (end.y - start.y) * part;
    if (document.elementFromPoint(x, y) === line) return [x, y];
  }
}"""
"""A point of a line that no other thing covers, which a pointer can therefore reach."""


async def test_every_line_of_the_graph_has_words_beside_it_or_when_pointed_at_and_below_the_picture(address):
    async with browsing(reduced_motion="reduce") as page:
        await page.goto(f"{address}/users/noor/graph")
        assert await page.locator(".web .edge").count() == await page.locator(".web .said").count()
        words = page.locator(".web .said.crowded", has_text="lives in").first
        await expect(words).to_have_css("opacity", "0")
        await page.mouse.move(*await words.evaluate(FREE_POINT))
        await expect(words).to_have_css("opacity", "1")
        await page.get_by_text("In words").click()
        await expect(page.locator("figcaption")).to_contain_text("noor lives in Bergen")


CUT_LABELS = """() => [...document.querySelectorAll(".lane .track text")].filter((text) => {
  const room = text.classList.contains("beside") ? text.closest(".track") : text.parentNode.querySelector(".spell");
  const written = text.getBoundingClientRect(), around = room.getBoundingClientRect();
  return written.width && (written.left < around.left || written.right > around.right);
}).map((text) => text.textContent)"""


@pytest.mark.parametrize("width", [320, 390, 700, 900, 1280])
async def test_no_label_of_the_timeline_is_cut_off(width):
    async with (
        opened() as service,
        listening(service) as address,
        browsing(viewport={"width": width, "height": 800}) as page,
    ):
        await sample.load(service.memory, "default", service.clock())
        noor = service.memory.user("noor")
        for value in ("Wammawamma Mwmwmwmw", "東京都特許許可局", "Illinois", "THE QUICK BROWN FOX"):
            await noor.add_fact("club", value)
        await page.goto(f"{address}/users/noor/profile")
        assert await page.locator(".lane .track text:visible").count() > 20
        assert await page.evaluate(CUT_LABELS) == []


@pytest.mark.parametrize("width", [390, 820])
async def test_a_form_that_opens_in_a_list_fits_a_narrow_page(address, width):
    async with browsing(viewport={"width": width, "height": 844}) as page:
        for path in ("profile", "learnings"):
            await page.goto(f"{address}/users/noor/{path}")
            for form in (await page.locator("details.over").all())[:3]:
                await form.locator("summary").click()
                box = await form.locator(".card").bounding_box()
                assert box is not None and box["x"] >= 0 and box["x"] + box["width"] <= width, (path, box)
                await form.locator("summary").click()


async def test_on_a_phone_tables_are_read_from_top_to_bottom(address):
    async with browsing(viewport={"width": 390, "height": 844}) as page:
        await page.goto(f"{address}/keys")
        await page.get_by_label("Name").fill("the support bot")
        await page.get_by_role("button", name="Create key").click()
        revoke = page.get_by_role("button", name="Revoke")
        await expect(revoke).to_be_in_viewport(ratio=1)
        cut = "[...document.querySelectorAll('.scrolls')].filter((each) => each.scrollWidth > each.clientWidth).length"
        assert await page.evaluate(cut) == 0


async def test_on_a_phone_the_fields_of_a_call_are_not_squeezed(address):
    async with browsing(viewport={"width": 390, "height": 844}) as page:
        await page.goto(f"{address}/docs")
        call = page.locator(".calls details", has=page.get_by_text("/api/users/{user}/context", exact=True)).first
        await call.locator("summary").click()
        # How far the text of a cell is from its left edge: less than the label is wide, where that is squeezed.
        indents = """(cells) => cells.map((cell) => {
          const range = document.createRange()
          range.selectNodeContents(cell)
          return Math.min(...[...range.getClientRects()].map((each) => each.left)) - cell.getBoundingClientRect().left
        })"""
        kinds = call.locator("td[data-label=Type]")
        assert await kinds.count() > 8 and min(await kinds.evaluate_all(indents)) > 36
        names = call.locator("td.muted code")
        lines = await names.evaluate_all("(all) => all.map((each) => each.getBoundingClientRect().height)")
        assert lines and max(lines) < 25


async def test_the_keyboard_alone_is_enough_to_skip_the_menu_and_get_around(address):
    async with browsing() as page:
        await page.goto(f"{address}/users/noor/sessions")
        await page.keyboard.press("Tab")
        await expect(page.get_by_text("Skip to content")).to_be_focused()
        await page.keyboard.press("Enter")
        await page.keyboard.press("Tab")
        await expect(page.get_by_role("link", name="New conversation")).to_be_focused()


UNNAMED = """() => [...document.querySelectorAll("a, button, input:not([type=hidden]), select, textarea, summary")]
  .filter((each) => each.checkVisibility())
  .filter((each) => !(each.getAttribute("aria-label") || each.textContent.trim() || each.labels?.length))
  .map((each) => each.outerHTML)"""
LANDMARKS = """() => ["main", "h1"].filter((each) => document.querySelectorAll(each).length !== 1)"""
DOUBLES = """() => [...document.querySelectorAll("[id]")].map((each) => each.id)
  .filter((id, at, all) => all.indexOf(id) !== at)"""


async def test_every_control_has_a_name_and_every_page_one_heading(address):
    async with browsing() as page:
        for path in EVERYWHERE:
            await page.goto(f"{address}/{path}")
            assert await page.evaluate(UNNAMED) == [], path
            assert await page.evaluate(LANDMARKS) == [], path
            assert await page.evaluate(DOUBLES) == [], path


CONTRAST = r"""() => {
  const paper = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
  const rgba = (color) => {
    paper.clearRect(0, 0, 1, 1);
    paper.fillStyle = color;
    paper.fillRect(0, 0, 1, 1);
    const [red, green, blue, alpha] = paper.getImageData(0, 0, 1, 1).data;
    return [red, green, blue, alpha / 255];
  };
  const over = (top, below) => [0, 1, 2].map((at) => top[at] * top[3] + below[at] * (1 - top[3])).concat(1);
  const light = (color) => color.slice(0, 3).map((each) => each / 255)
    .map((each) => (each <= 0.03928 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4))
    .reduce((sum, each, at) => sum + each * [0.2126, 0.7152, 0.0722][at], 0);
  const parents = (each) => (each ? [...parents(each.parentElement), each] : []);
  const faint = [];
  const look = (said, holder, style, isInside = false) => {
    const drawn = holder.closest("svg");
    const around = parents(drawn ? drawn.parentElement : holder).map((each) => getComputedStyle(each));
    const ground = around.reduce((below, each) => over(rgba(each.backgroundColor), below), [255, 255, 255, 1]);
    const shown = around.reduce((share, each) => share * each.opacity, drawn || isInside ? style.opacity : 1);
    const [red, green, blue, alpha] = rgba(drawn ? style.fill : style.color);
    const pair = [light(over([red, green, blue, alpha * shown], ground)), light(ground)].sort((a, b) => b - a);
    const ratio = (pair[0] + 0.05) / (pair[1] + 0.05);
    if (ratio < (parseFloat(style.fontSize) >= 24 ? 3 : 4.5)) faint.push([said.slice(0, 40), ratio.toFixed(2)]);
  };
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const holder = texts.currentNode.parentElement;
    const said = texts.currentNode.textContent.trim();
    if (!said || !holder.checkVisibility({opacityProperty: true}) || holder.closest(".unseen, .skip, title")) continue;
    look(said, holder, getComputedStyle(holder));
  }
  for (const field of document.querySelectorAll("[placeholder]")) {
    if (field.checkVisibility()) look(field.placeholder, field, getComputedStyle(field, "::placeholder"), true);
  }
  return faint;
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_every_text_contrasts_with_its_background(address, scheme):
    """As WCAG level AA requires: 4.5 to 1, and 3 to 1 for large text."""
    async with browsing(color_scheme=scheme, reduced_motion="reduce") as page:
        asked = ("users/noor/chat/otters?prompt=true", "users/noor/memories?q=quantum+tax+helicopter+zebra")
        for path in (*EVERYWHERE, *asked):
            await page.goto(f"{address}/{path}")
            assert await page.evaluate(CONTRAST) == [], path


FOCUSED = """() => {
  const {activeElement: held} = document;
  if (!held || held === document.body) return null;
  const style = getComputedStyle(held);
  const dot = held.querySelector?.(".dot");
  const ring = style.outlineStyle !== "none" || (dot && parseFloat(getComputedStyle(dot).strokeWidth) >= 3);
  return [held.outerHTML.slice(0, 80), ring || held.type === "date"];
}"""


async def test_keyboard_focus_is_always_visible(address):
    async with browsing() as page:
        for path in (*PATHS, "privacy"):
            await page.goto(f"{address}/users/noor/{path}")
            await page.evaluate("document.activeElement?.blur()")
            stops = 0
            for _ in range(30):
                await page.keyboard.press("Tab")
                focused = await page.evaluate(FOCUSED)
                if focused is None:
                    break
                stops += 1
                assert focused[1], (path, focused[0])
            assert stops > 1, path


@pytest.mark.parametrize("width", [390, 1280])
async def test_very_long_words_stay_within_the_page(width):
    word, name = "W" * 300, "x" * 100
    async with opened() as service:
        user = service.memory.user(name)
        await user.session("s", agent=name).add_interaction(word, word)
        await user.add_memory(word)
        await user.add_fact("k" * 60, word)
        await user.update_preference("tone", word)
        await user.add_learning(word)
        await user.customizations.add(word)
        await user.graph.relate("user", "knows", "Q" * 100)
        pages = (
            "chat/s",
            "sessions",
            "sessions/s",
            "memories",
            "memories?q=W",
            "profile",
            "graph",
            "learnings",
            "privacy",
        )
        async with listening(service) as address, browsing(viewport={"width": width, "height": 844}) as page:
            for path in (*(f"users/{name}/{each}" for each in pages), "users", "docs"):
                await page.goto(f"{address}/{path}")
                assert await page.evaluate("document.documentElement.scrollWidth") <= width, path
                sends = page.get_by_role("button", name="Send")
                box = await sends.bounding_box() if "chat" in path else None
                assert box is None or box["x"] + box["width"] <= width, path


async def test_an_api_call_is_opened_and_copied(address):
    async with browsing(permissions=["clipboard-read", "clipboard-write"]) as page:
        await page.goto(f"{address}/users/noor/chat")
        await page.get_by_role("link", name="API").click()
        await expect(page.get_by_role("heading", level=1)).to_have_text("API")
        await page.get_by_role("link", name="Memories", exact=True).last.click()
        call = page.locator("#memories details").filter(has_text="/memories/search")
        await call.locator("summary").click()
        await expect(call.get_by_text("query", exact=True)).to_be_visible()
        await call.get_by_role("button", name="Copy").click()
        await expect(call.get_by_role("button", name="Copied")).to_be_visible()
        copied = await page.evaluate("navigator.clipboard.readText()")
        assert copied.startswith(f"curl -X POST {address}/api/users/noor/memories/search ")


async def test_hostile_text_does_nothing_in_a_browser():
    text = "<script>window.taken = 1</script><img src=x onerror='window.taken = 1'>{{constructor}}"
    async with opened(settings={"worker": True}) as service:
        ann = service.memory.user("ann")
        await ann.session("s").add_interaction(text, text)
        await ann.add_fact("city", text)
        await ann.graph.relate("user", "knows", "Ann <svg onload=alert(1)>")
        async with listening(service) as address, browsing() as page:
            for path in ("chat/s", "sessions/s", "memories?q=script", "profile", "graph"):
                await page.goto(f"{address}/users/ann/{path}")
                assert await page.evaluate("window.taken") is None
            await page.goto(f"{address}/users/ann/chat/s")
            await page.get_by_label("Message", exact=True).fill(text)
            await page.keyboard.press("Enter")
            await expect(page.locator("#log .bubble")).to_have_count(4)
            assert await page.evaluate("window.taken") is None
