"""The whole path with real processes: an agent with one import, to scores, to an alert."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

#: A plain agent on the real SDK; the only line that knows evalspan's transport is the first.
AGENT = """
import evalspan.auto
import evalspan, json, sys
from anthropic import Anthropic

@evalspan.tool
def add(a: int, b: int) -> dict:
    return {"sum": a + b}

@evalspan.tool
def divide(a: int, b: int) -> float:
    return a / b

@evalspan.agent(name="calculator")
def calculator(question: str) -> str:
    client = Anthropic()
    messages = [{"role": "user", "content": question}]
    while True:
        reply = client.messages.create(model="claude-sonnet-4-5", max_tokens=500, messages=messages)
        messages.append({"role": "assistant", "content": [b.model_dump() for b in reply.content]})
        if reply.stop_reason != "tool_use":
            return "".join(b.text for b in reply.content if b.type == "text")
        results = []
        for block in reply.content:
            if block.type == "tool_use":
                try:
                    text, failed = json.dumps({"add": add, "divide": divide}[block.name](**block.input)), False
                except Exception as error:
                    text, failed = repr(error), True
                results.append({"type": "tool_result", "tool_use_id": block.id, "content": text, "is_error": failed})
        messages.append({"role": "user", "content": results})

with evalspan.session(sys.argv[1]):
    print(calculator(sys.argv[2]))
"""


def _tool_use(number: int, name: str, **arguments: int) -> dict[str, Any]:
    return {"type": "tool_use", "id": f"toolu_{number:02d}", "name": name, "input": arguments}


def _usage(given: int, output: int, read: int = 0, write: int = 0) -> dict[str, int]:
    return {
        "input_tokens": given,
        "output_tokens": output,
        "cache_read_input_tokens": read,
        "cache_creation_input_tokens": write,
    }


SCRIPT = [
    ([_tool_use(1, "add", a=19, b=23)], "tool_use", _usage(120, 31, write=1000)),
    ([_tool_use(2, "divide", a=42, b=0)], "tool_use", _usage(40, 29, read=1000)),
    ([{"type": "text", "text": "The sum is 43; it cannot be divided by zero."}], "end_turn", _usage(55, 18, read=1000)),
]


def test_one_import_makes_an_agent_visible_scored_and_watched(
    demo_evalspan: Any, scripted_anthropic: Callable[..., Any], until: Callable[..., Any], tmp_path: Path
) -> None:
    script = tmp_path / "agent.py"
    script.write_text(AGENT)
    with scripted_anthropic(SCRIPT) as url:
        done = subprocess.run(
            [sys.executable, str(script), "session-e2e", "What is 19 + 23, and that divided by 0?"],
            env={
                **os.environ,
                "OTEL_EXPORTER_OTLP_ENDPOINT": demo_evalspan.endpoint,
                "ANTHROPIC_BASE_URL": url,
                "ANTHROPIC_API_KEY": "k",
            },
            capture_output=True,
            text=True,
            timeout=90,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    assert "43" in done.stdout

    def closed() -> dict[str, Any] | None:
        rows = demo_evalspan.lines("runs", "list", "--agent", "calculator")
        return next((row for row in rows if row["state"] != "open"), None)

    row = until(closed, 40, "the run")
    run = json.loads(demo_evalspan.run("runs", "show", row["run_id"], "--json"))

    assert [t["name"] for t in run["tools"]] == ["add", "divide"]
    assert run["tools"][0]["arguments"] == {"a": 19, "b": 23}
    assert run["tools"][0]["result"] == {"sum": 42}
    assert [t["failed"] for t in run["tools"]] == [False, True]
    assert "division by zero" in run["tools"][1]["error"]
    assert run["usage"]["input_tokens"] == 1120 + 1040 + 1055
    assert run["usage"]["output_tokens"] == 31 + 29 + 18
    assert run["usage"]["cache_read_tokens"] == 2000
    assert run["usage"]["cache_write_tokens"] == 1000
    assert len(run["model_calls"]) == 3
    assert run["cost_usd"] == pytest.approx((215 * 3 + 1000 * 3.75 + 2000 * 0.3 + 78 * 15) / 1e6, rel=1e-6)
    assert run["cost_unknown_calls"] == 0
    assert run["session_id"] == "session-e2e"
    assert run["input"] == "What is 19 + 23, and that divided by 0?"
    assert run["output"] == "The sum is 43; it cannot be divided by zero."
    assert run["status"] == "ok"
    assert run.keys() >= {
        "run_id",
        "trace_id",
        "project",
        "revision",
        "state",
        "agents",
        "flags",
        "retrievals",
        "scores",
    }


def test_the_planted_contradiction_is_found_with_its_evidence(demo_evalspan: Any) -> None:
    failed = demo_evalspan.lines("scores", "list", "--metric", "grounding", "--failed")

    evidence = [e for score in failed for e in score["evidence"] if e["verdict"] == "contradicted"]
    assert any(
        e["tool"] == "fetch_stock_data"
        and "price" in e["path"]
        and "187.42" in e["expected"]
        and "197.42" in e["claim"]
        for e in evidence
    )


def test_every_run_is_scored_once(demo_evalspan: Any) -> None:
    scores = demo_evalspan.lines("scores", "list", "--limit", "1000")

    keys = [(s["run_id"], s["metric"], s["rule"]) for s in scores]
    assert len(keys) == len(set(keys))


def test_the_alert_fires_once_and_resolves_once(demo_evalspan: Any, webhook: Any, until: Callable[..., Any]) -> None:
    def states() -> list[str]:
        return [m["state"] for m in webhook.received if m.get("alert") == "grounding-drop"]

    until(lambda: "firing" in states(), 40, "the alert")

    from evalspan_dashboard.demo.runs import run_demo

    run_demo(demo_evalspan.endpoint, scenarios=["good analysis"] * 40)
    until(lambda: "resolved" in states(), 60, "the resolution")

    assert states() == ["firing", "resolved"]
    events = demo_evalspan.lines("alerts", "list", "--events")
    assert [e["state"] for e in events if e["state"] in ("firing", "resolved")] == ["resolved", "firing"]


def test_the_doctor_finds_every_hop_sound(demo_evalspan: Any) -> None:
    hops = demo_evalspan.lines("doctor")

    assert [hop["hop"] for hop in hops] == ["config", "store", "collector", "span", "run", "worker", "dashboard"]
    assert {hop["outcome"] for hop in hops} == {"ok"}
    assert not demo_evalspan.lines("runs", "list", "--agent", "evalspan_doctor")
