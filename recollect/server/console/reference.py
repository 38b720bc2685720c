"""The page that documents the API: every call with what it takes, and as a line that can be copied into a terminal.

It is built from the same description that `/openapi.json` gives to programs, so the two cannot disagree.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

from starlette.requests import Request
from starlette.responses import Response

from recollect.server.console.door import ANY_USER, router
from recollect.server.console.pages import Chosen, Frame, frame_of, page
from recollect.server.description import GROUPS
from recollect.server.routing import NEEDS, PUBLIC, WHOLE_ORG, service_of

routes = router()

READING = ("get", "head")
KEY = "$RECOLLECT_KEY"
"""Placeholder for the key in a line: the shell fills it in, so that the key does not appear in any history."""

Table = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Taken:
    """Something that a call takes: where it goes, what it is, and whether it is required."""

    name: str
    place: str
    kind: str
    about: str
    is_needed: bool


@dataclass(frozen=True, slots=True)
class Call:
    """One call of the API."""

    method: str
    path: str
    about: str
    needs: str
    is_open: bool
    takes: tuple[Taken, ...]
    gives: tuple[str, ...]
    line: str


@dataclass(frozen=True, slots=True)
class Group:
    """Calls that belong together."""

    name: str
    title: str
    calls: tuple[Call, ...]


@dataclass(frozen=True, slots=True)
class Reference:
    """The whole API."""

    groups: tuple[Group, ...]
    count: int
    needs_key: bool


@routes.get("/docs", openapi_extra=ANY_USER)
async def reference(request: Request, chosen: Chosen = "") -> Response:
    """The API, for people."""
    needs_key = await service_of(request).keys.exist()
    calls = _Described(request.app.openapi(), frame_of(request), str(request.base_url).rstrip("/"), needs_key)
    groups = tuple(Group(name, title, found) for name, title in GROUPS.items() if (found := tuple(calls.tagged(name))))
    return page(request, "docs", Reference(groups, sum(len(each.calls) for each in groups), needs_key))


class _Described:
    """The description that programs get, turned into something for people."""

    def __init__(self, described: Table, frame: Frame, address: str, needs_key: bool) -> None:
        self._described = described
        self._frame = frame
        self._address = address
        self._needs_key = needs_key

    def tagged(self, tag: str) -> Iterator[Call]:
        """The calls of a group, in the order of the description."""
        for path, methods in self._described["paths"].items():
            for method, told in methods.items():
                if tag in told["tags"]:
                    yield self._call(method, path, told)

    def _call(self, method: str, path: str, told: Table) -> Call:
        needs = "" if told.get(PUBLIC) else told.get(NEEDS) or ("read" if method in READING else "write")
        return Call(
            method.upper(),
            path,
            told.get("description", ""),
            needs,
            not needs or self._may(needs, whole_org=bool(told.get(WHOLE_ORG))),
            (*(_parameter(each) for each in told.get("parameters", ())), *self._fields(told)),
            tuple(self._gives(told)),
            self._line(method, path, told, bool(needs)),
        )

    def _may(self, needs: str, *, whole_org: bool) -> bool:
        """Whether the key that the reader signed in with may do it."""
        principal = self._frame.principal
        return principal is not None and principal.may(needs) and not (whole_org and principal.user is not None)

    def _fields(self, told: Table) -> Iterator[Taken]:
        shapes = self._bodies(told)
        for shape in shapes:
            for name, schema in shape.get("properties", {}).items():
                is_needed = name in shape.get("required", ()) and len(shapes) == 1
                yield Taken(name, "body", self._kind(schema), schema.get("description", ""), is_needed)

    def _gives(self, told: Table) -> Iterator[str]:
        """The names of the fields in a successful response."""
        for status, answer in told["responses"].items():
            if status.startswith("2"):
                schema = self._found(answer.get("content", {}).get("application/json", {}).get("schema", {}))
                yield from schema.get("properties", {})

    def _bodies(self, told: Table) -> list[Table]:
        """The shapes that the body may have."""
        content = told.get("requestBody", {}).get("content", {})
        schemas = [self._found(each.get("schema", {})) for each in content.values()]
        return [self._found(one) for each in schemas for one in each.get("anyOf") or each.get("oneOf") or [each]]

    def _found(self, schema: Table) -> Table:
        """A schema, or the one it refers to."""
        if "$ref" not in schema:
            return schema
        found: Table = self._described["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
        return found

    def _kind(self, schema: Table) -> str:
        return _kind(self._found(schema))

    # ── as a line for a terminal ─────────────────────────────────────────────────────────────────

    def _line(self, method: str, path: str, told: Table, is_guarded: bool) -> str:
        """The call with its example body, ready to paste."""
        words = ["curl"] if method == "get" else ["curl", "-X", method.upper()]
        words.append(shlex.quote(self._address + self._with_examples(path, told)))
        if is_guarded and self._needs_key:
            words += ["-H", f'"Authorization: Bearer {KEY}"']
        body = self._body(told)
        if body:
            kind = next(iter(told["requestBody"]["content"]))
            # With `-d`, a file put in place of the example (`@file`) would lose its line ends.
            words += ["-H", shlex.quote(f"Content-Type: {kind}"), "--data-binary" if "\n" in body else "-d"]
            words.append(shlex.quote(body))
        return " ".join(words)

    def _with_examples(self, path: str, told: Table) -> str:
        examples = {each["name"]: str(_example(each)) for each in told.get("parameters", ())}
        if self._frame.user:
            examples["user"] = self._frame.user
        for each in told.get("parameters", ()):
            if each["in"] == "path":
                path = path.replace(f"{{{each['name']}}}", quote(examples[each["name"]], safe=""))
        needed = {each["name"]: examples[each["name"]] for each in _needed(told)}
        return f"{path}?{urlencode(needed)}" if needed else path

    def _body(self, told: Table) -> str:
        content = told.get("requestBody", {}).get("content", {})
        given = [each["example"] for each in content.values() if "example" in each]
        given += [each for shape in self._bodies(told) for each in shape.get("examples", ())[:1]]
        if not given:
            return "{}" if content else ""
        example = given[0]
        if isinstance(example, dict) and "user_id" in example and self._frame.user:
            example = example | {"user_id": self._frame.user}
        return example if isinstance(example, str) else json.dumps(example, ensure_ascii=False)


def _needed(told: Table) -> list[Table]:
    """The parameters without which a call is refused."""
    return [each for each in told.get("parameters", ()) if each["in"] == "query" and each.get("required")]


def _parameter(told: Table) -> Taken:
    schema = told["schema"]
    about = told.get("description", "")
    if schema.get("default") not in (None, ""):
        about = f"{about} Default: {schema['default']}.".strip()
    return Taken(told["name"], told["in"], _kind(schema), about, told.get("required", False))


def _kind(schema: Table) -> str:
    """The type of a value, in a word or two.

    >>> _kind({"anyOf": [{"type": "string"}, {"type": "null"}]}), _kind({"enum": ["fast", "best"]})
    ('string', 'fast or best')
    >>> _kind({"type": "array", "items": {"type": "string"}}), _kind({"type": "array", "items": {"enum": ["a", "b"]}})
    ('list of strings', 'list of a or b')
    """
    if "anyOf" in schema:
        kinds = [_kind(each) for each in schema["anyOf"] if each.get("type") != "null"]
        return " or ".join(dict.fromkeys(kinds))
    if "enum" in schema or "const" in schema:
        return " or ".join(str(each) for each in schema.get("enum", [schema.get("const")]))
    if schema.get("type") == "array":
        items = schema.get("items", {})
        if "enum" in items:  # names to be copied as they are
            return f"list of {_kind(items)}"
        return f"list of {_kind(items)}s" if items.get("type") else "list"
    return str(schema.get("type", "object" if "$ref" in schema else "any"))


def _example(told: Table) -> Any:
    """A value to show: the description's example, the first allowed value, or the name in capitals as a placeholder."""
    schema = told["schema"]
    given = [*schema.get("examples", ()), *schema.get("enum", ())]
    return given[0] if given else told["name"].upper()
