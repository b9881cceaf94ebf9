"""The pytest plugin, in test runs of its own."""

import json
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

pytest_plugins = ["pytester"]

AGENT = """
import evalspan
import pytest
from opentelemetry import trace
from evalspan_evaluators.case import Case, Expected
from evalspan_evaluators.metric import MetricBase
from evalspan_evaluators.output.contains import Contains
from evalspan_evaluators.trajectory.sequence import Sequence
from evalspan_evaluators.correctness import Correctness

@evalspan.tool
def price(item):
    return {"price": 12.5}

@evalspan.agent(name="shop")
def shop(question, wrong=False):
    price("book")
    return "It costs 99.90 USD." if wrong else "It costs 12.50 USD."
"""


def run(pytester: pytest.Pytester, body: str, *options: str) -> pytest.RunResult:
    pytester.makepyfile(test_agent=AGENT + body)
    return pytester.runpytest_subprocess("-p", "no:cacheprovider", "-p", "no:randomly", *options)


def test_seed_b14_a_marker_names_a_metric_with_a_threshold_and_the_recorded_run_must_meet_it(
    pytester: pytest.Pytester,
) -> None:
    result = run(
        pytester,
        """
@pytest.mark.metric(Sequence, threshold=1.0)
@pytest.mark.metric("grounding", threshold=0.9)
@pytest.mark.parametrize("wrong", [False, True])
def test_shop(record_run, wrong):
    with record_run(expected=Expected(sequence=("price",))) as recorded:
        shop("what does it cost?", wrong)
    assert recorded.run.agent == "shop"
    assert "what does it cost?" in recorded.run.input
    assert [t.name for t in recorded.run.tools] == ["price"]
""",
    )

    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*grounding on 'test_shop?True?' is 0.*below its threshold 0.90*'99.90 USD'*"])
    result.stdout.re_match_lines([r"=+ evalspan =+", r"metric +passed +failed +errors +n/a +mean",
                                  r"grounding +1 +1 +0 +0 +0\.\d\d", r"sequence +2 +0 +0 +0 +1\.00"])  # fmt: skip


def test_seed_b14_a_case_by_hand_is_checked_in_the_test(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
@pytest.mark.metric(Contains(texts=("a",)))
def test_checked(check_case):
    scores = check_case(Case(output="abc"), Contains(texts=("c",)))
    assert [s.passed for s in scores] == [True, True]

@pytest.mark.metric(Contains(texts=("a", "b"), threshold=0.9), threshold=0.1)
def test_the_constructor_wins(check_case):
    with pytest.raises(AssertionError, match="below its threshold 0.90"):
        check_case(Case(output="a"))
""",
    )

    result.assert_outcomes(passed=2)


def test_a_test_with_a_metric_and_no_case_fails(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
@pytest.mark.metric("grounding")
def test_nothing():
    pass

@pytest.mark.metric("grounding")
def test_no_run(record_run):
    with record_run():
        pass

@pytest.mark.metric("groundign")
def test_typo(record_run):
    with record_run():
        shop("x")
""",
    )

    result.assert_outcomes(failed=3)
    result.stdout.fnmatch_lines(
        ["*has a metric and no case*", "*0 spans were recorded and no run*", "*did you mean 'grounding'*"]
    )


