"""YAML test cases: read, run and judged."""

import http.server
import json
import sys
import textwrap
import threading
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from evalspan.errors import ConfigError, InputError
from evalspan_collector.reconstruct import reconstruct_paths
from evalspan_collector.run import ToolCall
from evalspan_evaluators.baseline import Baseline
from evalspan_evaluators.case import Case
from evalspan_evaluators.evalcases.agent import AgentRun, run_agent
from evalspan_evaluators.evalcases.case import EvalCase, find_cases, read_cases, read_defaults
from evalspan_evaluators.evalcases.judging import CaseReport, JudgingOptions, judge_case
from evalspan_evaluators.evalcases.report import case_text, junit_xml, markdown, summary_text
from evalspan_evaluators.evalcases.suite import CaseOutcome, run_suite
from evalspan_evaluators.judge import JudgeReply, JudgeRequest
from evalspan_evaluators.judges.replay import ReplayJudge
from evalspan_evaluators.overall import Weights


def judge(grade: int) -> ReplayJudge:
    return ReplayJudge({"output_quality/score": json.dumps({"reason": "it answers", "score": grade})})


def read(tmp_path: Path, text: str, name: str = "case.yaml") -> EvalCase:
    path = tmp_path / name
    path.write_text(textwrap.dedent(text))
    (case,) = read_cases(path)
    return case


def mode(tmp_path: Path, sequence: list[str], mode: str = "") -> EvalCase:
    setting = f"adapter_config: {{sequence_mode: {mode}}}" if mode else ""
    return read(tmp_path, f"name: n\ninput: q\nexpected: {{tool_sequence: {sequence}}}\n{setting}\n")


def called(*names: str, output: str = "fine", **fields: Any) -> Case:
    return Case(output=output, tools=tuple(ToolCall(name=n) for n in names), **fields)


def part(report: CaseReport, name: str) -> float | None:
    return next(p.value for p in report.parts if p.name == name)


def check(report: CaseReport, name: str) -> bool | None:
    return next(c.passed for c in report.checks if c.name == name)


STOCK = """
name: "Stock Analysis Test"
input:
  query: "Analyze Apple stock performance"
expected:
  tools:
    - fetch_stock_data
    - analyze_metrics
  tool_sequence: [fetch_stock_data, analyze_metrics]
  output:
    contains:
      - "revenue"
      - "earnings"
thresholds:
  min_score: 80    # Overall score must be >= 80
  max_cost: 0.50   # Must cost less than $0.50
  max_latency: 5000  # Must complete in < 5 seconds
"""
STOCK_RUN = called(
    "fetch_stock_data", "analyze_metrics", output="Revenue and earnings grew", cost_usd=0.0234, duration_s=3.4
)


def test_seed_c1_the_overall_score_is_the_weighted_sum_of_three_parts(tmp_path: Path) -> None:
    report = judge_case(read(tmp_path, STOCK), STOCK_RUN, judge=judge(90))

    assert (part(report, "tool_accuracy"), part(report, "output_quality"), part(report, "sequence_correctness")) == (
        1.0,
        0.9,
        1.0,
    )
    assert report.overall == 95.0


def test_seed_g4_the_pages_example_is_95_under_the_default_weights(tmp_path: Path) -> None:
    for weights, overall in (("", 95.0), ("0.4/0.4/0.2", 96.0), ("0.5/0.3/0.2", 97.0)):
        names = ("tool_accuracy", "output_quality", "sequence_correctness")
        section = ", ".join(f"{n}: {w}" for n, w in zip(names, weights.split("/"), strict=False) if w)
        spec = read(tmp_path, STOCK + (f"weights: {{{section}}}\n" if section else ""))
        assert judge_case(spec, STOCK_RUN, judge=judge(90)).overall == overall


