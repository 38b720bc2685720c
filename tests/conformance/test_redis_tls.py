"""Redis over TLS: a self-made certificate is trusted where it is named, and nowhere else.

The test servers have no TLS of their own; a TLS proxy stands in front of a real one, as at many hosts.
"""

from __future__ import annotations

import asyncio
import shutil
import ssl
import subprocess

import pytest

pytest.importorskip("redis", reason="no Redis driver here: install recollect[redis]")

from recollect import Memory
from recollect.errors import RecollectError, Unavailable
from recollect.testing.fakes import HashingEmbedder
from recollect.testing.proxy import Proxy
from recollect.testing.servers.redis import shared_server

pytestmark = pytest.mark.xdist_group("redis")


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    if shutil.which("openssl") is None:
        pytest.skip("no openssl here to make a certificate with")
    folder = tmp_path_factory.mktemp("tls")
    files = ["-keyout", folder / "key.pem", "-out", folder / "certificate.pem"]
    names = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *files, *names],
                   check=True, capture_output=True)  # fmt: skip
    return folder


@pytest.fixture
async def port(certificate):
    """Where a real Redis is reached over TLS."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate / "certificate.pem", certificate / "key.pem")
    async with Proxy(shared_server("redis").port, tls=context) as way:
        yield way.port


def opened(url):
    return Memory.open(url, embedder=HashingEmbedder(), worker=False, busy_timeout_s=1.0)


async def test_memories_are_stored_over_tls_with_a_named_certificate(port, certificate):
    url = f"rediss://127.0.0.1:{port}/0?prefix=tls&ssl_ca_certs={certificate}/certificate.pem"
    async with opened(url) as memory:
        ann = memory.user("ann")
        await asyncio.gather(*(ann.session("s").add_message("user", f"number {n}") for n in range(20)))
        await memory.work()
        assert len(await ann.session("s").window()) == 20
        assert memory.describe()["store"]["url"].startswith("rediss://")
        await ann.erase()


async def test_an_untrusted_certificate_is_refused(port):
    with pytest.raises(Unavailable):
        async with asyncio.timeout(30):
            await opened(f"rediss://127.0.0.1:{port}/0?prefix=tls").start()


async def test_a_tls_server_is_not_spoken_to_in_the_clear(port):
    with pytest.raises(RecollectError):
        async with asyncio.timeout(30):
            await opened(f"redis://127.0.0.1:{port}/0?prefix=tls").start()
