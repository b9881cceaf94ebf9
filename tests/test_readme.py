"""What the README shows works as it stands there."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from evalspan.testing import Sink
from evalspan_collector.assemble import assemble
from evalspan_collector.intake import read_traces
from evalspan_evaluators.case import Case
from evalspan_evaluators.config import load_config
from evalspan_evaluators.metric import Metric, evaluate_metric

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text()


def _blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


@pytest.fixture
def run_of_the_readme(tmp_path: Path) -> Case:
    """The run that the README's agent makes, as the collector rebuilds it."""
    (script,) = _blocks("python")
    (tmp_path / "agent.py").write_text(script)
    with Sink() as sink:
        done = subprocess.run(
            [sys.executable, "agent.py"],
            env={
                "PATH": "/usr/bin:/bin",
                "OTEL_EXPORTER_OTLP_ENDPOINT": sink.endpoint,
                "PYTHONPATH": ":".join(sys.path),
            },
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            cwd=tmp_path,
        )
        assert done.returncode == 0, done.stderr
        spans = [
            span
            for request in sink.requests
            for span in read_traces(request.SerializeToString(), project="default", received_ns=1).spans
        ]
    (run,) = assemble(spans)
    return Case.from_run(run)


def test_the_agent_of_the_readme_is_one_run_with_its_tool_and_session(run_of_the_readme: Case) -> None:
    run = run_of_the_readme.run

    assert run is not None
    assert run.agent == "analyst"
    assert [tool.name for tool in run.tools] == ["fetch_price"]
    assert run.tools[0].result == {"price": 187.42}
    assert run.session_id == "chat-1"
    assert run.output == "It trades at 187.42 USD."


def test_the_rules_of_the_readme_score_its_agent(run_of_the_readme: Case, tmp_path: Path) -> None:
    (text,) = _blocks("yaml")
    (tmp_path / "evalspan.yaml").write_text(text)
    config = load_config(tmp_path / "evalspan.yaml", env={})

    (rule,) = config.rules
    assert run_of_the_readme.run is not None
    case = Case.from_run(run_of_the_readme.run, expected=rule.expected)
    scores = [evaluate_metric(metric, case) for metric in rule.metrics if isinstance(metric, Metric)]

    assert [score.metric for score in scores] == ["grounding", "sequence", "max_latency"]
    assert all(score.passed for score in scores), scores
    assert [alert.name for alert in config.alerts] == ["answers-drift"]


def test_the_readme_is_short_and_its_links_lead_somewhere() -> None:
    assert README.count("\n") <= 150
    links = re.findall(r"\]\(([^)#]+)\)", README)
    assert links
    assert [link for link in links if "://" not in link and not (ROOT / link).exists()] == []


def test_the_commands_of_the_readme_exist() -> None:
    for name in re.findall(r"^evalspan (\w+)(?: (list|show))?", "\n".join(_blocks("bash")), flags=re.MULTILINE):
        command = [part for part in name if part]
        done = subprocess.run(
            [sys.executable, "-m", "evalspan_dashboard", *command, "--help"],
            capture_output=True,
            check=False,
            timeout=60,
        )
        assert done.returncode == 0, command


def test_make_knows_the_targets_of_the_readme() -> None:
    for target in re.findall(r"^make (\w+)", "\n".join(_blocks("bash")), flags=re.MULTILINE):
        done = subprocess.run(["make", "-n", target], capture_output=True, check=False, cwd=ROOT, timeout=60)
        assert done.returncode == 0, target
