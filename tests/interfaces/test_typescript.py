"""The TypeScript package: it matches the real API, it builds, and its own tests pass on this server."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "typescript"
PAGES = (PACKAGE / "README.md", ROOT / "docs" / "how-to" / "ai-sdk.md")
PATIENT = ("--fetch-retries", "1", "--fetch-timeout", "20000")
BLOCK = re.compile(r"^```ts\n(.*?)^```$", re.M | re.S)

pytestmark = [pytest.mark.timeout(600), pytest.mark.xdist_group("npm")]


@pytest.fixture(scope="module")
def package(tmp_path_factory) -> Path:
    """A copy of the package with its build dependencies: from the folder itself, or from npm."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("no Node and npm here")
    folder = tmp_path_factory.mktemp("npm") / "typescript"
    shutil.copytree(PACKAGE, folder, ignore=shutil.ignore_patterns("dist", "build", "node_modules"))
    if (PACKAGE / "node_modules").is_dir():
        (folder / "node_modules").symlink_to(PACKAGE / "node_modules")
    else:
        installed = npm(folder, "ci", *PATIENT)
        if installed.returncode and re.search("E(NOTFOUND|CONNREFUSED|TIMEDOUT|AI_AGAIN|40[34])", installed.stderr):
            pytest.skip("npm cannot reach its registry here")
        assert installed.returncode == 0, installed.stderr
    return folder


@pytest.fixture(scope="module")
def built(package) -> Path:
    ran = npm(package, "run", "build")
    assert ran.returncode == 0, ran.stdout
    return package


def npm(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environ = dict(os.environ) | {"RECOLLECT_PYTHON": sys.executable, "PYTHONPATH": str(ROOT)}
    return subprocess.run(["npm", *words], cwd=folder, env=environ, capture_output=True, text=True, timeout=500)


def test_its_own_tests_pass_on_a_real_server_with_a_real_agent(package):
    ran = npm(package, "test")
    counted = dict(re.findall(r"^# (tests|pass|fail) (\d+)$", ran.stdout, re.M))
    assert ran.returncode == 0, ran.stdout[-4_000:]
    assert int(counted["tests"]) == int(counted["pass"]) > 40


def test_the_packed_package_can_be_imported_and_needs_nothing_else(built):
    packed = json.loads(npm(built, "pack", "--json", "--silent").stdout)[0]
    names = {each["path"] for each in packed["files"]}
    assert {"dist/index.js", "dist/index.d.ts", "README.md", "package.json"} <= names
    assert not [name for name in names if name.startswith(("test/", "build/", "node_modules/"))]
    alone = built.parent / "alone"
    shutil.unpack_archive(built / packed["filename"], alone, "gztar")
    script = "import('./package/dist/index.js').then((all) => console.log(Object.keys(all).join()))"
    ran = subprocess.run(["node", "-e", script], cwd=alone, capture_output=True, text=True, timeout=60)
    assert ran.stdout == "RecollectError,RecollectProvider\n", ran.stderr
    assert "dependencies" not in json.loads((alone / "package" / "package.json").read_text())


def test_the_examples_on_its_pages_match_the_types(built):
    blocks = [block for page in PAGES for block in BLOCK.findall(page.read_text(encoding="utf-8"))]
    assert len(blocks) >= 5
    for place, block in enumerate(blocks):
        (built / "test" / f"page{place}.ts").write_text(block, encoding="utf-8")
    checked = npm(built, "run", "check")
    assert checked.returncode == 0, checked.stdout


def test_the_lock_file_names_no_download_address():
    assert "://" not in (PACKAGE / "package-lock.json").read_text(encoding="utf-8")
