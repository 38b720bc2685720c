"""Write a trained reranker as the int8 ONNX file that the package `recollect-rerank` ships.

    python training/export.py reranker.npz rerank/recollect_rerank/large.onnx

Needs only numpy and onnx.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

CONFIG = {"num_attention_heads": 12, "layer_norm_eps": 1e-12}
TABLES = {
    "words": "embeddings.word_embeddings",
    "places": "embeddings.position_embeddings",
    "kinds": "embeddings.token_type_embeddings",
    "norm": "embeddings.LayerNorm",
    "score": "score",
}
LAYER = {
    "query": "attention.self.query",
    "key": "attention.self.key",
    "value": "attention.self.value",
    "mix": "attention.output.dense",
    "first_norm": "attention.output.LayerNorm",
    "wide": "intermediate.dense",
    "narrow": "output.dense",
    "second_norm": "output.LayerNorm",
}


def bert_names(state: Mapping[str, Any]) -> dict[str, Any]:
    """The weights under the names of a BERT checkpoint, as the export reads them."""
    named = {}
    for name, value in state.items():
        first, *rest = name.split(".")
        if first == "layers":
            number, part, kind = rest
            named[f"encoder.layer.{number}.{LAYER[part]}.{kind}"] = np.asarray(value, np.float32)
        elif first in TABLES:
            named[f"{TABLES[first]}.{rest[0]}"] = np.asarray(value, np.float32)
    return named


def as_onnx(state: Mapping[str, Any]) -> bytes:
    """The model as the bytes of an ONNX file."""
    # Loaded by path, so that the package itself need not be installed here.
    path = Path(__file__).resolve().parents[1] / "recollect" / "embedders" / "onnx_export.py"
    spec = importlib.util.spec_from_file_location("onnx_export", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["onnx_export"] = module
    spec.loader.exec_module(module)
    written: bytes = module.bert_onnx(bert_names(state), CONFIG, "score")
    return written


if __name__ == "__main__":
    source, target = map(Path, sys.argv[1:])
    target.write_bytes(as_onnx(np.load(source)))
    print(f"{target.name}: {target.stat().st_size / 1e6:.1f} MB")
