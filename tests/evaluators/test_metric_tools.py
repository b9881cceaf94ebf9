"""Tools: accuracy, selection, categories, forbidden and allowed ones."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalspan.errors import ConfigError
from evalspan_collector.run import ToolCall, ToolDefinition
from evalspan_evaluators.case import Case, Expected
from evalspan_evaluators.metric import create, evaluate_metric
from evalspan_evaluators.score import Score
from evalspan_evaluators.trajectory.categories import CATEGORIES


def case_of(*tools: str, expected: Expected | None = None) -> Case:
    calls = tuple(ToolCall(name=name, span_id=f"s{index}") for index, name in enumerate(tools))
    return Case(tools=calls, expected=expected or Expected())


def scored(name: str, case: Case, **parameters: object) -> Score:
    metric = create(name, parameters)
    return evaluate_metric(metric, case)


@pytest.mark.parametrize(("called", "value"), [("ab", 1.0), ("a", 0.5), ("", 0.0), ("xyab", 1.0)])
def test_seed_c9_tool_accuracy_is_the_share_of_expected_tools_called(called: str, value: float) -> None:
    assert scored("tool_accuracy", case_of(*called), expected=["a", "b"]).value == value


def test_seed_c10_expected_tools_come_from_the_case() -> None:
    score = scored("tool_accuracy", case_of("a", expected=Expected(tools=("a", "b"))))
    assert score.value == 0.5
    assert "missing [b]" in score.reason


def test_seed_e11_tools_and_categories_count_together() -> None:
    case = case_of("a", "grep", expected=Expected(tools=("a", "b"), categories=("search", "web")))
    assert scored("tool_accuracy", case).value == 0.5


def test_seed_e11_accuracy_is_set_based_and_case_sensitive() -> None:
    assert scored("tool_accuracy", case_of("a"), expected=["a", "a"]).value == 1.0
    score = scored("tool_accuracy", case_of("Search"), expected=["search"])
    assert score.value == 0.0
    assert score.evidence[0].code == "TOOL_NAME_MISMATCH"


def test_seed_e12_the_eight_categories_are_known_and_bash_serves_all_but_web() -> None:
    assert len(CATEGORIES) == 8
    assert [name for name, members in CATEGORIES.items() if "bash" not in members] == ["web"]


def test_seed_e12_a_category_is_satisfied_by_any_of_its_tools() -> None:
    assert scored("tool_categories", case_of("rg"), expected=["search"]).passed
    score = scored("tool_categories", case_of("rg"), expected=["search", "web"])
    assert score.value == 0.5
    assert score.evidence[1].code == "CATEGORY_NOT_SATISFIED"


def test_seed_e12_own_categories_extend_the_known_ones() -> None:
    own = {"search": ["find_docs"], "billing": ["refund"]}
    assert scored(
        "tool_categories", case_of("find_docs", "refund"), expected=["search", "billing"], own_categories=own
    ).passed


def test_an_undefined_category_is_an_error_that_names_it() -> None:
    score = scored("tool_categories", case_of("a"), expected=["teleport"])
    assert score.error is not None
    assert "'teleport'" in score.error


@pytest.mark.parametrize(
    ("pattern", "called", "forbidden"),
    [
        ("delete_*", "delete_user", True),
        ("delete_*", "mcp__db__delete_user", True),
        ("delete_user", "mcp__db__delete_user", True),
        ("delete_user", "db.delete-user", True),
        ("*", "anything", True),
        ("delete_?", "delete_x", True),
        ("delete_*", "undelete_user", False),
        ("user", "delete_user", False),
        ("[", "delete_user", False),
    ],
)
def test_forbidden_names_may_hold_stars_and_a_server_s_name_hides_none(
    pattern: str, called: str, forbidden: bool
) -> None:
    assert scored("forbidden_tools", case_of(called), tools=[pattern]).value == (0.0 if forbidden else 1.0)


def test_seed_e13_forbidden_tools_are_compared_normalised_and_fail_hard() -> None:
    score = scored("forbidden_tools", case_of("a", "Delete-User"), tools=["delete_user"])
    assert (score.value, score.passed, score.evidence[0].span_id) == (0.0, False, "s1")
    assert scored("forbidden_tools", case_of("a"), tools=["delete_user"]).passed


def test_seed_g9_accuracy_ignores_extras_and_selection_punishes_them() -> None:
    case = case_of("a", "b", "x", "y")
    assert scored("tool_accuracy", case, expected=["a", "b"]).value == 1.0
    score = scored("tool_selection", case, expected=["a", "b"])
    assert dict(score.extra) == pytest.approx({"precision": 0.5, "recall": 1.0, "f1": 2 / 3})


def test_seed_g11_nothing_expected_is_not_applicable() -> None:
    for name in ("tool_accuracy", "tool_categories", "tool_selection"):
        assert scored(name, case_of("a")).not_applicable


def test_selection_counts_repeated_calls_when_asked() -> None:
    case = case_of("a", "a", "b")
    assert scored("tool_selection", case, expected=["a", "b"]).value == 1.0
    assert scored("tool_selection", case, expected=["a", "b"], counted=True).value == pytest.approx(0.8)


def test_allowed_tools_default_to_the_offered_ones() -> None:
    case = Case(tools=(ToolCall(name="serch"),), tool_definitions=(ToolDefinition(name="search"),))
    score = scored("allowed_tools", case)
    assert score.value == 0.0
    assert score.evidence[0].note == "did the agent mean 'search'?"
    assert scored("allowed_tools", case_of("a")).not_applicable


def test_a_text_where_a_list_is_needed_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"'search'.*must be a list"):
        create("tool_accuracy", {"expected": "search"})


@given(expected=st.lists(st.text(max_size=3), max_size=6), called=st.lists(st.text(max_size=3), max_size=6))
def test_scores_lie_between_0_and_1_and_order_and_duplicates_do_not_matter(
    expected: list[str], called: list[str]
) -> None:
    for name in ("tool_accuracy", "tool_selection"):
        score = scored(name, case_of(*called), expected=expected)
        again = scored(name, case_of(*reversed(called), *called), expected=[*reversed(expected), *expected])
        assert score.value == again.value
        assert score.error is None
