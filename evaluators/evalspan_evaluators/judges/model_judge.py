"""Model judge: asks a model through a transport, with limits on calls, time and money, and a full ledger."""

import asyncio
import json
import random
import time
import uuid
import weakref
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Self, cast

from evalspan.errors import JudgeError, JudgeRefusedError
from evalspan_evaluators.judge import JudgeReply, JudgeRequest
from evalspan_evaluators.judges.fencing import FENCE_RULE, fence, random_token
from evalspan_evaluators.judges.ledger import Announce, Budget, Ledger, LedgerEntry
from evalspan_evaluators.judges.pricing import JudgePricer, list_price
from evalspan_evaluators.judges.reply import parsed
from evalspan_evaluators.judges.transport import Prompt, RawReply, Transport, TransportError
from evalspan_evaluators.score import JudgeUsage

__all__ = ["JudgeLimits", "ModelJudge"]

#: Bytes of UTF-8 that a token of text stands for at least, for the estimate that is reserved before a call.
_BYTES_A_TOKEN = 2.5
_REMEMBERED = 256
#: What the ledger says of an attempt until its end is known.
_UNDER_WAY = "cut off before it was answered"
_NOT_SENT = "cut off before it was sent"


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeLimits:
    """Bounds of judging.

    Attributes:
        attempts: Most tries of one question.
        wall_clock_s: Longest time for one question, waits and retries included.
        request_s: Longest time for one attempt.
        concurrency: Calls in flight at once, per event loop.
        first_wait_s: Wait before the second attempt; doubles with each further one, with jitter.
    """

    attempts: int = 3
    wall_clock_s: float = 90.0
    request_s: float = 60.0
    concurrency: int = 8
    first_wait_s: float = 0.5


@dataclass(slots=True)
class _Spent:
    """Running totals of one question; `known` false once an attempt did not tell its usage."""

    calls: int = 0
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None

    def add(self, entry: LedgerEntry) -> None:
        self.calls += 1
        if entry.input_tokens is not None:
            self.input_tokens = (self.input_tokens or 0) + entry.input_tokens
        if entry.output_tokens is not None:
            self.output_tokens = (self.output_tokens or 0) + entry.output_tokens
        if entry.cost_usd is not None:
            self.cost_usd = (self.cost_usd or 0.0) + entry.cost_usd

    def usage(self, model: str) -> JudgeUsage:
        return JudgeUsage(
            model=model,
            calls=self.calls,
            input_tokens=self.input_tokens,
            output_tokens=self.output_tokens,
            cost_usd=self.cost_usd,
        )


