"""The image and the compose file do what the deployment page says. They need a container engine: `make image`."""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ENGINE = shutil.which("docker")
PATIENCE_S = 60

pytestmark = [
    pytest.mark.skipif(not os.environ.get("RECOLLECT_TEST_IMAGE"), reason="builds an image: `make image` runs it"),
    pytest.mark.skipif(ENGINE is None, reason="no `docker` here"),
    pytest.mark.xdist_group("image"),
]


def docker(*arguments: str, **environ: str) -> str:
    done = subprocess.run(
        [str(ENGINE), *arguments], cwd=ROOT, env=os.environ | environ, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"docker {' '.join(arguments)}\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def image() -> Iterator[str]:
    name = f"recollect-test-{secrets.token_hex(4)}"
    docker("build", "--quiet", "--tag", name, ".")
    yield name
    docker("rmi", name)


@pytest.fixture
def volume() -> Iterator[str]:
    name = f"recollect-test-{secrets.token_hex(4)}"
    docker("volume", "create", name)
    yield name
    docker("volume", "rm", "--force", name)


@pytest.fixture
def container(image: str, volume: str) -> Iterator[tuple[str, str, str]]:
    """A server started as the page says: the container's name, its address, and a key."""
    key = key_in(docker("run", "--rm", "-v", f"{volume}:/data", image, "keys", "create", "--org", "acme"))
    name = docker("run", "-d", "-v", f"{volume}:/data", "-p", "127.0.0.1:0:8765", image).strip()
    yield name, "http://" + docker("port", name, "8765").split()[0], key
    docker("rm", "--force", name)


@pytest.fixture
def stack(image: str) -> Iterator[tuple[list[str], str]]:
    """Everything in the compose file, under its own project name."""
    secret = {"POSTGRES_PASSWORD": secrets.token_hex(24), "CONSOLE_SECRET": secrets.token_hex(32)}
    told = json.loads(docker("compose", "-f", "examples/compose.yml", "config", "--format", "json", **secret))
    told["name"] = image
    for service in (told["services"]["server"], told["services"]["worker"]):
        service["image"] = image
        del service["build"]
    told["services"]["server"]["ports"] = ["127.0.0.1:0:8765"]
    for kept in (*told["volumes"].values(), *told["networks"].values()):
        kept.pop("name", None)
    file = ROOT / "examples" / f".{image}.json"
    file.write_text(json.dumps(told))
    compose = ["compose", "-f", str(file)]
    try:
        key = key_in(docker(*compose, "run", "--rm", "-T", "server", "keys", "create", "--org", "acme"))
        docker(*compose, "up", "--detach")
        yield compose, key
    finally:
        docker(*compose, "down", "--volumes")
        file.unlink()


def key_in(shown: str) -> str:
    found = re.search(r"^rk_\S+", shown, re.M)
    assert found, shown
    return found[0]


def asked(address: str, path: str, key: str = "", body: object = None) -> dict[str, object]:
    """The server's answer, as soon as it gives one."""
    request = urllib.request.Request(address + path, json.dumps(body).encode() if body else None)
    request.add_header("content-type", "application/json")
    if key:
        request.add_header("authorization", f"Bearer {key}")
    until = time.monotonic() + PATIENCE_S
    while True:
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                got: dict[str, object] = json.load(answer)
                return got
        except (ConnectionError, urllib.error.URLError) as error:
            if isinstance(error, urllib.error.HTTPError) or time.monotonic() > until:
                raise
            time.sleep(0.2)


def said(address: str, key: str, chat: str, text: str) -> str:
    return str(asked(address, "/api/chat", key, {"user_id": "ann", "chat_id": chat, "message": text})["reply"])


def remembers(address: str, key: str) -> bool:
    """Whether the server knows where Ann lives, at the latest after the worker has run."""
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        if "Lisbon" in said(address, key, "asking", "Where do I live?"):
            return True
        time.sleep(0.2)
    return False


def test_a_container_does_not_serve_without_a_key(image):
    refused = subprocess.run([str(ENGINE), "run", "--rm", image], capture_output=True, text=True, check=False)
    assert refused.returncode == 2 and "recollect keys create" in refused.stderr


def test_a_container_remembers_across_a_restart_and_stops_without_being_killed(container):
    name, address, key = container
    assert asked(address, "/ready")["status"] == "ready"
    said(address, key, "one", "I moved to Lisbon in May.")
    assert remembers(address, key)
    assert "checked" in docker("exec", name, "recollect", "backup", "/data/monday.db")
    docker("stop", name)
    assert docker("inspect", name, "--format", "{{.State.ExitCode}}").strip() == "0"
    docker("start", name)
    assert remembers("http://" + docker("port", name, "8765").split()[0], key)


def test_a_container_runs_without_root_and_writes_only_to_its_volume(image, volume):
    assert docker("run", "--rm", "--entrypoint", "id", image, "-u").strip() == "10001"
    locked = ("--read-only", "--tmpfs", "/tmp", "--cap-drop", "ALL", "--security-opt", "no-new-privileges")
    docker("run", "--rm", *locked, "-v", f"{volume}:/data", image, "add", "Ann likes tea.", "--user", "ann")
    found = docker("run", "--rm", *locked, "-v", f"{volume}:/data", image, "search", "tea", "--user", "ann")
    assert "Ann likes tea." in found


def test_the_containers_health_check_passes(container):
    name, _, _ = container
    until = time.monotonic() + PATIENCE_S
    while (state := docker("inspect", name, "--format", "{{.State.Health.Status}}").strip()) == "starting":
        assert time.monotonic() < until
        time.sleep(0.5)
    assert state == "healthy"


def test_the_compose_file_serves_from_postgresql_and_redis_with_separate_workers(stack):
    compose, key = stack
    address = "http://" + docker(*compose, "port", "server", "8765").strip()
    stores = asked(address, "/health")["stores"]
    assert isinstance(stores, dict) and {each["store"] for each in stores.values()} == {"redis", "postgres"}
    said(address, key, "one", "I moved to Lisbon in May.")
    assert remembers(address, key)
    docker(*compose, "kill", "worker")
    said(address, key, "one", "My name is Ann Smith.")
    docker(*compose, "up", "--detach")
    docker(*compose, "restart", "server")
    assert remembers("http://" + docker(*compose, "port", "server", "8765").strip(), key)
