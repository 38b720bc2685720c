"""A BERT of a few kilobytes with made-up weights, in the files of a real one: it knows nothing, but runs like one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

WORDS = (
    "the", "a", "cat", "dog", "sat", "ran", "on", "in", "my", "mat", "garden", "is", "green", "red", "what", "where",
    "?", ".",
)  # fmt: skip
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")
HIDDEN, HEADS, WIDE, PLACES = 16, 2, 32, 64
CONFIG = {"num_attention_heads": HEADS, "layer_norm_eps": 1e-12, "hidden_size": HIDDEN}


def weights(layers: int = 2) -> dict[str, NDArray[np.float32]]:
    """Weights named as in a saved `BertModel`, with a head that scores."""
    chance = np.random.default_rng(7)
    made: dict[str, NDArray[np.float32]] = {}

    def linear(name: str, out: int, into: int) -> None:
        made[f"{name}.weight"] = (chance.normal(size=(out, into)) * 0.4).astype(np.float32)
        made[f"{name}.bias"] = (chance.normal(size=out) * 0.1).astype(np.float32)

    def norm(name: str) -> None:
        made[f"{name}.weight"] = (1 + chance.normal(size=HIDDEN) * 0.1).astype(np.float32)
        made[f"{name}.bias"] = (chance.normal(size=HIDDEN) * 0.1).astype(np.float32)

    for table, rows in (("word", len(SPECIAL) + len(WORDS)), ("position", PLACES), ("token_type", 2)):
        made[f"embeddings.{table}_embeddings.weight"] = chance.normal(size=(rows, HIDDEN)).astype(np.float32)
    norm("embeddings.LayerNorm")
    for layer in range(layers):
        start = f"encoder.layer.{layer}"
        for part in ("query", "key", "value"):
            linear(f"{start}.attention.self.{part}", HIDDEN, HIDDEN)
        linear(f"{start}.attention.output.dense", HIDDEN, HIDDEN)
        norm(f"{start}.attention.output.LayerNorm")
        linear(f"{start}.intermediate.dense", WIDE, HIDDEN)
        linear(f"{start}.output.dense", HIDDEN, WIDE)
        norm(f"{start}.output.LayerNorm")
    linear("score", 1, HIDDEN)
    return made


def tokenizer() -> Any:
    """Splits a text into its words, between start and end markers."""
    made = Tokenizer(models.WordLevel({word: id for id, word in enumerate((*SPECIAL, *WORDS))}, unk_token="[UNK]"))
    made.normalizer = normalizers.Lowercase()
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    return made


def write(folder: Path, layers: int = 2) -> Path:
    """Write the files that a model is built from into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer().save(str(folder / "tokenizer.json"))
    (folder / "config.json").write_text(json.dumps(CONFIG), encoding="utf-8")
    (folder / "model.safetensors").write_bytes(safetensors(weights(layers)))
    return folder


def safetensors(arrays: dict[str, NDArray[np.float32]]) -> bytes:
    """Arrays as the bytes of a safetensors file."""
    header: dict[str, Any] = {}
    body = b""
    for name, array in arrays.items():
        data = array.astype("<f4").tobytes()
        header[name] = {"dtype": "F32", "shape": array.shape, "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + body
