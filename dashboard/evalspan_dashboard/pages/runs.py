"""Runs: find the run, by agent, status and score."""

from typing import Literal, cast

import streamlit as st

from evalspan_collector.records import RunSummary, ScoreRecord
from evalspan_collector.run import iso_time
from evalspan_collector.store.contract import RunQuery
from evalspan_dashboard import queries, screen
from evalspan_dashboard.output import clean, number, usd

PAGE = 50
ANY = "any"


def _choose(name: str, title: str, options: list[str]) -> str | None:
    asked = st.query_params.get(name, ANY)
    choices = [ANY, *options]
    chosen = st.sidebar.selectbox(title, choices, index=choices.index(asked) if asked in choices else 0, key=name)
    if chosen == ANY:
        st.query_params.pop(name, None)
        return None
    st.query_params[name] = chosen
    return chosen


def _verdicts(scores: tuple[ScoreRecord, ...]) -> str:
    shown: list[str] = []
    for score in scores:
        if score.not_applicable:
            continue
        mark = "!" if score.error is not None else ("✓" if score.passed else "✗")
        shown.append(f"{mark} {clean(score.metric, limit=40)} {number(score.value)}")
    return "   ".join(shown)


def _row(row: RunSummary, scores: tuple[ScoreRecord, ...]) -> dict[str, object]:
    return {
        "run": screen.run_link(row.run_id),
        "started": iso_time(row.started_ns)[:19].replace("T", " "),
        "agent": clean(row.agent),
        "status": row.status,
        "state": row.state,
        "seconds": row.duration_s,
        "cost": usd(row.cost_usd, row.cost_unknown_calls),
        "scores": _verdicts(scores),
        "input": clean(row.input, limit=120),
        "output": clean(row.output, limit=160),
        "tools": clean(", ".join(row.tool_names), limit=120),
        "flags": ", ".join(row.flags),
    }


def _query(chosen: screen.Filters) -> RunQuery:
    found = screen.facets(chosen.project, chosen.window, chosen.now_ns)
    status = _choose("status", "Status", ["ok", "error"])
    metric = _choose("metric", "Scored by", list(found.metrics))
    verdict = _choose("verdict", "Verdict", ["passed", "failed"]) if metric else None
    text = st.sidebar.text_input("Text in input or output", value=st.query_params.get("text", ""), key="text_filter")
    if text:
        st.query_params["text"] = text
    else:
        st.query_params.pop("text", None)
    before = st.session_state.get("before")
    return RunQuery(
        project=chosen.project,
        agent=chosen.agent,
        status=cast('Literal["ok", "error"] | None', status),
        metric=metric,
        passed=None if verdict is None else verdict == "passed",
        text=text or None,
        since_ns=chosen.since_ns,
        before=before,
        limit=PAGE,
    )


def _pager(found: queries.RunsPage) -> None:
    left, right, _ = st.columns([1, 1, 6])
    if st.session_state.get("before") is not None and left.button("newest"):
        st.session_state.pop("before")
        st.rerun()
    if found.next_before is not None and right.button("older"):
        st.session_state["before"] = found.next_before
        st.rerun()


def page() -> None:
    """Draw the page."""
    st.title("Runs")
    with screen.guarded():
        chosen = screen.filters()
        query = _query(chosen)
        found = queries.runs_page(screen.store(), query)
        if not found.rows:
            st.info("No run matches. Widen the time or clear a filter.")
        else:
            screen.table(
                [_row(row, found.scores.get(row.run_id, ())) for row in found.rows],
                height=min(36 * (len(found.rows) + 1) + 2, 900),
                columns={
                    "run": st.column_config.LinkColumn(display_text=r"run=(\w{8})", width="small"),
                    "seconds": st.column_config.NumberColumn(format="%.2f"),
                },
            )
        _pager(found)


page()
