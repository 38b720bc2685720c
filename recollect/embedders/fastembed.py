"""Any text model of fastembed, for machines with a network: it downloads a model when it is first used."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from recollect.errors import EmbeddingError
from recollect.providers import Floats

os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # before the import: onnxruntime would send telemetry to its makers

from fastembed import TextEmbedding

TEXTS_AT_ONCE = 16


class FastEmbedder:
    """Embeds with a fastembed model, on a thread outside the event loop.

    `given` is passed to fastembed unchanged: `cache_dir`, `specific_model_path`, `threads`, `providers`.
    """

    def __init__(self, model: str, **given: Any) -> None:
        self.name = f"fastembed:{model}"
        self._model_name = model
        self._given = given
        self._loading = threading.Lock()
        self._model: Any = None
        self._dimensions = 0

    @property
    def dimensions(self) -> int:
        """Known once the first text has been embedded; 0 before that."""
        return self._dimensions

    async def embed(self, texts: Sequence[str]) -> Floats:
        """One row for each text."""
        return await asyncio.to_thread(self._embed, list(texts))

    def _embed(self, texts: Sequence[str]) -> Floats:
        try:
            with self._loading:
                if self._model is None:
                    self._model = TextEmbedding(self._model_name, **self._given)
            rows: Floats = np.array(list(self._model.embed(texts, batch_size=TEXTS_AT_ONCE)), np.float32)
        except Exception as error:  # no network, no such model, a broken download: fastembed raises many kinds of error
            raise EmbeddingError(
                f"fastembed could not use {self._model_name} ({type(error).__name__}). "
                "Check the name, and that the model can be downloaded."
            ) from error
        if len(rows):
            self._dimensions = rows.shape[1]
        return rows
