"""Take the screenshots of the console in docs/pictures, from the sample memory, with the local chromium.

python tools/screenshots.py
"""

from __future__ import annotations

import asyncio
import shutil
import socket
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import uvicorn
from playwright.async_api import Page, async_playwright

from recollect.server import sample
from recollect.server.app import build
from recollect.server.service import Service
from recollect.settings import Settings

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "docs" / "pictures"
NOW = int(datetime(2026, 11, 15, 18, 30, tzinfo=UTC).timestamp() * 1000)
"""The date shown in the pictures, fixed so that they change only when the console does."""
SIZE_MAX = 200_000
"""Maximum bytes per picture: a page with five of them still loads at once."""
QUESTIONS = (
    "What am I allergic to?",
    "Where do I work?",
    "What is my dog called?",
    "What is the claim number of the removal firm?",
    "Who plays the oboe?",
)
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-background-networking",
         "--disable-component-update", "--disable-sync", "--no-first-run")  # fmt: skip


async def chat(page: Page, address: str) -> None:
    await page.goto(f"{address}/users/noor/chat/otters?prompt=true")


async def search(page: Page, address: str) -> None:
    await page.goto(f"{address}/users/noor/memories?q=Who+gets+married+in+the+lighthouse%3F")


async def timeline(page: Page, address: str) -> None:
    await page.goto(f"{address}/users/noor/profile")


async def graph(page: Page, address: str) -> None:
    await page.goto(f"{address}/users/noor/graph")


async def overview(page: Page, address: str) -> None:
    await page.goto(f"{address}/users/noor/chat-new")
    for place, question in enumerate(QUESTIONS):
        await page.get_by_label("Message", exact=True).fill(question)
        await page.keyboard.press("Enter")
        await page.locator("#log .bubble.assistant:not([data-waiting])").nth(place).wait_for()
    await page.goto(f"{address}/overview")


PICTURES: dict[str, Callable[[Page, str], Awaitable[None]]] = {
    "chat": chat,
    "search": search,
    "timeline": timeline,
    "graph": graph,
    "overview": overview,
}


async def main() -> int:
    """Take every picture, light and dark."""
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        print("there is no chromium here", file=sys.stderr)
        return 1
    TARGET.mkdir(exist_ok=True)
    async with async_playwright() as playwright, _serving() as address:
        browser = await playwright.chromium.launch(executable_path=chromium, args=list(FLAGS))
        page = await browser.new_page(viewport={"width": 1280, "height": 800})
        for name, show in PICTURES.items():
            await show(page, address)
            for scheme in ("light", "dark"):
                await _take(page, TARGET / f"console-{name}{'-dark' if scheme == 'dark' else ''}.png", scheme)
        await browser.close()
    return 0


async def _take(page: Page, path: Path, scheme: str) -> None:
    await page.emulate_media(color_scheme="dark" if scheme == "dark" else "light", reduced_motion="reduce")
    await page.evaluate("document.activeElement?.blur()")
    await page.screenshot(path=path)
    size = path.stat().st_size
    print(f"{path.relative_to(ROOT)}: {size // 1000} kB")
    if size > SIZE_MAX:
        raise SystemExit(f"{path.name} has become too large")


@asynccontextmanager
async def _serving() -> AsyncIterator[str]:
    """Run a server with the sample memory on a free port; yields its address."""
    with tempfile.TemporaryDirectory() as folder:
        opened = Service(f"sqlite:///{folder}/recollect.db", settings=Settings(), environ={}, clock=_clock)
        async with opened as service, _listening(service) as address:
            yield address


@asynccontextmanager
async def _listening(service: Service) -> AsyncIterator[str]:
    await sample.load(service.memory, "default", NOW)
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(build(service), lifespan="off", log_config=None))
    serving = asyncio.create_task(server._serve([listener]))
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        await serving


def _clock() -> int:
    return NOW


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
