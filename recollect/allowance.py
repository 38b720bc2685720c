"""Asking a model within its allowance: tokens per org and day, concurrent requests, time per request.

Spending is recorded in the store, in the org's own partition, so that all workers share it. Tokens are reserved
before a request and corrected after the answer, so that even if interrupted no more is spent than allowed. A
request that fails costs what the model reports, nothing if it was refused or never arrived, and else all that was
reserved for it: the model may have worked on it. Only tries that an endpoint broke off and that are repeated at
once (`wire.py`) count as one.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from recollect.errors import ModelError, RecollectError
from recollect.ledger import Ledger
from recollect.models import Answer, Ask, ChatModel, PutOff
from recollect.models.decoding import decoded
from recollect.policies.tokens import TokenCounter
from recollect.records import DAY_MS, SECOND_MS, Changes, Partition, Record, Scope, derived_id
from recollect.settings import Settings

log = logging.getLogger("recollect.model")

LAYER = "spending"
ANSWERS_KEPT = 256
"""Answers cached for jobs that have to be done again, as when two workers collide: a few hundred KiB."""
SCHEMA_TOKENS = 400
"""Approximate cost of the answer's schema on top of the question."""
COUNTED = ("asked", "failed", "put_off", "tokens_in", "tokens_out", "refused")
"""The counters of a model since the start; `refused` are findings that nobody had said."""
UNCONNECTED = ("ConnectError", "ConnectTimeout", "ConnectionRefusedError", "ClientConnectorError", "gaierror")
"""Errors before anything was sent, by their names in the packages that models are called with."""