def test_seed_c2_weights_come_from_the_config_file(tmp_path: Path) -> None:
    (tmp_path / ".evalview").mkdir()
    (tmp_path / ".evalview" / "config.yaml").write_text(
        "weights:\n  tool_accuracy: 0.4\n  output_quality: 0.4\n  sequence_correctness: 0.2\n"
    )
    (tmp_path / "case.yaml").write_text(STOCK)
    inside = tmp_path / "tests"
    inside.mkdir()

    defaults = read_defaults(beside=inside)

    (case,) = read_cases(tmp_path / "case.yaml", defaults)
    assert case.weights == Weights(tool_accuracy=0.4, output_quality=0.4, sequence_correctness=0.2)


def test_seed_c3_a_tests_own_weights_win_over_the_config(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("scoring: {weights: {tool_accuracy: 0.4, output_quality: 0.4}}\n")
    (tmp_path / "case.yaml").write_text(
        STOCK + "weights: {tool_accuracy: 0.5, output_quality: 0.3, sequence_correctness: 0.2}\n"
    )

    (case,) = read_cases(tmp_path / "case.yaml", read_defaults(tmp_path / "config.yaml"))

    assert case.weights.tool_accuracy == 0.5


@pytest.mark.parametrize("section", ["weights: {W}", "scoring: {weights: {W}}", "thresholds: {weights: {W}}"])
def test_seed_e2_and_g6_weights_are_read_at_three_places(tmp_path: Path, section: str) -> None:
    text = section.replace("W", "tool_accuracy: 0.6, output_quality: 0.2")

    case = read(tmp_path, f"name: n\ninput: q\n{text}\n")

    assert case.weights == Weights(tool_accuracy=0.6, output_quality=0.2, sequence_correctness=0.2)


def test_weights_at_two_places_must_agree(tmp_path: Path) -> None:
    both = "name: n\ninput: q\nweights: {tool_accuracy: 0.3}\nthresholds:\n  weights: {tool_accuracy: W}\n"

    assert read(tmp_path, both.replace("W", "0.3")).weights == Weights()
    with pytest.raises(ConfigError, match=r"case\.yaml:5: thresholds\.weights: differs from the weights above"):
        read(tmp_path, both.replace("W", "0.2"))


@pytest.mark.parametrize(("quality", "right"), [(0.5, True), (0.5009, True), (0.502, False), (0.3, False)])
def test_seed_e1_weights_must_sum_to_1_within_a_thousandth(tmp_path: Path, quality: float, right: bool) -> None:
    text = f"name: n\ninput: q\nweights: {{tool_accuracy: 0.3, output_quality: {quality}, sequence_correctness: 0.2}}\n"

    if right:
        assert read(tmp_path, text).weights.output_quality == quality
    else:
        with pytest.raises(ConfigError, match=r"case\.yaml:3: weights: .*must be 0 or more and sum to 1"):
            read(tmp_path, text)
    assert Weights() == Weights(tool_accuracy=0.3, output_quality=0.5, sequence_correctness=0.2)


def test_seed_e3_the_overall_score_takes_progress_and_is_rounded_to_two_digits(tmp_path: Path) -> None:
    spec = read(tmp_path, "name: n\ninput: q\nexpected: {tools: [a, b, c], sequence: [a, b, c]}\n")

    report = judge_case(spec, called("a", "b"), judge=judge(85))

    assert report.overall == round(100 * (2 / 3 * 0.3 + 0.85 * 0.5 + 2 / 3 * 0.2), 2) == 75.83


def test_without_a_judge_the_weight_of_quality_is_shared_out_and_the_report_says_so(tmp_path: Path) -> None:
    spec = read(tmp_path, "name: n\ninput: q\nexpected: {tools: [a, b], sequence: [a]}\n")

    report = judge_case(spec, called("a"))

    assert report.overall == pytest.approx(100 * (0.5 * 0.3 + 0.2) / 0.5)
    assert "no judge, its weight is shared out" in case_text(CaseOutcome(spec=spec, runs=(report,)))


def test_seed_c4_and_c5_the_default_mode_lets_extra_tools_through(tmp_path: Path) -> None:
    spec = mode(tmp_path, ["search", "analyze"])

    report = judge_case(spec, called("search", "think", "analyze", "verify"))

    assert spec.sequence_mode == "subsequence"
    assert part(report, "sequence_correctness") == 1.0
    assert report.passed


def test_seed_c6_exact_names_the_extra_tool(tmp_path: Path) -> None:
    report = judge_case(mode(tmp_path, ["search", "analyze"], "exact"), called("search", "think", "analyze"))

    assert not report.passed
    assert "extra tool [think]" in next(p.detail for p in report.parts if p.name == "sequence_correctness")


def test_seed_c7_and_c8_unordered_is_set_by_adapter_config(tmp_path: Path) -> None:
    assert judge_case(mode(tmp_path, ["search", "analyze"], "unordered"), called("analyze", "search")).passed
    assert not judge_case(mode(tmp_path, ["search", "analyze"]), called("analyze", "search")).passed
    with pytest.raises(ConfigError, match=r"case\.yaml:4: adapter_config\.sequence_mode"):
        mode(tmp_path, ["a"], "random")


@pytest.mark.parametrize(("names", "value"), [(("a", "b"), 1.0), (("a", "x"), 0.5), (("x",), 0.0), ((), 0.0)])
def test_seed_c9_and_c10_tool_accuracy_is_the_share_of_expected_tools(
    tmp_path: Path, names: tuple[str, ...], value: float
) -> None:
    spec = read(tmp_path, "name: n\ninput: q\nexpected: {tools: [a, b]}\n")

    assert part(judge_case(spec, called(*names)), "tool_accuracy") == value


def test_seed_c11_and_c21_categories_stand_for_tools(tmp_path: Path) -> None:
    for key in ("categories", "tool_categories"):
        spec = read(tmp_path, f"name: n\ninput: q\nexpected: {{{key}: [file_read, search]}}\n")

        assert part(judge_case(spec, called("read_file", "grep")), "tool_accuracy") == 1.0
        assert part(judge_case(spec, called("grep")), "tool_accuracy") == 0.5


def test_seed_c12_the_judge_is_asked_four_questions_about_the_answer(tmp_path: Path) -> None:
    asked: list[JudgeRequest] = []

    class Listening(ReplayJudge):
        async def ask(self, request: JudgeRequest) -> JudgeReply:
            asked.append(request)
            return await super().ask(request)

    spec = read(tmp_path, "name: n\ninput: how much?\nexpected: {output: {contains: [revenue]}}\n")
    replies = {"output_quality/score": '{"reason": "fine", "score": 70}'}

    report = judge_case(spec, called(output="revenue"), judge=Listening(replies))

    assert part(report, "output_quality") == 0.7
    (request,) = asked
    for words in ("answer what was asked", "accurate and factual", "well structured", "follow the instructions"):
        assert words in request.instructions
    assert {"how much?", "revenue"} <= set(request.data.values())


@pytest.mark.parametrize("reply", ["no JSON", '{"reason": "x", "score": 900}', '{"score": "high", "reason": ""}'])
def test_a_judge_that_gives_no_usable_grade_is_an_error_not_a_score(tmp_path: Path, reply: str) -> None:
    report = judge_case(read(tmp_path, STOCK), STOCK_RUN, judge=ReplayJudge({"output_quality/score": reply}))

    assert report.verdict == "error"
    assert part(report, "output_quality") is None


def test_seed_c13_and_c14_texts_that_must_and_must_not_be_there(tmp_path: Path) -> None:
    spec = read(
        tmp_path,
        """
        name: n
        input: q
        expected:
          output: {contains: ["revenue"], not_contains: ["I don't know"]}
        """,
    )

    assert judge_case(spec, called(output="Revenue fell"), judge=judge(90)).passed
    missing = judge_case(spec, called(output="Sales fell"), judge=judge(90))
    assert (missing.verdict, missing.reason) == ("failed", "Contains: the output lacks 'revenue'")
    forbidden = judge_case(spec, called(output="Revenue? i don't know"), judge=judge(90))
    assert check(forbidden, "not_contains") is False


def test_seed_e20_in_the_compatible_mode_texts_do_not_fail_a_graded_case(tmp_path: Path) -> None:
    spec = read(tmp_path, "name: n\ninput: q\nexpected: {output: {contains: [revenue]}}\n")
    compatible = JudgingOptions(compatible=True)

    assert judge_case(spec, called(), judge=judge(90), options=compatible).passed
    assert not judge_case(spec, called(), options=compatible).passed


def test_an_agent_that_answers_nothing_gets_nothing_for_quality(tmp_path: Path) -> None:
    spec = read(tmp_path, "name: n\ninput: q\nexpected: {tools: [a], output: {contains: [x]}}\n")

    silent = judge_case(spec, called("a", output=" "), judge=judge(90))
    unseen = judge_case(spec, Case(tools=(ToolCall(name="a"),)), judge=judge(90))

    assert (part(silent, "output_quality"), check(silent, "contains")) == (0.0, False)
    assert (part(unseen, "output_quality"), check(unseen, "contains")) == (None, None)


@pytest.mark.parametrize(("cost", "passes"), [(0.5, True), (0.5001, False), (0.0, True)])
def test_seed_c15_and_g5_the_cost_limit_itself_passes(tmp_path: Path, cost: float, passes: bool) -> None:
    spec = read(tmp_path, STOCK)

    assert (
        judge_case(
            spec, called("fetch_stock_data", "analyze_metrics", output="revenue earnings", cost_usd=cost, duration_s=1)
        ).passed
        is passes
    )


@pytest.mark.parametrize(("seconds", "passes"), [(5.0, True), (5.001, False)])
def test_seed_c16_the_latency_limit_is_in_milliseconds(tmp_path: Path, seconds: float, passes: bool) -> None:
    spec = read(tmp_path, "name: n\ninput: q\nexpected: {tools: [a]}\nthresholds: {max_latency: 5000}\n")

    assert check(judge_case(spec, called("a", duration_s=seconds)), "latency") is passes


@pytest.mark.parametrize(("grade", "passes"), [(60, True), (59, False)])
def test_seed_c17_the_overall_score_must_reach_min_score(tmp_path: Path, grade: int, passes: bool) -> None:
    spec = read(tmp_path, STOCK)

    assert judge_case(spec, STOCK_RUN, judge=judge(grade)).passed is passes


def test_seed_c18_all_thresholds_must_hold(tmp_path: Path) -> None:
    spec = read(tmp_path, STOCK)
    good = {"cost_usd": 0.1, "duration_s": 1.0}

    for change in ({"cost_usd": 0.6}, {"duration_s": 6.0}):
        case = called("fetch_stock_data", "analyze_metrics", output="revenue earnings", **{**good, **change})
        assert judge_case(spec, case).verdict == "failed"


def test_seed_c19_made_up_figures_fail_the_hallucination_check(tmp_path: Path) -> None:
    tools = (ToolCall(name="lookup", result={"order": "A-17", "total": 12.5}),)
    for text in ("checks: {hallucination: true}", "expected: {hallucination: {check: true}}"):
        spec = read(tmp_path, f"name: n\ninput: q\n{text}\n")

        right = judge_case(spec, Case(output="The total is 12.50 USD.", tools=tools))
        wrong = judge_case(spec, Case(output="The total is 99.90 USD.", tools=tools))

        assert right.passed
        assert (wrong.verdict, check(wrong, "hallucination")) == ("failed", False)


def test_seed_c20_the_report_has_the_pages_lines(tmp_path: Path) -> None:
    spec = read(tmp_path, STOCK)
    report = judge_case(spec, STOCK_RUN, judge=judge(90))

    text = case_text(CaseOutcome(spec=spec, runs=(report,)))

    for line in (
        "✅ Stock Analysis Test - PASSED (score: 95.0)",
        "Tool Accuracy:      100% (2/2 tools called)",
        "Output Quality:     90/100 (LLM-as-judge)",
        "Sequence:           100% (correct order)",
        "Cost:    $0.0234 (limit: $0.50) ✓",
        "Latency: 3.4s (limit: 5s) ✓",
    ):
        assert line in text.splitlines()


def test_seed_e4_the_reason_is_the_first_that_failed_in_the_order_of_the_checks(tmp_path: Path) -> None:
    text = """
    name: n
    input: q
    expected: {tools: [a], forbidden_tools: [drop]}
    thresholds: {min_score: 80, max_cost: 0.1, max_latency: 1000}
    checks: {hallucination: true}
    """
    spec = read(tmp_path, text)
    bad = Case(
        output="It is 99.90 USD", tools=(ToolCall(name="Drop", result={"price": 5}),), cost_usd=1.0, duration_s=9.0
    )

    report = judge_case(spec, bad)

    assert [c.name for c in report.checks if c.passed is False] == [
        "forbidden_tools", "min_score", "cost", "latency", "hallucination"
    ]  # fmt: skip
    assert report.reason.startswith("Forbidden tools:")


def test_seed_e4_latency_does_not_fail_a_generated_draft(tmp_path: Path) -> None:
    spec = read(tmp_path, "name: n\ninput: q\ngenerated: true\nexpected: {tools: [a]}\nthresholds: {max_latency: 10}\n")

    report = judge_case(spec, called("a", duration_s=5.0))

    assert (check(report, "latency"), report.passed) == (False, True)


@pytest.mark.parametrize(("value", "right"), [(0, True), (100, True), (101, False), (-1, False)])
def test_seed_e5_min_score_lies_between_0_and_100(tmp_path: Path, value: int, right: bool) -> None:
    text = f"name: n\ninput: q\nthresholds:\n  min_score: {value}\n"

    if right:
        assert read(tmp_path, text).min_score == value
    else:
        with pytest.raises(
            ConfigError, match=rf"case\.yaml:4: thresholds\.min_score: {value}.* is not between 0 and 100"
        ):
            read(tmp_path, text)


def test_seed_e6_an_unknown_cost_is_left_out_and_shown_and_fails_only_when_strict(tmp_path: Path) -> None:
    spec = read(tmp_path, "name: n\ninput: q\nexpected: {tools: [a]}\nthresholds: {max_cost: 0.5}\n")

    report = judge_case(spec, called("a"))

    assert (check(report, "cost"), report.passed) == (None, True)
    assert "Cost:    unknown (limit: $0.50) ?" in case_text(CaseOutcome(spec=spec, runs=(report,)))
    assert judge_case(spec, called("a"), options=JudgingOptions(strict=True)).verdict == "failed"


def test_seed_e10_and_g11_where_nothing_is_expected_nothing_passes(tmp_path: Path) -> None:
    spec = read(tmp_path, "name: n\ninput: q\n")

    report = judge_case(spec, called("a"))

    assert (report.verdict, report.overall) == ("not_applicable", None)
    assert judge_case(spec, called("a"), options=JudgingOptions(compatible=True)).overall == 100.0


@pytest.mark.parametrize(
    "expected", ["expected: {tools: [a]}", "expected: {tool_sequence: [a]}", "expected: {forbidden_tools: [a]}"]
)
def test_expected_tools_that_nobody_can_have_seen_are_no_pass(tmp_path: Path, expected: str) -> None:
    spec = replace(read(tmp_path, f"name: n\ninput: q\n{expected}\n"), min_score=0)
    spec = replace(spec, expected=replace(spec.expected, contains=("fine",)))
    case = Case(input="q", output="fine")

    report = judge_case(spec, case, judge=judge(90))

    assert report.verdict == "not_applicable"
    assert "the agent sent no spans" in report.reason
    assert judge_case(spec, case, judge=judge(90), options=JudgingOptions(compatible=True)).verdict == "passed"


def test_seed_c21_and_e15_statistical_mode_asks_for_a_share_of_passing_runs(tmp_path: Path) -> None:
    spec = read(
        tmp_path,
        """
        name: n
        input: q
        expected: {tools: [a]}
        thresholds: {variance: {runs: 5, pass_rate: 0.8, max_std_dev: 45}}
        """,
    )
    asked: list[int] = []

    def runner(case: EvalCase, runs: int) -> Iterator[AgentRun]:
        asked.append(runs)
        yield from (AgentRun(case=called("a") if i else called("b")) for i in range(runs))

    (outcome,) = run_suite([spec], runner=runner).cases

    assert asked == [5]
    assert outcome.statistics is not None
    assert (outcome.statistics.passes, outcome.verdict) == (4, "passed")
    assert outcome.statistics.pass_at_k[0] == outcome.statistics.pass_hat_k[0] == pytest.approx(0.8)
    assert outcome.statistics.pass_hat_k[4] == 0.0
    assert "4/5 passed (80%" in case_text(outcome)
    (fewer,) = run_suite([spec], runner=runner, runs=4).cases
    assert (fewer.verdict, fewer.report.verdict) == ("failed", "failed")
    assert fewer.statistics is not None
    assert fewer.statistics.problems == ("3 of 4 runs passed, fewer than 80%",
                                         "the scores' standard deviation is 50.0, above 45")  # fmt: skip


def test_statistical_mode_has_bounds(tmp_path: Path) -> None:
    for runs in (1, 101):
        with pytest.raises(ConfigError, match=r"thresholds\.variance\.runs"):
            read(tmp_path, f"name: n\ninput: q\nthresholds: {{variance: {{runs: {runs}}}}}\n")


def test_typing_mistakes_are_refused_and_other_fields_are_warned_of(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"case\.yaml:3: unknown field 'expcted': did you mean 'expected'|case\.yaml:3: expcted"
    ):
        read(tmp_path, "name: n\ninput: q\nexpcted: {}\n")
    with pytest.raises(ConfigError, match=r"case\.yaml:4: expected\.tols: unknown field 'tols': did you mean 'tools'"):
        read(tmp_path, "name: n\ninput: q\nexpected:\n  tols: [a]\n")
    with pytest.raises(ConfigError, match=r"case\.yaml:1: name: is missing"):
        read(tmp_path, "input: q\n")
    with pytest.raises(ConfigError, match="differ: keep one"):
        read(tmp_path, "name: n\ninput: q\nexpected: {sequence: [a], tool_sequence: [b]}\n")

    case = read(tmp_path, "name: n\ninput: q\nsuite_type: regression\n")

    assert case.warnings == (f"{tmp_path / 'case.yaml'}:3: suite_type: is not read by evalspan",)


def test_a_file_may_hold_several_tests_and_a_folder_several_files(tmp_path: Path) -> None:
    (tmp_path / "many.yaml").write_text("tests:\n  - {name: a, input: x}\n  - {name: b, input: {query: y}}\n")
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "one.yml").write_text("name: c\ninput: z\n")
    (tmp_path / ".evalview").mkdir()
    (tmp_path / ".evalview" / "config.yaml").write_text("adapter: http\n")

    found = [case.name for path in find_cases([tmp_path]) for case in read_cases(path)]

    assert sorted(found) == ["a", "b", "c"]
    with pytest.raises(InputError, match="there is no file or folder"):
        find_cases([tmp_path / "gone"])


