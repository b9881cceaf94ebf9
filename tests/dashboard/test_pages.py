"""The pages on a store in memory, drawn by Streamlit's own test runner."""

import json
import re
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, cast

import pytest
from streamlit.testing.v1 import AppTest

from evalspan_collector.assemble import assemble
from evalspan_collector.completion import revise
from evalspan_collector.intake import read_traces
from evalspan_collector.records import AlertEvent, AlertState, OutcomeRecord, ScoreRecord
from evalspan_collector.run import Run
from evalspan_collector.store.contract import Store
from evalspan_collector.store.opening import open_store
from evalspan_dashboard import screen

PAGES = Path(screen.__file__).with_name("pages")
HOSTILE = "![x](http://127.0.0.1:9/i.png) <script>alert(1)</script> [a](b) :red[r] $x$ \x1b[31m \u202e \ud800"


def _request(agent: str, text: str, *, failed: bool = False) -> bytes:
    now = time.time_ns()

    def attribute(key: str, value: str) -> dict[str, Any]:
        return {"key": key, "value": {"stringValue": value}}

    def span(span_id: str, parent: str, name: str, attributes: dict[str, str]) -> dict[str, Any]:
        return {
            "traceId": f"{now:032x}", "spanId": span_id, "parentSpanId": parent, "name": name,
            "startTimeUnixNano": str(now - 2 * 10**9), "endTimeUnixNano": str(now - 10**9),
            "attributes": [attribute(k, v) for k, v in attributes.items()],
            "status": {"code": 2, "message": text} if failed else {},
        }  # fmt: skip

    message = json.dumps([{"role": "user", "parts": [{"type": "text", "content": text}]}])
    spans = [
        span("1" * 16, "", f"invoke_agent {agent}",
             {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": agent, "gen_ai.conversation.id": "s1",
              "gen_ai.input.messages": message, "gen_ai.output.messages": message.replace("user", "assistant")}),
        span("2" * 16, "1" * 16, f"execute_tool {agent}",
             {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": agent,
              "gen_ai.tool.call.arguments": json.dumps({text: text}), "gen_ai.tool.call.result": text}),
        span("3" * 16, "1" * 16, "chat m",
             {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m", "gen_ai.input.messages": message,
              "gen_ai.output.messages": message}),
    ]  # fmt: skip
    body = {"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}
    return json.dumps(body).encode("utf-8", "surrogatepass")


def _put(store: Store, agent: str, text: str, *, failed: bool = False) -> Run:
    now = time.time_ns()
    intake = read_traces(_request(agent, text, failed=failed), project="default", received_ns=now, json=True)
    store.insert_spans(intake.spans, token=f"{agent}-{now}")
    (found,) = assemble(intake.spans)
    run = revise(None, found, closed=True)
    store.write_runs([run], token=f"run-{now}")
    evidence = [{"verdict": "contradicted", "claim": text[:5], "start": 0, "end": 5, "expected": text, "tool": agent}]
    store.write_scores(
        [
            ScoreRecord(
                project="default", run_id=run.run_id, metric="grounding", rule="r", run_revision=1,
                metric_version="v", created_ns=now, value=0.25, threshold=0.7, passed=False, reason=text,
                evidence=json.dumps(evidence), agent=agent, run_started_ns=run.started_ns,
            ),
            ScoreRecord(
                project="default", run_id=run.run_id, metric="judged", rule="r", run_revision=1, metric_version="v",
                created_ns=now, error=text, run_started_ns=run.started_ns,
            ),
        ],
        token=f"score-{now}",
    )  # fmt: skip
    store.write_outcomes(
        [
            OutcomeRecord(
                project="default", rule="r", run_id=run.run_id, run_revision=1, outcome="scored", rule_version="v",
                created_ns=now, reason=text,
            )
        ],
        token=f"outcome-{now}",
    )  # fmt: skip
    return run


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Store:
    opened = open_store("memory://")
    monkeypatch.setattr(screen, "store", lambda: opened)
    return opened


def _draw(page: str, **query: str) -> AppTest:
    # The overview links to another page, so it needs the navigation around it; it is the default page there.
    file = PAGES.with_name("app.py") if page == "overview" else PAGES / f"{page}.py"
    app = AppTest.from_file(str(file), default_timeout=60)
    for name, value in query.items():
        app.query_params[name] = value
    app.run()
    assert not app.exception, [e.value for e in app.exception]
    return app


def _texts(app: AppTest) -> str:
    return "\n".join(str(item.value) for item in app.text)


@pytest.mark.parametrize("page", ["overview", "runs", "alerts", "run"])
def test_an_empty_store_says_what_to_do_next(store: Store, page: str) -> None:
    assert _draw(page).info


def test_the_run_page_shows_evidence_with_the_true_value(store: Store) -> None:
    run = _put(store, "analyst", "197.4 is the price")

    app = _draw("run", run=run.run_id)

    assert "contradicted" in _texts(app)
    assert "⟦✗ 197.4 → 197.4 is the price⟧" in _texts(app)
    assert [e.label for e in app.expander if "grounding" in e.label]


def test_an_unknown_run_is_said_to_be_unknown(store: Store) -> None:
    assert "no such run" in _draw("run", run="nowhere").warning[0].value


@pytest.mark.parametrize("page", ["overview", "runs", "run"])
def test_hostile_text_never_reaches_markdown_unescaped(store: Store, page: str) -> None:
    run = _put(store, HOSTILE, HOSTILE, failed=True)

    app = _draw(page, run=run.run_id)

    markdown = [m.value for m in (*app.markdown, *app.title, *app.caption, *app.subheader, *app.warning, *app.error)]
    labels = [e.label for e in app.expander]
    assert not [text for text in (*markdown, *labels) if re.search(r"(?<!\\)(!\[|<script|:red|\[a\])", text)]


_ODD = ["../../etc/passwd", "x" * 10_000, "' OR 1=1 --", "\x00\u202e<script>"]


@pytest.mark.parametrize("page", ["runs", "run"])
@pytest.mark.parametrize("value", _ODD, ids=range(len(_ODD)))
def test_an_address_made_up_by_hand_shows_nothing_of_others_and_breaks_nothing(
    store: Store, page: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = _put(store, "secret_agent", "secret words")
    monkeypatch.setenv("EVALSPAN_PROJECT_ONLY", "mine")
    names = ("run", "project", "agent", "window", "metric", "status", "session")
    _nothing_of_others(_draw(page, **dict.fromkeys(names, value)))
    if page == "run":
        _nothing_of_others(_draw(page, run=run.run_id, project="default"))


def _nothing_of_others(app: AppTest) -> None:
    shown = [str(item.value) for item in (*app.text, *app.markdown, *app.code, *app.error, *app.info)]
    assert "secret" not in " ".join(shown)


def test_the_alerts_page_shows_states_and_changes(store: Store) -> None:
    now = time.time_ns()
    store.write_alert_state(
        AlertState(project="default", alert="a1", state="firing", since_ns=now, updated_ns=now, value=0.5, sample=9)
    )
    store.write_alert_event(
        AlertEvent(project="default", alert="a1", event_id="e", created_ns=now, state="firing", value=0.5)
    )

    app = _draw("alerts")

    assert "value 0.500   sample 9" in _texts(app)
    assert len(app.dataframe[0].value) == 1


def test_filters_stand_in_the_address(store: Store) -> None:
    _put(store, "analyst", "a")
    _put(store, "other", "b")

    app = _draw("runs", agent="other")

    assert list(cast("Iterable[str]", app.dataframe[0].value["agent"])) == ["other"]
