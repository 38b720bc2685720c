"""Second thoughts on the command line: undo, redo, quarantine."""

from __future__ import annotations

LIVES = {"role": "user", "content": "I live in Oslo.", "session": "monday"}
MOVED = {"role": "user", "content": "I moved to Bergen.", "session": "stranger"}


def _city(recollect) -> str | None:
    facts = recollect("profile", "--json").json["facts"]
    return next((fact["value"] for fact in facts if fact["key"] == "city"), None)


def _told(recollect, lines) -> None:
    for line in (LIVES, MOVED):
        assert recollect("import", lines(line)).code == 0
    assert _city(recollect) == "Bergen"


def test_what_a_session_taught_is_undone_and_redone(recollect, lines):
    _told(recollect, lines)
    would = recollect("undo", "--session", "stranger", "--dry-run")
    assert "would be undone" in would.out
    assert _city(recollect) == "Bergen"
    undone = recollect("undo", "--session", "stranger", "--json").json
    assert undone["changed"]["fact"] == 1
    assert _city(recollect) == "Oslo"
    assert recollect("redo", undone["id"]).code == 0
    assert _city(recollect) == "Bergen"


def test_undoing_nothing_says_so(recollect, lines):
    _told(recollect, lines)
    ran = recollect("undo", "--session", "never")
    assert (ran.code, ran.out.strip()) == (1, "")
    assert "no such session" in ran.err
    assert recollect("undo").code == 2


def test_what_is_quarantined_is_used_by_nobody_until_released(recollect, lines):
    _told(recollect, lines)
    assert recollect("quarantine", "--session", "stranger").code == 0
    assert _city(recollect) == "Oslo"
    assert "Bergen" not in recollect("search", "Bergen").out
    assert recollect("quarantine", "--session", "stranger", "--release").code == 0
    assert "Bergen" in recollect("search", "Bergen").out