AGENT = """
import json, os, sys
question = sys.stdin.read()
mode = sys.argv[1]
if mode == "otel":
    import evalspan
    evalspan.init(service_name="t")
    @evalspan.tool
    def lookup(order): return {"total": 12.5}
    @evalspan.agent(name="bot")
    def bot(q):
        lookup("A-1")
        return "The total is 12.50 USD."
    bot(question)
elif mode == "json":
    print("starting")
    print(json.dumps({"output": question.upper(), "steps": [{"tool": "lookup", "parameters": {"a": 1}, "output": "x"}],
                      "cost": 0.25, "latency": 1500}))
elif mode == "plain":
    print(sys.argv[2])
elif mode == "fail":
    print("no key", file=sys.stderr); sys.exit(3)
elif mode == "hang":
    import time; time.sleep(100)
"""


def command(tmp_path: Path, *arguments: str, **adapter: Any) -> EvalCase:
    (tmp_path / "agent.py").write_text(AGENT)
    settings = json.dumps({"command": [sys.executable, "agent.py", *arguments], **adapter})
    return read(tmp_path, f"name: n\ninput: where is it?\nadapter_config: {settings}\n")


@pytest.mark.parametrize("protocol", ["grpc", "http/protobuf"])
def test_a_commands_spans_become_the_run_that_is_judged(tmp_path: Path, protocol: str) -> None:
    (run,) = run_agent(command(tmp_path, "otel", protocol=protocol))

    assert run.case is not None
    assert [t.name for t in run.case.tools or ()] == ["lookup"]
    assert (run.case.output, run.case.agent) == ("The total is 12.50 USD.", "bot")
    assert run.case.run is not None


