"""Contract: what every store can do; the contract test runs over all of them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

from evalspan_collector.records import (
    Aggregate,
    AlertEvent,
    AlertState,
    JudgeCallRecord,
    OutcomeName,
    OutcomeRecord,
    RunSummary,
    ScoreRecord,
)
from evalspan_collector.run import Run
from evalspan_collector.span import LogRecord, Span
from evalspan_collector.store.current import Stamp

if TYPE_CHECKING:  # it needs the driver, which evaluators run without
    from evalspan_collector.store.span_block import SpanBlock

__all__ = [
    "AggregateQuery",
    "Facets",
    "OpenTrace",
    "RunPoint",
    "RunQuery",
    "RunTrend",
    "ScorePoint",
    "ScoreQuery",
    "ScoreTrend",
    "SeriesQuery",
    "Store",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunQuery:
    """Which runs; None means any. Pages by key: pass the last row's (started_ns, run_id) as `before`."""

    project: str | None = None
    agent: str | None = None
    status: Literal["ok", "error"] | None = None
    state: str | None = None
    session_id: str | None = None
    user_id: str | None = None
    service: str | None = None
    environment: str | None = None
    model: str | None = None
    tool: str | None = None
    flag: str | None = None
    since_ns: int | None = None
    until_ns: int | None = None
    #: Only runs with a current score of this metric ...
    metric: str | None = None
    #: ... that passed or failed.
    passed: bool | None = None
    max_score: float | None = None
    text: str | None = None
    before: tuple[int, str] | None = None
    limit: int = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreQuery:
    """Which current scores; None means any.

    Attributes:
        worst_first: Lowest values first, those without one last, and of equal ones the newest runs; otherwise the
            newest scores come first.
    """

    project: str | None = None
    run_ids: tuple[str, ...] | None = None
    metric: str | None = None
    rule: str | None = None
    agent: str | None = None
    passed: bool | None = None
    worst_first: bool = False
    since_ns: int | None = None
    until_ns: int | None = None
    limit: int = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class AggregateQuery:
    """A number over a window of runs.

    Attributes:
        of: `score` (of `metric`), `pass_rate` (of `metric`), `cost`, `latency`, `error_rate`, `runs`, `tokens`.
        aggregate: How the numbers of the window become one; a rate ignores it.
        since_ns: Start of the window by the runs' start, inclusive; `until_ns` exclusive.
    """

    project: str
    of: Literal["score", "pass_rate", "cost", "latency", "error_rate", "runs", "tokens"]
    aggregate: Literal["avg", "min", "max", "sum", "p50", "p90", "p95", "p99"] = "avg"
    metric: str | None = None
    agent: str | None = None
    environment: str | None = None
    since_ns: int = 0
    until_ns: int = 2**62


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesQuery:
    """Numbers over time: runs that started in [since_ns, until_ns), in buckets of `step_s` seconds."""

    since_ns: int
    until_ns: int
    step_s: int
    project: str | None = None
    agent: str | None = None
    environment: str | None = None

    @property
    def before_ns(self) -> int:
        """Start of the window of the same length that ends where this one starts; not before 1970."""
        return max(2 * self.since_ns - self.until_ns, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPoint:
    """One bucket of runs; sums and percentiles are None where nothing is known."""

    start_ns: int
    runs: int
    errors: int
    cost_usd: float | None = None
    cost_unknown_calls: int = 0
    input_tokens: int | None = None
    output_tokens: int | None = None
    latency_p50_s: float | None = None
    latency_p95_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScorePoint:
    """One bucket of one metric's current scores, by the start of their runs.

    Attributes:
        scored: Scores with a value; `passed` of them passed.
        average: Mean value, None when nothing was scored.
        errors: Scores that are errors; left out of `scored`.
        not_applicable: Likewise left out.
    """

    start_ns: int
    metric: str
    scored: int
    passed: int
    average: float | None = None
    errors: int = 0
    not_applicable: int = 0
    judge_cost_usd: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTrend:
    """Runs of a window over time, and that window beside the one before it.

    Attributes:
        points: Buckets of the window, without empty ones.
        whole: All of the window; percentiles are of its runs, not of its buckets. None when it holds no runs.
        before: All of the window of the same length that ends where this one starts.
    """

    points: tuple[RunPoint, ...] = ()
    whole: RunPoint | None = None
    before: RunPoint | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreTrend:
    """Scores of a window over time; `before` has one point per metric for the window before it."""

    points: tuple[ScorePoint, ...] = ()
    before: tuple[ScorePoint, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Facets:
    """Values that the screens offer as filters, by how often they occur."""

    projects: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()
    environments: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTrace:
    """A trace with spans newer than its last assembly: the pending set, kept in the store."""

    project: str
    trace_id: str
    first_received_ns: int
    last_received_ns: int
    spans: int

    @property
    def order(self) -> tuple[int, str, str]:
        """Its place among the others."""
        return self.last_received_ns, self.project, self.trace_id


@runtime_checkable
class Store(Protocol):
    """All reads take a project; None means every project the caller may see.

    Inserts are idempotent: the same token (and the same rows) twice leaves one copy.
    """

    # spans and logs
    def insert_spans(self, spans: Sequence[Span], *, token: str) -> None:
        """Add or replace spans by (project, trace, span); the newest `received_ns` wins."""
        ...

    def insert_block(self, block: "SpanBlock", *, token: str) -> None:
        """The same for a block that is ready."""
        ...

    def insert_logs(self, logs: Sequence[LogRecord], *, token: str) -> None:
        """Add log records that wait for their span."""
        ...

    def spans(self, project: str, trace_ids: Sequence[str]) -> list[Span]:
        """Every span of these traces, once, in no order."""
        ...

    def logs(self, project: str, trace_ids: Sequence[str]) -> list[LogRecord]:
        """Every log record of these traces."""
        ...

    def stamps(self, project: str, trace_ids: Sequence[str]) -> dict[str, Stamp]:
        """What tells whether a reader has all of these traces; one without spans and logs may be missing."""
        ...

    def first_arrivals(self, project: str, trace_ids: Sequence[str], *, start_ns: int, end_ns: int) -> dict[str, int]:
        """When the first span of each trace that ran within these times was received, those since replaced included."""
        ...

    def open_traces(
        self, *, since_received_ns: int = 0, after: OpenTrace | None = None, limit: int = 10_000
    ) -> list[OpenTrace]:
        """Traces with spans or logs newer than their last assembly, oldest first; the next page is `after` the last."""
        ...

    def settle_traces(self, project: str, traces: Sequence[tuple[str, int]]) -> None:
        """Mark traces as assembled up to a received time, whatever runs they gave."""
        ...

    def neighbour_traces(
        self,
        project: str,
        *,
        processes: Sequence[str],
        session_ids: Sequence[str],
        start_ns: int,
        end_ns: int,
        limit: int = 200,
    ) -> list[str]:
        """Traces of these processes (instance id or service) or sessions that overlap the window, by their start."""
        ...

    # runs
    def write_runs(self, runs: Sequence[Run], *, token: str) -> None:
        """Add revisions of runs, and mark their traces as assembled up to `last_received_ns`."""
        ...

    def withdraw_runs(self, project: str, run_ids: Sequence[str], *, now_ns: int) -> None:
        """Tombstone these runs and their scores: no list shows them again."""
        ...

    def run(self, project: str | None, run_id: str) -> Run | None:
        """The run with its content, assembled from its spans; None when there is none."""
        ...

    def runs_content(self, summaries: Sequence[RunSummary]) -> list[Run]:
        """The runs of these rows with their content, without those withdrawn meanwhile, in one read: keep them few."""
        ...

    def run_summary(self, project: str | None, run_id: str) -> RunSummary | None:
        """Its row without content; None when there is none."""
        ...

    def runs(self, query: RunQuery) -> list[RunSummary]:
        """Current revisions, newest start first."""
        ...

    def last_revisions(self, project: str, run_ids: Sequence[str]) -> list[RunSummary]:
        """The newest row of each of these runs that was ever written, of withdrawn ones too, in no order."""
        ...

    def runs_of_traces(self, project: str, trace_ids: Sequence[str]) -> list[RunSummary]:
        """Current revisions of the runs these traces belong to."""
        ...

    def changed_runs(self, *, after_ns: int, limit: int = 500) -> list[RunSummary]:
        """Closed, amended or withdrawn runs whose row is newer than `after_ns`, oldest first."""
        ...

    # scores and outcomes
    def write_scores(self, scores: Sequence[ScoreRecord], *, token: str) -> None:
        """Add scores; a newer one of the same (project, run, metric, rule) supersedes."""
        ...

    def scores(self, query: ScoreQuery) -> list[ScoreRecord]:
        """Current scores, newest first."""
        ...

    def write_outcomes(self, outcomes: Sequence[OutcomeRecord], *, token: str) -> None:
        """Add outcomes; a newer one of the same (rule, run, revision) supersedes."""
        ...

    def outcomes(self, project: str | None, *, run_ids: Sequence[str] | None = None, rule: str | None = None,
                 name: OutcomeName | None = None, before: tuple[int, str] | None = None,
                 limit: int = 1000) -> list[OutcomeRecord]:  # fmt: skip
        """Current outcomes, newest first; of a name, those that are it now.

        `before` is (created_ns, run_id) of the last one of the page before.
        """
        ...

    def unjudged_runs(
        self, project: str, rule: str, rule_version: str, *, since_ns: int, limit: int = 200
    ) -> list[RunSummary]:
        """Runs written since then with no final outcome of this rule for their revision, oldest first."""
        ...

    def runs_mark(self) -> tuple[int, ...]:
        """Cheap to ask; another one after runs or outcomes were written, whatever times they carry.

        It may change without, and a write may coincide with a merge that hides it: look all the same now and then.
        """
        ...

    def write_judge_calls(self, calls: Sequence[JudgeCallRecord], *, token: str) -> None:
        """Add calls to the ledger."""
        ...

    def judge_spend(self, project: str, *, rule: str | None, since_ns: int) -> float:
        """US dollars of the ledger since then; a call of unknown cost counts with what was set aside for it."""
        ...

    # aggregates and alerts
    def aggregate(self, query: AggregateQuery) -> Aggregate:
        """One number over a window of current runs and scores."""
        ...

    def run_trend(self, query: SeriesQuery) -> RunTrend:
        """Current runs over time, and beside the window before."""
        ...

    def score_trend(self, query: SeriesQuery) -> ScoreTrend:
        """Current scores over time, per metric, and beside the window before."""
        ...

    def facets(self, project: str | None, *, since_ns: int) -> Facets:
        """What occurs since then, most frequent first."""
        ...

    def alert_states(self, project: str | None = None) -> list[AlertState]:
        """Current state of every alert."""
        ...

    def write_alert_state(self, state: AlertState) -> None:
        """Replace the state of an alert."""
        ...

    def write_alert_event(self, event: AlertEvent) -> None:
        """Add a change of state, or replace it by its `event_id` once delivered."""
        ...

    def alert_events(self, project: str | None = None, *, limit: int = 200) -> list[AlertEvent]:
        """Changes, newest first."""
        ...

    # life
    def ping(self) -> None:
        """Answer, or raise `StoreUnreachableError`."""
        ...

    def close(self) -> None:
        """Give back connections."""
        ...

    def iter_spans(self, project: str, *, since_ns: int, until_ns: int) -> Iterator[Span]:
        """Stream spans received in [since_ns, until_ns), for export."""
        ...