class Allowance:
    """One model, and what it may cost."""

    def __init__(self, model: ChatModel, ledger: Ledger, settings: Settings, count: TokenCounter) -> None:
        self.model = model
        self.figures = dict.fromkeys(COUNTED, 0)
        self.state = "not asked yet"
        """How the model did the last time it was asked."""
        self._ledger = ledger
        self._count = count
        self._per_day = settings.llm_tokens_per_day
        self._timeout_s = settings.llm_timeout_s
        self._at_once = asyncio.Semaphore(settings.llm_at_once)
        self._answers: OrderedDict[bytes, Any] = OrderedDict()

    async def ask(self, org: str, ask: Ask) -> Any:
        """The model's answer, in the requested shape; raises `PutOff` if it has to wait, `ModelError` if it fails.

        A question that was answered recently is answered from the cache.
        """
        key = hashlib.blake2b(f"{org}\0{ask.text}\0{ask.schema}".encode(), digest_size=16).digest()
        if key in self._answers:
            self._answers.move_to_end(key)
            return self._answers[key]
        try:
            value = await self._asked(org, ask)
        except PutOff:
            self.figures["put_off"] += 1
            self.state = "asks us to wait"
            raise
        except ModelError as error:
            self.figures["failed"] += 1
            self.state = f"fails ({type(error).__name__})"
            raise
        self.state = "answers"
        self._answers[key] = value
        while len(self._answers) > ANSWERS_KEPT:
            self._answers.popitem(last=False)
        return value

    async def _asked(self, org: str, ask: Ask) -> Any:
        assert ask.schema is not None, "only questions with a shape are asked here"
        expected = self._count(ask.text) + SCHEMA_TOKENS + ask.tokens_max
        day = await self._reserved(org, expected)
        spent = 0
        try:
            async with self._at_once:
                spent = expected
                self.figures["asked"] += 1
                answer = await self._answered(ask)
            spent = self._noted(ask, answer)
        except ModelError as error:
            if error.tokens is not None:
                spent = error.tokens
            elif _unheard(error):
                spent = 0
            raise
        finally:
            await self._settle(org, day, spent - expected)
        return decoded(answer.text, ask.schema)

    async def _answered(self, ask: Ask) -> Answer:
        """One answer within the time limit, whatever kind of model it is."""
        try:
            async with asyncio.timeout(self._timeout_s):
                return await self.model.answer(ask)
        except TimeoutError as error:
            raise ModelError(f"The model {self.model.name} did not answer in time. The messages are kept.") from error
        except RecollectError:
            raise
        except Exception as error:
            raise ModelError(
                f"The model {self.model.name} failed ({type(error).__name__}). The messages are kept."
            ) from error

    def _noted(self, ask: Ask, answer: Answer) -> int:
        """What an answer cost: as the model reports, else as counted here, the answer at most `tokens_max`."""
        text = answer.text[: 8 * ask.tokens_max] if isinstance(answer.text, str) else ""
        tokens_in = self._count(ask.text) if answer.tokens_in is None else answer.tokens_in
        tokens_out = min(self._count(text), ask.tokens_max) if answer.tokens_out is None else answer.tokens_out
        self.figures["tokens_in"] += tokens_in
        self.figures["tokens_out"] += tokens_out
        return tokens_in + tokens_out

    # ── what was spent ───────────────────────────────────────────────────────────────────────────

    async def spent(self, org: str) -> int:
        """Tokens an org has spent today."""
        found = await self._ledger.get(Partition(org, ""), [_id(self._ledger.clock() // DAY_MS)])
        return int(found[0].data["tokens"]) if found else 0

    async def _reserved(self, org: str, tokens: int) -> int:
        """Reserve tokens and return the day. Whoever is cancelled meanwhile has not asked, and gets them back."""
        taking = asyncio.ensure_future(self._take(org, tokens))
        try:
            return await asyncio.shield(taking)
        except asyncio.CancelledError:
            with suppress(RecollectError):
                await self._settle(org, await taking, -tokens)
            raise

    async def _take(self, org: str, tokens: int) -> int:
        """Reserve tokens from today's allowance, or raise `PutOff` until there are more. Return the day."""
        if tokens > self._per_day:
            raise ModelError("A single call costs more than llm_tokens_per_day allows. Raise it, or ask for less.")
        now = self._ledger.clock()

        def taken(before: int) -> int:
            if before + tokens > self._per_day:
                wait_s = (DAY_MS - now % DAY_MS) / SECOND_MS
                raise PutOff("This org has used up its llm_tokens_per_day for today.", wait_s, counts=False)
            return before + tokens

        await self._spend(org, now // DAY_MS, taken)
        return now // DAY_MS

    async def _settle(self, org: str, day: int, difference: int) -> None:
        """Correct what was reserved on a day; a count that cannot be written is not worth losing an answer for."""
        if difference:
            await asyncio.shield(self._corrected(org, day, difference))

    async def _corrected(self, org: str, day: int, difference: int) -> None:
        try:
            await self._spend(org, day, lambda before: max(before + difference, 0))
        except RecollectError as error:
            log.warning("the cost of a model call could not be recorded: %s", type(error).__name__)

    async def _spend(self, org: str, day: int, spent: Callable[[int], int]) -> None:
        partition = Partition(org, "")

        def decide(known: Record | None, now: int) -> Changes:
            fresh = Record(_id(day), LAYER, Scope(org), created_at=now, expires_at=(day + 2) * DAY_MS)
            record = known or fresh
            tokens = spent(int(record.data.get("tokens", 0)))
            return Changes(partition, put=(record.with_(data={"tokens": tokens}),))

        await self._ledger.update(partition, _id(day), decide)


def _id(day: int) -> str:
    return derived_id(LAYER, str(day))


def _unheard(error: BaseException | None) -> bool:
    """Whether the packages behind a model say that a request was refused, or that there was no connection.

    408, and 504 and above, come from a server that stopped waiting for a model, which may have worked all the same.
    """
    while error is not None:
        status = getattr(error, "status_code", None)
        refused = isinstance(status, int) and 400 <= status <= 503 and status != 408
        if refused or type(error).__name__ in UNCONNECTED:
            return True
        error = error.__cause__ or error.__context__
    return False
