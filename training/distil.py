"""Distil `small` from the shipped file of `large`, without the teacher that taught `large`.

    python training/distil.py --pairs pairs.json.gz --large rerank/recollect_rerank/large.onnx \
        --tokenizer rerank/recollect_rerank/tokenizer.json --out build

`large` scores every candidate. `small` starts with half of its layers, and learns to distribute its probability among
the candidates in the same way, and to rank the right one first. Three models are trained from different seeds, and the
mean of their weights is `small`. Needs torch and onnx; takes a few minutes on one GPU.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from onnx import numpy_helper
from tokenizers import Tokenizer
from train import (
    SEEDS,
    Pairs,
    Recipe,
    Reranker,
    bert_names,
    lessons,
    mean_of,
    often,
    report,
    save,
    scores_of,
    taught,
    train,
)

SMALL = Recipe(layers=3, epochs=4, rate=2e-4, soft=0.8, alone=0.35)
TOKENS_MAX = 64
"""How many tokens of question and passage together it reads."""
PRODUCTS = (("query", "key", "value"), ("mix",), ("wide",), ("narrow",))
"""The matrix products of a layer, in file order; the first is three in one."""
NORMS = ("first_norm", "second_norm")


class Written:
    """A file that `export.py` wrote, read back and dequantised."""

    def __init__(self, path: Path) -> None:
        graph = onnx.load(path).graph
        self._nodes = list(graph.node)
        self._held = {each.name: numpy_helper.to_array(each) for each in graph.initializer}

    def weights(self) -> dict[str, Any]:
        """All weights, under the names that `train.py` uses."""
        found = self._tables() | self._score()
        norms = iter([node for node in self._nodes if node.op_type == "LayerNormalization"])
        found |= self._norm("norm", next(norms))
        products = [node for node in self._nodes if node.op_type == "MatMulInteger"]
        for place, node in enumerate(products):
            number, part = divmod(place, len(PRODUCTS))
            weight, bias = self._product(node)
            names = PRODUCTS[part]
            for name, rows, line in zip(names, np.split(weight, len(names)), np.split(bias, len(names)), strict=True):
                found |= {f"layers.{number}.{name}.weight": rows, f"layers.{number}.{name}.bias": line}
        for place, node in enumerate(norms):
            found |= self._norm(f"layers.{place // 2}.{NORMS[place % 2]}", node)
        return found

    def _tables(self) -> dict[str, Any]:
        words, scales, kinds = [self._constant(node) for node in self._of("Gather") if node.input[0] in self._held][:3]
        (places,) = [self._constant(node) for node in self._of("Slice")]
        return {"words.weight": words * scales, "kinds.weight": kinds, "places.weight": places}

    def _score(self) -> dict[str, Any]:
        (product,) = [node for node in self._of("MatMul") if node.input[1] in self._held]
        return {"score.weight": self._held[product.input[1]].T, "score.bias": self._added(product.output[0])}

    def _norm(self, name: str, node: Any) -> dict[str, Any]:
        return {f"{name}.weight": self._held[node.input[1]], f"{name}.bias": self._held[node.input[2]]}

    def _product(self, node: Any) -> tuple[Any, Any]:
        """The matrix (out, in) of an integer product, and its bias."""
        (cast,) = self._after(node.output[0])
        (scaled,) = self._after(cast.output[0])
        (factor,) = [each for each in self._of("Mul") if each.output[0] == scaled.input[1]]
        weight = self._held[node.input[1]].T * self._held[factor.input[1]][:, None]
        return weight, self._added(scaled.output[0])

    def _added(self, name: str) -> Any:
        (node,) = self._after(name)
        return self._held[node.input[1]]

    def _of(self, operator: str) -> Iterator[Any]:
        return (node for node in self._nodes if node.op_type == operator)

    def _after(self, name: str) -> list[Any]:
        return [node for node in self._nodes if name in node.input]

    def _constant(self, node: Any) -> Any:
        return self._held[node.input[0]].astype(np.float32)


def read_back(path: Path) -> Reranker:
    """Load the model from this file."""
    weights = Written(path).weights()
    layers = len({name.split(".")[1] for name in weights if name.startswith("layers.")})
    model = Reranker(Recipe(layers=layers))
    model.load_state_dict({name: torch.tensor(value) for name, value in weights.items()})
    return model.eval()


def student_of(pairs: Pairs, questions: list[dict[str, Any]], model: Reranker, recipe: Recipe, device: str) -> Reranker:
    """Train a smaller model that starts with some layers of a trained one and learns from its teachers."""
    state = {name: value.detach().float().cpu().numpy() for name, value in model.state_dict().items()}
    weights = {theirs: state[ours] for ours, theirs in bert_names(range(len(model.layers))).items()}
    return train(pairs, questions, weights, recipe, device)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=Path, nargs="+", required=True, help="what prepare.py wrote")
    parser.add_argument("--large", type=Path, required=True, help="the ONNX file to learn from")
    parser.add_argument("--tokenizer", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True, help="folder for small.npz")
    parser.add_argument("--hold-out", action="store_true", help="hold out some questions, and measure with them")
    options = parser.parse_args()
    device, started = "cuda" if torch.cuda.is_available() else "cpu", time.time()
    tokenizer = Tokenizer.from_file(str(options.tokenizer))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    options.out.mkdir(parents=True, exist_ok=True)
    large = read_back(options.large).to(device)
    judged = options.out / "judged.npz"
    pairs = Pairs(options.pairs, tokenizer)
    np.savez(judged, scores=np.concatenate(scores_of(large, pairs, pairs.all(), device, reach=0)))
    print(f"judged: {time.time() - started:.0f} s", flush=True)
    pairs = Pairs(options.pairs, tokenizer, TOKENS_MAX)
    learned, measured_with = lessons(pairs, taught(pairs, [judged]), options.hold_out)
    questions = [question for question in learned for _ in range(often(question))]
    seeds = [replace(SMALL, seed=seed) for seed in range(1, SEEDS + 1)]
    trained = []
    for recipe in seeds:
        trained.append(student_of(pairs, questions, large, recipe, device))
        print(f"{len(questions)} questions in a round, {time.time() - started:.0f} s", flush=True)
        report(f"seed {recipe.seed}", trained[-1], pairs, measured_with, device)
    small = mean_of(trained)
    report("small", small, pairs, measured_with, device)
    save(small, options.out / "small.npz")


if __name__ == "__main__":
    main()