class ModelJudge:
    """A judge over any transport.

    Args:
        transport: The model API.
        model: Default model of questions that name none.
        limits: Bounds on attempts, time and concurrency.
        ledger: Told of every attempt, before the reply is validated.
        budget: Asked before every attempt.
        announce: Waited for before every attempt, so that one whose process dies is known too.
        pricer: Prices a call; the list prices of genai-prices by default.
        now_ns: Wall clock of ledger entries.
        sleep: How to wait between attempts.
        new_id: Ids of ledger entries.
        token: Fence tokens.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        model: str,
        limits: JudgeLimits | None = None,
        ledger: Ledger | None = None,
        budget: Budget | None = None,
        announce: Announce | None = None,
        pricer: JudgePricer = list_price,
        now_ns: Callable[[], int] = time.time_ns,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        new_id: Callable[[], str] = lambda: uuid.uuid4().hex,
        token: Callable[[], str] = random_token,
    ) -> None:
        self.model = model
        self._transport = transport
        self._limits = limits or JudgeLimits()
        self._ledger = ledger
        self._budget = budget
        self._announce = announce
        self._pricer = pricer
        self._now_ns = now_ns
        self._sleep = sleep
        self._new_id = new_id
        self._token = token
        self._gates: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = (
            weakref.WeakKeyDictionary()
        )
        self._remembered: dict[str, Mapping[str, Any]] = {}

    def bound(
        self, *, ledger: Ledger | None = None, budget: Budget | None = None, announce: Announce | None = None
    ) -> Self:
        """The same judge, its connections and its concurrency limit, with another ledger, budget or announcement.

        A worker binds one per rule and run, so that every ledger entry can be told apart.
        """
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other._ledger = ledger if ledger is not None else self._ledger
        other._budget = budget if budget is not None else self._budget
        other._announce = announce if announce is not None else self._announce
        return other

    async def aclose(self) -> None:
        """Close the connections of the running event loop."""
        await self._transport.aclose()

    async def ask(self, request: JudgeRequest) -> JudgeReply:
        """Ask, retrying what may pass, within the wall-clock limit.

        Raises:
            JudgeError: No reply that meets the schema; carries the usage of what was spent.
            JudgeRefusedError: The model refused.
            BudgetError: The cap would be passed; nothing was sent.
        """
        model = request.model or self.model
        key = self._key(request, model) if request.repeatable else None
        if key is not None and key in self._remembered:
            return JudgeReply(verdict=self._remembered[key], usage=JudgeUsage(model=model, calls=0))
        spent = _Spent()
        limits = self._limits
        try:
            async with asyncio.timeout(limits.wall_clock_s):
                reply = await self._attempts(request, self._prompt(request, model), spent)
        except TimeoutError as error:
            message = f"judge {model!r} gave no reply within {limits.wall_clock_s:g} s ({request.purpose})"
            raise JudgeError(message, usage=spent.usage(model)) from error
        if key is not None:
            if len(self._remembered) >= _REMEMBERED:
                self._remembered.clear()
            self._remembered[key] = reply.verdict
        return reply

    def _prompt(self, request: JudgeRequest, model: str) -> Prompt:
        rule = f"\n\n{FENCE_RULE}" if request.data else ""
        message = fence(request.data, token=self._token) if request.data else "Answer now."
        return Prompt(
            model=model,
            instructions=request.instructions + rule,
            message=message,
            schema=request.schema,
            max_tokens=request.max_tokens,
            timeout_s=self._limits.request_s,
        )

    @staticmethod
    def _key(request: JudgeRequest, model: str) -> str:
        return json.dumps([model, request.instructions, dict(request.data), dict(request.schema)], sort_keys=True)

    async def _attempts(self, request: JudgeRequest, prompt: Prompt, spent: _Spent) -> JudgeReply:
        deadline = time.monotonic() + self._limits.wall_clock_s
        for attempt in range(1, self._limits.attempts + 1):
            try:
                raw = await self._send(request, prompt, attempt, spent)
            except TransportError as error:
                wait = self._wait(attempt, error)
                last = attempt == self._limits.attempts
                if not error.passing or last or time.monotonic() + wait >= deadline:
                    raise JudgeError(f"{error} (attempt {attempt})", usage=spent.usage(prompt.model)) from error
                await self._sleep(wait)
                continue
            return self._validated(request, raw, spent)
        raise JudgeError(f"attempts is {self._limits.attempts!r}: at least one is needed")

    def _wait(self, attempt: int, error: TransportError) -> float:
        backoff = self._limits.first_wait_s * 2.0 ** (attempt - 1) * random.uniform(0.5, 1.0)  # noqa: S311  jitter, no secret
        return max(float(backoff), error.retry_after_s or 0.0)

    def _gate(self) -> asyncio.Semaphore:
        loop = asyncio.get_running_loop()
        if loop not in self._gates:
            self._gates[loop] = asyncio.Semaphore(self._limits.concurrency)
        return self._gates[loop]

    async def _send(self, request: JudgeRequest, prompt: Prompt, attempt: int, spent: _Spent) -> RawReply:
        """One attempt: money is reserved and the attempt announced before it, the ledger is told after it."""
        async with self._gate():
            estimate = self._estimate(prompt)
            reservation = self._budget.reserve(estimate) if self._budget is not None else None
            begun = self._begun(request, prompt, attempt, estimate)
            started = time.perf_counter()
            raw: RawReply | None = None
            problem: str | None = _NOT_SENT
            costs = False
            try:
                if self._announce is not None:
                    await self._announce(begun)
                problem, costs = _UNDER_WAY, True
                reply = raw = await self._transport.send(prompt)
                problem = _problem(raw)
            except TransportError as error:
                problem = str(error)
                costs = error.billed
                raise
            finally:
                entry = self._ended(begun, raw, costs=costs)
                entry = replace(entry, error=problem, duration_s=time.perf_counter() - started)
                self._note(entry, spent)
                if self._budget is not None and reservation is not None:
                    # An attempt the API turned away costs nothing; one whose answer got lost keeps its reservation.
                    self._budget.settle(reservation, entry.cost_usd if costs else 0.0)
        return reply

    def _note(self, entry: LedgerEntry, spent: _Spent) -> None:
        if entry.error != _NOT_SENT:
            spent.add(entry)
        elif self._announce is None:
            return  # nobody was told of it
        if self._ledger is not None:
            self._ledger(entry)

    def _begun(self, request: JudgeRequest, prompt: Prompt, attempt: int, estimate: float | None) -> LedgerEntry:
        """The entry of an attempt of which nothing is known but that it begins."""
        return LedgerEntry(
            call_id=self._new_id(),
            created_ns=self._now_ns(),
            purpose=request.purpose,
            model=prompt.model,
            reserved_usd=estimate,
            error=_UNDER_WAY,
            attempt=attempt,
        )

    def _ended(self, begun: LedgerEntry, raw: RawReply | None, *, costs: bool) -> LedgerEntry:
        """The same entry with what the reply tells; a little later, so that it replaces the first."""
        entry = replace(begun, created_ns=begun.created_ns + 1)
        if raw is None:
            return entry if costs else replace(entry, reserved_usd=None)
        cost = self._cost(raw, begun.model)
        return replace(
            entry,
            model=raw.model,
            input_tokens=raw.input_tokens,
            output_tokens=raw.output_tokens,
            cost_usd=cost,
            reserved_usd=begun.reserved_usd if cost is None else None,
            stop_reason=raw.stop_reason,
        )

    def _cost(self, raw: RawReply, asked: str) -> float | None:
        if raw.input_tokens is None or raw.output_tokens is None:
            return None
        counts = (raw.input_tokens, raw.output_tokens, raw.cache_read_tokens, raw.cache_write_tokens)
        provider = self._transport.provider
        cost = self._pricer(provider, raw.model, *counts)
        return self._pricer(provider, asked, *counts) if cost is None and asked != raw.model else cost

    def _estimate(self, prompt: Prompt) -> float | None:
        """The most the attempt is likely to cost; None when its price is unknown or nobody asks for it."""
        if self._budget is None and self._announce is None:
            return None
        # Bytes and not characters: one of Chinese or Japanese is a token or more.
        size = len((prompt.instructions + prompt.message).encode("utf-8", "replace"))
        tokens = int(size / _BYTES_A_TOKEN) + 200
        return self._pricer(self._transport.provider, prompt.model, tokens, prompt.max_tokens, 0, 0)

    def _validated(self, request: JudgeRequest, raw: RawReply, spent: _Spent) -> JudgeReply:
        usage = spent.usage(raw.model)
        problem = _problem(raw)
        if problem:
            kind = JudgeRefusedError if raw.refused else JudgeError
            raise kind(f"judge {raw.model!r} ({request.purpose}): {problem}", usage=usage)
        try:
            verdict = parsed(cast("str", raw.text), request.schema)
        except JudgeError as error:
            raise JudgeError(f"judge {raw.model!r} ({request.purpose}): {error}", usage=usage) from error
        return JudgeReply(verdict=verdict, usage=usage)


def _problem(raw: RawReply) -> str | None:
    if raw.refused:
        return "the model refused to judge"
    if not raw.finished:
        return f"the reply is cut off (stop reason {raw.stop_reason!r})"
    if not raw.text or not raw.text.strip():
        return "the reply is empty"
    return None
