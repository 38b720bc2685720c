"""Create benchmarks/.venv: the peers at the versions that were measured, and Recollect as an editable install.

Run with any Python 3.11 or later: `python3 benchmarks/environment.py`. It does nothing when the environment already
matches requirements.txt.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import venv
from pathlib import Path

HERE = Path(__file__).resolve().parent
REQUIREMENTS = HERE / "requirements.txt"
ENVIRONMENT = HERE / ".venv"
STAMP = ENVIRONMENT / "made-from"
PYTHON = ENVIRONMENT / ("Scripts" if sys.platform == "win32" else "bin") / "python"


def main() -> int:
    wanted = hashlib.sha256(REQUIREMENTS.read_bytes()).hexdigest()
    if STAMP.exists() and STAMP.read_text() == wanted and PYTHON.exists():
        return 0
    print("creating benchmarks/.venv (about 700 MB, a minute or two) ...", flush=True)
    venv.create(ENVIRONMENT, with_pip=True, clear=True, symlinks=sys.platform != "win32")
    if install("--no-deps", "--require-hashes", "--requirement", str(REQUIREMENTS)) != 0:
        install_one_by_one()
    if install("--no-deps", "--no-build-isolation", "--editable", str(HERE.parent)) != 0:
        print("Recollect itself could not be installed", file=sys.stderr)
        return 1
    STAMP.write_text(wanted)
    return 0


def install(*arguments: str) -> int:
    """Run pip in the environment and return its exit status."""
    command = [str(PYTHON), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *arguments]
    return subprocess.run(command, check=False).returncode


def install_one_by_one() -> None:
    """Leave out what has no build for this platform; compare.py reports it as skipped."""
    for line in (HERE / "requirements.in").read_text().splitlines():
        requirement = line.partition("#")[0].strip()
        if requirement and install(requirement) != 0:
            print(f"left out: {requirement}", file=sys.stderr)
    install(str(HERE.parent))  # for its dependencies; the editable install then replaces it


if __name__ == "__main__":
    sys.exit(main())
