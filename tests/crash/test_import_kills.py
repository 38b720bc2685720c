"""An import that is killed anywhere goes on when it is started again: nothing is lost, doubled or out of order."""

from __future__ import annotations

import json
import random
import sqlite3
import subprocess
import sys
import time

from recollect import Memory

ROWS = 1_500
KILLS = 6


async def test_an_import_that_is_killed_again_and_again_ends_whole(tmp_path):
    with sqlite3.connect(tmp_path / "chats.db") as source:
        source.execute("create table message_store (id integer primary key, session_id text, message text)")
        for number in range(ROWS):
            written = json.dumps({"type": "human", "data": {"content": f"turn {number // 5}"}})
            source.execute("insert into message_store values (null, ?, ?)", (f"s{number % 5}", written))
    url = f"sqlite:///{tmp_path}/notes.db"
    command = [sys.executable, "-m", "recollect", "import", "--from", "langchain", "chats.db", "--url", url, "--json"]
    generator = random.Random(7)
    killed = 0
    while killed < KILLS:
        process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(0.5 + generator.random())
        process.kill()
        killed += process.wait() != 0
        if process.returncode == 0:
            break
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, check=True, timeout=100)
    outcome = json.loads(ended.stdout)
    assert killed >= 1
    assert outcome["messages"] == outcome["new"] + outcome["known"] == ROWS
    async with Memory.open(url, worker=False) as memory:
        for session in range(5):
            page, after = await memory.user("me").session(f"s{session}").messages(limit=1_000)
            assert [message.content for message in page] == [f"turn {number}" for number in range(ROWS // 5)]
            assert after is None
