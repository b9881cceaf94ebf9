"""ClickHouse store: the contract over a ClickHouse server, the embedded front, or chDB in this process."""

import time
from collections.abc import Callable, Iterator, Sequence

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
from evalspan_collector.store._alerts import AlertTables
from evalspan_collector.store._numbers import NumberReader
from evalspan_collector.store._runs import RunTables
from evalspan_collector.store._scores import ScoreTables
from evalspan_collector.store._spans import SpanTables
from evalspan_collector.store.client import Client
from evalspan_collector.store.contract import (
    AggregateQuery,
    Facets,
    OpenTrace,
    RunQuery,
    RunTrend,
    ScoreQuery,
    ScoreTrend,
    SeriesQuery,
)
from evalspan_collector.store.current import Assemble, LastAssembly, Stamp, Ticker, current_run, current_runs
from evalspan_collector.store.span_block import SpanBlock

__all__ = ["ClickHouseStore"]


class ClickHouseStore:
    """The store on one client; safe for threads.

    Args:
        client: Connection with the schema in place.
        assemble: Rebuilds runs from spans and logs, for `run`.
        fingerprint: Hash of a run's content, kept with its row.
        clock: Nanoseconds since the epoch.
    """

    def __init__(
        self,
        client: Client,
        *,
        assemble: Assemble,
        fingerprint: Callable[[Run], str],
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        self.client = client
        self._assembly = LastAssembly(assemble)
        self._clock = Ticker(clock)
        self._spans = SpanTables(client, self._clock)
        self._runs = RunTables(client, self._clock, fingerprint)
        self._scores = ScoreTables(client, self._clock)
        self._alerts = AlertTables(client, self._clock)
        self._numbers = NumberReader(client, self._clock)

    # spans and logs

    def insert_spans(self, spans: Sequence[Span], *, token: str) -> None:
        """Add or replace spans by (project, trace, span); the newest `received_ns` wins."""
        self._spans.insert_spans(spans, token)

    def insert_block(self, block: SpanBlock, *, token: str) -> None:
        """The same for a block that is ready."""
        self._spans.insert_block(block, token)

    def insert_logs(self, logs: Sequence[LogRecord], *, token: str) -> None:
        """Add log records that wait for their span."""
        self._spans.insert_logs(logs, token)

    def spans(self, project: str, trace_ids: Sequence[str]) -> list[Span]:
        """Every span of these traces, once."""
        return self._spans.spans(project, trace_ids)

    def logs(self, project: str, trace_ids: Sequence[str]) -> list[LogRecord]:
        """Every log record of these traces."""
        return self._spans.logs(project, trace_ids)

    def stamps(self, project: str, trace_ids: Sequence[str]) -> dict[str, Stamp]:
        """What tells whether a reader has all of these traces; one without spans and logs may be missing."""
        return self._spans.stamps(project, trace_ids)

    def first_arrivals(self, project: str, trace_ids: Sequence[str], *, start_ns: int, end_ns: int) -> dict[str, int]:
        """When the first span of each trace that ran within these times was received, those since replaced included."""
        return self._spans.first_arrivals(project, trace_ids, window=(start_ns, end_ns))

    def open_traces(
        self, *, since_received_ns: int = 0, after: OpenTrace | None = None, limit: int = 10_000
    ) -> list[OpenTrace]:
        """Traces with spans or logs newer than their last assembly, or with an open run; oldest first."""
        return self._spans.open_traces(since_received_ns, after, limit)

    def settle_traces(self, project: str, traces: Sequence[tuple[str, int]]) -> None:
        """Mark traces as assembled up to a received time, whatever runs they gave."""
        self._spans.note_settled(project, traces)

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
        """Traces of these processes or sessions whose spans overlap the window, earliest first."""
        return self._spans.neighbours(project, processes, session_ids, window=(start_ns, end_ns), limit=limit)

    def iter_spans(self, project: str, *, since_ns: int, until_ns: int) -> Iterator[Span]:
        """Stream spans received in [since_ns, until_ns), for export."""
        return self._spans.iterate(project, since_ns, until_ns)

    # runs

    def write_runs(self, runs: Sequence[Run], *, token: str) -> None:
        """Add revisions of runs, and mark the traces of closed ones as assembled."""
        if runs:
            self._runs.write(runs, token)
            self._spans.note_runs(runs, token)

    def withdraw_runs(self, project: str, run_ids: Sequence[str], *, now_ns: int) -> None:
        """Tombstone these runs and their scores."""
        if run_ids:
            traces = self._runs.withdraw(project, run_ids, now_ns)
            self._scores.withdraw(project, run_ids, now_ns)
            self._spans.note_settled(project, [(trace, 0) for trace, _ in traces], run_ids)

    def run(self, project: str | None, run_id: str) -> Run | None:
        """The run with its content, assembled from its spans; None when there is none."""
        summary = self._runs.summary(project, run_id)
        if summary is None:
            return None
        traces = summary.trace_ids
        assembled = self._assembly.get(summary.project, traces, lambda: self._spans.stamp(summary.project, traces))
        if assembled is None:
            spans, logs = self.spans(summary.project, traces), self.logs(summary.project, traces)
            assembled = self._assembly.make(summary.project, traces, spans, logs)
        return current_run(summary, assembled)

    def runs_content(self, summaries: Sequence[RunSummary]) -> list[Run]:
        """The runs of these rows with their content, in their order, read together: keep them few."""
        return current_runs(summaries, self, self._assembly)

    def run_summary(self, project: str | None, run_id: str) -> RunSummary | None:
        """Its row without content; None when there is none."""
        return self._runs.summary(project, run_id)

    def runs(self, query: RunQuery) -> list[RunSummary]:
        """Current revisions, newest start first."""
        return self._runs.query(query, self._clock())

    def runs_of_traces(self, project: str, trace_ids: Sequence[str]) -> list[RunSummary]:
        """Current revisions of the runs these traces belong to."""
        return self._runs.of_traces(project, trace_ids)

    def last_revisions(self, project: str, run_ids: Sequence[str]) -> list[RunSummary]:
        """The newest row of each of these runs, of withdrawn ones too."""
        return self._runs.last_revisions(project, run_ids)

    def changed_runs(self, *, after_ns: int, limit: int = 500) -> list[RunSummary]:
        """Closed, amended or withdrawn runs whose row is newer than `after_ns`, oldest first."""
        return self._runs.changed(after_ns, limit)

    def unjudged_runs(
        self, project: str, rule: str, rule_version: str, *, since_ns: int, limit: int = 200
    ) -> list[RunSummary]:
        """Runs written since then with no final outcome of this rule for their revision, oldest first."""
        return self._runs.unjudged(project, rule, rule_version, since_ns, limit)

    def runs_mark(self) -> tuple[int, ...]:
        """Another one after runs or outcomes were written; see the contract."""
        return self._runs.mark()

    # scores and outcomes

    def write_scores(self, scores: Sequence[ScoreRecord], *, token: str) -> None:
        """Add scores; a newer one of the same (project, run, metric, rule) supersedes."""
        self._scores.write_scores(scores, token)

    def scores(self, query: ScoreQuery) -> list[ScoreRecord]:
        """Current scores, newest first."""
        return self._scores.scores(query, self._clock())

    def write_outcomes(self, outcomes: Sequence[OutcomeRecord], *, token: str) -> None:
        """Add outcomes; a newer one of the same (rule, run, revision) supersedes."""
        self._scores.write_outcomes(outcomes, token)

    def outcomes(self, project: str | None, *, run_ids: Sequence[str] | None = None, rule: str | None = None,
                 name: OutcomeName | None = None, before: tuple[int, str] | None = None,
                 limit: int = 1000) -> list[OutcomeRecord]:  # fmt: skip
        """Current outcomes, newest first."""
        return self._scores.outcomes(project, run_ids=run_ids, rule=rule, name=name, before=before, limit=limit)

    def write_judge_calls(self, calls: Sequence[JudgeCallRecord], *, token: str) -> None:
        """Add calls to the ledger."""
        self._scores.write_calls(calls, token)

    def judge_spend(self, project: str, *, rule: str | None, since_ns: int) -> float:
        """US dollars of the ledger since then."""
        return self._scores.spend(project, rule, since_ns)

    # numbers and alerts

    def aggregate(self, query: AggregateQuery) -> Aggregate:
        """One number over a window of current runs and scores."""
        return self._numbers.aggregate(query)

    def run_trend(self, query: SeriesQuery) -> RunTrend:
        """Runs over time, and beside the window before."""
        return self._numbers.run_trend(query)

    def score_trend(self, query: SeriesQuery) -> ScoreTrend:
        """Scores over time, per metric, and beside the window before."""
        return self._numbers.score_trend(query)

    def facets(self, project: str | None, *, since_ns: int) -> Facets:
        """What occurs since then, most frequent first."""
        return self._numbers.facets(project, since_ns)

    def alert_states(self, project: str | None = None) -> list[AlertState]:
        """Current state of every alert."""
        return self._alerts.states(project)

    def write_alert_state(self, state: AlertState) -> None:
        """Replace the state of an alert."""
        self._alerts.write_state(state)

    def write_alert_event(self, event: AlertEvent) -> None:
        """Add a change of state, or replace it by its `event_id`."""
        self._alerts.write_event(event)

    def alert_events(self, project: str | None = None, *, limit: int = 200) -> list[AlertEvent]:
        """Changes, newest first."""
        return self._alerts.events(project, limit)

    # life

    def ping(self) -> None:
        """Answer, or raise `StoreUnreachableError`."""
        self.client.rows("SELECT 1")

    def close(self) -> None:
        """Give back connections."""
        self.client.close()
