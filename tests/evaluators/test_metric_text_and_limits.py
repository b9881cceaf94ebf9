"""Contains, limits, and what every score has in common."""

import math
from dataclasses import FrozenInstanceError

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalspan.errors import ConfigError
from evalspan_collector.run import ModelCall, ToolCall
from evalspan_collector.span import Usage
from evalspan_evaluators.case import Case, Expected
from evalspan_evaluators.metric import available, create, evaluate_metric, threshold_of, version_of
from evalspan_evaluators.score import Score


def scored(name: str, case: Case, **parameters: object) -> Score:
    return evaluate_metric(create(name, parameters), case)


def test_seed_a1_a_score_has_name_value_threshold_passed_and_reason() -> None:
    score = scored("contains", Case(output="abc"), texts=["a"])
    assert (score.metric, score.value, score.threshold, score.passed) == ("contains", 1.0, 1.0, True)
    assert score.reason


def test_seed_a2_a_score_is_immutable() -> None:
    score = scored("contains", Case(output="abc"), texts=["a"])
    with pytest.raises(FrozenInstanceError):
        score.value = 0.5  # type: ignore[misc]  # that it raises is the point


def test_seed_a3_equal_to_the_threshold_passes() -> None:
    assert scored("contains", Case(output="a"), texts=["a", "b"], threshold=0.5).passed
    assert not scored("contains", Case(output="a"), texts=["a", "b"], threshold=0.51).passed


