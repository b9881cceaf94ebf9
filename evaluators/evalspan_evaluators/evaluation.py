"""Evaluation: all metrics of one rule on one run, scored anew only where something they read has changed."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Protocol, cast, runtime_checkable

from evalspan.errors import BudgetError, JudgeError, JudgeRefusedError, StoreError
from evalspan_collector.records import JudgeCallRecord, OutcomeName, ScoreRecord
from evalspan_collector.run import Run
from evalspan_collector.store.contract import Store
from evalspan_evaluators.case import Case
from evalspan_evaluators.judge import Judge, JudgeReply, JudgeRequest
from evalspan_evaluators.judges.ledger import Announce, Budget, Ledger, LedgerEntry
from evalspan_evaluators.metric import (
    JudgeMetric,
    Metric,
    evaluate_metric,
    evaluate_metric_async,
    needs_judge,
    threshold_of,
    version_of,
)
from evalspan_evaluators.outbox import WriteRows
from evalspan_evaluators.rule import Rule
from evalspan_evaluators.score import Score
from evalspan_evaluators.scoring import Fingerprints, case_of, inputs_of, score_record
from evalspan_evaluators.spending import CallBudget, DailyCaps

__all__ = ["BindableJudge", "Circuit", "Evaluation", "Evaluator"]

#: Takes ledger rows; they reach the store soon, and outlive a store that is away.
RecordRows = Callable[[WriteRows], None]
#: Writes ledger rows and returns once the store has them.
WriteNow = Callable[[WriteRows], Awaitable[None]]


@runtime_checkable
class BindableJudge(Protocol):
    """A judge that can be given another ledger, budget and announcement, see `ModelJudge.bound`."""

    def bound(
        self, *, ledger: Ledger | None = None, budget: Budget | None = None, announce: Announce | None = None
    ) -> Judge:
        """The same judge with these."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """What the metrics came to.

    Attributes:
        outcome: Name and reason of the rule's outcome for this run.
        rows: New scores; those that still hold are not repeated.
    """

    outcome: tuple[OutcomeName, str]
    rows: tuple[ScoreRecord, ...] = ()


class Circuit:
    """Keeps runs away from a judge that fails again and again, and lets one through now and then to see.

    Args:
        clock: Seconds, never going back.
        failures: Failures in a row that open it.
        pause_s: First pause, seconds; doubles up to ten times as long.
    """

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, *, failures: int = 5, pause_s: float = 30.0
    ) -> None:
        self._clock = clock
        self._limit = failures
        self._pause_s = pause_s
        self._failures = 0
        self._pauses = 0
        self._open_until: float | None = None

    def allows(self, wanted: int) -> int:
        """How many may pass now."""
        if self._open_until is None:
            return wanted
        return 0 if self._clock() < self._open_until else min(1, wanted)

    def failed(self) -> None:
        """A question got no answer."""
        self._failures += 1
        now = self._clock()
        # Those that were on their way when it opened tell nothing new.
        if self._failures < self._limit or (self._open_until is not None and now < self._open_until):
            return
        self._open_until = now + min(10.0, 2.0**self._pauses) * self._pause_s
        self._pauses += 1

    def worked(self) -> None:
        """A question was answered."""
        self._failures = self._pauses = 0
        self._open_until = None


class _Watch:
    """A judge that remembers how its calls failed: some failures may pass, others will not."""

    def __init__(self, judge: Judge, circuit: Circuit) -> None:
        self._judge = judge
        self._circuit = circuit
        self.passing: JudgeError | None = None
        self.away: StoreError | None = None

    async def ask(self, request: JudgeRequest) -> JudgeReply:
        """Ask and remember."""
        try:
            reply = await self._judge.ask(request)
        except (JudgeRefusedError, BudgetError):
            raise
        except StoreError as error:  # the ledger's: says nothing about the judge
            self.away = error
            raise
        except JudgeError as error:
            self.passing = error
            self._circuit.failed()
            raise
        self._circuit.worked()
        return reply


@dataclass(frozen=True, slots=True)
class _Task:
    """One metric to evaluate on one case."""

    rule: Rule
    run: Run
    case: Case
    metric: Metric | JudgeMetric
    inputs: int


@dataclass(slots=True)
class _Result:
    """One metric's score, or why there is none yet."""

    score: Score | None = None
    blocked: str | None = None
    passing: str | None = None
    kept: ScoreRecord | None = None
    inputs: int = 0


