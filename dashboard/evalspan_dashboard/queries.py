"""Queries: what the screens show, read through the store's contract; no screen in here."""

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from evalspan_collector.records import AlertEvent, AlertState, OutcomeRecord, RunSummary, ScoreRecord
from evalspan_collector.run import Run
from evalspan_collector.store.contract import Facets, RunPoint, RunQuery, ScorePoint, ScoreQuery, SeriesQuery, Store

__all__ = [
    "WINDOWS",
    "AlertBoard",
    "Marked",
    "MetricTotal",
    "Overview",
    "RunPage",
    "RunsPage",
    "Totals",
    "Window",
    "alert_board",
    "evidence_of",
    "facets",
    "marked_output",
    "overview",
    "run_page",
    "runs_page",
]

NS = 1_000_000_000
#: Reads of one screen that run at the same time.
_AT_ONCE = 4
#: Failed scores that the overview names.
_WORST = 10


@dataclass(frozen=True, slots=True)
class Window:
    """A span of time to look back over, in seconds, and the width of its buckets."""

    name: str
    seconds: int
    step_s: int


WINDOWS = (
    Window("last hour", 3600, 60),
    Window("last 24 hours", 86_400, 1800),
    Window("last 7 days", 7 * 86_400, 3 * 3600),
    Window("last 30 days", 30 * 86_400, 12 * 3600),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """Numbers over a whole window; None where nothing is known."""

    runs: int
    errors: int
    cost_usd: float | None
    cost_unknown_calls: int
    latency_p95_s: float | None

    @property
    def error_rate(self) -> float | None:
        """Share of runs that ended in an error."""
        return self.errors / self.runs if self.runs else None


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricTotal:
    """One metric over a window; errors and not applicable ones are counted, not averaged."""

    metric: str
    scored: int
    passed: int
    average: float | None
    errors: int
    not_applicable: int
    judge_cost_usd: float | None

    @property
    def pass_rate(self) -> float | None:
        """Share of the scored that passed."""
        return self.passed / self.scored if self.scored else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """The first screen: this window, the one before, and both over time."""

    now: Totals
    before: Totals
    metrics: tuple[MetricTotal, ...]
    metrics_before: tuple[MetricTotal, ...]
    runs: tuple[RunPoint, ...]
    scores: tuple[ScorePoint, ...]
    worst: tuple[ScoreRecord, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunsPage:
    """One page of the runs list, each run with its current scores."""

    rows: tuple[RunSummary, ...]
    scores: dict[str, tuple[ScoreRecord, ...]]
    next_before: tuple[int, str] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPage:
    """One run with its scores, outcomes and the other runs of its session."""

    run: Run
    scores: tuple[ScoreRecord, ...]
    outcomes: tuple[OutcomeRecord, ...]
    session: tuple[RunSummary, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertBoard:
    """Every alert's state and the latest changes."""

    states: tuple[AlertState, ...]
    events: tuple[AlertEvent, ...]


@dataclass(frozen=True, slots=True)
class Marked:
    """A stretch of the output and the evidence on it, None where there is none."""

    text: str
    evidence: dict[str, Any] | None


def _totals(point: RunPoint | None) -> Totals:
    if point is None:
        return Totals(runs=0, errors=0, cost_usd=None, cost_unknown_calls=0, latency_p95_s=None)
    return Totals(
        runs=point.runs,
        errors=point.errors,
        cost_usd=point.cost_usd,
        cost_unknown_calls=point.cost_unknown_calls,
        latency_p95_s=point.latency_p95_s,
    )


def _metric_totals(points: Sequence[ScorePoint]) -> tuple[MetricTotal, ...]:
    totals: list[MetricTotal] = []
    for metric in sorted({p.metric for p in points}):
        own = [p for p in points if p.metric == metric]
        scored = sum(p.scored for p in own)
        weighted = sum((p.average or 0.0) * p.scored for p in own)
        costs = [p.judge_cost_usd for p in own if p.judge_cost_usd is not None]
        totals.append(
            MetricTotal(
                metric=metric,
                scored=scored,
                passed=sum(p.passed for p in own),
                average=weighted / scored if scored else None,
                errors=sum(p.errors for p in own),
                not_applicable=sum(p.not_applicable for p in own),
                judge_cost_usd=sum(costs) if costs else None,
            )
        )
    return tuple(totals)


def overview(
    store: Store, *, window: Window, now_ns: int, project: str | None, agent: str | None, environment: str | None = None
) -> Overview:
    """Totals and series of the window up to now, and totals of the window before it."""
    start = now_ns - window.seconds * NS

    query = SeriesQuery(
        since_ns=start,
        until_ns=now_ns + NS,
        step_s=window.step_s,
        project=project,
        agent=agent,
        environment=environment,
    )
    failed = ScoreQuery(project=project, agent=agent, passed=False, since_ns=start, worst_first=True, limit=_WORST)
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        runs, scores = pool.submit(store.run_trend, query), pool.submit(store.score_trend, query)
        worst = store.scores(failed)
    run_trend, score_trend = runs.result(), scores.result()
    return Overview(
        now=_totals(run_trend.whole),
        before=_totals(run_trend.before),
        metrics=_metric_totals(score_trend.points),
        metrics_before=_metric_totals(score_trend.before),
        runs=run_trend.points,
        scores=score_trend.points,
        worst=tuple(worst),
    )


def runs_page(store: Store, query: RunQuery) -> RunsPage:
    """One page of runs and the scores of just these runs."""
    rows = tuple(store.runs(query))
    scores: dict[str, list[ScoreRecord]] = {}
    if rows:
        ids = tuple(row.run_id for row in rows)
        for score in store.scores(ScoreQuery(project=query.project, run_ids=ids, limit=100_000)):
            scores.setdefault(score.run_id, []).append(score)
    full = len(rows) == query.limit
    return RunsPage(
        rows=rows,
        scores={run_id: tuple(sorted(own, key=lambda s: s.metric)) for run_id, own in scores.items()},
        next_before=(rows[-1].started_ns, rows[-1].run_id) if rows and full else None,
    )


def run_page(store: Store, run_id: str, *, project: str | None = None) -> RunPage | None:
    """Everything the run screen needs; None when there is no such run for this project."""
    run = store.run(project, run_id)
    if run is None:
        return None
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        scores = pool.submit(store.scores, ScoreQuery(project=run.project, run_ids=(run_id,)))
        outcomes = pool.submit(store.outcomes, run.project, run_ids=[run_id])
        of_session = RunQuery(project=run.project, session_id=run.session_id, limit=200)
        session = [] if run.session_id is None else store.runs(of_session)
    return RunPage(
        run=run,
        scores=tuple(sorted(scores.result(), key=lambda s: (s.passed is not False, s.metric))),
        outcomes=tuple(outcomes.result()),
        session=tuple(sorted(session, key=lambda r: r.started_ns)),
    )


def alert_board(store: Store, *, project: str | None) -> AlertBoard:
    """Alerts, the firing ones first."""
    order = {"firing": 0, "pending": 1, "no_data": 2, "resolved": 3, "ok": 4}
    states = sorted(store.alert_states(project), key=lambda s: (order.get(s.state, 9), s.alert))
    return AlertBoard(states=tuple(states), events=tuple(store.alert_events(project, limit=100)))


def facets(store: Store, *, project: str | None, since_ns: int) -> Facets:
    """Values for the filters."""
    return store.facets(project, since_ns=since_ns)


def evidence_of(score: ScoreRecord) -> list[dict[str, Any]]:
    """The evidence objects of a score, those that speak against the run first."""
    bad = {"contradicted": 0, "mismatch": 1, "unsupported": 2}
    items: list[dict[str, Any]] = json.loads(score.evidence)
    return sorted(items, key=lambda item: bad.get(str(item.get("verdict")), 9))


def marked_output(output: str, scores: Sequence[ScoreRecord]) -> list[Marked]:
    """The output cut at the claims that evidence points at, so that a screen can mark them in place."""
    spans: list[tuple[int, int, dict[str, Any]]] = []
    for score in scores:
        for item in evidence_of(score):
            start, end = item.get("start"), item.get("end")
            if isinstance(start, int) and isinstance(end, int) and 0 <= start < end <= len(output):
                spans.append((start, end, item))
    pieces: list[Marked] = []
    at = 0
    for start, end, item in sorted(spans, key=lambda s: (s[0], -s[1])):
        if start < at:
            continue  # a claim inside one that is marked already
        if start > at:
            pieces.append(Marked(output[at:start], None))
        pieces.append(Marked(output[start:end], item))
        at = end
    if at < len(output):
        pieces.append(Marked(output[at:], None))
    return pieces
