"""What a Redis URL says: where the servers are, how to log in, and how careful to be.

    redis://user:password@host:6379/0?prefix=recollect      one server (rediss:// with TLS)
    redis+cluster://host:7000,host:7001?wait=1              a Cluster, by some of its nodes

An option that is not in the table below is an error, so a misspelt one is never silently ignored.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from recollect.errors import ValidationError

SCHEMES = ("redis", "rediss", "redis+cluster", "rediss+cluster")
OPTIONS = {
    "prefix": "what all keys begin with",
    "wait": "how many replicas must have a commit before it returns",
    "wait_ms": "how long to wait for them",
    "create": "'no' refuses a server that holds nothing yet",
    "emptied": "'accept' continues with what is left after a server lost its data",
    "ssl_ca_certs": "a file with the certificates to trust",
    "ssl_certfile": "a file with our own certificate",
    "ssl_keyfile": "a file with its key",
}
PORT = 6379
WAIT_MS = 1_000
REPLICAS_MAX = 16
_PREFIX = re.compile(r"[A-Za-z0-9_.\-]{1,64}\Z")

Address = tuple[str, int]


@dataclass(frozen=True, slots=True)
class RedisUrl:
    """A parsed URL. Its text form never shows the password."""

    scheme: str
    addresses: tuple[Address, ...]
    database: int = 0
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    prefix: str = "recollect"
    wait_replicas: int = 0
    wait_ms: int = WAIT_MS
    create: bool = True
    accept_emptied: bool = False
    tls_files: tuple[tuple[str, str], ...] = ()

    @property
    def tls(self) -> bool:
        return self.scheme.startswith("rediss")

    @property
    def cluster(self) -> bool:
        return self.scheme.endswith("+cluster")

    def __str__(self) -> str:
        login = f"{quote(self.username, safe='')}@" if self.username else ""
        hosts = ",".join(f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in self.addresses)
        path = "" if self.cluster else f"/{self.database}"
        return f"{self.scheme}://{login}{hosts}{path}?prefix={self.prefix}"


def read_url(url: str) -> RedisUrl:
    """Parse a URL; an invalid one raises a `ValidationError` that shows no part of it."""
    try:
        parts = urlsplit(url)
        login, _, hosts = parts.netloc.rpartition("@")
        username, _, password = login.partition(":")
        addresses = tuple(_address(each) for each in hosts.split(","))
        options = dict(parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query)))
        database = int(parts.path.strip("/") or 0)
    except ValueError:
        raise _wrong("write redis://host:port/0, or redis+cluster://host:port,host:port") from None
    cluster = parts.scheme.endswith("+cluster")
    if parts.scheme not in SCHEMES or database < 0 or (cluster and database) or (len(addresses) > 1 and not cluster):
        raise _wrong("one server is redis://host:port/0, a Cluster redis+cluster://host:port,host:port")
    unknown = set(options) - set(OPTIONS)
    if unknown:
        raise _wrong(f"unknown option; use one of {', '.join(OPTIONS)}")
    return RedisUrl(
        parts.scheme,
        addresses,
        database,
        unquote(username) or None,
        unquote(password) or None,
        _prefix(options.get("prefix", "recollect")),
        _number(options.get("wait", "0"), REPLICAS_MAX, "wait"),
        _number(options.get("wait_ms", str(WAIT_MS)), 60_000, "wait_ms"),
        _word(options.get("create", "yes"), ("yes", "no"), "create") == "yes",
        _word(options.get("emptied", "refuse"), ("refuse", "accept"), "emptied") == "accept",
        tuple((name, value) for name, value in options.items() if name.startswith("ssl_")),
    )


def _address(text: str) -> Address:
    parts = urlsplit(f"//{text}")
    return parts.hostname or "localhost", parts.port or PORT


def _prefix(value: str) -> str:
    if not _PREFIX.match(value):
        raise _wrong("prefix: 1 to 64 letters, digits, '_', '-' and '.'")
    return value


def _number(value: str, most: int, name: str) -> int:
    if not (value.isascii() and value.isdigit()) or int(value) > most:
        raise _wrong(f"{name}: a whole number up to {most}")
    return int(value)


def _word(value: str, allowed: tuple[str, ...], name: str) -> str:
    if value not in allowed:
        raise _wrong(f"{name}: {' or '.join(allowed)}")
    return value


def _wrong(message: str) -> ValidationError:
    return ValidationError(message, field="url")