class Evaluator:
    """Evaluates rules on runs.

    Args:
        judge: Asked by judge metrics; None makes their scores errors.
        caps: What the judge may spend.
        store: Where the ledger is written.
        record: Takes ledger rows.
        write: Writes ledger rows of calls that are about to be made.
        now_ns: A strictly growing clock.
        metric_s: Longest time for one metric, seconds.
        circuit: Pauses a judge that fails; None takes the usual one.
    """

    def __init__(
        self,
        *,
        judge: Judge | None,
        caps: DailyCaps,
        store: Store,
        record: RecordRows,
        write: WriteNow,
        now_ns: Callable[[], int],
        metric_s: float,
        circuit: Circuit | None = None,
    ) -> None:
        self._judge = judge
        self._caps = caps
        self._store = store
        self._record = record
        self._write = write
        self._now_ns = now_ns
        self._metric_s = metric_s
        self._circuit = circuit or Circuit()
        self._pool = self._new_pool()

    def close(self) -> None:
        """Give back threads."""
        self._pool.shutdown(wait=False)

    async def evaluate(
        self, rule: Rule, run: Run, earlier: Sequence[Run] = (), known: Sequence[ScoreRecord] = ()
    ) -> Evaluation:
        """Score a run by every metric of a rule.

        Args:
            rule: Metrics and expectations.
            run: The run.
            earlier: Runs of its session before it, oldest first.
            known: Its current scores under this rule: a metric keeps one that was made from the same inputs.
        """
        case = case_of(run, expected=rule.expected, earlier=earlier)
        fingerprints = Fingerprints(case)
        by_metric = {row.metric: row for row in known}
        tasks = [_Task(rule, run, case, metric, fingerprints.of(metric)) for metric in rule.metrics]
        results = await asyncio.gather(*(self._one(task, by_metric.get(task.metric.name)) for task in tasks))
        rows = tuple(
            score_record(result.score, run, rule=rule.name, created_ns=self._now_ns(), inputs=result.inputs)
            for result in results
            if result.score is not None
        )
        # A score that still holds goes with its run, or it would be counted where and when the run no longer is.
        moved = tuple(
            replace(
                kept,
                run_revision=run.revision,
                created_ns=self._now_ns(),
                agent=run.agent,
                run_started_ns=run.started_ns,
            )
            for kept in (result.kept for result in results)
            if kept is not None and (kept.agent, kept.run_started_ns) != (run.agent, run.started_ns)
        )
        return Evaluation(outcome=_outcome(results), rows=(*rows, *moved))

    def judge_allows(self, wanted: int) -> int:
        """How many runs may ask the judge now: all, one to try it, or none while it is known to fail."""
        return self._circuit.allows(wanted)

    async def _one(self, task: _Task, known: ScoreRecord | None) -> _Result:
        metric, inputs = task.metric, task.inputs
        if known is not None and _still_holds(known, metric, inputs):
            return _Result(kept=known)
        if not needs_judge(metric):
            return _Result(score=await self._sync(cast("Metric", metric), task.case), inputs=inputs)
        budget = self._caps.budget(task.rule)
        watch = self._watch(task, metric, budget)
        try:
            async with asyncio.timeout(self._metric_s):
                score = await evaluate_metric_async(metric, task.case, watch)
        except TimeoutError:
            self._circuit.failed()
            return _Result(score=_too_slow(metric, self._metric_s), passing="the judge was too slow", inputs=inputs)
        if watch is not None and watch.away is not None:  # no call without its row in the ledger
            raise watch.away
        if score.error is not None and budget is not None and budget.blocked is not None:
            return _Result(blocked=budget.blocked)
        passing = str(watch.passing) if watch is not None and watch.passing is not None else None
        return _Result(score=score, passing=passing if score.error is not None else None, inputs=inputs)

    async def _sync(self, metric: Metric, case: Case) -> Score:
        """Off the loop, so that a slow metric stops no judge; one that never ends is left behind."""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._metric_s):
                return await loop.run_in_executor(self._pool, evaluate_metric, metric, case)
        except TimeoutError:
            self._pool.shutdown(wait=False)
            self._pool = self._new_pool()
            return _too_slow(metric, self._metric_s)

    def _watch(self, task: _Task, metric: JudgeMetric, budget: CallBudget | None) -> _Watch | None:
        if self._judge is None:
            return None
        if not isinstance(self._judge, BindableJudge):
            return _Watch(self._judge, self._circuit)

        def ledger(entry: LedgerEntry) -> None:
            self._record((self._store.write_judge_calls, [_ledger_row(entry, task.rule, task.run, metric)]))

        async def announce(entry: LedgerEntry) -> None:
            await self._write((self._store.write_judge_calls, [_ledger_row(entry, task.rule, task.run, metric)]))

        return _Watch(self._judge.bound(ledger=ledger, budget=budget, announce=announce), self._circuit)

    @staticmethod
    def _new_pool() -> ThreadPoolExecutor:
        return ThreadPoolExecutor(4, thread_name_prefix="metric")