def test_a_command_without_spans_is_read_from_what_it_printed(tmp_path: Path) -> None:
    (told,) = run_agent(command(tmp_path, "json"))
    assert told.case is not None
    assert told.case.tools == (ToolCall(name="lookup", arguments={"a": 1}, result="x"),)
    assert (told.case.output, told.case.cost_usd, told.case.duration_s) == ("WHERE IS IT?", 0.25, 1.5)

    (plain,) = run_agent(command(tmp_path, "plain", "you asked: {query}"))
    assert plain.case is not None
    assert (plain.case.output, plain.case.tools, plain.case.cost_usd) == ("you asked: where is it?", None, None)


@pytest.mark.parametrize(
    ("arguments", "adapter", "message"),
    [
        (("fail",), {}, "exit code 3: no key"),
        (("hang",), {"timeout": 0.5}, "did not end within 0.5 s"),
    ],
)
def test_an_agent_that_cannot_be_run_is_an_error(
    tmp_path: Path, arguments: tuple[str, ...], adapter: dict[str, Any], message: str
) -> None:
    suite = run_suite([command(tmp_path, *arguments, **adapter)])

    assert not suite.ok
    assert suite.cases[0].verdict == "error"
    assert message in case_text(suite.cases[0])


@dataclass
class Api:
    """An agent behind an address."""

    reply: bytes = b"{}"
    status: int = 200
    asked: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    url: str = ""


