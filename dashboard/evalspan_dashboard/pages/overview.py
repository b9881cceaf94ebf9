"""Overview: is it getting worse, and where to look first."""

import streamlit as st

from evalspan_dashboard import figures, queries, screen
from evalspan_dashboard.output import clean, number, seconds, usd
from evalspan_dashboard.queries import MetricTotal, Overview
from evalspan_dashboard.safe import label


def _change(now: float | None, before: float | None, unit: str = "") -> str | None:
    if now is None or before is None:
        return None
    return f"{now - before:+.3g}{unit} against the window before"


def _totals(view: Overview) -> None:
    now, before = view.now, view.before
    columns = st.columns(4)
    columns[0].metric("Runs", now.runs, _change(now.runs, before.runs or None), delta_color="off")
    rate = "-" if now.error_rate is None else f"{now.error_rate:.1%}"
    columns[1].metric("Error rate", rate, _change(now.error_rate, before.error_rate), delta_color="inverse")
    columns[2].metric(
        "Latency p95",
        seconds(now.latency_p95_s),
        _change(now.latency_p95_s, before.latency_p95_s, " s"),
        delta_color="inverse",
    )
    columns[3].metric(
        "Cost", usd(now.cost_usd, now.cost_unknown_calls), _change(now.cost_usd, before.cost_usd), delta_color="inverse"
    )
    if now.cost_unknown_calls:
        st.caption(f"Cost leaves out {now.cost_unknown_calls} model calls whose price is unknown.")


def _metric(total: MetricTotal, before: MetricTotal | None) -> dict[str, object]:
    earlier = {} if before is None else {"before": before.pass_rate}
    return {
        "metric": clean(total.metric),
        "pass rate": total.pass_rate,
        **earlier,
        "average": total.average,
        "scored": total.scored,
        "errors": total.errors,
        "not applicable": total.not_applicable,
        "judge cost": usd(total.judge_cost_usd),
    }


def _metrics(view: Overview) -> None:
    before = {m.metric: m for m in view.metrics_before}
    st.subheader("Pass rate per metric")
    if not view.metrics:
        st.info("Nothing has been scored in this window.")
        return
    st.altair_chart(figures.pass_rate_chart(view.scores), width="stretch")
    screen.table(
        [_metric(m, before.get(m.metric)) for m in view.metrics],
        columns={
            "pass rate": st.column_config.NumberColumn(format="percent"),
            "before": st.column_config.NumberColumn(format="percent"),
            "average": st.column_config.NumberColumn(format="%.2f"),
        },
    )


def _series(view: Overview) -> None:
    columns = st.columns(3)
    for column, title, chart in (
        (columns[0], "Runs and errors", figures.runs_chart(view.runs)),
        (columns[1], "Latency", figures.latency_chart(view.runs)),
        (columns[2], "Cost", figures.number_chart(view.runs, "US dollars")),
    ):
        column.subheader(title)
        column.altair_chart(chart, width="stretch")


def _worst(view: Overview) -> None:
    st.subheader("Worst scores")
    if not view.worst:
        st.caption("No score failed in this window.")
        return
    for score in view.worst:
        left, middle, right = st.columns([2, 5, 1], vertical_alignment="center")
        left.markdown(f"**{label(score.metric)}** {number(score.value)}")
        middle.text(clean(score.reason, limit=220))
        right.page_link("pages/run.py", label="open run", query_params={"run": score.run_id})


def page() -> None:
    """Draw the page."""
    st.title("Overview")
    with screen.guarded():
        chosen = screen.filters()
        view = queries.overview(
            screen.store(), window=chosen.window, now_ns=chosen.now_ns, project=chosen.project, agent=chosen.agent
        )
        if not view.now.runs:
            st.info("No runs in this window. Send spans to the collector, or try `evalspan demo`.")
            return
        _totals(view)
        _metrics(view)
        _series(view)
        _worst(view)


page()
