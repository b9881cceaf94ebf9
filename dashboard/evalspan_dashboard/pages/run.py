"""Run: what the agent did, and why each score is what it is."""

from typing import Any

import streamlit as st

from evalspan_collector.records import ScoreRecord
from evalspan_collector.run import Run, Step, iso_time
from evalspan_dashboard import figures, queries, screen
from evalspan_dashboard.output import clean, number, seconds, usd
from evalspan_dashboard.safe import label, plain, plain_json

#: Evidence shown at once; the rest waits behind a switch.
SHOWN = 20


def _head(run: Run) -> None:
    st.title(label(run.agent or "run"))
    st.text(f"{run.run_id}   {iso_time(run.started_ns)[:19]}Z   {run.state}, revision {run.revision}")
    columns = st.columns(5)
    columns[0].metric("Status", run.status)
    columns[1].metric("Time", seconds(run.duration_s))
    columns[2].metric("Cost", usd(run.cost_usd, run.cost_unknown_calls))
    columns[3].metric("Tokens in / out", f"{number(run.usage.input_tokens, 0)} / {number(run.usage.output_tokens, 0)}")
    columns[4].metric("Tool calls", len(run.tools))
    if run.flags:
        st.warning("Facts about this run's data: " + ", ".join(label(f) for f in run.flags))
    if run.error:
        st.error("The run ended in an error:")
        st.code(plain(run.error, limit=4000), language=None)


def _marked(run: Run, scores: tuple[ScoreRecord, ...]) -> str:
    pieces: list[str] = []
    for piece in queries.marked_output(run.output or "", scores):
        verdict = piece.evidence.get("verdict") if piece.evidence else None
        if verdict in ("contradicted", "mismatch", "unsupported"):
            true = piece.evidence.get("expected") if piece.evidence else None
            pieces.append(f"⟦✗ {piece.text}{f' → {true}' if true else ''}⟧")
        elif verdict in ("supported", "match"):
            pieces.append(f"⟦✓ {piece.text}⟧")
        else:
            pieces.append(piece.text)
    return "".join(pieces)


def _texts(run: Run, scores: tuple[ScoreRecord, ...]) -> None:
    left, right = st.columns(2)
    left.subheader("Input")
    left.text(plain(run.input) if run.input is not None else "not captured")
    right.subheader("Output")
    if run.output is None:
        right.text("not captured")
        return
    right.text(plain(_marked(run, scores)))
    right.caption("✓ supported by the evidence, ✗ not; the arrow shows the true value.")


def _evidence_line(item: dict[str, Any]) -> str:
    parts = [str(item.get("verdict", ""))]
    if item.get("claim"):
        parts.append(f"{item['claim']!r}")
    if item.get("expected"):
        parts.append(f"true value {item['expected']}")
    where = [str(item[key]) for key in ("tool", "path") if item.get(key)]
    if where:
        parts.append("in " + " ".join(where))
    elif item.get("source"):
        parts.append(f"in {item['source']}")
    parts += [str(item[key]) for key in ("formula", "code", "note") if item.get(key)]
    return "  ·  ".join(parts)


def _score(score: ScoreRecord) -> None:
    if score.error is not None:
        mark, value = "⚠", "error"
    elif score.not_applicable:
        mark, value = "○", "not applicable"
    else:
        mark, value = ("✓" if score.passed else "✗"), f"{number(score.value)}, passes from {number(score.threshold)}"
    with st.expander(f"{mark} {label(score.metric)}  {value}", expanded=score.passed is False or bool(score.error)):
        st.text(plain(score.error or score.reason, limit=4000))
        items = queries.evidence_of(score)
        for item in items[:SHOWN]:
            st.text(plain(_evidence_line(item), limit=1000))
        if len(items) > SHOWN and st.toggle(f"{len(items) - SHOWN} more", key=f"more_{score.metric}_{score.rule}"):
            for item in items[SHOWN:]:
                st.text(plain(_evidence_line(item), limit=1000))
        judge = f"   judge {score.judge_model} {usd(score.judge_cost_usd)}" if score.judge_model else ""
        st.text(plain(f"rule {score.rule or '-'}   version {score.metric_version}   {score.source}{judge}"))


def _show_value(title: str, value: Any) -> None:
    st.caption(title)
    if isinstance(value, dict | list):
        st.json(plain_json(value), expanded=2)
    else:
        st.code(plain("not captured" if value is None else value), language=None, wrap_lines=True)


def _step(step: Step) -> None:
    left, right = st.columns(2)
    if step.tool is not None:
        with left:
            _show_value("arguments", step.tool.arguments)
        with right:
            _show_value("result", step.tool.result)
        if step.tool.error:
            _show_value("error", step.tool.error)
    elif step.model_call is not None:
        call = step.model_call
        with left:
            _show_value("input", [{"role": m.role, "text": m.text} for m in call.input_messages])
        with right:
            _show_value("output", [{"role": m.role, "text": m.text} for m in call.output_messages])
        usage = call.usage
        st.text(
            plain(
                f"{call.model or 'unknown model'}   in {number(usage.input_tokens, 0)}"
                f" (cache read {number(usage.cache_read_tokens, 0)})   out {number(usage.output_tokens, 0)}"
                f"   {usd(call.cost_usd)}"
            )
        )
    elif step.retrieval is not None:
        _show_value("query", step.retrieval.query)
        _show_value(
            "documents", [{"id": d.id, "score": d.score, "content": d.content} for d in step.retrieval.documents]
        )


def _steps(run: Run) -> None:
    st.subheader("Steps")
    st.altair_chart(figures.timeline_chart(run), width="stretch")
    for step in run.steps:
        mark = "✗" if step.failed else ("↳" if step.depth else "·")
        title = f"{mark} {step.index} {step.kind.replace('_', ' ')} {label(step.name)}  {seconds(step.duration_s)}"
        with st.expander(title, expanded=step.failed):
            if step.error:
                st.code(plain(step.error, limit=4000), language=None)
            _step(step)


def _rest(view: queries.RunPage) -> None:
    if len(view.session) > 1:
        st.subheader("Session")
        for row in view.session:
            here = "  (this run)" if row.run_id == view.run.run_id else ""
            st.page_link(
                "pages/run.py",
                label=f"{iso_time(row.started_ns)[:19]} {label(row.input, limit=80)}{here}",
                query_params={"run": row.run_id},
            )
    st.subheader("Why scored, or not")
    screen.table(
        [
            {"rule": o.rule, "revision": o.run_revision, "outcome": o.outcome, "reason": clean(o.reason, limit=300)}
            for o in view.outcomes
        ],
    )
    with st.expander("Facts"):
        facts = {
            k: v for k, v in view.run.to_json().items() if k not in ("tools", "model_calls", "retrievals", "output")
        }
        st.json(plain_json(facts), expanded=1)


def page() -> None:
    """Draw the page."""
    with screen.guarded():
        run_id = st.query_params.get("run", "")
        if not run_id:
            st.title("Run")
            st.info("Open a run from the list, or paste its id.")
            typed = st.text_input("Run id")
            if typed:
                st.query_params["run"] = typed.strip()
                st.rerun()
            return
        view = queries.run_page(screen.store(), run_id, project=screen.own_project())
        if view is None:
            st.title("Run")
            st.warning("There is no such run, or it was withdrawn because a late span changed its root.")
            return
        _head(view.run)
        _texts(view.run, view.scores)
        st.subheader("Scores")
        if not view.scores:
            st.info("No scores yet: see below why.")
        for score in view.scores:
            _score(score)
        _steps(view.run)
        _rest(view)


page()