@pytest.fixture
def api() -> Iterator[Api]:
    state = Api()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            state.asked.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
            self.send_response(state.status)
            self.end_headers()
            self.wfile.write(state.reply)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the name of the base class
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    state.url = f"http://127.0.0.1:{server.server_address[1]}/ask"
    yield state
    server.shutdown()
    server.server_close()
    thread.join()


def test_an_agent_at_an_address_is_asked_and_its_reply_judged(tmp_path: Path, api: Api) -> None:
    api.reply = json.dumps(
        {"response": {"text": "done"}, "tool_calls": [{"function": {"name": "pay", "arguments": '{"x": 1}'}}],
         "metrics": {"total_cost": 0.5, "total_latency": 200, "tokens": {"input_tokens": 7}}}
    ).encode()  # fmt: skip
    spec = read(tmp_path, f"name: n\ninput: {{query: hi, context: {{user: 1}}}}\nendpoint: {api.url}\n")

    (run,) = run_agent(spec)

    assert api.asked == [{"query": "hi", "context": {"user": 1}}]
    assert run.case is not None
    assert (run.case.output, run.case.cost_usd, run.case.duration_s) == ("done", 0.5, 0.2)
    assert run.case.tools == (ToolCall(name="pay", arguments={"x": 1}),)
    assert run.case.usage.input_tokens == 7


