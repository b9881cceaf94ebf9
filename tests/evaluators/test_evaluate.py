"""Evaluating cases and data sets, and asserting that a case meets a metric."""

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import pytest

from evalspan.errors import ConfigError
from evalspan_collector.run import Run, Step, ToolCall
from evalspan_evaluators.case import Case, Expected
from evalspan_evaluators.correctness import Correctness
from evalspan_evaluators.evaluate import assert_that, evaluate, evaluate_async, evaluate_each
from evalspan_evaluators.judges.replay import ReplayJudge
from evalspan_evaluators.metric import MetricBase
from evalspan_evaluators.output.contains import Contains
from evalspan_evaluators.results import Results
from evalspan_evaluators.score import Score
from evalspan_evaluators.trajectory.sequence import Sequence
from evalspan_evaluators.trajectory.tools import ForbiddenTools, ToolAccuracy


@dataclass(frozen=True, slots=True, kw_only=True)
class Fixed(MetricBase):
    """Gives what its case's output says; it has no default threshold."""

    name: ClassVar[str] = "fixed"

    def evaluate(self, case: Case) -> Score:
        if case.output == "broken":
            raise RuntimeError("no number")
        if case.output is None:
            return self.skip("no output")
        return self.score(float(case.output), "as the case says")


def case(output: str | None, name: str | None = None) -> Case:
    return Case(input=f"question {output}", output=output, name=name)


def test_seed_a1_a_score_carries_name_value_threshold_passed_and_reason() -> None:
    (score,) = evaluate(case("0.87"), [Fixed(threshold=0.7)])

    assert (score.metric, score.value, score.threshold, score.passed) == ("fixed", 0.87, 0.7, True)
    assert score.reason == "as the case says"


def test_seed_a2_a_score_is_immutable() -> None:
    (score,) = evaluate(case("0.87"), [Fixed()])

    with pytest.raises(dataclasses.FrozenInstanceError):
        score.value = 1.0  # type: ignore[misc]  # the point of the test


@pytest.mark.parametrize(("value", "passes"), [("0.7", True), ("0.69999", False), ("1.0", True), ("0.0", False)])
def test_seed_a3_a_score_passes_at_its_threshold(value: str, passes: bool) -> None:
    (score,) = evaluate(case(value), [Fixed(threshold=0.7)])

    assert score.passed is passes


def test_seed_a4_the_reason_is_text_also_for_errors_and_for_nothing_to_check() -> None:
    scores = [evaluate(case(o), [Fixed()])[0] for o in ("0.5", "broken", None)]

    assert all(s.reason for s in scores)


def test_seed_a5_a_value_outside_0_to_1_is_an_error_not_a_score() -> None:
    (score,) = evaluate(case("1.2"), [Fixed()])

    assert score.value is None
    assert score.error is not None
    assert "between 0 and 1" in score.error


def test_seed_a6_the_default_threshold_is_0_7() -> None:
    (score,) = evaluate(case("0.7"), [Fixed()])

    assert (score.threshold, score.passed) == (0.7, True)


def test_seed_a7_the_constructor_wins_over_the_use_and_the_use_over_the_global_default() -> None:
    def threshold_with(metric: Fixed, **settings: object) -> float | None:
        return evaluate(case("0.5"), [metric], **settings)[0].threshold  # type: ignore[call-overload,no-any-return]  # settings by name

    assert threshold_with(Fixed(threshold=0.9), thresholds={"fixed": 0.2}, default_threshold=0.1) == 0.9
    assert threshold_with(Fixed(), thresholds={"fixed": 0.2}, default_threshold=0.1) == 0.2
    assert threshold_with(Fixed(), default_threshold=0.1) == 0.1


def test_a_metrics_own_default_wins_over_the_global_default_and_loses_to_the_use() -> None:
    subject = Case(output="a", expected=Expected(contains=("a", "b")))

    assert evaluate(subject, ["contains"], default_threshold=0.1)[0].threshold == 1.0
    used = evaluate(subject, ["contains"], thresholds={"contains": 0.5})[0]
    assert (used.threshold, used.passed) == (0.5, True)


def test_seed_a8_assertions_chain_and_raise_below_the_threshold() -> None:
    subject = Case(
        name="refund", output="done", tools=(ToolCall(name="search"),), expected=Expected(sequence=("search", "pay"))
    )

    assert len(assert_that(subject).meets(Contains(texts=("done",))).meets("loops").scores) == 2
    with pytest.raises(AssertionError, match=r"sequence on 'refund' is 0\.50, below its threshold 1\.00.*'pay'"):
        assert_that(subject).meets(Contains(texts=("done",))).meets(Sequence())
    with pytest.raises(AssertionError, match="TOOL_MISSING"):
        assert_that(subject).meets(Sequence())


def test_an_assertion_holds_neither_for_an_error_nor_for_nothing_to_check() -> None:
    with pytest.raises(AssertionError, match=r"could not be judged: RuntimeError: no number"):
        assert_that(case("broken")).meets(Fixed())
    with pytest.raises(AssertionError, match="nothing to check, which is no pass"):
        assert_that(case(None)).meets(Fixed())


