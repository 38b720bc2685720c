"""A small cross-encoder that reads a question beside a turn of a conversation and says how well it answers.

>>> scores = Reranker("small").score("What is the dog called?", ["Ann: We named the puppy Rex.", "Ann: I like tea."])
>>> bool(scores[0] > scores[1])
True
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # before the import: it would send figures to its makers

import onnxruntime

QUESTION_TOKENS = 48
TOKENS_MAX = {"large": 128, "small": 64}
"""Tokens of question and passage together, as each model was trained."""
WEIGHTS = {"large": 2.0, "small": 1.5}
"""How much the word of each counts beside that of the fast ranking."""
BATCH_ROWS = 16
"""Rows at a time, sorted by length: little is read only to fill up shorter ones."""
START, END = 101, 102

_home = Path(__file__).parent


class Reranker:
    """One of the two models, `large` or `small`. Safe to share between threads; uses one core."""

    odds = 1.0
    """What turns its scores into log-odds that a passage answers: those about something else are below zero."""

    def __init__(self, size: str = "large", folder: Path = _home) -> None:
        if size not in TOKENS_MAX:
            raise ValueError(f"size must be one of {', '.join(TOKENS_MAX)}")
        self.name = f"recollect-rerank-{size}"
        self.weight = WEIGHTS[size]
        self._tokens_max = TOKENS_MAX[size]
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        self._model = onnxruntime.InferenceSession(
            str(folder / f"{size}.onnx"), options, providers=["CPUExecutionProvider"]
        )
        self._lock = threading.Lock()

    def score(self, question: str, passages: Sequence[str]) -> NDArray[np.float32]:
        """A number for each passage, about the log-odds that it answers: the higher, the better."""
        if not passages:
            return np.zeros(0, np.float32)
        rows = self._rows(question, passages)
        order = sorted(range(len(rows)), key=lambda place: len(rows[place][0]))
        scores = np.zeros(len(rows), np.float32)
        for start in range(0, len(order), BATCH_ROWS):
            chunk = order[start : start + BATCH_ROWS]
            # One question at a time: two on one core would only slow each other down.
            with self._lock:
                scores[chunk] = self._model.run(["score"], _arrays([rows[place] for place in chunk]))[0]
        return scores

    def _rows(self, question: str, passages: Sequence[str]) -> list[tuple[list[int], int]]:
        """[CLS] question [SEP] passage [SEP] as tokens, and where the passage begins."""
        asked, *told = (
            each.ids for each in self._tokenizer.encode_batch([question, *passages], add_special_tokens=False)
        )
        head = [START, *asked[:QUESTION_TOKENS], END]
        return [([*head, *ids[: self._tokens_max - len(head) - 1], END], len(head)) for ids in told]


def _arrays(rows: Sequence[tuple[list[int], int]]) -> dict[str, Any]:
    shape = len(rows), max(len(ids) for ids, _ in rows)
    ids, mask, kinds = (np.zeros(shape, np.int64) for _ in range(3))
    for place, (tokens, border) in enumerate(rows):
        ids[place, : len(tokens)] = tokens
        mask[place, : len(tokens)] = 1
        kinds[place, border : len(tokens)] = 1
    return {"input_ids": ids, "attention_mask": mask, "token_type_ids": kinds}
