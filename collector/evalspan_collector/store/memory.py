"""Memory store: the contract in plain dictionaries, for tests and for work without a database."""

import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

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
from evalspan_collector.store._memory_match import wanted_outcome, wanted_run, wanted_score, within
from evalspan_collector.store._memory_numbers import aggregate, run_trend, score_trend
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
from evalspan_collector.store.run_rows import summary_of

if TYPE_CHECKING:  # it needs the driver
    from evalspan_collector.store.span_block import SpanBlock

__all__ = ["MemoryStore"]

_TraceKey = tuple[str, str]
_JUDGED: Final = frozenset({"closed", "amended"})


@dataclass(slots=True)
class _Trace:
    """What is known of a trace's assembly."""

    first_ns: int = 2**63
    last_ns: int = 0
    count: int = 0
    settled_ns: int = 0
    #: Start, end and time of receiving of every span that came, those since replaced included.
    ran: list[tuple[int, int, int]] = field(default_factory=list[tuple[int, int, int]])


class MemoryStore:
    """The store in this process's memory; safe for threads.

    Args:
        assemble: Rebuilds runs from spans and logs, for `run`.
        fingerprint: Hash of a run's content, kept with its row.
        clock: Nanoseconds since the epoch.
    """

    def __init__(
        self,
        *,
        assemble: Assemble | None = None,
        fingerprint: Callable[[Run], str] | None = None,
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        self._assembly = LastAssembly(assemble or _assemble)
        self._fingerprint = fingerprint or _fingerprint
        self._clock = Ticker(clock)
        self._guard = threading.RLock()
        self._tokens: set[str] = set()
        self._spans: dict[_TraceKey, dict[str, Span]] = defaultdict(dict)
        self._logs: dict[_TraceKey, dict[tuple[object, ...], LogRecord]] = defaultdict(dict)
        self._traces: dict[_TraceKey, _Trace] = defaultdict(_Trace)
        self._open: dict[_TraceKey, set[str]] = defaultdict(set)
        self._runs: dict[tuple[str, str], RunSummary] = {}
        self._scores: dict[tuple[str, str, str, str], ScoreRecord] = {}
        self._outcomes: dict[tuple[str, str, str, int], OutcomeRecord] = {}
        self._calls: dict[tuple[str, str], JudgeCallRecord] = {}
        self._alerts: dict[tuple[str, str], AlertState] = {}
        self._events: dict[tuple[str, str], AlertEvent] = {}

    def _fresh(self, kind: str, token: str) -> bool:
        if f"{kind}:{token}" in self._tokens:
            return False
        self._tokens.add(f"{kind}:{token}")
        return True

    # spans and logs

    def insert_spans(self, spans: Sequence[Span], *, token: str) -> None:
        """Add or replace spans by (project, trace, span); the newest `received_ns` wins."""
        with self._guard:
            if not self._fresh("spans", token):
                return
            for span in spans:
                kept = self._spans[span.project, span.trace_id]
                old = kept.get(span.span_id)
                if old is None or span.received_ns >= old.received_ns:
                    kept[span.span_id] = span
                self._arrived(span.project, span.trace_id, span.received_ns)
                self._traces[span.project, span.trace_id].ran.append((span.start_ns, span.end_ns, span.received_ns))

    def insert_block(self, block: "SpanBlock", *, token: str) -> None:
        """The same for a block that is ready."""
        self.insert_spans(block.spans, token=token)

    def insert_logs(self, logs: Sequence[LogRecord], *, token: str) -> None:
        """Add log records that wait for their span."""
        with self._guard:
            if not self._fresh("logs", token):
                return
            for log in logs:
                key = (log.span_id, log.time_ns, log.event_name, log.sequence, log.body, str(sorted(log.attributes)))
                self._logs[log.project, log.trace_id][key] = log
                self._arrived(log.project, log.trace_id, log.received_ns)

    def _arrived(self, project: str, trace_id: str, received_ns: int) -> None:
        if trace_id:
            trace = self._traces[project, trace_id]
            trace.first_ns = min(trace.first_ns, received_ns)
            trace.last_ns = max(trace.last_ns, received_ns)
            trace.count += 1

    def spans(self, project: str, trace_ids: Sequence[str]) -> list[Span]:
        """Every span of these traces, once."""
        with self._guard:
            keys = dict.fromkeys((project, trace_id) for trace_id in trace_ids)
            return [span for key in keys for span in self._spans.get(key, {}).values()]

    def logs(self, project: str, trace_ids: Sequence[str]) -> list[LogRecord]:
        """Every log record of these traces."""
        with self._guard:
            keys = dict.fromkeys((project, trace_id) for trace_id in trace_ids)
            return [log for key in keys for log in self._logs.get(key, {}).values()]

    def stamps(self, project: str, trace_ids: Sequence[str]) -> dict[str, Stamp]:
        """What tells whether a reader has all of these traces; one without spans and logs may be missing."""
        return {t: Stamp.of(self.spans(project, [t]), self.logs(project, [t])) for t in trace_ids}

    def first_arrivals(self, project: str, trace_ids: Sequence[str], *, start_ns: int, end_ns: int) -> dict[str, int]:
        """When the first span of each trace that ran within these times was received, those since replaced included."""
        with self._guard:
            ran = {t: self._traces[project, t].ran for t in trace_ids if (project, t) in self._traces}
        came = {t: [at for start, end, at in spans if start <= end_ns and end >= start_ns] for t, spans in ran.items()}
        return {trace_id: min(times) for trace_id, times in came.items() if times}

    def open_traces(
        self, *, since_received_ns: int = 0, after: OpenTrace | None = None, limit: int = 10_000
    ) -> list[OpenTrace]:
        """Traces with spans or logs newer than their last assembly, or with an open run; oldest first."""
        with self._guard:
            found = [
                OpenTrace(
                    project=key[0],
                    trace_id=key[1],
                    first_received_ns=trace.first_ns,
                    last_received_ns=trace.last_ns,
                    spans=trace.count,
                )
                for key, trace in self._traces.items()
                if trace.count
                and trace.last_ns >= since_received_ns
                and (trace.last_ns > trace.settled_ns or self._open.get(key))
            ]
        return sorted((t for t in found if after is None or t.order > after.order), key=lambda t: t.order)[:limit]

    def settle_traces(self, project: str, traces: Sequence[tuple[str, int]]) -> None:
        """Mark traces as assembled up to a received time, whatever runs they gave."""
        with self._guard:
            for trace_id, through_ns in traces:
                trace = self._traces[project, trace_id]
                trace.settled_ns = max(trace.settled_ns, through_ns)

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
        names, sessions = set(processes), set(session_ids)
        found: list[tuple[int, str]] = []
        with self._guard:
            for (owner, trace_id), kept in self._spans.items():
                spans = list(kept.values()) if owner == project else []
                if not spans or not any(
                    {s.service_instance_id, s.service_name} & names or s.session_id in sessions for s in spans
                ):
                    continue
                first = min(s.start_ns for s in spans)
                if first <= end_ns and max(s.end_ns for s in spans) >= start_ns:
                    found.append((first, trace_id))
        return [trace_id for _, trace_id in sorted(found)[:limit]]

    def iter_spans(self, project: str, *, since_ns: int, until_ns: int) -> Iterator[Span]:
        """Stream spans received in [since_ns, until_ns), for export."""
        with self._guard:
            kept = [s for (owner, _), spans in self._spans.items() if owner == project for s in spans.values()]
        chosen = [s for s in kept if since_ns <= s.received_ns < until_ns]
        yield from sorted(chosen, key=lambda s: (s.trace_id, s.span_id))

    # runs

    def write_runs(self, runs: Sequence[Run], *, token: str) -> None:
        """Add revisions of runs, and mark the traces of closed ones as assembled."""
        with self._guard:
            if not self._fresh("runs", token):
                return
            for run in runs:
                summary = summary_of(run, updated_ns=self._clock(), fingerprint=self._fingerprint(run))
                self._runs[run.project, run.run_id] = summary
                for trace_id in summary.trace_ids:
                    key = (run.project, trace_id)
                    if run.state == "open":
                        self._open[key].add(run.run_id)
                    else:
                        self._open[key].discard(run.run_id)
                        self._traces[key].settled_ns = max(self._traces[key].settled_ns, run.last_received_ns)

    def withdraw_runs(self, project: str, run_ids: Sequence[str], *, now_ns: int) -> None:
        """Tombstone these runs and their scores."""
        gone = set(run_ids)
        with self._guard:
            for run_id in gone & {key[1] for key in self._runs if key[0] == project}:
                old = self._runs[project, run_id]
                self._runs[project, run_id] = replace(
                    old, state="withdrawn", updated_ns=max(now_ns, self._clock()), input=None, output=None
                )
                for trace_id in old.trace_ids:
                    self._open[project, trace_id].discard(run_id)
            for key, score in self._scores.items():
                if key[0] == project and key[1] in gone:
                    self._scores[key] = replace(score, superseded=True)
            for place, outcome in self._outcomes.items():
                if place[0] == project and outcome.run_id in gone:
                    self._outcomes[place] = replace(
                        outcome, outcome="waiting", reason="the run was withdrawn",
                        created_ns=max(now_ns, outcome.created_ns + 1),
                    )  # fmt: skip

    def run(self, project: str | None, run_id: str) -> Run | None:
        """The run with its content, assembled from its spans; None when there is none."""
        summary = self.run_summary(project, run_id)
        if summary is None:
            return None
        traces = summary.trace_ids
        spans, logs = self.spans(summary.project, traces), self.logs(summary.project, traces)
        kept = self._assembly.get(summary.project, traces, lambda: Stamp.of(spans, logs))
        return current_run(summary, kept or self._assembly.make(summary.project, traces, spans, logs))

    def runs_content(self, summaries: Sequence[RunSummary]) -> list[Run]:
        """The runs of these rows with their content, in their order."""
        return current_runs(summaries, self, self._assembly)

    def run_summary(self, project: str | None, run_id: str) -> RunSummary | None:
        """Its row without content; None when there is none."""
        return next((r for r in self._current() if r.run_id == run_id and project in (None, r.project)), None)

    def _current(self) -> list[RunSummary]:
        with self._guard:
            return [r for r in self._runs.values() if r.state != "withdrawn"]

    def runs(self, query: RunQuery) -> list[RunSummary]:
        """Current revisions, newest start first."""
        found = [r for r in self._current() if wanted_run(r, query)]
        if query.metric is not None or query.passed is not None or query.max_score is not None:
            scored = {(s.project, s.run_id) for s in self._current_scores() if wanted_score(s, query)}
            found = [r for r in found if (r.project, r.run_id) in scored]
        found.sort(key=lambda r: (r.started_ns, r.run_id), reverse=True)
        return found[: query.limit]

    def runs_of_traces(self, project: str, trace_ids: Sequence[str]) -> list[RunSummary]:
        """Current revisions of the runs these traces belong to."""
        wanted = set(trace_ids)
        found = [r for r in self._current() if r.project == project and wanted & set(r.trace_ids)]
        return sorted(found, key=lambda r: (r.started_ns, r.run_id))

    def last_revisions(self, project: str, run_ids: Sequence[str]) -> list[RunSummary]:
        """The newest row of each of these runs, of withdrawn ones too."""
        with self._guard:
            return [self._runs[project, run_id] for run_id in run_ids if (project, run_id) in self._runs]

    def changed_runs(self, *, after_ns: int, limit: int = 500) -> list[RunSummary]:
        """Closed, amended or withdrawn runs whose row is newer than `after_ns`, oldest first."""
        with self._guard:
            found = [r for r in self._runs.values() if r.state != "open" and r.updated_ns > after_ns]
        return sorted(found, key=lambda r: (r.updated_ns, r.run_id))[:limit]

    def unjudged_runs(
        self, project: str, rule: str, rule_version: str, *, since_ns: int, limit: int = 200
    ) -> list[RunSummary]:
        """Runs written since then with no final outcome of this rule for their revision, oldest first."""
        with self._guard:
            final = {
                (o.run_id, o.run_revision)
                for o in self._outcomes.values()
                if (o.project, o.rule, o.rule_version) == (project, rule, rule_version) and o.outcome != "waiting"
            }
        found = [
            r
            for r in self._current()
            if r.project == project
            and r.state in _JUDGED
            and r.updated_ns >= since_ns
            and (r.run_id, r.revision) not in final
        ]
        return sorted(found, key=lambda r: (r.updated_ns, r.run_id))[:limit]

    def runs_mark(self) -> tuple[int, ...]:
        """Another one after runs or outcomes were written; see the contract."""
        with self._guard:
            runs, outcomes = self._runs.values(), self._outcomes.values()
            times = sum(r.updated_ns for r in runs), sum(o.created_ns for o in outcomes)
            return len(runs), len(outcomes), *times

    # scores and outcomes

    def write_scores(self, scores: Sequence[ScoreRecord], *, token: str) -> None:
        """Add scores; a newer one of the same (project, run, metric, rule) supersedes."""
        with self._guard:
            if not self._fresh("scores", token):
                return
            for score in scores:
                run = self._runs.get((score.project, score.run_id))
                if run is not None:
                    score = replace(  # noqa: PLW2901  # what the writer did not know
                        score,
                        superseded=score.superseded or run.state == "withdrawn",
                        agent=score.agent if score.agent is not None else run.agent,
                        run_started_ns=run.started_ns or score.run_started_ns,
                    )
                key = (score.project, score.run_id, score.metric, score.rule)
                old = self._scores.get(key)
                if old is None or (score.run_revision, score.created_ns) >= (old.run_revision, old.created_ns):
                    self._scores[key] = score

    def _current_scores(self) -> list[ScoreRecord]:
        with self._guard:
            return [s for s in self._scores.values() if not s.superseded]

    def scores(self, query: ScoreQuery) -> list[ScoreRecord]:
        """Current scores, newest first; the window is that of the runs' start."""
        found = [
            s
            for s in self._current_scores()
            if query.project in (None, s.project)
            and (query.run_ids is None or s.run_id in query.run_ids)
            and query.metric in (None, s.metric)
            and query.rule in (None, s.rule)
            and query.agent in (None, s.agent)
            and query.passed in (None, s.passed)
            and within(s.run_started_ns, query.since_ns, query.until_ns)
        ]
        if query.worst_first:
            found.sort(key=lambda s: (s.value is None, s.value, -s.run_started_ns, s.run_id, s.metric, s.rule))
        else:
            found.sort(key=lambda s: (-s.created_ns, s.run_id, s.metric, s.rule))
        return found[: query.limit]

    def write_outcomes(self, outcomes: Sequence[OutcomeRecord], *, token: str) -> None:
        """Add outcomes; a newer one of the same (rule, run, revision) supersedes."""
        with self._guard:
            if not self._fresh("outcomes", token):
                return
            for outcome in outcomes:
                key = (outcome.project, outcome.run_id, outcome.rule, outcome.run_revision)
                old = self._outcomes.get(key)
                if old is None or outcome.created_ns >= old.created_ns:
                    self._outcomes[key] = outcome

    def outcomes(self, project: str | None, *, run_ids: Sequence[str] | None = None, rule: str | None = None,
                 name: OutcomeName | None = None, before: tuple[int, str] | None = None,
                 limit: int = 1000) -> list[OutcomeRecord]:  # fmt: skip
        """Current outcomes, newest first."""
        with self._guard:
            mine = [o for o in self._outcomes.values() if project in (None, o.project) and rule in (None, o.rule)]
        found = [o for o in mine if (run_ids is None or o.run_id in run_ids) and wanted_outcome(o, name, before)]
        return sorted(found, key=lambda o: (-o.created_ns, o.run_id, o.rule, -o.run_revision))[:limit]

    def write_judge_calls(self, calls: Sequence[JudgeCallRecord], *, token: str) -> None:
        """Add calls to the ledger."""
        with self._guard:
            if self._fresh("calls", token):
                self._calls.update(((call.project, call.call_id), call) for call in calls)

    def judge_spend(self, project: str, *, rule: str | None, since_ns: int) -> float:
        """US dollars of the ledger since then; a call of unknown cost counts with what was set aside for it."""
        with self._guard:
            return sum(
                (call.reserved_usd if call.cost_usd is None else call.cost_usd) or 0.0
                for call in self._calls.values()
                if call.project == project and rule in (None, call.rule) and call.created_ns >= since_ns
            )

    # numbers and alerts

    def aggregate(self, query: AggregateQuery) -> Aggregate:
        """One number over a window of current runs and scores."""
        return aggregate(query, self._in_window(query), self._scores_in_window(query))

    def _in_window(self, query: AggregateQuery | SeriesQuery) -> list[RunSummary]:
        return [
            r
            for r in self._current()
            if query.project in (None, r.project)
            and query.agent in (None, r.agent)
            and query.environment in (None, r.environment)
            and query.since_ns <= r.started_ns < query.until_ns
        ]

    def _scores_in_window(self, query: AggregateQuery | SeriesQuery) -> list[ScoreRecord]:
        inside = {(r.project, r.run_id) for r in self._in_window(query)}
        return [
            s
            for s in self._current_scores()
            if query.project in (None, s.project)
            and query.agent in (None, s.agent)
            and query.since_ns <= s.run_started_ns < query.until_ns
            and (query.environment is None or (s.project, s.run_id) in inside)
        ]

    def run_trend(self, query: SeriesQuery) -> RunTrend:
        """Runs over time, and beside the window before."""
        return run_trend(query, self._in_window(replace(query, since_ns=query.before_ns)))

    def score_trend(self, query: SeriesQuery) -> ScoreTrend:
        """Scores over time, per metric, and beside the window before."""
        return score_trend(query, self._scores_in_window(replace(query, since_ns=query.before_ns)))

    def facets(self, project: str | None, *, since_ns: int) -> Facets:
        """What occurs since then, most frequent first."""
        runs = [r for r in self._current() if project in (None, r.project) and r.started_ns >= since_ns]
        scores = [s for s in self._current_scores() if project in (None, s.project) and s.run_started_ns >= since_ns]
        return Facets(
            projects=_frequent(r.project for r in runs),
            agents=_frequent(r.agent for r in runs),
            environments=_frequent(r.environment for r in runs),
            metrics=_frequent(s.metric for s in scores),
        )

    def alert_states(self, project: str | None = None) -> list[AlertState]:
        """Current state of every alert."""
        with self._guard:
            return [state for key, state in sorted(self._alerts.items()) if project in (None, key[0])]

    def write_alert_state(self, state: AlertState) -> None:
        """Replace the state of an alert."""
        with self._guard:
            old = self._alerts.get((state.project, state.alert))
            if old is None or state.updated_ns >= old.updated_ns:
                self._alerts[state.project, state.alert] = state

    def write_alert_event(self, event: AlertEvent) -> None:
        """Add a change of state, or replace it by its `event_id`."""
        with self._guard:
            self._events[event.project, event.event_id] = event

    def alert_events(self, project: str | None = None, *, limit: int = 200) -> list[AlertEvent]:
        """Changes, newest first."""
        with self._guard:
            found = [event for key, event in self._events.items() if project in (None, key[0])]
        return sorted(found, key=lambda e: (-e.created_ns, e.event_id))[:limit]

    # life

    def ping(self) -> None:
        """It is there."""

    def close(self) -> None:
        """Nothing to give back."""


def _assemble(spans: Sequence[Span], logs: Sequence[LogRecord]) -> Sequence[Run]:
    from evalspan_collector.assemble import assemble

    return assemble(spans, logs)


def _fingerprint(run: Run) -> str:
    from evalspan_collector.completion import run_fingerprint

    return run_fingerprint(run)


def _frequent(values: Iterable[str | None]) -> tuple[str, ...]:
    counts = Counter(value for value in values if value is not None)
    return tuple(sorted(counts, key=lambda value: (-counts[value], value)))
