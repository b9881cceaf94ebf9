"""Baselines and what changed since."""

import json
from pathlib import Path
from typing import Any

import pytest

from evalspan.errors import InputError
from evalspan_collector.run import ToolCall, ToolDefinition
from evalspan_evaluators.baseline import (
    Baseline,
    DiffLimits,
    compare_paired,
    diff,
    read_baselines,
    write_baselines,
)
from evalspan_evaluators.case import Case


def baseline(
    *tools: ToolCall, passed: bool = True, score: float | None = 90.0, name: str = "case", **fields: Any
) -> Baseline:
    text: Any = fields.pop("output", "The refund of 12.50 USD is on its way")
    case = Case(tools=tools, output=text, **fields)
    return Baseline.of(case, name=name, passed=passed, score=score, scores={"sequence": 1.0})


A, B, C = (ToolCall(name=n, arguments={"id": 1}) for n in "abc")


def test_seed_e24_the_same_is_passed() -> None:
    found = diff(baseline(A, B), baseline(A, B))

    assert (found.state, found.regressed, found.first_divergence) == ("passed", False, None)
    assert (found.tool_similarity, found.output_similarity, found.score_delta) == (1.0, 1.0, 0.0)


def test_seed_e24_other_tools_are_tools_changed_and_no_regression() -> None:
    found = diff(baseline(A, B), baseline(A, C))

    assert (found.state, found.regressed) == ("tools_changed", False)
    assert str(found.first_divergence) == "step 2: 'b' before, 'c' now"


def test_seed_e24_another_output_is_output_changed() -> None:
    found = diff(baseline(A), baseline(A, output="I cannot help"))

    assert found.state == "output_changed"


@pytest.mark.parametrize(("score", "state"), [(85.0, "passed"), (84.9, "regression")])
def test_seed_e24_more_than_5_points_less_are_a_regression(score: float, state: str) -> None:
    assert diff(baseline(A), baseline(A, score=score)).state == state


def test_seed_e24_a_case_that_no_longer_passes_is_a_regression() -> None:
    found = diff(baseline(A), baseline(A, passed=False))

    assert found.regressed
    assert found.reason == "it passed before and does not now"
    assert not diff(baseline(A, passed=False), baseline(A, passed=False)).regressed


def test_seed_e24_other_tool_definitions_are_contract_drift() -> None:
    before = baseline(A, tool_definitions=(ToolDefinition(name="a", parameters={"x": 1}),))
    after = baseline(A, tool_definitions=(ToolDefinition(name="a", parameters={"x": 2}), ToolDefinition(name="z")))

    found = diff(before, after)

    assert found.state == "contract_drift"
    assert "tool 'z' is new" in found.reason
    assert "'a' has other parameters" in found.reason
    assert diff(before, baseline(A)).state == "passed"


def test_limits_can_be_set() -> None:
    assert diff(baseline(A), baseline(A, score=88.0), limits=DiffLimits(score_drop=1)).regressed


def test_changed_arguments_are_named_by_path_and_step() -> None:
    before = baseline(ToolCall(name="pay", arguments={"id": 1, "order": {"total": 5, "items": [1, 2]}, "old": True}))
    after = baseline(A, ToolCall(name="pay", arguments={"id": 1, "order": {"total": 6, "items": [1, 3]}, "new": None}))

    found = diff(before, after)

    changes = {(c.step, c.path): (c.before, c.after) for c in found.changed_arguments}
    assert changes[2, "$.order.total"] == (5, 6)
    assert changes[2, "$.order.items[1]"] == (2, 3)
    assert changes[2, "$.old"] == (True, None)
    assert found.first_divergence is not None
    assert found.first_divergence.step == 1


@pytest.mark.parametrize(
    ("after", "kind"),
    [
        ((ToolCall(name="a", arguments={"id": 2}),), "arguments"),
        ((ToolCall(name="a", arguments={"id": 1}, failed=True),), "outcome"),
        ((), "tool"),
        ((A, B), "tool"),
    ],
)
def test_the_first_divergence_tells_its_kind(after: tuple[ToolCall, ...], kind: str) -> None:
    found = diff(baseline(A), baseline(*after)).first_divergence

    assert found is not None
    assert found.kind == kind


def test_cost_and_latency_are_compared_where_both_are_known() -> None:
    found = diff(baseline(A, cost_usd=0.1, duration_s=1.0), baseline(A, cost_usd=0.3))

    assert found.cost_delta_usd == pytest.approx(0.2)
    assert found.latency_delta_s is None


def test_a_baseline_file_keeps_other_cases_and_reads_back(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "baseline.json"
    first, second = baseline(A, B, name="one", cost_usd=0.1), baseline(name="two")
    write_baselines(path, [first])
    write_baselines(path, [second])

    assert read_baselines(path) == {"one": first, "two": second}
    assert not list(path.parent.glob(".*"))


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"evalspan_baseline": 9, "cases": {}}', '{"evalspan_baseline": 1, "cases": {"a": {}}}']
)
def test_a_damaged_baseline_file_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "b.json"
    path.write_text(text)

    with pytest.raises(InputError, match=r"b\.json"):
        read_baselines(path)
    with pytest.raises(InputError, match="--update-baseline"):
        read_baselines(tmp_path / "gone.json")


def test_a_suite_is_compared_on_the_cases_both_have() -> None:
    names = [f"c{i}" for i in range(8)]
    before = {n: baseline(A, name=n, score=90.0) for n in names}
    after = [baseline(A, name=n, score=70.0, passed=False) for n in names] + [baseline(name="new")]

    found = compare_paired(before, after)

    assert found is not None
    assert found.scores is not None
    assert (found.scores.pairs, found.scores.difference) == (8, -20.0)
    assert found.scores.p_value < 0.01
    assert found.verdicts.p_value < 0.01
    assert compare_paired(before, [baseline(name="new")]) is None


def test_a_diff_is_json() -> None:
    found = diff(baseline(A), baseline(ToolCall(name="a", arguments={"id": 2})))

    assert json.loads(json.dumps(found.to_json()))["changed_arguments"] == [
        {"step": 1, "tool": "a", "path": "$.id", "before": 1, "after": 2}
    ]
