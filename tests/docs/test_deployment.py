"""The deployment files name settings, commands and extras that exist. `make image` starts the containers."""

from __future__ import annotations

import configparser
import json
import re
import shlex
import tomllib
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from recollect.interfaces.cli import app
from recollect.settings import PREFIX, Settings

ROOT = Path(__file__).resolve().parents[2]
COMPOSE = yaml.safe_load((ROOT / "examples" / "compose.yml").read_text())
DOCKERFILE = (ROOT / "Dockerfile").read_text()
UNIT = ROOT / "examples" / "recollect.service"
PAGE = (ROOT / "docs" / "how-to" / "deployment.md").read_text()


def settings_of(environ: dict[str, str]) -> Settings:
    """The settings an environment yields; every variable of ours in it must be one that is read."""
    ours = {name for name in environ if name.startswith(PREFIX)}
    known = {PREFIX + name.upper() for name in Settings.__dataclass_fields__}
    assert ours <= known, ours - known
    return Settings.read(environ, ROOT / "no-such-folder")


def is_understood(arguments: list[str]) -> None:
    """Check that the command exists and takes these options."""
    shown = CliRunner().invoke(app, [arguments[0], "--help"], env={"COLUMNS": "200", "TERM": "dumb"})
    assert shown.exit_code == 0
    for option in (each for each in arguments[1:] if each.startswith("--")):
        assert option in shown.stdout, option


def test_the_image_installs_existing_extras_and_starts_an_existing_command():
    (extras,) = re.findall(r"'\.\[([a-z,-]+)\]'", DOCKERFILE)
    offered = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert {"server", "mcp", "postgres", "redis"} <= set(extras.split(",")) <= set(offered)
    (entry,), (command,) = (re.findall(rf"^{name} (\[.*\])$", DOCKERFILE, re.M) for name in ("ENTRYPOINT", "CMD"))
    assert json.loads(entry) == ["recollect"]
    is_understood(json.loads(command))
    chosen = settings_of(dict(re.findall(r"(RECOLLECT_\w+)=(\S+)", DOCKERFILE)))
    assert (chosen.url, chosen.host, chosen.port) == ("sqlite:////data/recollect.db", "0.0.0.0", 8765)
    assert re.search(r"^USER [1-9]", DOCKERFILE, re.M) and f"EXPOSE {chosen.port}" in DOCKERFILE


def test_everything_the_image_copies_exists():
    ignored = (ROOT / ".dockerignore").read_text().split()
    for line in re.findall(r"^COPY (?!--from)(.+)$", DOCKERFILE, re.M):
        for name in line.split()[:-1]:
            assert (ROOT / name).exists() and f"!{name}" in ignored


@pytest.mark.parametrize("service", ["server", "worker"])
def test_the_services_use_existing_settings_and_commands(service):
    told = COMPOSE["services"][service]
    is_understood(told["command"])
    environ = {
        name: re.sub(r"\$\{POSTGRES_PASSWORD:\?[^}]*\}", "secret", value) for name, value in told["environment"].items()
    }
    chosen = settings_of(environ)
    assert chosen.url == "postgresql://recollect:secret@database/recollect" and not chosen.worker
    assert chosen.layers == dict.fromkeys(("working", "conversation", "entity_cache"), "redis://redis:6379/0")
    assert {"database", "redis"} == set(told["depends_on"]) <= set(COMPOSE["services"])


def test_redis_keeps_its_data_and_the_database_has_vectors():
    command = " ".join(COMPOSE["services"]["redis"]["command"])
    assert "--appendonly yes" in command and "--maxmemory-policy noeviction" in command
    assert "pgvector" in COMPOSE["services"]["database"]["image"]
    named = {each.split(":")[0] for name in ("database", "redis") for each in COMPOSE["services"][name]["volumes"]}
    assert named == set(COMPOSE["volumes"])


def test_the_unit_starts_an_existing_command_and_is_hardened():
    unit = configparser.ConfigParser(strict=False, interpolation=None, delimiters=("=",))
    unit.optionxform = str
    unit.read(UNIT)
    program, *arguments = shlex.split(unit["Service"]["ExecStart"])
    assert Path(program).name == "recollect"
    is_understood(arguments)
    name, _, value = unit["Service"]["Environment"].partition("=")
    folder = f"/var/lib/{unit['Service']['StateDirectory']}"
    assert settings_of({name: value}).url.startswith(f"sqlite:///{folder}/")
    for lock in ("NoNewPrivileges", "PrivateDevices", "PrivateTmp", "ProtectHome", "RestrictSUIDSGID"):
        assert unit["Service"][lock] == "yes"
    assert int(unit["Service"]["TimeoutStopSec"]) > 10


def test_the_page_links_to_every_deployment_file():
    for name in ("Dockerfile", "examples/compose.yml", "examples/recollect.service", "examples/grafana/recollect.json"):
        assert f"../../{name}" in PAGE and (ROOT / name).exists()