def test_what_a_library_emits_through_the_global_provider_is_recorded_too(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
def library_call():
    tracer = trace.get_tracer("some.library")
    with tracer.start_as_current_span("chat m") as span:
        span.set_attributes({"gen_ai.operation.name": "chat", "gen_ai.request.model": "m",
                             "gen_ai.provider.name": "p", "gen_ai.usage.input_tokens": 5})

@evalspan.agent(name="outer")
def outer(question):
    library_call()
    return "done"

def test_both(record_run):
    for _ in range(2):
        with record_run() as recorded:
            outer("x")
        assert [c.model for c in recorded.run.model_calls] == ["m"]
        assert recorded.run.usage.input_tokens == 5
        assert recorded.run.duration_s < 60

async def agent():
    return outer("y")

async def test_async(record_run):
    with record_run() as recorded:
        await agent()
    assert recorded.case().output == "done"
""",
        "-o", "asyncio_mode=auto",
    )  # fmt: skip

    result.assert_outcomes(passed=2)


JUDGED = """
@pytest.mark.metric(Correctness(steps=("compare",)))
def test_judged(check_case):
    check_case(Case(input="q", output="a", expected=Expected(output="a")))
"""


def test_a_test_that_needs_a_judge_is_skipped_without_one(pytester: pytest.Pytester) -> None:
    result = run(pytester, JUDGED, "-rs")

    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["*correctness asks a judge: run with --evalspan-judge*"])


def test_the_fixture_evalspan_judge_can_be_overridden(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
from evalspan_evaluators.judges.replay import ReplayJudge

@pytest.fixture
def evalspan_judge():
    return ReplayJudge({"correctness/score": '{"reason": "same", "score": 5}'})
"""
        + JUDGED,
    )

    result.assert_outcomes(passed=1)


REPORTED = """
@pytest.mark.metric("sequence")
@pytest.mark.parametrize("number", range(6))
def test_many(record_run, number):
    with record_run(expected=Expected(sequence=("price",) if number else ("pay",))):
        shop("x")
"""


@pytest.mark.parametrize("options", [(), ("-n", "2")], ids=["one process", "xdist"])
def test_scores_reach_the_summary_junit_json_and_markdown(pytester: pytest.Pytester, options: tuple[str, ...]) -> None:
    result = run(
        pytester, REPORTED, "--junitxml=j.xml", "--evalspan-json=out/s.json", "--evalspan-markdown=s.md", *options
    )

    result.assert_outcomes(passed=5, failed=1)
    result.stdout.re_match_lines([r"sequence +5 +1 +0 +0 +0\.83"])
    properties = [p.attrib for p in ET.fromstring((pytester.path / "j.xml").read_text()).iter("property")]
    assert len(properties) == 6
    assert {p["name"] for p in properties} == {"evalspan.sequence"}
    assert sum("1 (PASS, threshold 1)" in p["value"] for p in properties) == 5
    report = json.loads((pytester.path / "out" / "s.json").read_text())
    assert report["metrics"][0]["passed"] == 5
    assert len(report["tests"]) == 6
    assert "| sequence | 5 | 1 | 0 | 0 | 0.83 |" in (pytester.path / "s.md").read_text()


def test_the_global_default_threshold_is_an_ini_option(pytester: pytest.Pytester) -> None:
    body = """
def test_it(check_case):
    check_case(Case(output="a"), Half())

class Half(MetricBase):
    name = "half"
    def evaluate(self, case):
        return self.score(0.5, "half")
"""

    run(pytester, body, "-o", "evalspan_default_threshold=0.5").assert_outcomes(passed=1)
    run(pytester, body).assert_outcomes(failed=1)
    result = run(pytester, body, "-o", "evalspan_default_threshold=7")
    result.stderr.fnmatch_lines(["*evalspan_default_threshold is '7': a number between 0 and 1*"])


def test_pytest_runs_without_the_plugin(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_plain(): pass")

    pytester.runpytest_subprocess("-p", "no:evalspan").assert_outcomes(passed=1)


def test_the_plugin_imports_nothing_heavy_at_start(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
import sys
def test_light():
    heavy = {"chdb", "clickhouse_connect", "pydantic", "anthropic", "streamlit", "typer", "yaml", "grpc", "orjson"}
    assert not heavy & set(sys.modules)
    assert "evalspan_evaluators.pytest_plugin" in sys.modules
"""
    )

    result = pytester.runpytest_subprocess(
        "-p", "no:hypothesispytest", "-p", "no:inline_snapshot", "-p", "no:anyio", "-p", "no:logfire", "-p", "no:xdist"
    )

    result.assert_outcomes(passed=1)


def test_a_missing_library_is_named_with_its_install_line(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    result = run(
        pytester,
        """
import sys

def test_bare(record_run, monkeypatch):
    monkeypatch.setitem(sys.modules, "evalspan_collector.intake", None)
    with record_run():
        shop("x")
""",
    )

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*MissingExtraError: *is not installed: pip install 'evalspan?server?'*"])
