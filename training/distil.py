"""Continue from the shipped file of `large`, without the teacher that taught it: what it says is what is learned from.

    python training/distil.py large --pairs pairs.json.gz misses.json.gz --out build \
        --large rerank/recollect_rerank/large.onnx --tokenizer rerank/recollect_rerank/tokenizer.json

`large` scores every candidate. The student learns to distribute its probability among the candidates in the same way,
to rank the right one first, and, with misses, to say of those of a question that nobody answered that they answer
nothing. `large` starts from itself, `small` from half of its layers. Three models are trained from different seeds. The
result is the mean of their weights, for `large` halfway to what it was. `--seed` trains one of them, so that several
can be trained at the same time. Needs torch and onnx; takes some minutes on one GPU.
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
    learn,
    lessons,
    mean_of,
    report,
    save,
    scores_of,
    start_from,
    taught,
)

RECIPES = {
    "large": Recipe(epochs=3, rate=1.2e-4, soft=0.7, alone=0.35),
    "small": Recipe(layers=3, epochs=8, rate=2e-4, soft=0.8, alone=0.35),
}
TOKENS_MAX = {"large": 128, "small": 64}
"""How many tokens of question and passage together each reads."""
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


def student_of(pairs: Pairs, questions: list[dict[str, Any]], first: Reranker, recipe: Recipe, device: str) -> Reranker:
    """Train a model that starts with the layers of another one, or with some of them."""
    student = Reranker(recipe)
    if len(first.layers) == recipe.layers:
        student.load_state_dict(first.state_dict())
    else:
        state = {name: value.detach().float().cpu().numpy() for name, value in first.state_dict().items()}
        start_from(student, {theirs: state[ours] for ours, theirs in bert_names(range(len(first.layers))).items()})
        student.score.load_state_dict(first.score.state_dict())
    learn(student.to(device), pairs, questions, recipe, device, pairs.misses)
    return student


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("size", choices=sorted(RECIPES))
    parser.add_argument("--pairs", type=Path, nargs="+", required=True, help="what prepare.py wrote")
    parser.add_argument("--large", type=Path, required=True, help="the ONNX file to learn from")
    parser.add_argument("--tokenizer", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True, help="folder for the weights")
    parser.add_argument("--seed", type=int, choices=range(1, SEEDS + 1), help="train only this one of the three")
    parser.add_argument("--hold-out", action="store_true", help="hold out some questions, and measure with them")
    options = parser.parse_args()
    device, started = "cuda" if torch.cuda.is_available() else "cpu", time.time()
    tokenizer = Tokenizer.from_file(str(options.tokenizer))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    options.out.mkdir(parents=True, exist_ok=True)
    large = read_back(options.large)
    judged = options.out / "judged.npz"
    if not judged.exists():
        pairs = Pairs(options.pairs, tokenizer)
        np.savez(judged, scores=np.concatenate(scores_of(large.to(device), pairs, pairs.all(), device, reach=0)))
        print(f"judged: {time.time() - started:.0f} s", flush=True)
    pairs = Pairs(options.pairs, tokenizer, TOKENS_MAX[options.size])
    questions, measured_with = lessons(pairs, taught(pairs, [judged]), options.hold_out)
    large = large.cpu()
    trained = []
    for seed in range(1, SEEDS + 1):
        path = options.out / f"{options.size}-{seed}.npz"
        if not path.exists() and options.seed in (None, seed):
            recipe = replace(RECIPES[options.size], seed=seed)
            student = student_of(pairs, questions, large, recipe, device)
            print(f"{len(questions)} questions in a round, {time.time() - started:.0f} s", flush=True)
            report(path.stem, student, pairs, measured_with, device)
            save(student, path)
        if path.exists():
            trained.append(loaded(path, RECIPES[options.size]).to(device))
    if len(trained) == SEEDS:
        mean = mean_of(trained)
        if len(large.layers) == len(mean.layers):
            mean = mean_of([mean, large.to(device)])
        report(options.size, mean, pairs, measured_with, device)
        save(mean, options.out / f"{options.size}.npz")


def loaded(path: Path, recipe: Recipe) -> Reranker:
    """Load a model that `save` wrote."""
    model = Reranker(recipe)
    model.load_state_dict({name: torch.tensor(value.astype(np.float32)) for name, value in np.load(path).items()})
    return model.eval()


if __name__ == "__main__":
    main()
