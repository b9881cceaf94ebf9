"""Runs: plays the demo's scenarios against a collector and tells what happened."""

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from evalspan.errors import EvalspanError
from evalspan_dashboard.demo.api_server import ScriptedApi, ServedCall
from evalspan_dashboard.demo.scenarios import SCENARIOS, Planted

__all__ = ["DemoResult", "DemoTurn", "config_text", "run_demo", "write_config"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoTurn:
    """One run of a sample agent.

    Attributes:
        tools: Names of the tools the script asks for, in order.
        session_id: Finds the run in the store; unique to this demo.
        planted: The false figure in its answer, if there is one.
        calls: What the API server reported for its model calls.
    """

    scenario: str
    shows: str
    agent: str
    session_id: str
    input: str
    output: str
    tools: tuple[str, ...]
    planted: Planted | None
    calls: tuple[ServedCall, ...]


@dataclass(frozen=True, slots=True)
class DemoResult:
    """Everything that was played, in order."""

    turns: tuple[DemoTurn, ...]

    @property
    def calls(self) -> tuple[ServedCall, ...]:
        """Every model call of every turn."""
        return tuple(call for turn in self.turns for call in turn.calls)


def run_demo(
    endpoint: str,
    *,
    api_key: str | None = None,
    scenarios: Sequence[str] = (),
    session: str | None = None,
    latency_s: float = 0.02,
    timeout_s: float = 90.0,
) -> DemoResult:
    """Play the scenarios in an agent process of their own that exports to `endpoint`.

    Args:
        endpoint: OTLP/gRPC address of a collector, such as `http://127.0.0.1:4317`.
        api_key: Key of the project to write to, where the collector wants one.
        scenarios: Names of scenarios; all by default.
        session: Prefix of the session ids; by default a new one.
        latency_s: Seconds each model answer takes.
        timeout_s: Seconds after which the agent process is given up.

    Raises:
        EvalspanError: The agent process failed or took too long; the message holds its last words.
    """
    unknown = sorted(set(scenarios) - {scenario.name for scenario in SCENARIOS})
    if unknown:
        raise EvalspanError(f"unknown scenarios {unknown!r}: known are {[s.name for s in SCENARIOS]!r}")
    prefix = session or f"demo-{uuid.uuid4().hex[:8]}"
    with ScriptedApi(latency_s=latency_s) as api:
        command = [sys.executable, "-m", "evalspan_dashboard.demo.play", "--session", prefix, *scenarios]
        lines = _run(command, _environment(api.url, endpoint, api_key), timeout_s)
        return DemoResult(tuple(_turn(json.loads(line), api.calls) for line in lines))


def _environment(api_url: str, endpoint: str, api_key: str | None) -> dict[str, str]:
    """The surroundings of this process, without its own OpenTelemetry and proxy settings."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("OTEL_", "ANTHROPIC_"))}
    local = "127.0.0.1,localhost"
    kept |= {
        "ANTHROPIC_BASE_URL": api_url,
        "ANTHROPIC_API_KEY": "demo",
        "OTEL_EXPORTER_OTLP_ENDPOINT": endpoint if "://" in endpoint else f"http://{endpoint}",
        "OTEL_SERVICE_NAME": "demo-agents",
        "NO_PROXY": local,
        "no_proxy": local,
    }
    if api_key:
        kept["EVALSPAN_API_KEY"] = api_key
    return kept


def _run(command: list[str], environment: dict[str, str], timeout_s: float) -> list[str]:
    try:
        done = subprocess.run(  # noqa: S603 - our own module, no shell
            command, env=environment, capture_output=True, text=True, timeout=timeout_s, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise EvalspanError(f"the demo's agents did not finish within {timeout_s:g} s") from error
    if done.returncode != 0:
        raise EvalspanError(f"the demo's agents failed: {done.stderr.strip()[-2000:]}")
    return done.stdout.splitlines()


def _turn(played: dict[str, str], calls: Sequence[ServedCall]) -> DemoTurn:
    scenario = next(found for found in SCENARIOS if found.name == played["scenario"])
    turn = next(found for found in scenario.turns if found.question == played["input"])
    return DemoTurn(
        scenario=scenario.name,
        shows=scenario.shows,
        agent=scenario.agent,
        session_id=played["session_id"],
        input=played["input"],
        output=played["output"],
        tools=tuple(name for reply in turn.replies for name, _ in reply.calls),
        planted=scenario.planted,
        calls=tuple(call for call in calls if call.question == turn.question),
    )


def config_text(webhook: str | None = None) -> str:
    """The demo's evalspan.yaml; with a webhook address its alert is sent there too."""
    text = files("evalspan_dashboard.demo").joinpath("evalspan.yaml").read_text(encoding="utf-8")
    if webhook is None:
        return text
    return text.replace("    channels: []\n", "    channels: [demo]\n") + (
        f"channels:\n  demo: {{webhook: {json.dumps(webhook)}, allow_private: true}}\n"
    )


def write_config(folder: Path, webhook: str | None = None) -> Path:
    """Write the demo's evalspan.yaml into a folder and return its path."""
    path = folder / "evalspan.yaml"
    path.write_text(config_text(webhook), encoding="utf-8")
    return path
