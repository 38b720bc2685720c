"""A BERT encoder as an ONNX file, written from its weights alone: no torch, no download.

The graph is built operator by operator, so that the same few lines serve every MiniLM: one that
embeds (the mean of its tokens, of length one) and one that scores (the mean, then one number).
When quantised, the large matrices use one byte per number and the products run on integers, which makes
the file a quarter of the size and the model faster, with hardly any effect on its output.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

Head = Literal["embedding", "score"]

INPUTS = ("input_ids", "attention_mask", "token_type_ids")
OPSET, IR = 20, 9
"""The first with Gelu as one operator; read by onnxruntime 1.17 and later."""
MASKED = -10_000.0
"""Added where a token must not be attended to: it gets no share after the softmax, and float32 can hold it."""
PRODUCT_MAX = 63
"""The largest code of a matrix that is multiplied: seven bits. With more, two products with a byte silently
overflow on processors without VNNI; there and elsewhere signed codes are the fastest."""
TABLE_MAX = 127
"""The largest code of a table whose rows are only looked up."""


def bert_onnx(
    weights: Mapping[str, NDArray[Any]], config: Mapping[str, Any], head: Head, *, quantised: bool = True
) -> bytes:
    """The model as the bytes of an ONNX file, with its weights inside.

    `weights` are named as in a saved `BertModel` (a leading `bert.` is fine), for any number of
    layers; a scoring head is `score.weight` (1 x hidden) and `score.bias` (1). Of `config`, the
    model's `config.json`, only `num_attention_heads` and `layer_norm_eps` are read. The inputs
    are `input_ids`, `attention_mask` and `token_type_ids`, int64, of any batch and length. The
    output has the head's name: `embedding`, a row of length one for each text, or `score`, a number.
    """
    named = {name.removeprefix("bert."): np.asarray(value, np.float32) for name, value in weights.items()}
    encoder = _Encoder(named, int(config["num_attention_heads"]), float(config["layer_norm_eps"]), quantised)
    hidden = encoder.embedded()
    for layer in range(_layers(named)):
        hidden = encoder.layer(f"encoder.layer.{layer}", hidden)
    pooled = encoder.pooled(hidden)
    encoder.unit(pooled) if head == "embedding" else encoder.scored(pooled)
    shape: list[str | int] = ["batch", encoder.size] if head == "embedding" else ["batch"]
    return bytes(_model(encoder, head, shape).SerializeToString())


def _layers(weights: Mapping[str, Any]) -> int:
    return len({name.split(".")[2] for name in weights if name.startswith("encoder.layer.")})


def _model(encoder: _Encoder, head: Head, shape: list[str | int]) -> onnx.ModelProto:
    inputs = [helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "length"]) for name in INPUTS]
    output = helper.make_tensor_value_info(head, TensorProto.FLOAT, shape)
    graph = helper.make_graph(encoder.nodes, "bert", inputs, [output], encoder.constants)
    model = helper.make_model(
        graph, producer_name="recollect", opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR
    )
    onnx.checker.check_model(model)
    return model


class _Graph:
    """Operators in the order they run. Every value is named when it is created."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self._held: dict[tuple[str, bytes, tuple[int, ...]], str] = {}

    def constant(self, value: Any, kind: Any = np.float32) -> str:
        """A value that is part of the model; equal values are stored once."""
        array = np.asarray(value, kind)
        key = (array.dtype.str, array.tobytes(), array.shape)
        name = self._held.get(key)
        if name is None:
            name = self._held[key] = f"constant_{len(self._held)}"
            self.constants.append(numpy_helper.from_array(array, name))
        return name

    def whole(self, *numbers: int) -> str:
        """Integers, for shapes, axes and positions."""
        return self.constant(numbers, np.int64)

    def outputs(self, operator: str, inputs: list[str], count: int, **attributes: Any) -> list[str]:
        names = [f"{operator.lower()}_{len(self.nodes)}_{place}" for place in range(count)]
        self.nodes.append(helper.make_node(operator, inputs, names, **attributes))
        return names

    def apply(self, operator: str, *inputs: str, **attributes: Any) -> str:
        """Add an operator with one output. Return the output's name."""
        return self.outputs(operator, list(inputs), 1, **attributes)[0]

    def end(self, operator: str, inputs: list[str], name: str, **attributes: Any) -> None:
        """Add the last operator: its output is the model's."""
        self.nodes.append(helper.make_node(operator, inputs, [name], **attributes))


