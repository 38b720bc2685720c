"""Each room of the house imports only what it may see, and arrows point one way."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "recollect"

NOUNS = {"records", "errors", "filters"}
FLOW = {
    "agreement",
    "allowance",
    "arrangement",
    "bound_keys",
    "branches",
    "consequences",
    "consolidation",
    "reading",
    "conversation",
    "copying",
    "cursors",
    "working",
    "handles",
    "home",
    "long_term",
    "merges",
    "worker",
    "enrichment",
    "index",
    "kept_words",
    "kinship",
    "postings",
    "session_rows",
    "shelf",
    "spaces",
    "overtaken",
    "found",
    "precedence",
    "ties",
    "uptake",
    "aside",
    "indexes",
    "vectors",
    "vocabulary",
    "indexing",
    "recall",
    "context",
    "context_policy",
    "packing",
    "prompt",
    "sections",
    "upkeep",
    "privacy",
    "exports",
    "ledger",
    "claims",
    "spells",
    "profile",
    "learnings",
    "customizations",
    "episodes",
    "entities",
    "graph",
    "learning",
    "reembedding",
    "reprocessing",
    "running_summary",
    "reranking",
    "seals",
    "quarantine",
    "views",
    "windows",
    "trust",
    "unfolding",
    "unlearning",
}
FRONT = {"memory", "org", "owner", "session", "user"}
GATE = {"validate", "conditions", "contents", "json_text"}
BELOW_FLOW = NOUNS | GATE | {
    "layers", "pace", "paging", "policies", "providers", "enrich", "models", "settings", "stores.contract",
}  # fmt: skip

SHAPES = {f"adapters.{name}_shape" for name in ("langchain", "langgraph", "openai")}

AGENT = {f"interfaces.{part}" for part in ("from_profile", "phrases", "quoting", "small_talk", "sought")}

SEES: dict[str, set[str]] = {
    "disk": set(),
    "errors": set(),
    "records": set(),
    "filters": {"errors", "records"},
    "layers": {"records"},
    "validate": NOUNS | {"layers"},
    **dict.fromkeys(GATE - {"validate"}, NOUNS | GATE),
    "settings": {"errors"},
    "setting_changes": set(),
    "policies": {"records", "layers", "policies"},
    "policies.shells": set(),
    "pace": set(),
    "paging": set(),
    "providers": {"errors", "pace", "records", "subwords"},
    "subwords": set(),
    "wire": {"errors"},
    "models": {"errors", "records", "settings", "json_text", "wire", ""},
    "enrich": {"errors", "records", "layers", "policies", "providers", "models", "validate"},
    "embedders": {"disk", "errors", "records", "providers", "settings", "wire", ""},
    "stores.contract": NOUNS,
    "stores.sqlite_url": set(),
    "stores": NOUNS
    | {"disk", "stores.contract", "stores.sqlite_file", "stores.sqlite_codes", "stores.sqlite_url"}
    | {"stores.postgres_functions", "stores.postgres_link", "stores.postgres_meaning", "stores.postgres_schema"}
    | {"stores.postgres_commits", "stores.postgres_health", "stores.postgres_values"}
    | {"stores.redis_url", "stores.redis_node", "stores.redis_nodes", "stores.redis_health"},
    **dict.fromkeys(FLOW, BELOW_FLOW | FLOW),
    "flow": BELOW_FLOW | FLOW,
    **dict.fromkeys(
        ("arguments", "org", "owner", "session", "user"),
        BELOW_FLOW | FLOW | {"arguments", "flow", "owner", "session", "user"},
    ),
    "memory": BELOW_FLOW | FLOW | FRONT | {"arguments", "flow", "stores", "embedders", "setting_changes"},
    "sync": BELOW_FLOW | FLOW | FRONT | {"setting_changes"},
    "interfaces.tools": BELOW_FLOW | FLOW | FRONT | {"interfaces"},
    "interfaces.phrases": {"policies"},
    "interfaces.small_talk": {"policies", "enrich"},
    "interfaces.sought": {"policies", "enrich"},
    **dict.fromkeys(
        ("interfaces.agent", "interfaces.from_profile", "interfaces.quoting"), BELOW_FLOW | FLOW | FRONT | AGENT
    ),
    "server": BELOW_FLOW | FLOW | FRONT | {"stores", "importers", "interfaces.agent", "interfaces.tools", "server", ""},
    "interfaces": BELOW_FLOW | FLOW | FRONT | {"disk", "interfaces", "importers", "stores", "embedders", "server", ""},
    "adapters": NOUNS
    | FRONT
    | {"sync", "conversation", "long_term", "context", "context_policy"}
    | {"pace", "paging", "policies.shells", "unfolding"},
    **dict.fromkeys(SHAPES, NOUNS | {"adapters", "policies.shells"}),
    "importers.plain": {"importers", "sync"},
    "importers": NOUNS | FRONT | {"validate", "json_text", "conversation", "importers", "stores.sqlite_url"} | SHAPES,
    "testing": BELOW_FLOW | FLOW | FRONT | {"stores", "testing"},
    "testing.import_kills": BELOW_FLOW | FLOW | FRONT | {"stores", "importers", "testing"},
    **dict.fromkeys(
        (f"testing.surfaces.{way}" for way in ("rest", "tools", "commands")),
        BELOW_FLOW | FLOW | FRONT | {"testing", "interfaces", "server"},
    ),
    "__init__": {"context", "context_policy", "conversation", "errors", "providers", "records", "settings"} | FRONT,
    "__main__": {"interfaces"},
}
SERVER = {str(path.relative_to(PACKAGE)) for path in (PACKAGE / "server").rglob("*.py")} - {"server/keys.py"}
DRIVERS = {
    "sqlite3": {"stores/sqlite_file.py", "interfaces/comparing.py", "importers/sqlite_tables.py"},
    "simsimd": {"vectors.py"},
    "tokenizers": {"embedders/onnx_model.py"},
    "onnxruntime": {"embedders/onnx_model.py"},
    "onnx": {"embedders/onnx_export.py"},
    "httpx": {"wire.py"},
    "fastapi": SERVER,
    "starlette": SERVER,
    "jinja2": {"server/console/pages.py"},
    "uvicorn": {"server/app.py", "server/connections.py", "interfaces/mcp.py"},
    "opentelemetry": {"server/tracing.py"},
    "fastembed": {"embedders/fastembed.py"},
    "psycopg": {f"stores/postgres{part}.py" for part in ("", "_link", "_meaning", "_schema", "_values")}
    | {"importers/postgres_tables.py", "adapters/langchain_postgres.py"},
    "psycopg_pool": {"stores/postgres_link.py"},
    "redis": {"stores/redis_node.py", "importers/redis_keys.py"},
    "azure": {"stores/cosmos_link.py"},
    "chromadb": {"stores/chroma.py"},
    "mcp": {"interfaces/mcp.py"},
    "langchain": {"adapters/langchain.py"},
    "langchain_core": {"adapters/langchain.py", "adapters/langchain_postgres.py"},
    "langgraph": {"adapters/langgraph.py", "adapters/langchain.py"},
    "agents": {"adapters/openai_agents.py"},
    "llama_index": {"adapters/llama_index.py"},
    "pydantic_ai": {"adapters/pydantic_ai.py"},
    "anthropic": {"adapters/anthropic.py"},
}


def _files() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def _room(module: str) -> str:
    if module in SEES:
        return module
    return module.split(".", maxsplit=1)[0]


@cache
def _imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
            if node.module == "recollect":
                found |= {f"recollect.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return found


@pytest.mark.parametrize("path", _files(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_room_imports_only_what_it_may_see(path):
    module = ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__init__")
    allowed = SEES[_room(module)] | {_room(module)}
    for name in _imports(path):
        if name.startswith("recollect."):
            target = name.removeprefix("recollect.")
            rooms = {_room(target), _room(target.split(".")[0] + "." + target.split(".")[1]) if "." in target else ""}
            assert rooms & allowed or target.split(".")[0] in allowed, f"{module} may not see {target}"


@pytest.mark.parametrize("driver", DRIVERS)
def test_a_driver_is_imported_only_in_its_own_files(driver):
    users = {
        str(path.relative_to(PACKAGE))
        for path in _files()
        if driver in {name.split(".")[0] for name in _imports(path)} and "testing" not in path.parts
    }
    assert users <= DRIVERS[driver]


def test_no_product_of_matrices_waits_for_other_threads():
    """`@` computes with as many threads as there are processors, which spin while others use these."""
    products = []
    for path in _files():
        if "testing" not in path.parts:
            tree = ast.parse(path.read_text(encoding="utf-8"))
            products += [path for node in ast.walk(tree) if isinstance(node, ast.BinOp | ast.AugAssign)
                         if isinstance(node.op, ast.MatMult)]  # fmt: skip
    assert products == [], "use np.vecdot or np.einsum, which compute in the thread that calls them"


def test_no_import_hides_inside_a_function():
    hidden = []
    for path in _files():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                hidden += [path for inner in ast.walk(node) if isinstance(inner, ast.Import | ast.ImportFrom)]
    assert hidden == []
