"""A damaged file: the doctor says what can be saved, and `export --salvage` writes it, never anything wrong."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from recollect import Memory
from recollect.testing.fakes import HashingEmbedder

PAGE = 8_192


def zeroed(raw: bytearray, chance: random.Random) -> bytearray:
    for _ in range(8):
        at = chance.randrange(len(raw) - 64)
        raw[at : at + 64] = bytes(64)
    return raw


def truncated(raw: bytearray, chance: random.Random) -> bytearray:
    return raw[: chance.randrange(4 * PAGE, len(raw))]


def swapped(raw: bytearray, chance: random.Random) -> bytearray:
    one, other = (slice(n * PAGE, (n + 1) * PAGE) for n in chance.sample(range(1, len(raw) // PAGE), 2))
    raw[one], raw[other] = raw[other], raw[one]
    return raw


def beheaded(raw: bytearray, chance: random.Random) -> bytearray:
    raw[:PAGE] = bytes(PAGE)
    return raw


Damage = Callable[[bytearray, random.Random], bytearray]


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> tuple[bytes, dict[str, dict]]:
    """A sound file, and everything an export of it contains."""
    return asyncio.run(_written(tmp_path_factory.mktemp("sound") / "sound.db"))


async def _written(path: Path) -> tuple[bytes, dict[str, dict]]:
    async with Memory.open(path, embedder=HashingEmbedder(), worker=False) as memory:
        for name in ("ann", "bob"):
            user = memory.user(name)
            await user.add_memories([f"memory {n} of {name} " + "word " * (n * 40) for n in range(60)])
            for n in range(15):
                await user.session("s").add_message("user", f"I live in Oslo, and this is message {n} of {name}.")
        await memory.work()
        await memory.user("gone").add_memory("nobody may read this again")
        await memory.user("gone").erase()
        lines = [line for name in ("ann", "bob") for line in (await memory.user(name).export())[1:]]
    return path.read_bytes(), {f"{line['scope']['user']} {line['id']}": line for line in lines}


def broken(tmp_path: Path, raw: bytes, damage: Damage, seed: int) -> Path:
    path = tmp_path / f"{damage.__name__} {seed}.db"
    path.write_bytes(damage(bytearray(raw), random.Random(seed)))
    return path


@pytest.mark.parametrize("damage", [zeroed, truncated, swapped, beheaded])
@pytest.mark.parametrize("seed", range(5))
def test_salvage_recovers_only_what_was_written_and_most_of_it(recollect, whole, tmp_path, damage, seed):
    raw, truth = whole
    path = broken(tmp_path, raw, damage, seed)
    before = path.read_bytes()
    ran = recollect("export", "--salvage", str(tmp_path / "saved.jsonl"), "--json", at=f"sqlite:///{path}")
    lines = [json.loads(line) for line in (tmp_path / "saved.jsonl").read_text().splitlines()]
    saved = {f"{line['scope']['user']} {line['id']}": line for line in lines[1:]}
    assert (ran.code, ran.json["records"]) == (0, len(saved)) and lines[0]["salvaged"]
    assert {key: truth[key] for key in saved} == saved, "nothing is made up, and nothing is another's"
    assert damage is truncated or len(saved) > 0.9 * len(truth)
    assert path.read_bytes() == before


def test_the_doctor_says_what_can_be_saved_and_it_comes_back_by_user(recollect, whole, tmp_path):
    raw, truth = whole
    path = broken(tmp_path, raw, beheaded, 0)
    at = f"sqlite:///{path}"
    told = recollect("doctor", "--json", at=at)
    checks = {check["name"]: check for check in told.json}
    assert told.code == 1 and checks["store"]["state"] == "fail"
    assert checks["salvage"]["found"].startswith(f"{len(truth)} records of 2 users can be read")
    assert "export --salvage" in checks["salvage"]["advice"]
    assert recollect("export", "--salvage", "saved.jsonl", at=at).code == 0
    new = f"sqlite:///{tmp_path}/new.db"
    assert recollect("import", "saved.jsonl", "--user-from", "source", at=new).code == 0
    kept = {name: recollect("export", "--user", name, at=new).out.count("\n") - 1 for name in ("ann", "bob", "gone")}
    assert kept == {name: sum(key.startswith(f"{name} ") for key in truth) for name in kept}


def test_a_file_that_opens_but_is_damaged_inside_is_reported_with_what_is_left(recollect, whole, tmp_path):
    raw, truth = whole
    at = raw.index(b"memory 30 of ann")
    path = tmp_path / "inside.db"
    path.write_bytes(raw[:at] + b"mistaken" + raw[at + 8 :])
    checks = {check["name"]: check for check in recollect("doctor", "--json", at=f"sqlite:///{path}").json}
    assert checks["store"]["state"] == "ok" and checks["data"]["state"] == "fail"
    assert checks["salvage"]["found"] == f"{len(truth) - 1} records of 2 users can be read, 1 row cannot"


def test_a_file_from_which_nothing_can_be_saved_is_reported(recollect, tmp_path):
    (tmp_path / "noise.db").write_bytes(bytes(random.Random(1).randbytes(50_000)))
    ran = recollect("export", "--salvage", "saved.jsonl", at=f"sqlite:///{tmp_path}/noise.db")
    assert ran.code == 5 and not (tmp_path / "saved.jsonl").exists()
    assert recollect("export", "--salvage", at=f"sqlite:///{tmp_path}/none.db").code == 1
    other = recollect("export", "--salvage", at="redis://127.0.0.1:1/0")
    assert other.code == 2 and "salvage" in other.err


def test_what_is_only_in_the_log_is_salvaged_too(recollect, tmp_path):
    asyncio.run(_left_in_the_log(tmp_path))
    ran = recollect("export", "--salvage", at=f"sqlite:///{tmp_path}/copy.db")
    assert "only in the log" in ran.out


async def _left_in_the_log(folder: Path) -> None:
    async with Memory.open(folder / "a.db", embedder=HashingEmbedder(), worker=False) as memory:
        await memory.user("ann").add_memory("only in the log")
        for end in ("", "-wal"):
            (folder / f"copy.db{end}").write_bytes((folder / f"a.db{end}").read_bytes())