def test_an_assertion_takes_a_run_a_name_and_a_threshold() -> None:
    run = Run(
        run_id="r",
        trace_id="t",
        steps=(Step(index=0, kind="tool_call", name="a", tool=ToolCall(name="a")),),
        output="x",
    )

    assert_that(run).meets(ToolAccuracy(expected=("a", "b")), threshold=0.5).meets("loops")


def test_seed_a9_scores_come_in_the_order_of_the_metrics() -> None:
    subject = Case(output="yes", tools=(), expected=Expected(contains=("yes",), sequence=()))

    scores = evaluate(subject, ["sequence", Contains, Fixed(), "loops"])

    assert [s.metric for s in scores] == ["sequence", "contains", "fixed", "loops"]


def test_seed_a10_a_data_set_gives_results() -> None:
    results = evaluate([case("1.0"), case("0.1")], [Fixed()])

    assert isinstance(results, Results)
    assert [c.verdict for c in results.cases] == ["passed", "failed"]


def test_seed_a11_the_pass_rate_is_the_share_of_decided_cases() -> None:
    results = evaluate([case("1.0"), case("0.9"), case("0.1"), case("broken"), case(None)], [Fixed()])

    assert results.pass_rate == pytest.approx(2 / 3)
    assert results.counts == {"passed": 2, "failed": 1, "error": 1, "not_applicable": 1}
    assert not results.passed


def test_seed_a12_the_average_score_is_the_mean_of_case_means() -> None:
    subject = [case("1.0"), Case(input="q", output="0.0", expected=Expected(contains=("0",)))]

    results = evaluate(subject, [Fixed(), "contains"])

    assert results.average_score == pytest.approx((1.0 + (0.0 + 1.0) / 2) / 2)


def test_seed_a13_failed_cases_give_back_their_case_and_input() -> None:
    results = evaluate([case("1.0"), case("0.2", name="second")], [Fixed()])

    (failed,) = results.failed_cases
    assert failed.input == "question 0.2"
    assert failed.case.name == failed.name == "second"
    assert failed.score("fixed").value == 0.2
    with pytest.raises(LookupError, match="'other'"):
        failed.score("other")


def test_seed_a14_a_score_prints_its_name_two_digits_and_the_verdict() -> None:
    scores = [evaluate(case(o), [Fixed()])[0] for o in ("0.874", "0.1")]

    assert [str(s) for s in scores] == ["fixed: 0.87 (PASS)", "fixed: 0.10 (FAIL)"]


def test_no_cases_have_neither_a_pass_rate_nor_an_average() -> None:
    results = evaluate([], [Fixed()])

    assert (results.pass_rate, results.average_score, results.passed) == (None, None, False)


def test_the_summary_of_a_metric_leaves_errors_out_and_has_an_interval() -> None:
    (summary,) = evaluate([case("1.0"), case("0.1"), case("broken"), case(None)], [Fixed()]).metrics

    assert (summary.passed, summary.failed, summary.errors, summary.not_applicable) == (1, 1, 1, 1)
    assert summary.average == pytest.approx(0.55)
    assert summary.interval is not None
    assert summary.interval.low < 0.5 < summary.interval.high


def test_a_stream_of_cases_is_scored_one_at_a_time() -> None:
    made = 0

    def endless() -> Iterator[Case]:
        nonlocal made
        while True:
            made += 1
            yield case("1.0")

    results = evaluate_each(endless(), [Fixed()])

    assert next(results).passed
    assert next(results).index == 1
    assert made <= 3


def test_a_judge_metric_without_a_judge_is_an_error() -> None:
    (score,) = evaluate(Case(input="a", output="b", expected=Expected(output="c")), [Correctness(steps=("x",))])

    assert score.error is not None
    assert score.passed is None


REPLIES = {"correctness/score": '{"reason": "all there", "score": 5}'}


def test_a_judge_scores_the_cases_in_order() -> None:
    cases = [Case(input=f"q{i}", output="b", expected=Expected(output="c")) for i in range(5)]

    results = evaluate(cases, [Correctness(steps=("compare",))], judge=ReplayJudge(REPLIES), concurrency=2)

    assert [c.input for c in results.cases] == ["q0", "q1", "q2", "q3", "q4"]
    assert results.pass_rate == 1.0


async def test_evaluating_works_inside_a_running_loop() -> None:
    subject = Case(input="q", output="b", expected=Expected(output="c"))
    metric = Correctness(steps=("compare",))

    assert evaluate(subject, [metric], judge=ReplayJudge(REPLIES))[0].passed
    assert [r.passed async for r in evaluate_async([subject], [metric], judge=ReplayJudge(REPLIES))] == [True]


def test_mistakes_are_named() -> None:
    with pytest.raises(ConfigError, match="did you mean 'sequence'"):
        evaluate(case("1"), ["sequense"])
    with pytest.raises(ConfigError, match="'forbidden_tools' needs parameters"):
        evaluate(case("1"), [ForbiddenTools])
    with pytest.raises(ValueError, match=r"'fixed' is 1\.5"):
        evaluate(case("1"), [Fixed()], thresholds={"fixed": 1.5})
