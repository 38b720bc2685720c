"""The calls on the page about the server run from top to bottom, as somebody with curl would make them."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from server_stage import document

PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "server.md"
LINES = re.findall(r"^curl localhost:8765(/\S+)((?:.*\\\n)*.*)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
DOCUMENT = document()


async def test_every_call_on_the_page_of_the_server_succeeds(client):
    assert len(LINES) >= 18
    for path, rest in LINES:
        words = shlex.split(rest.replace("\\\n", " "))
        given = dict(zip(words[::2], words[1::2], strict=True))
        assert given.keys() <= {"-H", "-d", "-X"}, path
        name, _, value = given.get("-H", "Accept: */*").partition(": ")
        method = given.get("-X", "POST" if "-d" in given else "GET")
        answer = await client.request(method, path, content=given.get("-d"), headers={name: value})
        assert answer.status_code < 300, (method, path, answer.text)


def test_the_page_names_every_call_that_there_is():
    text = PAGE.read_text(encoding="utf-8")
    for path in DOCUMENT["paths"]:
        last = [part for part in path.split("/") if not part.startswith("{")][-1]
        assert f"{last}" in text, path
