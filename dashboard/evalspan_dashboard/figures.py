"""Figures: rows into charts."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import altair as alt

from evalspan_collector.run import Run
from evalspan_collector.store.contract import RunPoint, ScorePoint
from evalspan_dashboard.output import clean

__all__ = ["latency_chart", "number_chart", "pass_rate_chart", "runs_chart", "timeline_chart"]

#: Colours that stay apart for colour-blind readers (Okabe and Ito).
GOOD, BAD, NEUTRAL, ACCENT = "#009E73", "#D55E00", "#999999", "#0072B2"
#: Pixels; axes and legend are inside.
HEIGHT = 300
AXES, ROW = 130, 26
#: Metrics side by side below their lines; further ones stand below these instead of being cut off.
LEGEND_COLUMNS = 6
#: Share of the time line that the shortest step still gets, so that it can be seen.
SLIVER = 0.006
#: Times of a day on 24 hours, the day where one begins.
_TICK = "timeFormat(datum.value, hours(datum.value) || minutes(datum.value) ? '%H:%M' : '%b %d')"


def _time(start_ns: int) -> str:
    return datetime.fromtimestamp(start_ns / 1e9, tz=UTC).isoformat()


def _chart(rows: list[dict[str, Any]], *, height: int = HEIGHT) -> Any:
    # Any: altair's chained methods are untyped below their first call.
    return alt.Chart(alt.Data(values=rows)).properties(height=height)


def _x() -> alt.X:
    return alt.X("time:T", title=None, axis=alt.Axis(labelOverlap=True, labelExpr=_TICK))


def pass_rate_chart(points: Sequence[ScorePoint]) -> alt.Chart:
    """Share of the scored runs that passed, one line per metric; buckets with nothing scored are left out."""
    rows = [
        {
            "time": _time(p.start_ns),
            "metric": clean(p.metric, limit=60),
            "pass rate": p.passed / p.scored,
            "scored": p.scored,
            "errors": p.errors,
        }
        for p in points
        if p.scored
    ]
    chart: alt.Chart = (
        _chart(rows)
        .mark_line(point=True)
        .encode(
            x=_x(),
            y=alt.Y("pass rate:Q", title="pass rate", scale=alt.Scale(domain=[0, 1]), axis=alt.Axis(format="%")),
            color=alt.Color("metric:N", legend=alt.Legend(orient="bottom", title=None, columns=LEGEND_COLUMNS)),
            tooltip=["time:T", "metric:N", alt.Tooltip("pass rate:Q", format=".1%"), "scored:Q", "errors:Q"],
        )
    )
    return chart


def runs_chart(points: Sequence[RunPoint]) -> alt.Chart:
    """Runs per bucket, those that ended in an error apart."""
    rows = [
        {"time": _time(p.start_ns), "what": what, "runs": count}
        for p in points
        for what, count in (("ok", p.runs - p.errors), ("error", p.errors))
    ]
    chart: alt.Chart = (
        _chart(rows)
        .mark_bar()
        .encode(
            x=_x(),
            y=alt.Y("runs:Q", title="runs"),
            color=alt.Color(
                "what:N",
                scale=alt.Scale(domain=["ok", "error"], range=[GOOD, BAD]),
                legend=alt.Legend(orient="bottom", title=None),
            ),
            tooltip=["time:T", "what:N", "runs:Q"],
        )
    )
    return chart


def latency_chart(points: Sequence[RunPoint]) -> alt.Chart:
    """Median and 95th percentile of the run's duration in seconds."""
    rows = [
        {"time": _time(p.start_ns), "percentile": name, "seconds": value}
        for p in points
        for name, value in (("p50", p.latency_p50_s), ("p95", p.latency_p95_s))
        if value is not None
    ]
    chart: alt.Chart = (
        _chart(rows)
        .mark_line(point=True)
        .encode(
            x=_x(),
            y=alt.Y("seconds:Q", title="seconds"),
            color=alt.Color(
                "percentile:N",
                scale=alt.Scale(domain=["p50", "p95"], range=[ACCENT, BAD]),
                legend=alt.Legend(orient="bottom", title=None),
            ),
            tooltip=["time:T", "percentile:N", alt.Tooltip("seconds:Q", format=".2f")],
        )
    )
    return chart


def number_chart(points: Sequence[RunPoint], title: str) -> alt.Chart:
    """Known cost per bucket in US dollars; buckets with no known cost are left out, not zero."""
    rows = [
        {"time": _time(p.start_ns), "usd": p.cost_usd, "unknown": p.cost_unknown_calls}
        for p in points
        if p.cost_usd is not None
    ]
    chart: alt.Chart = (
        _chart(rows)
        .mark_bar(color=ACCENT)
        .encode(
            x=_x(),
            y=alt.Y("usd:Q", title=title),
            tooltip=["time:T", alt.Tooltip("usd:Q", format="$.4f"), alt.Tooltip("unknown:Q", title="unpriced calls")],
        )
    )
    return chart


def timeline_chart(run: Run) -> alt.Chart:
    """Steps of a run as bars over seconds since its start, in the run's order; failed ones stand out."""
    rows: list[dict[str, Any]] = []
    for step in run.steps:
        start = max(0.0, (step.started_ns - run.started_ns) / 1e9) if step.started_ns else 0.0
        rows.append(
            {
                "step": f"{step.index:>3} {'  ' * step.depth}{clean(step.name, limit=48)}",
                "from": start,
                "to": start + (step.duration_s or 0.0),
                "kind": "failed" if step.failed else step.kind.replace("_", " "),
                "seconds": step.duration_s,
                "agent": clean(step.agent, limit=60),
            }
        )
    shortest = SLIVER * max((row["to"] for row in rows), default=0.0)
    for row in rows:
        row["to"] = max(row["to"], row["from"] + shortest)
    chart: alt.Chart = (
        _chart(rows, height=AXES + ROW * len(rows))
        .mark_bar(height=12, minBandSize=14, cornerRadius=2)
        .encode(
            x=alt.X("from:Q", title="seconds since the start of the run"),
            x2="to:Q",
            y=alt.Y("step:N", sort=None, title=None, axis=alt.Axis(labelLimit=360)),
            color=alt.Color(
                "kind:N",
                scale=alt.Scale(
                    domain=["model call", "tool call", "retrieval", "agent", "other", "failed"],
                    range=[ACCENT, GOOD, "#CC79A7", "#E69F00", NEUTRAL, BAD],
                ),
                legend=alt.Legend(orient="bottom", title=None),
            ),
            tooltip=["step:N", "kind:N", "agent:N", alt.Tooltip("seconds:Q", format=".3f")],
        )
    )
    return chart