def test_an_address_that_answers_badly_or_not_at_all_is_an_error(tmp_path: Path, api: Api) -> None:
    api.status, api.reply = 500, b"boom"
    for url, message in (
        (api.url, "answered 500: boom"),
        ("http://127.0.0.1:1/", "cannot be reached"),
        ("ftp://x/", "no address"),
    ):
        (run,) = run_agent(read(tmp_path, f"name: n\ninput: q\nendpoint: {url}\n"))
        assert run.case is None
        assert message in (run.error or "")


GOLDEN = Path(__file__).parents[1] / "golden" / "captures"


def test_recorded_runs_that_were_asked_the_same_are_judged(tmp_path: Path) -> None:
    with zipfile.ZipFile(GOLDEN / "dspy__openinference__stock_analyst.zip") as archive:
        archive.extractall(tmp_path / "traces" / "stock")
    (item,) = reconstruct_paths([tmp_path / "traces" / "stock"])
    recorded = item.runs[0]
    asked = json.dumps(recorded.input)
    tools = json.dumps([t.name for t in recorded.tools])
    text = f"name: NAME\ninput: ASKED\nexpected: {{tool_sequence: {tools}}}\nadapter_config: {{recorded: traces}}\n"

    by_question = read(tmp_path, text.replace("NAME", "n").replace("ASKED", asked))
    by_name = read(tmp_path, text.replace("NAME", "Stock").replace("ASKED", "something else"))
    neither = read(tmp_path, text.replace("NAME", "n").replace("ASKED", "something else"))

    for spec in (by_question, by_name):
        (outcome,) = run_suite([spec]).cases
        assert outcome.verdict == "passed"
        assert outcome.report.case is not None
        assert outcome.report.case.run is not None
        assert outcome.report.case.run.run_id == recorded.run_id
    with pytest.raises(InputError, match=r"no run in .* was asked 'something else'"):
        run_suite([neither])