@pytest.mark.parametrize("value", [-0.01, 1.01, math.nan, math.inf])
def test_seed_a5_values_and_thresholds_lie_between_0_and_1(value: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        Score.of("m", value, threshold=0.5, reason="r")
    with pytest.raises(ValueError, match="between 0 and 1"):
        Score.of("m", 0.5, threshold=value, reason="r")
    with pytest.raises(ConfigError, match="between 0 and 1"):
        create("contains", {"threshold": value})


def test_seed_a6_the_default_threshold_is_0_7() -> None:
    assert threshold_of(create("tool_accuracy")) == 0.7


def test_seed_a7_the_constructor_comes_before_the_use_and_the_use_before_the_metric() -> None:
    assert threshold_of(create("tool_accuracy", {"threshold": 0.3}), use=0.6) == 0.3
    assert threshold_of(create("tool_accuracy"), use=0.6) == 0.6


def test_seed_a14_a_score_prints_name_two_decimals_and_verdict() -> None:
    assert str(Score.of("AnswerRelevancy", 0.87, threshold=0.7, reason="r")) == "AnswerRelevancy: 0.87 (PASS)"


def test_seed_g1_the_metric_s_own_default_wins() -> None:
    assert threshold_of(create("correctness")) == 0.5


def test_seed_c13_contains_is_a_share_and_ignores_case() -> None:
    score = scored("contains", Case(output="The REFUND is on its way", expected=Expected(contains=("refund", "sorry"))))
    assert score.value == 0.5
    assert "lacks 'sorry'" in score.reason
    assert [(e.claim, e.start, e.code) for e in score.evidence] == [
        ("sorry", None, "TEXT_MISSING"),
        ("refund", 4, None),
    ]


def test_seed_c14_not_contains_fails_with_the_place() -> None:
    score = scored("not_contains", Case(output="I cannot help", expected=Expected(not_contains=("CANNOT",))))
    assert (score.value, score.evidence[0].start, score.evidence[0].end) == (0.0, 2, 8)


def test_seed_e20_case_can_count() -> None:
    assert scored("contains", Case(output="ABC"), texts=["abc"]).passed
    assert not scored("contains", Case(output="ABC"), texts=["abc"], case_sensitive=True).passed


def test_letters_that_fold_to_several_are_found() -> None:
    assert scored("contains", Case(output="STRASSE"), texts=["straße"]).passed
    assert scored("contains", Case(output="cafe\u0301"), texts=["café"]).passed


def test_no_output_or_no_texts_is_not_applicable() -> None:
    assert scored("contains", Case(), texts=["a"]).not_applicable
    assert scored("contains", Case(output="a"), texts=[]).not_applicable


@pytest.mark.parametrize(("cost", "passed"), [(0.4999, True), (0.50, True), (0.5001, False), (0.0, True)])
def test_seed_g5_a_cost_equal_to_the_limit_passes(cost: float, passed: bool) -> None:
    assert scored("max_cost", Case(cost_usd=cost), limit_usd=0.5).passed is passed


def test_seed_c15_the_reason_names_cost_and_limit() -> None:
    assert scored("max_cost", Case(cost_usd=0.0234), limit_usd=0.5).reason == "cost $0.0234 (limit $0.50)"


@pytest.mark.parametrize(("seconds", "passed"), [(5.0, True), (5.1, False)])
def test_seed_c16_latency_fails_above_the_limit(seconds: float, passed: bool) -> None:
    assert scored("max_latency", Case(duration_s=seconds), limit_s=5.0).passed is passed


def test_seed_e6_an_unknown_cost_is_not_applicable_and_never_a_pass() -> None:
    assert scored("max_cost", Case(), limit_usd=0.5).not_applicable
    assert scored("max_cost", Case(cost_usd=0.1, cost_unknown_calls=2), limit_usd=0.5).not_applicable
    assert scored("max_cost", Case(cost_usd=0.9, cost_unknown_calls=2), limit_usd=0.5).passed is False
    assert scored("max_latency", Case(), limit_s=1).not_applicable
    assert scored("max_cost", Case(cost_usd=-1.0), limit_usd=0.5).error is not None


def test_tokens_steps_and_tool_calls_have_limits() -> None:
    case = Case(
        usage=Usage(input_tokens=80, output_tokens=20),
        tools=(ToolCall(name="a"), ToolCall(name="a"), ToolCall(name="b")),
        model_calls=(ModelCall(),),
    )
    assert scored("max_tokens", case, limit=100).passed
    assert scored("max_tokens", case, limit=99).passed is False
    assert scored("max_tokens", Case(), limit=99).not_applicable
    assert scored("max_tokens", Case(usage=Usage(input_tokens=5)), limit=9).not_applicable
    assert scored("max_tool_calls", case, limit=3).passed
    assert scored("max_tool_calls", case, limit=1, tool="a").passed is False
    assert scored("max_steps", case, limit=4).passed
    assert scored("max_steps", case, limit=3).passed is False


def test_a_negative_limit_and_a_limit_of_the_wrong_kind_are_refused() -> None:
    with pytest.raises(ConfigError, match="-1"):
        create("max_cost", {"limit_usd": -1.0})
    with pytest.raises(ConfigError, match=r"'5 s'.*must be a number"):
        create("max_latency", {"limit_s": "5 s"})


def test_an_unknown_metric_offers_the_near_one() -> None:
    with pytest.raises(ConfigError, match="did you mean 'sequence'"):
        create("sequense")


def test_a_version_changes_with_a_parameter_and_only_then() -> None:
    one, same = create("sequence", {"expected": ["a"]}), create("sequence", {"expected": ["a"]})
    assert version_of(one) == version_of(same)
    assert version_of(one) != version_of(create("sequence", {"expected": ["b"]}))
    assert version_of(one) != version_of(create("sequence", {"expected": ["a"], "threshold": 0.5}))


def test_every_built_in_metric_is_named_documented_and_registered_under_its_name() -> None:
    for name, metric in available().items():
        assert metric.name == name
        assert metric.__doc__
        assert "(" not in metric.__doc__.split(".", maxsplit=1)[0].split(maxsplit=1)[0]


@given(output=st.text(), texts=st.lists(st.text(min_size=1), min_size=1, max_size=5))
def test_contains_and_not_contains_are_opposites(output: str, texts: list[str]) -> None:
    case = Case(output=output)
    there, absent = scored("contains", case, texts=texts), scored("not_contains", case, texts=texts)
    if there.not_applicable:
        assert not output.strip()
    else:
        assert there.value is not None
        assert absent.value == pytest.approx(1 - there.value)
