# python examples/migrating_from_mem0.py
"""Moving from mem0: its memories are read in place, and found here under the same users.

If mem0 is installed, this first creates a store with it: a local Qdrant in a folder. Otherwise it uses a small sample,
in the format that `get_all` returns.
"""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
from pathlib import Path

from recollect import Memory
from recollect.importers.kinds import open_source
from recollect.importers.writing import bring_in

os.environ.setdefault("MEM0_TELEMETRY", "false")
os.environ.setdefault("MEM0_DIR", tempfile.gettempdir())
try:
    import mem0
    from langchain_core.embeddings import DeterministicFakeEmbedding
except ImportError:
    mem0 = None

TOLD = [("ann", "Ann moved to Lisbon in March."), ("ann", "Ann is allergic to nuts."), ("bob", "Bob plays chess.")]


def a_store_of_mem0(folder: Path) -> Path:
    """Create what exists before the move."""
    if mem0 is None:
        sample = {"results": [{"id": str(n), "memory": text, "user_id": who} for n, (who, text) in enumerate(TOLD)]}
        (folder / "memories.json").write_text(json.dumps(sample))
        return folder / "memories.json"
    store = mem0.Memory.from_config(
        {
            "vector_store": {
                "provider": "qdrant",
                "config": {"path": str(folder / "qdrant"), "on_disk": True, "embedding_model_dims": 8},
            },
            "embedder": {"provider": "langchain", "config": {"model": DeterministicFakeEmbedding(size=8)}},
            "llm": {"provider": "openai", "config": {"api_key": "not used: nothing is inferred"}},
            "history_db_path": str(folder / "history.db"),
        }
    )
    for who, text in TOLD:
        store.add(text, user_id=who, infer=False)
    store.vector_store.client.close()
    store.db.close()
    return folder / "qdrant"


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        source = a_store_of_mem0(Path(folder))
        async with Memory.open("memory://", worker=False) as memory:
            for attempt in ("first", "second"):
                with open_source("mem0", str(source)) as memories:
                    outcome = await bring_in(memories, lambda owner: memory.user(owner or "nobody"))
                print(f"{attempt} import: {outcome.new} new, {outcome.known} already known, {outcome.bad} refused")
            await memory.work()
            for who, question in (("ann", "Where does Ann live?"), ("bob", "Which games does Bob play?")):
                (hit,) = await memory.user(who).search_memory(question, limit=1)
                print(f"{who}: {question} -> {hit.content}")


if __name__ == "__main__":
    asyncio.run(main())
