"""Run a model from an ONNX file on this machine's CPU, with the tokenizer stored next to it."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from recollect.embedders.models import MODEL_FILE, REPAIR, TOKENIZER_FILE
from recollect.errors import EmbeddingError
from recollect.providers import Floats

os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # before the import: it would send telemetry to its makers

import onnxruntime

TOKENS_MAX = 256
"""Tokens of a text that are read: what all-MiniLM-L6-v2 was trained for."""
TEXT_MAX = 4_000
"""Characters that are tokenised: hardly any text of this length has fewer than 256 tokens."""
TEXTS_AT_ONCE = 16
"""Texts per run. More are not faster on one core, and other calls wait behind them."""

Text = str | tuple[str, str]
"""A text, or a pair that the model reads together."""


class OnnxModel:
    """Runs texts through a folder's `model.onnx`. Loaded with the first text; safe to share between threads."""

    def __init__(self, folder: Path, *, tokens_max: int = TOKENS_MAX) -> None:
        self._folder = folder
        self._tokens_max = tokens_max
        self._loading = threading.Lock()
        self._session: Any = None
        self._tokenizer: Any = None

    def run(self, texts: Sequence[Text]) -> Floats:
        """The model's output for each text, in the order given: a row, or a number for a model that scores."""
        self._load()
        rows: list[Any] = [None] * len(texts)
        for places, feed in self._batches(texts):
            for place, row in zip(places, self._pooled(feed), strict=True):
                rows[place] = row
        return np.array(rows, np.float32)

    def _load(self) -> None:
        with self._loading:
            if self._session is not None:
                return
            options = onnxruntime.SessionOptions()
            # One thread per run: concurrent runs share the cores, and a busy machine is not slowed down.
            options.intra_op_num_threads = options.inter_op_num_threads = 1
            options.log_severity_level = 4  # errors are raised; repeating them on standard error helps nobody
            try:
                tokenizer = Tokenizer.from_file(str(self._folder / TOKENIZER_FILE))
                tokenizer.enable_truncation(self._tokens_max)
                tokenizer.enable_padding()
                path = str(self._folder / MODEL_FILE)
                session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
            except Exception as error:  # both libraries raise many kinds of error, tokenizers a bare Exception
                raise EmbeddingError(f"The model in {self._folder} cannot be read. {REPAIR}") from error
            self._tokenizer, self._session = tokenizer, session

    def _batches(self, texts: Sequence[Text]) -> Iterator[tuple[list[int], dict[str, NDArray[np.int64]]]]:
        """The texts as tokens, batched by similar length, because padding takes as long to process as text."""
        order = sorted(range(len(texts)), key=lambda place: sum(map(len, texts[place])))
        for start in range(0, len(order), TEXTS_AT_ONCE):
            places = order[start : start + TEXTS_AT_ONCE]
            read = self._tokenizer.encode_batch([_cut(texts[place]) for place in places])
            yield (
                places,
                {
                    "input_ids": np.array([each.ids for each in read], np.int64),
                    "attention_mask": np.array([each.attention_mask for each in read], np.int64),
                    "token_type_ids": np.array([each.type_ids for each in read], np.int64),
                },
            )

    def _pooled(self, feed: dict[str, NDArray[np.int64]]) -> Floats:
        """One row per text; for a model that returns a vector per token, their mean."""
        wanted = {given.name: feed[given.name] for given in self._session.get_inputs() if given.name in feed}
        try:
            said: Floats = self._session.run(None, wanted)[0]
        except Exception as error:
            raise EmbeddingError(f"The model in {self._folder} failed ({type(error).__name__}).") from error
        if said.ndim < 3:
            return said
        weights = feed["attention_mask"][:, :, None].astype(np.float32)
        mean: Floats = (said * weights).sum(axis=1) / weights.sum(axis=1)
        return mean


class OnnxEmbedder:
    """Embeds with a folder's model, on threads outside the event loop. Reads the first 256 tokens of a text."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self._model = OnnxModel(folder)
        self._dimensions = 0

    @property
    def dimensions(self) -> int:
        """Known once the first text has been embedded; 0 before that."""
        return self._dimensions

    async def embed(self, texts: Sequence[str]) -> Floats:
        """One row for each text; zeros for a blank text."""
        return await asyncio.to_thread(self._embed, list(texts))

    def _embed(self, texts: Sequence[str]) -> Floats:
        # For a blank text the model would still return something, from its start and end tokens.
        written = [place for place, text in enumerate(texts) if text.strip()]
        said = self._model.run([texts[place] for place in written] or ["."])
        if said.ndim != 2:
            raise EmbeddingError(
                f"The model {self.name} returns no vectors; an embedder must return one row for each text."
            )
        self._dimensions = said.shape[1]
        rows = np.zeros((len(texts), self._dimensions), np.float32)
        rows[written] = said[: len(written)]
        return rows


def _cut(text: Text) -> Text:
    return text[:TEXT_MAX] if isinstance(text, str) else (text[0][:TEXT_MAX], text[1][:TEXT_MAX])
