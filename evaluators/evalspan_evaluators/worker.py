"""Worker: scores closed runs by the rules, each once per revision, and says why where it does not."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar

import structlog

from evalspan.errors import StoreError, StoreUnreachableError
from evalspan_collector.records import OutcomeName, OutcomeRecord, RunSummary, ScoreRecord
from evalspan_collector.store.contract import ScoreQuery, Store
from evalspan_evaluators.config import Config
from evalspan_evaluators.evaluation import Circuit, Evaluation, Evaluator
from evalspan_evaluators.judge import Judge
from evalspan_evaluators.outbox import Outbox, WriteRows, token_of
from evalspan_evaluators.over_budget import OverBudget
from evalspan_evaluators.rule import DEFAULT_BACKFILL_S, Rule, is_sampled
from evalspan_evaluators.run_reader import RunReader
from evalspan_evaluators.scoring import RECEIVED_RULE, received_records
from evalspan_evaluators.spending import DailyCaps

__all__ = ["TickReport", "Worker", "WorkerLimits"]

_log = structlog.get_logger(__name__)
_NS = 1_000_000_000
_RECEIVED_VERSION = "1"
#: Reason of the mark that is written before an evaluation; found later, it tells that the evaluation never ended.
_BEING_SCORED = "being scored"
#: Reason of a run that was taken and given back because the worker was told to stop: no try of it counts.
_GIVEN_BACK = "given back when the worker stopped"

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerLimits:
    """Bounds of the worker.

    Attributes:
        batch: Runs taken per rule and tick.
        concurrency: Runs evaluated at the same time.
        attempts: Tries of a run that breaks the worker or whose judge fails, before it is given up.
        retry_s: Pause before the second try, seconds; doubles with each further one.
        metric_s: Longest time for one metric, seconds.
        replay_s: How often runs that were over budget are tried again, seconds.
        look_s: Longest time without looking for runs while the store says that none were written, seconds.
    """

    batch: int = 100
    concurrency: int = 8
    attempts: int = 5
    retry_s: float = 5.0
    metric_s: float = 120.0
    replay_s: float = 60.0
    look_s: float = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TickReport:
    """What one tick did.

    Attributes:
        outcomes: How often each outcome was written.
        scores: Scores written.
    """

    outcomes: Mapping[OutcomeName, int] = field(default_factory=dict[OutcomeName, int])
    scores: int = 0

    @property
    def idle(self) -> bool:
        """Nothing was there to do."""
        return not self.outcomes


@dataclass(frozen=True, slots=True)
class _Job:
    """One run to evaluate under one rule, for the n-th time.

    Attributes:
        alone: After a try that ended the process.
        replayed: It was over budget. Its outcome stays that until it is settled: the rule may look no longer for a
            run this old that waits.
    """

    rule: Rule
    summary: RunSummary
    attempt: int
    alone: bool = False
    replayed: bool = False


class Worker:
    """Applies the rules of a configuration to the runs of a store.

    What it decides is in the store: a restart repeats at most the runs that were being evaluated, and their
    scores replace each other. A run that ends the process is tried alone next time, so its neighbours go on.

    Args:
        store: Where runs come from and scores go; called from one thread at a time.
        config: Rules and caps.
        judge: Asked by judge metrics; one with `bound` (see `ModelJudge`) gets the ledger and the caps.
        clock: Nanoseconds since the epoch.
        limits: Bounds.
        circuit: Pauses a judge that fails; None takes the usual one.
    """

    def __init__(
        self,
        store: Store,
        config: Config,
        *,
        judge: Judge | None = None,
        clock: Callable[[], int] = time.time_ns,
        limits: WorkerLimits | None = None,
        circuit: Circuit | None = None,
    ) -> None:
        self._store = store
        self._config = config
        self._clock = clock
        self._limits = limits or WorkerLimits()
        self._last_ns = 0
        self._io = ThreadPoolExecutor(1, thread_name_prefix="store")
        self._deferred: dict[tuple[str, str, int], int] = {}
        self._mark: tuple[int, ...] | None = None  # of a look that found nothing
        self._looked_ns = 0
        self._outbox = Outbox(self._call)
        self._stopping = threading.Event()
        self._reader = RunReader(store, self._call, stopping=self._stopping.is_set)
        self._over_budget = OverBudget(store, self._call)
        self._under_way: set[asyncio.Task[Evaluation]] = set()
        self._caps, self._evaluator = self._set_up(config, judge, circuit)

    def _set_up(self, config: Config, judge: Judge | None, circuit: Circuit | None) -> tuple[DailyCaps, Evaluator]:
        total_usd = config.judge.max_usd_per_day if config.judge else None
        caps = DailyCaps(self._store, total_usd=total_usd, clock=self._clock)
        evaluator = Evaluator(
            judge=judge,
            caps=caps,
            store=self._store,
            record=self._outbox.add,
            write=self._write_now,
            now_ns=self._now,
            metric_s=self._limits.metric_s,
            circuit=circuit,
        )
        return caps, evaluator

    def close(self) -> None:
        """Give back threads; the store stays open."""
        self._io.shutdown(wait=False)
        self._evaluator.close()

    def stop(self) -> None:
        """Take no further run: the tick under way ends with the evaluations that have begun."""
        self._stopping.set()

    def abandon(self) -> None:
        """Break off the evaluations under way; their runs are given back and are scored after the next start."""
        self._stopping.set()
        for task in tuple(self._under_way):
            task.cancel()

    async def configure(self, config: Config, judge: Judge | None, limits: WorkerLimits | None = None) -> None:
        """Go on with another configuration, between two ticks.

        Raises:
            StoreError: What was scored under the old one cannot be written yet; nothing has changed.
        """
        await self._outbox.flush()  # the caps of the new one are filled from the ledger: it must be whole
        self._config = config
        self._mark = None
        self._limits = limits or self._limits
        self._evaluator.close()
        self._caps, self._evaluator = self._set_up(config, judge, None)

    async def tick_if_news(self) -> TickReport:
        """As `tick`, but idle at once while nothing was written since a look that found nothing, up to `look_s`.

        Raises:
            StoreError: As of `tick`.
        """
        await self._outbox.flush()
        mark = await self._call(self._store.runs_mark)  # before the look: what is written during it is news
        early = 0 <= self._clock() - self._looked_ns < self._limits.look_s * _NS  # a clock that was set back looks
        if mark == self._mark and early and not self._deferred:
            return TickReport()
        self._mark = None
        held = self._evaluator.judge_allows(1) == 0
        report = await self.tick()
        if report.idle and not held:
            self._mark, self._looked_ns = mark, self._clock()
        return report

    async def tick(self) -> TickReport:
        """Take what is there for every rule, up to a batch each.

        Raises:
            StoreError: The store is away; what was scored is kept and written at the next tick.
        """
        await self._outbox.flush()
        counts: dict[OutcomeName, int] = {}
        scores = 0
        for project in self._config.projects:
            outcomes, received = await self._receive(project)
            scores += await self._write(received, outcomes, counts)
        # Rules without a judge first: a slow or failing model must not delay what needs none.
        for rule in sorted(self._config.rules, key=lambda rule: rule.asks_judge):
            batch = self._batch(rule)
            if batch == 0:
                continue
            together, alone, settled = await self._take(rule, batch)
            await self._write((), settled, counts)
            scores += await self._evaluate(rule, together, counts)
            for job in alone:
                scores += await self._evaluate(rule, [job], counts)
        scores += await self._replay(counts)
        return TickReport(outcomes=counts, scores=scores)

    async def with_store(self, work: Callable[[], T]) -> T:
        """Run something else that uses the same store, between the worker's own calls."""
        return await self._call(work)

    # taking runs

    def _batch(self, rule: Rule) -> int:
        """How many runs to take; few for a judge, one to see whether a failing judge is back, none before that."""
        if self._stopping.is_set():
            return 0
        if not rule.asks_judge:
            return self._limits.batch
        return self._evaluator.judge_allows(min(self._limits.batch, 2 * self._limits.concurrency))

    async def _take(self, rule: Rule, batch: int) -> tuple[list[_Job], list[_Job], list[OutcomeRecord]]:
        """Runs to evaluate together, runs to evaluate alone, and outcomes that need no evaluation."""
        # Runs that wait for their next try are in the answer too and must not fill it up.
        self._forget_deferred()
        limit = self._limits.batch + len(self._deferred)
        since = self._clock() - int(rule.backfill_s * _NS)
        runs = await self._call(
            lambda: self._store.unjudged_runs(
                rule.project, rule.name, rule.version, since_ns=max(0, since), limit=limit
            )
        )
        earlier = await self._earlier(rule, runs)
        jobs: list[_Job] = []
        settled: list[OutcomeRecord] = []
        for run in runs:
            verdict = self._triage(rule, run)
            before = earlier.get((run.run_id, run.revision))
            if verdict is not None:
                settled.append(verdict)
            elif len(jobs) >= batch:
                continue
            elif before is None:
                jobs.append(_Job(rule, run, 1))
            elif before.attempt >= self._limits.attempts:
                reason = f"given up after {before.attempt} tries: {before.reason}"
                settled.append(self._outcome(rule, run, "error", reason, attempt=before.attempt))
            elif self._is_due(rule, run, before):
                jobs.append(_Job(rule, run, before.attempt + 1, alone=before.reason == _BEING_SCORED))
        return [job for job in jobs if not job.alone], [job for job in jobs if job.alone], settled

    def _triage(self, rule: Rule, run: RunSummary) -> OutcomeRecord | None:
        reason = rule.filters.mismatch(run)
        if reason is not None:
            return self._outcome(rule, run, "filtered", reason)
        if not is_sampled(run.run_id, rule.sample):
            return self._outcome(rule, run, "sampled_out", f"not in the sample of {rule.sample:g}")
        return None

    async def _earlier(self, rule: Rule, runs: Sequence[RunSummary]) -> dict[tuple[str, int], OutcomeRecord]:
        """The unfinished outcomes of these runs under this version of the rule, by run and revision."""
        if not runs:
            return {}
        ids = [run.run_id for run in runs]
        ask = partial(self._store.outcomes, rule.project, run_ids=ids, rule=rule.name, name="waiting")
        found = await self._call(lambda: ask(limit=100 * len(ids)))
        return {(o.run_id, o.run_revision): o for o in found if o.rule_version == rule.version}

    def _is_due(self, rule: Rule, run: RunSummary, before: OutcomeRecord) -> bool:
        key = (rule.name, run.run_id, run.revision)
        if before.attempt == 0:  # given back before its first try
            return True
        pause_ns = int(self._limits.retry_s * 2 ** (before.attempt - 1) * _NS)
        if self._clock() < before.created_ns + pause_ns:
            self._deferred[key] = before.created_ns + pause_ns
            return False
        self._deferred.pop(key, None)
        return True

    def _forget_deferred(self) -> None:
        """Runs whose time came long ago were withdrawn or settled elsewhere."""
        limit = self._clock() - 3600 * _NS
        self._deferred = {key: due for key, due in self._deferred.items() if due > limit}

    # evaluating

    async def _evaluate(self, rule: Rule, jobs: Sequence[_Job], counts: dict[OutcomeName, int]) -> int:
        """Mark, evaluate and write; the number of scores."""
        if not jobs or self._stopping.is_set():
            return 0
        marks = [self._outcome(j.rule, j.summary, "waiting", _BEING_SCORED, attempt=j.attempt) for j in jobs]
        await self._call(lambda: self._store.write_outcomes(marks, token=token_of(marks)))
        _, scores = await self._each(rule, jobs, counts)
        return scores

    async def _each(self, rule: Rule, jobs: Sequence[_Job], counts: dict[OutcomeName, int]) -> tuple[int, int]:
        """Evaluate and write, rules with a judge run by run, the others all at once; outcomes and scores written."""
        await self._reader.read_ahead([job.summary for job in jobs])
        gate = asyncio.Semaphore(self._limits.concurrency)
        at_once = rule.asks_judge
        if at_once:  # fills the caps from the ledger on the store's thread
            await self._call(partial(self._caps.budget, rule))
        written = 0

        async def one(job: _Job) -> tuple[Sequence[ScoreRecord], list[OutcomeRecord]]:
            nonlocal written
            async with gate:
                rows, outcome = await self._attempt(job)
            outcomes = [outcome] if not job.replayed else _settled_again(outcome)
            if at_once and outcomes:
                written += await self._write(rows, outcomes, counts)
            return rows, outcomes

        results = await asyncio.gather(*(one(job) for job in jobs), return_exceptions=True)
        done = [result for result in results if not isinstance(result, BaseException)]
        outcomes = [outcome for _, some in done for outcome in some]
        if not at_once:
            written = await self._write([row for rows, _ in done for row in rows], outcomes, counts)
        for result in results:
            if isinstance(result, BaseException):
                raise result
        return sum(outcome.outcome != "over_budget" for outcome in outcomes), written

    async def _attempt(self, job: _Job) -> tuple[Sequence[ScoreRecord], OutcomeRecord]:
        """Evaluate one run; whatever breaks outside a metric is one failed try of this run alone."""
        if self._stopping.is_set():
            return (), self._given_back(job)
        task = asyncio.create_task(self._evaluation(job))
        self._under_way.add(task)
        try:
            evaluation = await task
        except asyncio.CancelledError:
            if not task.cancelled() or not self._stopping.is_set():
                raise
            return (), self._given_back(job)
        except StoreUnreachableError:  # says nothing about the run
            raise
        except Exception as error:  # noqa: BLE001  per-run boundary: one broken run must not stop its neighbours
            _log.warning("run could not be evaluated", rule=job.rule.name, run_id=job.summary.run_id, error=repr(error))
            reason = f"{type(error).__name__}: {error}"
            return (), self._outcome(job.rule, job.summary, "waiting", reason, attempt=job.attempt)
        finally:
            self._under_way.discard(task)
        name, reason = evaluation.outcome
        if name == "waiting" and job.attempt >= self._limits.attempts:
            name, reason = "error", f"given up after {job.attempt} tries: {reason}"
        return evaluation.rows, self._outcome(job.rule, job.summary, name, reason, attempt=job.attempt)

    def _given_back(self, job: _Job) -> OutcomeRecord:
        return self._outcome(job.rule, job.summary, "waiting", _GIVEN_BACK, attempt=job.attempt - 1)

    async def _evaluation(self, job: _Job) -> Evaluation:
        rule = job.rule
        run = await self._reader.read(job.summary)
        if run is None:
            return Evaluation(outcome=("waiting", "the run cannot be read"))
        reason = rule.filters.mismatch(run)
        if reason is not None:
            return Evaluation(outcome=("filtered", reason))
        turns = await self._reader.turns(job.summary)
        query = ScoreQuery(project=rule.project, run_ids=(run.run_id,), rule=rule.name)
        known = await self._call(lambda: self._store.scores(query)) if self._may_be_known(job) else []
        return await self._evaluator.evaluate(rule, run, turns, known)

    @staticmethod
    def _may_be_known(job: _Job) -> bool:
        """Scores can be there already: of an earlier revision, or of a try that was cut off."""
        return job.summary.revision > 1 or job.attempt > 1 or job.rule.asks_judge

    # received evaluations and runs that were over budget

    async def _receive(self, project: str) -> tuple[list[OutcomeRecord], list[ScoreRecord]]:
        """Evaluations that came with the spans become scores, whatever the rules say."""
        rule = Rule(name=RECEIVED_RULE, project=project, metrics=())
        since = max(0, self._clock() - int(DEFAULT_BACKFILL_S * _NS))
        runs = await self._call(
            lambda: self._store.unjudged_runs(
                project, RECEIVED_RULE, _RECEIVED_VERSION, since_ns=since, limit=self._limits.batch
            )
        )
        await self._reader.read_ahead(runs)
        outcomes: list[OutcomeRecord] = []
        rows: list[ScoreRecord] = []
        for summary in runs:
            try:
                arrived, (name, reason) = await self._received(summary)
            except StoreError:
                raise
            except Exception as error:  # noqa: BLE001  per-run boundary: one broken run must not stop its neighbours
                _log.warning("received evaluations unread", run_id=summary.run_id, error=repr(error))
                arrived, name, reason = [], "error", f"{type(error).__name__}: {error}"
            rows += arrived
            outcomes.append(replace(self._outcome(rule, summary, name, reason), rule_version=_RECEIVED_VERSION))
        return outcomes, rows

    async def _received(self, summary: RunSummary) -> tuple[list[ScoreRecord], tuple[OutcomeName, str]]:
        """The evaluations of one run, and the outcome of looking for them."""
        run = await self._reader.read(summary)
        if run is None:
            return [], ("error", "the run cannot be read")
        rows = received_records(run, created_ns=self._now())
        name: OutcomeName = "scored" if rows else "not_applicable"
        reason = f"{len(rows)} evaluations arrived with the run"
        if summary.revision > 1:
            rows += await self._withdrawn(summary, {(row.metric, row.rule) for row in rows})
        return rows, (name, reason)

    async def _withdrawn(self, summary: RunSummary, arrived: set[tuple[str, str]]) -> list[ScoreRecord]:
        """Tombstones of received scores that the newest revision has no longer."""
        query = ScoreQuery(project=summary.project, run_ids=(summary.run_id,))
        known = await self._call(lambda: self._store.scores(query))
        return [
            replace(row, superseded=True, run_revision=summary.revision, created_ns=self._now())
            for row in known
            if row.source == "received" and (row.metric, row.rule) not in arrived
        ]

    async def _replay(self, counts: dict[OutcomeName, int]) -> int:
        """Evaluate what was over budget, once there is money again; a rule without rests for a while."""
        written = 0
        for rule in (r for r in self._config.rules if r.asks_judge):
            batch, now = self._batch(rule), self._clock()
            if batch == 0 or self._over_budget.rests(rule, now, self._limits.replay_s):
                continue
            found = await self._over_budget.next(rule, batch)
            jobs = [_Job(rule, run, outcome.attempt, replayed=True) for outcome, run in found]
            settled, scores = await self._each(rule, jobs, counts)
            written += scores
            if settled < batch:
                self._over_budget.rest(rule, now)
        return written

    # writing

    def _outcome(
        self, rule: Rule, run: RunSummary, name: OutcomeName, reason: str, *, attempt: int = 1
    ) -> OutcomeRecord:
        return OutcomeRecord(
            project=run.project,
            rule=rule.name,
            run_id=run.run_id,
            run_revision=run.revision,
            outcome=name,
            rule_version=rule.version,
            created_ns=self._now(),
            reason=reason.encode("utf-8", "replace").decode(),
            attempt=attempt,
            run_started_ns=run.started_ns,
        )

    async def _write(
        self, scores: Iterable[ScoreRecord], outcomes: Sequence[OutcomeRecord], counts: dict[OutcomeName, int]
    ) -> int:
        """Scores first: an outcome that is there says its scores are there too."""
        rows = list(scores)
        self._outbox.add((self._store.write_scores, rows), (self._store.write_outcomes, outcomes))
        await self._outbox.flush()
        for outcome in outcomes:
            counts[outcome.outcome] = counts.get(outcome.outcome, 0) + 1
        return len(rows)

    async def _write_now(self, rows: WriteRows) -> None:
        """Write without waiting for anything in the outbox."""
        write, records = rows
        await self._call(lambda: write(records, token=token_of(records)))

    async def _call(self, work: Callable[[], T]) -> T:
        """Run a store call without stopping the loop; one at a time, a client is not shared between threads."""
        return await asyncio.get_running_loop().run_in_executor(self._io, work)

    def _now(self) -> int:
        """A strictly growing clock: of two rows of one key the later one must win."""
        self._last_ns = max(self._clock(), self._last_ns + 1)
        return self._last_ns


def _settled_again(outcome: OutcomeRecord) -> list[OutcomeRecord]:
    """What to write of a run that was over budget: nothing while it still is, one try more if the judge failed."""
    if outcome.outcome == "over_budget" or outcome.reason == _GIVEN_BACK:
        return []
    if outcome.outcome == "waiting":
        return [replace(outcome, outcome="over_budget", attempt=outcome.attempt + 1)]
    return [outcome]