class _Encoder(_Graph):
    """The parts of BERT. Each takes names of values and returns the name of its result."""

    def __init__(self, weights: Mapping[str, NDArray[np.float32]], heads: int, epsilon: float, quantised: bool) -> None:
        super().__init__()
        self._weights = weights
        self._heads = heads
        self._epsilon = epsilon
        self._quantised = quantised
        self.size = int(weights["embeddings.word_embeddings.weight"].shape[1])
        self._counted = self.apply("Cast", "attention_mask", to=TensorProto.FLOAT)
        # (batch, 1, 1, length): 0 for tokens, MASKED for padding.
        seen = self.apply("Unsqueeze", self._counted, self.whole(1, 2))
        hidden = self.apply("Sub", self.constant(1.0), seen)
        self._masked = self.apply("Mul", hidden, self.constant(MASKED))

    # ── layers ───────────────────────────────────────────────────────────────────────────────────

    def embedded(self) -> str:
        """The sum of the token, position and token-type embeddings, normalised."""
        words = self._rows("embeddings.word_embeddings.weight", "input_ids")
        parts = self._rows("embeddings.token_type_embeddings.weight", "token_type_ids", quantised=False)
        length = self.apply("Shape", "input_ids", start=1, end=2)
        table = self.constant(self._weights["embeddings.position_embeddings.weight"])
        places = self.apply("Slice", table, self.whole(0), length, self.whole(0))
        return self._normal("embeddings.LayerNorm", self.apply("Add", self.apply("Add", words, parts), places))

    def layer(self, name: str, hidden: str) -> str:
        """Attention between the tokens, then a feed-forward step for each token."""
        heard = self._linear(f"{name}.attention.output.dense", self._attended(f"{name}.attention.self", hidden))
        hidden = self._normal(f"{name}.attention.output.LayerNorm", self.apply("Add", heard, hidden))
        wide = self.apply("Gelu", self._linear(f"{name}.intermediate.dense", hidden))
        narrow = self._linear(f"{name}.output.dense", wide)
        return self._normal(f"{name}.output.LayerNorm", self.apply("Add", narrow, hidden))

    def _attended(self, name: str, hidden: str) -> str:
        """Attention of all heads: for each token, the weighted sum of what it attends to."""
        parts = [f"{name}.{part}" for part in ("query", "key", "value")]
        # One product for all three, so that the input is read, and quantised, once.
        weight = np.concatenate([self._weights[f"{part}.weight"] for part in parts])
        bias = np.concatenate([self._weights[f"{part}.bias"] for part in parts])
        joined = self._product(hidden, weight, bias)
        split = self.apply("Reshape", joined, self.whole(0, 0, 3, self._heads, self.size // self._heads))
        apart = self.apply("Transpose", split, perm=[2, 0, 3, 1, 4])  # (3, batch, heads, length, size)
        query, key, value = (self.apply("Gather", apart, self.constant(at, np.int64), axis=0) for at in range(3))
        turned = self.apply("Transpose", key, perm=[0, 1, 3, 2])
        scale = self.constant(1 / np.sqrt(self.size // self._heads))
        fit = self.apply("MatMul", self.apply("Mul", query, scale), turned)
        shares = self.apply("Softmax", self.apply("Add", fit, self._masked), axis=-1)
        mixed = self.apply("Transpose", self.apply("MatMul", shares, value), perm=[0, 2, 1, 3])
        return self.apply("Reshape", mixed, self.whole(0, 0, self.size))

    # ── heads ────────────────────────────────────────────────────────────────────────────────────

    def pooled(self, hidden: str) -> str:
        """The mean of the tokens, without padding."""
        weights = self.apply("Unsqueeze", self._counted, self.whole(2))
        total = self.apply("ReduceSum", self.apply("Mul", hidden, weights), self.whole(1), keepdims=0)
        count = self.apply("ReduceSum", weights, self.whole(1), keepdims=0)
        return self.apply("Div", total, self.apply("Max", count, self.constant(1e-9)))

    def unit(self, pooled: str) -> None:
        """End with rows of length one."""
        length = self.apply("ReduceL2", pooled, self.whole(1), keepdims=1)
        self.end("Div", [pooled, self.apply("Max", length, self.constant(1e-12))], "embedding")

    def scored(self, pooled: str) -> None:
        """End with one number per row."""
        score = self._linear("score", pooled, quantised=False)
        self.end("Squeeze", [score, self.whole(1)], "score")

    # ── pieces ───────────────────────────────────────────────────────────────────────────────────

    def _normal(self, name: str, value: str) -> str:
        scale, bias = (self.constant(self._weights[f"{name}.{part}"]) for part in ("weight", "bias"))
        return self.apply("LayerNormalization", value, scale, bias, axis=-1, epsilon=self._epsilon)

    def _linear(self, name: str, value: str, *, quantised: bool = True) -> str:
        return self._product(value, self._weights[f"{name}.weight"], self._weights[f"{name}.bias"], quantised=quantised)

    def _product(
        self, value: str, weight: NDArray[np.float32], bias: NDArray[np.float32], *, quantised: bool = True
    ) -> str:
        """Input times weight plus bias; the weight is (out, in), as saved."""
        if not (quantised and self._quantised):
            return self.apply("Add", self.apply("MatMul", value, self.constant(weight.T)), self.constant(bias))
        codes, scales = _bytes_of(weight, PRODUCT_MAX)
        small, scale, zero = self.outputs("DynamicQuantizeLinear", [value], 3)
        whole = self.apply("MatMulInteger", small, self.constant(codes.T, np.int8), zero)
        factor = self.apply("Mul", scale, self.constant(scales))
        product = self.apply("Mul", self.apply("Cast", whole, to=TensorProto.FLOAT), factor)
        return self.apply("Add", product, self.constant(bias))

    def _rows(self, name: str, ids: str, *, quantised: bool = True) -> str:
        """The rows of a table at these ids."""
        table = self._weights[name]
        if not (quantised and self._quantised):
            return self.apply("Gather", self.constant(table), ids)
        codes, scales = _bytes_of(table, TABLE_MAX)
        # Rows are gathered as bytes, and only those few are converted back to floats.
        taken = self.apply("Cast", self.apply("Gather", self.constant(codes, np.int8), ids), to=TensorProto.FLOAT)
        return self.apply("Mul", taken, self.apply("Gather", self.constant(scales[:, None]), ids))


def _bytes_of(rows: NDArray[np.float32], most: int) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Each row as integers from -most to most, with its own scale: `code * scale` is about the original value."""
    scales = (np.maximum(np.abs(rows).max(axis=1), 1e-12) / most).astype(np.float32)
    return np.rint(rows / scales[:, None]).astype(np.int8), scales
