"""Writes docs/house.md: every file of the package with the first line of what it says about itself.

python tools/generate_house.py          write it
python tools/generate_house.py --check  fail if it is not up to date
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "recollect"
TARGET = ROOT / "docs" / "house.md"
ROOMS = {
    "": "The nouns, the front door, and the steps that a message and a question walk through.",
    "policies": "Decide. No waiting, no clock, no disk: time and sizes are arguments.",
    "enrich": "Turn messages into drafts of what they say, without a model and with one.",
    "stores": "Keep. A store knows layers only as strings; all keep the same promises.",
    "models": "Chat models: one contract, what keeps it, what they are asked, and how their answers are read.",
    "embedders": "Other models for meaning, each driver in one file.",
    "interfaces": "Translate for people at a terminal, and for models that use tools.",
    "server": "Translate for HTTP: REST, chat, keys, figures, and the console for people.",
    "adapters": "Translate for frameworks.",
    "importers": "Read other formats.",
    "testing": "For authors of stores, and for ourselves.",
}

HEAD = """# The house

Every file of the package, by room, in the words it begins with. Written by `tools/generate_house.py`; which room
may see which is held by `tests/unit/test_rooms.py`, and the reasons are in [design](design.md).

## The walk of a message

1. `memory.py`: `add_interaction`, on a handle that carries its scope. `validate.py` looks at what came in.
2. `conversation.py`: a record for each message and one job for all; `ledger.py` commits them together, in a store of
   `stores/`. Nobody waits for more than that.
3. `worker.py`: claims the job, and commits what comes of it together with its end.
4. `enrichment.py`: vectors by `providers.py`, importance by `policies/importance.py`, near-duplicates by
   `policies/merging.py`.
5. `learning.py`: drafts by `enrich/by_rules.py`; what is known decides in `profile.py`, `learnings.py` and `graph.py`,
   by `policies/facts.py`, `policies/learnings.py` and `policies/graphs.py`.
6. By further jobs: running summaries (`conversation.py`), `episodes.py`, what a model reads (`reading.py`),
   `upkeep.py`.

## The walk of a question

1. `memory.py`: `get_context`, or `search_memory`; `flow.py` hands it on.
2. `recall.py`: understands the question (`policies/words.py`, `policies/dates.py`, `policies/asking.py`) and asks the
   index.
3. `indexes.py`: the user's index, caught up by revision; `index.py`: what is in it. Records in `shelf.py`, words in
   `postings.py` and `kinship.py`, meaning in `vectors.py`, sessions and neighbours in `arrangement.py`.
4. `policies/scoring.py`: legs are scaled, weighed and added; `reranking.py` looks again where that is asked for.
5. `sections.py`: what each section of a prompt could hold; `policies/fitting.py` packs it into the budget.
6. `context.py`: the text with its sources, fenced by `policies/fencing.py`. Nothing was written.
"""


def main() -> int:
    """Write the page, or compare."""
    if "--check" in sys.argv:
        return 0 if TARGET.read_text(encoding="utf-8") == generate() else 1
    TARGET.write_text(generate(), encoding="utf-8")
    return 0


def generate() -> str:
    """The whole page."""
    return "\n".join([HEAD, *(part for room in ROOMS for part in _room(room))])


def rooms() -> set[str]:
    """The folders that hold code."""
    return {path.parent.name for path in PACKAGE.glob("*/__init__.py")} | {""}


def _room(room: str) -> list[str]:
    folder = PACKAGE / room
    paths = sorted(folder.glob("*.py")) if not room else sorted(folder.rglob("*.py"))
    rows = [f"| `{path.relative_to(folder)}` | {line} |" for path in paths if (line := _about(path))]
    title = f"`recollect/{room}/`" if room else "`recollect/`"
    return [f"## {title}\n", f"{ROOMS[room]}\n", "| file | |", "|---|---|", *rows, ""]


def _about(path: Path) -> str:
    """The first sentence of a file, as a row of a table."""
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return text.split("\n\n")[0].replace("\n", " ").replace("|", "\\|")


if __name__ == "__main__":
    sys.exit(main())
