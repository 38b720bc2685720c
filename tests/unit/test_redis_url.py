"""A Redis URL says everything or is refused, and never shows its password."""

from __future__ import annotations

import pytest

from recollect.errors import ValidationError
from recollect.stores.redis_url import read_url


def test_a_url_with_only_a_host_gets_the_usual_port_database_and_prefix():
    url = read_url("redis://cache")
    assert (url.addresses, url.database, url.prefix) == ((("cache", 6379),), 0, "recollect")
    assert (url.wait_replicas, url.create, url.accept_emptied, url.tls, url.cluster) == (0, True, False, False, False)


def test_a_url_sets_address_credentials_and_safety_options():
    url = read_url("rediss://me:p%40ss%2F@[::1]:7000/3?prefix=acme&wait=1&wait_ms=250&create=no&ssl_ca_certs=/ca.pem")
    assert (url.addresses, url.database) == ((("::1", 7000),), 3)
    assert (url.username, url.password) == ("me", "p@ss/")
    assert (url.prefix, url.wait_replicas, url.wait_ms, url.create) == ("acme", 1, 250, False)
    assert (url.tls, url.tls_files) == (True, (("ssl_ca_certs", "/ca.pem"),))


def test_a_cluster_is_named_by_some_of_its_nodes():
    url = read_url("redis+cluster://:secret@one:7000,two:7001?prefix=acme")
    assert (url.cluster, url.addresses) == (True, (("one", 7000), ("two", 7001)))
    assert str(url) == "redis+cluster://one:7000,two:7001?prefix=acme"


def test_a_url_never_shows_its_password():
    url = read_url("redis://me:secret@cache/2")
    assert "secret" not in f"{url} {url!r}"
    assert str(url) == "redis://me@cache:6379/2?prefix=recollect"


@pytest.mark.parametrize(
    "wrong",
    [
        "redis://:secret@cache/x",
        "redis://:secret@cache:port",
        "redis://:secret@cache/-1",
        "redis://:secret@one,two",
        "redis+cluster://:secret@one/1",
        "redis://:secret@cache?prefx=acme",
        "redis://:secret@cache?prefix={x}",
        "redis://:secret@cache?prefix=",
        "redis://:secret@cache?wait=-1",
        "redis://:secret@cache?wait=many",
        "redis://:secret@cache?create=perhaps",
        "redis://:secret@cache?emptied=",
    ],
)
def test_an_invalid_url_is_refused_without_showing_its_password(wrong):
    with pytest.raises(ValidationError) as refusal:
        read_url(wrong)
    assert refusal.value.field == "url"
    assert "secret" not in str(refusal.value)
