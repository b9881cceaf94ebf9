"""`evalspan eval` and `evalspan case`, as a user runs them."""

import json
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from evalspan_collector.run import Run, Step, ToolCall
from evalspan_collector.store.contract import Store
from evalspan_collector.store.opening import open_clickhouse

GOLDEN = Path(__file__).parents[1] / "golden" / "captures"

AGENT = """
import json, pathlib, sys
tools = pathlib.Path("tools.txt").read_text().split()
print(json.dumps({"output": "The revenue grew", "steps": [{"tool": t} for t in tools], "cost": 0.01}))
"""
CASE = """
name: stock
input: {query: "How is Apple?"}
expected:
  tools: [fetch, analyze]
  tool_sequence: [fetch, analyze]
  output: {contains: [revenue]}
thresholds: {min_score: 60, max_cost: 0.5}
"""


def evalspan(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "evalspan_dashboard", *arguments],
        capture_output=True, text=True, cwd=folder, timeout=100, check=False,
    )  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "stock.yaml").write_text(CASE)
    (tmp_path / "tests" / "agent.py").write_text(AGENT)
    (tmp_path / "tests" / "tools.txt").write_text("fetch analyze")
    return tmp_path


COMMAND = ("--command", f"{sys.executable} agent.py")


def test_a_passing_suite_exits_with_0_and_prints_the_report(folder: Path) -> None:
    done = evalspan(folder, "eval", "tests", *COMMAND)

    assert done.returncode == 0, done.stderr
    assert "✅ stock - PASSED (score: 100.0)" in done.stdout
    assert "Tool Accuracy:      100% (2/2 tools called)" in done.stdout
    assert "1 test cases: 1 passed" in done.stdout


def test_a_failing_suite_exits_with_1_and_writes_its_reports(folder: Path) -> None:
    (folder / "tests" / "tools.txt").write_text("analyze")

    done = evalspan(folder, "eval", "tests", *COMMAND, "--json", "--junit", "out/j.xml", "--markdown", "out/m.md")

    assert done.returncode == 1
    report = json.loads(done.stdout)
    assert (report["passed"], report["counts"]["failed"]) == (False, 1)
    assert report["cases"][0]["parts"]["tool_accuracy"]["value"] == 0.5
    assert ET.parse(folder / "out" / "j.xml").getroot().get("failures") == "1"
    assert "| stock | ❌ failed |" in (folder / "out" / "m.md").read_text()


def test_a_regression_against_the_baseline_exits_with_1(folder: Path) -> None:
    baseline = ("--baseline", "baseline.json")
    assert evalspan(folder, "eval", "tests", *COMMAND, *baseline, "--update-baseline").returncode == 0
    assert evalspan(folder, "eval", "tests", *COMMAND, *baseline).returncode == 0
    (folder / "tests" / "tools.txt").write_text("fetch fetch2")
    (folder / "tests" / "stock.yaml").write_text(CASE.replace("min_score: 60", "min_score: 10"))

    done = evalspan(folder, "eval", "tests", *COMMAND, *baseline)

    assert done.returncode == 1
    assert "PASSED" in done.stdout
    assert "regression: the score fell by 50.0 points" in done.stdout
    assert "first at step 2: 'analyze' before, 'fetch2' now" in done.stdout


def test_runs_repeats_every_case(folder: Path) -> None:
    done = evalspan(folder, "eval", "tests", *COMMAND, "--runs", "3", "--json")

    assert done.returncode == 0, done.stderr
    statistics = json.loads(done.stdout)["cases"][0]["statistics"]
    assert (statistics["runs"], statistics["passes"], statistics["pass_hat_k"]) == (3, 3, [1.0, 1.0, 1.0])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("tests", "--command", "x", "--url", "http://x"), "--command and --url name two agents"),
        (("gone",), "there is no file or folder 'gone'"),
        (("tests",), "names no agent"),
        (("tests", "--update-baseline"), "--update-baseline needs the file"),
        (("tests", "--baseline", "gone.json", *COMMAND), "cannot read the baseline 'gone.json'"),
        (("broken.yaml",), "broken.yaml:3: expected.tols: unknown field 'tols': did you mean 'tools'?"),
        (("set.jsonl", "--metric", "groundign"), "did you mean 'grounding'"),
        (("set.jsonl", "--runs", "3"), "are for test cases"),
    ],
)
def test_a_mistake_exits_with_2_and_is_named_on_stderr(folder: Path, arguments: tuple[str, ...], message: str) -> None:
    (folder / "broken.yaml").write_text("name: x\ninput: q\nexpected: {tols: [a]}\n")
    (folder / "set.jsonl").write_text('{"input": "a"}\n')

    done = evalspan(folder, "eval", *arguments)

    assert done.returncode == 2, done.stdout
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_a_data_set_is_scored_with_the_metrics_named(folder: Path) -> None:
    (folder / "set.jsonl").write_text(
        '{"name": "one", "input": "a", "output": "yes", "tools": ["x"], "expected": {"sequence": ["x"]}}\n'
        '{"name": "two", "input": "b", "output": "no", "tools": ["y"], "expected": {"sequence": ["x"]}}\n'
    )

    done = evalspan(folder, "eval", "set.jsonl", "--metric", "sequence", "--markdown", "m.md", "--junit", "j.xml")

    assert done.returncode == 1
    assert "FAILED two: b" in done.stdout
    assert "2 cases: pass rate 0.50, average score 0.50" in done.stdout
    assert "| sequence | 1 | 1 | 0 | 0 | 0.50 |" in (folder / "m.md").read_text()
    assert ET.parse(folder / "j.xml").getroot().get("failures") == "1"


def test_a_data_set_without_named_metrics_is_scored_by_what_it_expects(folder: Path) -> None:
    (folder / "set.yaml").write_text(
        "- {input: a, output: 'yes', tools: [x], expected: {sequence: [x], contains: ['yes']}}\n"
    )

    done = evalspan(folder, "eval", "set.yaml", "--json")

    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(done.stdout)
    assert {m["metric"] for m in report["metrics"] if m["passed"]} == {"sequence", "contains"}


def test_a_stored_run_becomes_a_case_that_is_met(folder: Path, store: Store, store_url: str) -> None:
    call = ToolCall(name="lookup", arguments={"id": 1}, result={"ok": True})
    step = Step(index=0, kind="tool_call", name="lookup", tool=call)
    run = Run(run_id="f" * 16, trace_id="a" * 32, root_span_id="b" * 16, state="closed", input="where?", output="here",
              steps=(step,), started_ns=10**18, last_received_ns=10**18)  # fmt: skip
    store.write_runs([run], token="one")
    stored = open_clickhouse(store_url).run(None, run.run_id)
    assert stored is not None

    done = evalspan(folder, "case", run.run_id, "--into", "set.jsonl", "--learn", "sequence", "--store-url", store_url)

    assert done.returncode == 0, done.stderr
    case = json.loads((folder / "set.jsonl").read_text())
    assert case["expected"] == {"sequence": [t.name for t in stored.tools]}
    missing = evalspan(folder, "case", "gone", "--into", "set.jsonl", "--store-url", store_url)
    assert (missing.returncode, "there is no run 'gone'" in missing.stderr) == (2, True)
