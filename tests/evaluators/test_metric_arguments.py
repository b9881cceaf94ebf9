"""Arguments: pairing of calls, matchers, acceptable values, writes, and the schema of tools."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalspan.errors import ConfigError
from evalspan_collector.run import ToolCall, ToolDefinition
from evalspan_evaluators.case import Case, Expected
from evalspan_evaluators.metric import create, evaluate_metric
from evalspan_evaluators.score import Score
from evalspan_evaluators.trajectory.acceptable import acceptable_differences
from evalspan_evaluators.trajectory.schema import learned_definitions
from evalspan_evaluators.trajectory.values import ValueRule, differences, loose, strictly_equal
from evalspan_evaluators.trajectory.verbs import changes_state

scalars = st.none() | st.booleans() | st.integers(-5, 5) | st.text("ab", max_size=2)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab", max_size=2), inner, max_size=3)
)
arguments = st.dictionaries(st.sampled_from(["x", "y", "z"]), values, max_size=3)


def call(name: str, **sent: Any) -> ToolCall:
    return ToolCall(name=name, arguments=sent, span_id=f"span-{name}")


def expect(name: str, **wanted: Any) -> dict[str, Any]:
    return {"name": name, "arguments": wanted}


def scored(metric: str, calls: tuple[ToolCall, ...], expected: list[dict[str, Any]], **parameters: Any) -> Score:
    return evaluate_metric(create(metric, parameters), Case(tools=calls, expected=Expected(calls=tuple(expected))))


@pytest.mark.parametrize(
    ("mode", "sent", "value"),
    [
        ("exact", {"a": 1, "b": 2}, 1.0),
        ("exact", {"a": 1}, 0.5),
        ("exact", {"a": 1, "b": 2, "c": 3}, 2 / 3),
        ("superset", {"a": 1, "b": 2, "c": 3}, 1.0),
        ("superset", {"a": 1}, 0.5),
        ("subset", {"a": 1}, 1.0),
        ("subset", {"a": 1, "b": 2, "c": 3}, 2 / 3),
        ("ignore", {"q": 9}, 1.0),
    ],
)
def test_each_mode_asks_for_other_arguments(mode: str, sent: dict[str, int], value: float) -> None:
    score = scored("tool_arguments", (call("f", **sent),), [expect("f", a=1, b=2)], mode=mode)
    assert score.value == pytest.approx(value)


def test_calls_are_paired_in_any_order_and_each_only_once() -> None:
    calls = (call("f", a=2), call("f", a=1))
    assert scored("tool_arguments", calls, [expect("f", a=1), expect("f", a=2)]).value == 1.0
    assert scored("tool_arguments", calls[:1], [expect("f", a=2), expect("f", a=2)]).value == 0.5


def test_a_partial_match_does_not_take_the_call_another_expectation_meets_in_full() -> None:
    calls = (call("f", a=1, b=1), call("f", a=1, b=2))
    expected = [expect("f", a=1, b={"$regex": "x"}), expect("f", a=1, b={"$any": [1, 7]})]
    assert scored("tool_arguments", calls, expected).value == pytest.approx(0.75)


def test_further_calls_cost_only_when_asked() -> None:
    calls = (call("f", a=1), call("g"))
    assert scored("tool_arguments", calls, [expect("f", a=1)]).value == 1.0
    assert scored("tool_arguments", calls, [expect("f", a=1)], extra_calls="fail").value == 0.5


def test_a_wrong_argument_is_named_with_its_path_span_and_both_values() -> None:
    score = scored(
        "tool_arguments", (call("pay", order={"items": [{"n": 3}]}),), [expect("pay", order={"items": [{"n": 2}]})]
    )
    (evidence,) = score.evidence
    assert (evidence.path, evidence.value, evidence.expected) == ("$.order.items[0].n", "3", "2")
    assert (evidence.tool, evidence.span_id, evidence.code) == ("pay", "span-pay", "ARGUMENT_DIFFERS")
    assert "'pay' $.order.items[0].n is 3, expected 2" in score.reason


@pytest.mark.parametrize(
    ("matchers", "sent", "good"),
    [
        ({"amount": {"tolerance": 0.5}}, {"amount": 10.4, "city": "Rome"}, True),
        ({"amount": {"tolerance": 0.1}}, {"amount": 10.4, "city": "Rome"}, False),
        ({"city": {"text": "caseless"}}, {"amount": 10, "city": "ROME"}, True),
        ({"f.city": {"ignore": True}}, {"amount": 10, "city": "Oslo"}, True),
        ({"g.city": {"ignore": True}}, {"amount": 10, "city": "Oslo"}, False),
        ({"city": {"ignore": True}}, {"amount": 10}, True),
    ],
)
def test_an_argument_has_a_matcher_of_its_own(matchers: dict[str, Any], sent: dict[str, Any], good: bool) -> None:
    score = scored("tool_arguments", (call("f", **sent),), [expect("f", amount=10, city="Rome")], matchers=matchers)
    assert score.passed is good


def test_a_json_path_has_a_matcher_for_every_index() -> None:
    sent = call("f", items=[{"id": 1, "at": "x"}, {"id": 2, "at": "y"}])
    wanted = [expect("f", items=[{"id": 1, "at": "?"}, {"id": 2, "at": "?"}])]
    assert not scored("tool_arguments", (sent,), wanted).passed
    assert scored("tool_arguments", (sent,), wanted, matchers={"$.items[*].at": {"ignore": True}}).passed


@pytest.mark.parametrize(
    ("wanted", "sent", "good"),
    [
        ({"$any": ["SF", "San Francisco"]}, "SF", True),
        ({"$any": ["SF", {"$regex": "^San"}]}, "San Jose", True),
        ({"$any": ["SF"]}, "LA", False),
        ({"$regex": r"^\d{4}$"}, "2024", True),
        ({"$regex": r"^\d{4}$"}, 2024, False),
        ({"$approx": 3.14, "$tolerance": 0.01}, 3.141, True),
        ({"$approx": 3.14}, 3.141, False),
        ({"$exists": True}, None, True),
        ({"$ignore": True}, object, True),
    ],
)
def test_an_expected_value_can_be_an_operator(wanted: Any, sent: Any, good: bool) -> None:
    assert (not differences({"q": wanted}, {"q": sent}, ValueRule())) is good


def test_an_unknown_matcher_field_and_a_call_without_a_name_are_refused() -> None:
    with pytest.raises(ConfigError, match="'tolerence'"):
        create("tool_arguments", {"matchers": {"a": {"tolerence": 1}}})
    with pytest.raises(ConfigError, match="no name"):
        create("tool_arguments", {"expected": [{"arguments": {}}]})


def test_true_is_not_one_and_five_is_five_point_nought() -> None:
    assert not strictly_equal({"a": 1}, {"a": True})
    assert strictly_equal({"a": [1, 2.0]}, {"a": [1.0, 2]})
    assert not scored("tool_arguments", (call("f", a=True),), [expect("f", a=1)]).passed


def test_arguments_sent_as_text_are_read() -> None:
    sent = ToolCall(name="f", arguments='{"a": 1}')
    assert scored("tool_arguments", (sent,), [expect("f", a=1)]).passed


@given(sent=arguments)
def test_arguments_match_themselves_in_every_mode(sent: dict[str, Any]) -> None:
    for mode in ("exact", "subset", "superset", "ignore"):
        assert scored("tool_arguments", (call("f", **sent),), [expect("f", **sent)], mode=mode).value == 1.0


@given(sent=arguments, wanted=arguments)
def test_exact_means_subset_and_superset_together(sent: dict[str, Any], wanted: dict[str, Any]) -> None:
    def good(mode: str) -> bool:
        return bool(scored("tool_arguments", (call("f", **sent),), [expect("f", **wanted)], mode=mode).passed)

    assert good("exact") <= (good("subset") and good("superset"))
    assert good("exact") == strictly_equal(wanted, sent)


@given(data=st.data(), calls=st.lists(arguments, max_size=4), wanted=st.lists(arguments, min_size=1, max_size=4))
def test_the_order_of_calls_does_not_matter(
    data: st.DataObject, calls: list[dict[str, Any]], wanted: list[dict[str, Any]]
) -> None:
    made = tuple(call("save", **sent) for sent in calls)
    shuffled = tuple(data.draw(st.permutations(made)))
    expected = [expect("save", **sent) for sent in wanted]
    assert scored("writes", made, expected).value == scored("writes", shuffled, expected).value


# Acceptable values, as the Berkeley function-calling leaderboard checks them. The expected verdicts are those of the
# official checker of bfcl-eval 2026.3.23.

SCHEMA = {
    "type": "dict",
    "properties": {
        "city": {"type": "string"},
        "days": {"type": "integer"},
        "price": {"type": "float"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "rates": {"type": "array", "items": {"type": "float"}},
        "opts": {"type": "dict"},
    },
    "required": ["city"],
}
ACCEPTABLE: dict[str, list[Any]] = {
    "city": ["New York, NY", "NYC"],
    "days": [3, ""],
    "price": [2.5, 5, ""],
    "tags": [["a b", "c"], ""],
    "rates": [[1.0, 2.0], ""],
    "opts": [{"unit": ["C", "celsius"], "deep": [True, ""]}, ""],
}


@pytest.mark.parametrize(
    ("sent", "good"),
    [
        ({"city": "new york NY"}, True),
        ({"city": "nyc", "days": 3}, True),
        ({"city": "Boston"}, False),
        ({}, False),
        ({"city": "NYC", "days": 3.0}, False),
        ({"city": "NYC", "days": "3"}, False),
        ({"city": "NYC", "price": 5}, True),
        ({"city": "NYC", "price": 2.5}, True),
        ({"city": "NYC", "price": 3}, False),
        ({"city": "NYC", "tags": ["A-B", "C"]}, True),
        ({"city": "NYC", "tags": ["c", "a b"]}, False),
        ({"city": "NYC", "rates": [1.0, 2.0]}, True),
        ({"city": "NYC", "rates": [1, 2]}, True),
        ({"city": "NYC", "rates": [1, 3]}, False),
        ({"city": "NYC", "opts": {"unit": "Celsius"}}, True),
        ({"city": "NYC", "opts": {"unit": "C", "deep": True}}, True),
        ({"city": "NYC", "opts": {"unit": "F"}}, False),
        ({"city": "NYC", "opts": {"deep": True}}, False),
        ({"city": "NYC", "more": 1}, False),
    ],
)
def test_acceptable_values_are_checked_as_the_leaderboard_does(sent: dict[str, Any], good: bool) -> None:
    assert (not acceptable_differences(ACCEPTABLE, sent, SCHEMA)) is good


def test_acceptable_values_work_through_the_metric_with_declared_types() -> None:
    case = Case(
        tools=(call("weather_now", city="nyc", days=3.0),),
        tool_definitions=(ToolDefinition(name="weather.now", parameters=SCHEMA),),
        expected=Expected(calls=({"name": "weather.now", "acceptable": ACCEPTABLE},)),
    )
    assert evaluate_metric(create("tool_arguments", {"declared_types": True}), case).passed is False
    assert evaluate_metric(create("tool_arguments", {}), case).passed is True


def test_loose_texts_ignore_punctuation_case_and_quotes() -> None:
    assert loose("April 1, 2024") == loose("april 1 2024") == loose("APRIL-1/2024")
    assert loose("it's") == 'it"s'


# Writes.


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("book_reservation", True),
        ("updateUser", True),
        ("mcp__db__delete_row", True),
        ("send_email", True),
        ("transfer_money", True),
        ("get_user", False),
        ("getUserDetails", False),
        ("mcp__db__list_rows", False),
        ("search", False),
        ("calculate", False),
        ("transfer_to_human_agents", False),
    ],
)
def test_state_changing_tools_are_told_by_their_verb(name: str, changes: bool) -> None:
    assert changes_state(name) is changes


def test_writes_ignore_reads_order_and_failed_calls() -> None:
    failed = ToolCall(name="cancel_order", arguments={"id": 9}, result="Error: not allowed")
    calls = (call("get_user"), call("cancel_order", id=2), call("search", q="x"), call("cancel_order", id=1), failed)
    expected = [expect("cancel_order", id=1), expect("get_order", id=1), expect("cancel_order", id=2)]
    assert scored("writes", calls, expected).value == 1.0


def test_a_write_nobody_expected_is_named() -> None:
    score = scored("writes", (call("cancel_order", id=2),), [])
    assert score.value == 0.0
    assert score.evidence[0].code == "WRITE_UNEXPECTED"
    assert "cancel_order" in score.reason


def test_nothing_to_write_and_nothing_written_is_right() -> None:
    assert scored("writes", (call("get_user"),), [expect("get_user")]).value == 1.0


# Schema.

DEFINITION = ToolDefinition(
    name="refund",
    parameters={
        "type": "object",
        "properties": {
            "order_id": {"type": "string"},
            "amount": {"type": "number"},
            "speed": {"type": "string", "enum": ["slow", "fast"]},
            "address": {"type": "object", "properties": {"zip": {"type": "string"}}},
        },
        "required": ["order_id"],
    },
)


@pytest.mark.parametrize(
    ("sent", "code", "path"),
    [
        ({}, "ARGUMENT_MISSING", "$.order_id"),
        ({"order_id": 7}, "ARGUMENT_MISTYPED", "$.order_id"),
        ({"order_id": "7", "ammount": 3}, "ARGUMENT_UNDECLARED", "$.ammount"),
        ({"order_id": "7", "speed": "now"}, "ARGUMENT_NOT_IN_ENUM", "$.speed"),
        ({"order_id": "7", "address": {"zip": 12}}, "ARGUMENT_MISTYPED", "$.address.zip"),
    ],
)
def test_a_call_that_does_not_fit_its_definition_is_named(sent: dict[str, Any], code: str, path: str) -> None:
    case = Case(tools=(call("refund", **sent),), tool_definitions=(DEFINITION,))
    score = evaluate_metric(create("tool_schema"), case)
    assert score.value == 0.0
    assert [(e.code, e.path) for e in score.evidence] == [(code, path)]


def test_a_fitting_call_passes_and_an_undeclared_tool_does_not() -> None:
    good = Case(tools=(call("refund", order_id="7", amount=3),), tool_definitions=(DEFINITION,))
    assert evaluate_metric(create("tool_schema"), good).value == 1.0
    bad = Case(tools=(call("refnud", order_id="7"),), tool_definitions=(DEFINITION,))
    score = evaluate_metric(create("tool_schema"), bad)
    assert score.evidence[0].code == "TOOL_NOT_FOUND"
    assert "did the agent mean 'refund'" in score.reason


def test_a_misspelt_argument_is_offered_the_declared_one() -> None:
    case = Case(tools=(call("refund", order_id="7", ammount=3),), tool_definitions=(DEFINITION,))
    assert "did the agent mean 'amount'" in evaluate_metric(create("tool_schema"), case).reason


def test_without_definitions_or_arguments_there_is_nothing_to_check() -> None:
    assert evaluate_metric(create("tool_schema"), Case(tools=(call("f"),))).not_applicable
    lost = ToolCall(name="refund", arguments=None, content_captured=False)
    assert evaluate_metric(create("tool_schema"), Case(tools=(lost,), tool_definitions=(DEFINITION,))).not_applicable


def test_other_dialects_of_schema_and_broken_schemas_do_no_harm() -> None:
    dialect = ToolDefinition(name="f", parameters={"type": "dict", "properties": {"a": {"type": "float"}}})
    assert evaluate_metric(create("tool_schema"), Case(tools=(call("f", a=1.5),), tool_definitions=(dialect,))).passed
    broken = ToolDefinition(name="f", parameters={"type": 7, "properties": {"a": {}}})
    assert evaluate_metric(create("tool_schema"), Case(tools=(call("f", a=1),), tool_definitions=(broken,))).passed


def test_definitions_are_learned_from_good_calls() -> None:
    calls = [call("f", id=f"O{i}", n=i, speed="slow" if i % 2 else "fast") for i in range(24)]
    learned = learned_definitions(calls)
    good = Case(tools=(call("f", id="O99", n=3, speed="slow"),), tool_definitions=learned)
    assert evaluate_metric(create("tool_schema"), good).passed
    for sent in ({"id": "O1", "n": 3}, {"id": "O1", "n": "3", "speed": "slow"}, {"id": "O1", "n": 1, "speed": "now"}):
        bad = Case(tools=(call("f", **sent),), tool_definitions=learned)
        assert not evaluate_metric(create("tool_schema"), bad).passed