def test_a_case_without_an_agent_says_how_to_name_one(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="names no agent: set endpoint"):
        list(run_agent(read(tmp_path, "name: n\ninput: q\n")))
    with pytest.raises(InputError, match="there are no recorded traces"):
        list(run_agent(read(tmp_path, "name: n\ninput: q\nadapter_config: {recorded: gone.json}\n")))


def agent_of(names: dict[str, tuple[str, ...]]) -> Any:
    def runner(case: EvalCase, runs: int) -> Iterator[AgentRun]:
        yield from (AgentRun(case=called(*names[case.name])) for _ in range(runs))

    return runner


def test_a_case_that_got_worse_fails_the_suite_though_it_still_passes(tmp_path: Path) -> None:
    spec = read(tmp_path, "name: n\ninput: q\nexpected: {tools: [a, b, c, d]}\nthresholds: {min_score: 50}\n")
    before = run_suite([spec], runner=agent_of({"n": ("a", "b", "c", "d")}))
    (kept,) = [o.baseline() for o in before.cases]
    assert isinstance(kept, Baseline)

    after = run_suite([spec], runner=agent_of({"n": ("a", "c", "d")}), baselines={"n": kept})

    (outcome,) = after.cases
    assert (outcome.verdict, outcome.ok, after.ok) == ("passed", False, False)
    assert outcome.diff is not None
    assert outcome.diff.state == "regression"
    assert "first at step 2: 'b' before, 'c' now" in case_text(outcome)
    assert "Against the baseline" in summary_text(after)
    assert after.counts["regressed"] == 1
    assert "got worse" in summary_text(after)