def _still_holds(known: ScoreRecord, metric: Metric | JudgeMetric, inputs: int) -> bool:
    return known.error is None and known.metric_version == version_of(metric) and inputs_of(known) == inputs


def _too_slow(metric: Metric | JudgeMetric, limit_s: float) -> Score:
    error = f"no result within {limit_s:g} s"
    return Score.failed(metric.name, error, threshold=threshold_of(metric), metric_version=version_of(metric))


def _ledger_row(entry: LedgerEntry, rule: Rule, run: Run, metric: JudgeMetric) -> JudgeCallRecord:
    return JudgeCallRecord(
        project=run.project,
        call_id=entry.call_id,
        created_ns=entry.created_ns,
        rule=rule.name,
        metric=metric.name,
        run_id=run.run_id,
        purpose=entry.purpose,
        model=entry.model,
        input_tokens=entry.input_tokens,
        output_tokens=entry.output_tokens,
        cost_usd=entry.cost_usd,
        reserved_usd=entry.reserved_usd,
        stop_reason=entry.stop_reason,
        error=entry.error,
        duration_s=entry.duration_s,
    )


def _outcome(results: Sequence[_Result]) -> tuple[OutcomeName, str]:
    """The worst thing that happened names the outcome; money first, since that alone needs a person."""
    blocked = [r.blocked for r in results if r.blocked is not None]
    if blocked:
        return "over_budget", blocked[0]
    passing = [r.passing for r in results if r.passing is not None]
    if passing:
        return "waiting", f"the judge failed, trying again: {passing[0]}"
    errors = [r.score for r in results if r.score is not None and r.score.error is not None]
    if errors:
        return "error", "; ".join(f"{score.metric}: {score.error}" for score in errors)
    applied = [r for r in results if not _is_not_applicable(r)]
    if not applied:
        reasons = [r.score.reason if r.score else r.kept.reason if r.kept else "" for r in results]
        return "not_applicable", "; ".join(dict.fromkeys(reasons)) or "the rule has no metrics"
    kept = sum(r.kept is not None for r in results)
    return "scored", f"{kept} of {len(results)} scores still hold" if kept else ""


def _is_not_applicable(result: _Result) -> bool:
    if result.score is not None:
        return result.score.not_applicable
    return result.kept is not None and result.kept.not_applicable
