"""What a Cosmos DB URL says: the account, the database, the container, and the key.

    cosmos://ACCOUNT.documents.azure.com:443/DATABASE/CONTAINER?key=...
    cosmos://127.0.0.1:8081/DATABASE/CONTAINER?key=...&emulator=yes

Without `key`, the key is read from the variable AZURE_COSMOS_KEY. An option that is not in the table below
is an error, so a misspelt one is never silently ignored.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

from recollect.errors import ValidationError

SCHEME = "cosmos"
PORT = 443
KEY_VARIABLE = "AZURE_COSMOS_KEY"
OPTIONS = {
    "key": f"the account's key; better in {KEY_VARIABLE}",
    "create": "'no' refuses a container that does not exist",
    "emulator": "'yes' speaks plain HTTP to an emulator on this machine",
}
_NAME = re.compile(r"[A-Za-z0-9_.\-]{1,255}\Z")
_FORM = "write cosmos://ACCOUNT.documents.azure.com:443/DATABASE/CONTAINER"


@dataclass(frozen=True, slots=True)
class CosmosUrl:
    """A parsed URL. Neither its text form nor its repr shows the key."""

    host: str
    port: int
    database: str
    container: str
    key: str = field(default="", repr=False)
    create: bool = True
    emulator: bool = False

    @property
    def endpoint(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'http' if self.emulator else 'https'}://{host}:{self.port}/"

    def __str__(self) -> str:
        _, _, place = self.endpoint.partition("://")
        return f"{SCHEME}://{place}{self.database}/{self.container}{'?emulator=yes' if self.emulator else ''}"


def read_url(url: str, environ: Mapping[str, str]) -> CosmosUrl:
    """Parse a URL; an invalid one raises a `ValidationError` that shows no part of it."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port or PORT
        options = _options(parts.query)
    except ValueError:
        raise _wrong(_FORM) from None
    names = parts.path.strip("/").split("/")
    if parts.scheme != SCHEME or not host or parts.username or parts.fragment or len(names) != 2:
        raise _wrong(_FORM)
    if not all(_NAME.match(name) for name in names):
        raise _wrong("database and container: 1 to 255 letters, digits, '_', '-' and '.'")
    key = options.get("key") or environ.get(KEY_VARIABLE, "")
    if not key:
        raise _wrong(f"no key: set {KEY_VARIABLE}, or write ?key=...")
    create, emulator = _word(options, "create", "yes"), _word(options, "emulator", "no")
    return CosmosUrl(host, port, names[0], names[1], key, create, emulator)


def _options(query: str) -> dict[str, str]:
    # Keys are base64, where '+' is a digit: parsing the query as a form would turn it into a space.
    pairs = [pair.partition("=") for pair in query.split("&") if pair]
    unknown = {name for name, _, _ in pairs} - set(OPTIONS)
    if unknown:
        raise _wrong(f"unknown option; use one of {', '.join(OPTIONS)}")
    return {name: unquote(value) for name, _, value in pairs}


def _word(options: Mapping[str, str], name: str, default: str) -> bool:
    value = options.get(name, default)
    if value not in ("yes", "no"):
        raise _wrong(f"{name}: yes or no")
    return value == "yes"


def _wrong(message: str) -> ValidationError:
    return ValidationError(message, field="url")