def test_reports_for_ci_hold_scores_and_reasons_and_survive_hostile_text(tmp_path: Path) -> None:
    good = read(tmp_path, "name: good\ninput: q\nexpected: {tools: [a]}\n", "a.yaml")
    bad = read(
        tmp_path, 'name: "bad | <b>"\ninput: q\nexpected: {output: {contains: ["x\\u0001"]}, tools: [a]}\n', "b.yaml"
    )
    empty = read(tmp_path, "name: empty\ninput: q\n", "c.yaml")
    suite = run_suite([good, bad, empty], runner=agent_of({"good": ("a",), "bad | <b>": ("a",), "empty": ()}))

    root = ET.fromstring(junit_xml(suite))
    table = markdown(suite)

    assert (root.get("tests"), root.get("failures"), root.get("errors"), root.get("skipped")) == ("3", "1", "0", "1")
    assert root.findall("./testcase/failure")[0].get("message", "").startswith("Contains: the output lacks")
    assert {p.get("name") for p in root.iter("property")} >= {"evalspan.score", "evalspan.tool_accuracy"}
    assert r"bad \| \<b\>" in table
    assert "**3 test cases: 1 passed, 1 failed, 1 with nothing to check**" in table
    found = json.loads(json.dumps(suite.to_json()))
    assert (found["passed"], found["counts"]["failed"], found["pass_rate"]) == (False, 1, 0.5)
    assert [c["verdict"] for c in found["cases"]] == ["passed", "failed", "not_applicable"]
