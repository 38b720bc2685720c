"""Embedders by name. Each driver has one file here, which is loaded when its name is used.

static            word vectors inside this package: the default
minilm            all-MiniLM-L6-v2 on onnxruntime, after `recollect models build`
onnx:FOLDER       any sentence encoder as `model.onnx` beside its `tokenizer.json`
fastembed:MODEL   any text model of fastembed, which downloads it on first use
openai:MODEL      any endpoint compatible with OpenAI's; `openai:MODEL@512` asks for 512 numbers
none              words alone
"""

from __future__ import annotations

import logging
from importlib import import_module
from pathlib import Path
from types import ModuleType

from recollect.embedders import models
from recollect.errors import EmbeddingError, ValidationError
from recollect.providers import Embedder, StaticEmbedder
from recollect.settings import Settings

_log = logging.getLogger(__name__)

NAMES = "static, minilm, onnx:FOLDER, fastembed:MODEL, openai:MODEL or none"


def open_embedder(name: str, settings: Settings, field: str = "embedder") -> Embedder | None:
    """The embedder with that name; `EmbeddingError` says what is missing. Nothing is sent or downloaded yet.

    >>> open_embedder("static", Settings()).name
    'wordllama-l2-256'
    """
    kind, colon, detail = name.partition(":")
    if name == "none":
        return None
    if name == "static":
        return StaticEmbedder()
    if name == "minilm":
        return _opened_folder(models.MINILM, models.folder_of(settings.models, models.MINILM))
    if colon and detail and kind == "onnx":
        folder = Path(detail).expanduser()
        return _opened_folder(folder.name, folder)
    if colon and detail and kind == "fastembed":
        fastembed: Embedder = _driver("fastembed", "fastembed").FastEmbedder(detail)
        return fastembed
    if colon and detail and kind == "openai":
        endpoint = _driver("endpoint", "openai").EndpointEmbedder
        remote: Embedder = endpoint(detail, url=settings.embedder_url, key=settings.embedder_key)
        return remote
    raise ValidationError(f"must be {NAMES}", field=field)


def open_or_warn(name: str, settings: Settings) -> Embedder | None:
    """The embedder with that name, or None and a warning when something it needs is missing."""
    try:
        return open_embedder(name, settings)
    except EmbeddingError as error:
        _log.warning("Search finds words only, not meaning. %s", error)
        return None


def open_earlier(embedder: Embedder | None, settings: Settings) -> Embedder | None:
    """The embedder of older memories, if it differs from the present one and can still be used."""
    if isinstance(embedder, StaticEmbedder) and settings.embedder_before == "static":
        return None
    try:
        earlier = open_embedder(settings.embedder_before, settings, "embedder_before") if embedder else None
    except (EmbeddingError, ImportError):
        return None  # reported where memories of another embedder are encountered
    return None if earlier is None or embedder is None or earlier.name == embedder.name else earlier


def _opened_folder(name: str, folder: Path) -> Embedder:
    models.check(folder)
    embedder: Embedder = _driver("onnx_model", "minilm").OnnxEmbedder(name, folder)
    return embedder


def _driver(module: str, extra: str) -> ModuleType:
    try:
        return import_module(f"recollect.embedders.{module}")
    except ImportError as error:
        raise EmbeddingError(f'This embedder needs more packages. Run `pip install "recollect[{extra}]"`.') from error
