"""Sequence: the seeds' examples, the truth tables of every mode, and the laws they obey."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalspan.errors import ConfigError
from evalspan_collector.run import ToolCall
from evalspan_evaluators.case import Case, Expected
from evalspan_evaluators.metric import create, evaluate_metric
from evalspan_evaluators.score import Score
from evalspan_evaluators.trajectory.sequence import Sequence, SequenceMode

MODES: tuple[SequenceMode, ...] = ("exact", "subsequence", "unordered", "superset", "subset", "multiset")
names = st.lists(st.sampled_from("abcd"), max_size=8).map(tuple)


def case_of(*tools: str) -> Case:
    return Case(tools=tuple(ToolCall(name=name, span_id=f"s{index}") for index, name in enumerate(tools)))


def sequence(expected: tuple[str, ...], actual: tuple[str, ...], mode: SequenceMode = "subsequence") -> Score:
    return evaluate_metric(Sequence(expected=expected, mode=mode), case_of(*actual))


def extra(score: Score) -> dict[str, float]:
    return dict(score.extra)


def codes(score: Score) -> list[str | None]:
    return [e.code for e in score.evidence]


def test_seed_c4_the_default_mode_is_subsequence_and_extras_do_not_fail() -> None:
    metric = create("sequence", {"expected": ["a", "b"]})
    assert isinstance(metric, Sequence)
    assert metric.mode == "subsequence"
    assert evaluate_metric(metric, case_of("a", "x", "b", "y")).passed


def test_seed_c5_subsequence_ignores_extra_tools() -> None:
    score = sequence(("search", "analyze"), ("search", "think", "analyze", "verify"))
    assert (score.value, score.passed) == (1.0, True)
    assert "2 other calls" in score.reason


def test_seed_c6_exact_fails_and_names_the_extra_tool() -> None:
    score = sequence(("search", "analyze"), ("search", "think", "analyze"), "exact")
    assert not score.passed
    assert "think" in score.reason
    unexpected = [e for e in score.evidence if e.code == "TOOL_UNEXPECTED"]
    assert [(e.tool, e.span_id) for e in unexpected] == [("think", "s1")]


def test_seed_c6_exact_fails_even_when_one_extra_call_comes_after_a_long_match() -> None:
    score = sequence(tuple("abcdefgh"), tuple("abcdefghi"), "exact")
    assert not score.passed
    assert score.value == pytest.approx(8 / 9)


def test_seed_c7_unordered_ignores_the_order() -> None:
    assert sequence(("search", "analyze"), ("analyze", "search"), "unordered").passed


@pytest.mark.parametrize("mode", MODES)
def test_seed_c8_the_mode_is_set_per_use(mode: SequenceMode) -> None:
    metric = create("sequence", {"expected": ["a"], "mode": mode})
    assert evaluate_metric(metric, case_of("a")).passed


def test_seed_c8_an_unknown_mode_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match=r"'sorted'.*subsequence"):
        create("sequence", {"mode": "sorted"})


def test_seed_e7_exact_progress_counts_equal_places_over_the_expected_length() -> None:
    assert extra(sequence(("a", "b", "c"), ("a", "x", "c"), "exact"))["progress"] == pytest.approx(2 / 3)
    assert extra(sequence(("a", "b"), ("a", "b", "c"), "exact"))["progress"] == 1.0
    assert not sequence(("a", "b"), ("a", "b", "c"), "exact").passed


def test_seed_e8_subsequence_progress_is_the_greedy_prefix() -> None:
    score = sequence(("a", "b", "c"), ("b", "c"))
    assert score.value == 0.0
    assert extra(score)["lcs"] == pytest.approx(2 / 3)
    assert sequence(("a", "b", "c"), ("a", "c")).value == pytest.approx(1 / 3)


def test_seed_e9_unordered_counts_duplicates() -> None:
    assert sequence(("a", "a", "b"), ("a", "b"), "unordered").value == pytest.approx(2 / 3)


def test_seed_e10_an_empty_expected_sequence_is_correct() -> None:
    assert sequence((), ("a",)).value == 1.0
    assert sequence((), (), "exact").value == 1.0


def test_seed_e10_expected_tools_alone_set_no_sequence() -> None:
    score = evaluate_metric(Sequence(), Case(tools=(), expected=Expected(tools=("a",))))
    assert score.not_applicable


def test_the_expected_sequence_comes_from_the_case_when_the_metric_names_none() -> None:
    case = Case(tools=(ToolCall(name="a"),), expected=Expected(sequence=("a", "b")))
    assert evaluate_metric(Sequence(), case).value == 0.5


def test_unknown_tools_are_not_applicable_and_no_tools_are_a_failure() -> None:
    assert evaluate_metric(Sequence(expected=("a",)), Case(tools=None)).not_applicable
    assert evaluate_metric(Sequence(expected=("a",)), Case(tools=())).value == 0.0


@pytest.mark.parametrize(
    ("expected", "actual", "passing"),
    [
        ("ab", "ab", "exact subsequence unordered superset subset multiset"),
        ("ab", "ba", "unordered superset subset multiset"),
        ("ab", "axb", "subsequence unordered superset"),
        ("ab", "a", "subset"),
        ("aab", "ab", "subset"),
        ("ab", "aab", "subsequence unordered superset"),
        ("ab", "xy", ""),
        ("ab", "", "subset"),
        ("", "a", "subsequence unordered superset"),
        ("", "", "exact subsequence unordered superset subset multiset"),
    ],
)
def test_each_mode_passes_by_its_truth_table(expected: str, actual: str, passing: str) -> None:
    passed = [m for m in MODES if sequence(tuple(expected), tuple(actual), m).passed]
    assert " ".join(passed) == passing


def test_the_reason_names_the_missing_tool_and_the_first_difference() -> None:
    score = sequence(("search", "book", "pay"), ("search", "pay"))
    assert "missing tool [book]" in score.reason
    assert "'book' expected after 'search', never called" in score.reason
    assert codes(score) == ["TOOL_MISSING"]
    assert score.label == "SEQUENCE_MISSING_TOOLS"


def test_the_reason_tells_a_wrong_order_from_a_missing_tool() -> None:
    score = sequence(("verify", "refund"), ("refund", "verify"))
    assert "wrong order: 'refund' expected after 'verify'" in score.reason
    assert codes(score) == ["SEQUENCE_ORDER_VIOLATION"]


def test_a_tool_called_too_few_times_is_said_so() -> None:
    assert "called too few times" in sequence(("a", "a"), ("a",)).reason


@pytest.mark.parametrize("called", ["search_web", "search-web", "SearchWeb", "mcp__web__searchWeb", "serch_web"])
def test_seed_e14_a_near_name_is_offered_as_the_remedy(called: str) -> None:
    score = sequence(("searchWeb",), (called,))
    assert codes(score) == ["TOOL_NAME_MISMATCH"]
    assert called in score.reason


def test_seed_e14_a_far_name_is_not_offered() -> None:
    assert codes(sequence(("refund",), ("search",))) == ["TOOL_MISSING"]


def test_seed_e14_lengths_have_their_own_code() -> None:
    assert "SEQUENCE_LENGTH_MISMATCH" in codes(sequence(("a",), ("a", "b"), "exact"))


@given(expected=names, actual=names)
def test_every_measure_of_every_mode_lies_between_0_and_1(expected: tuple[str, ...], actual: tuple[str, ...]) -> None:
    for mode in MODES:
        score = sequence(expected, actual, mode)
        assert score.error is None
        assert score.value is not None
        assert all(0.0 <= number <= 1.0 for _, number in score.extra)


@given(expected=names)
def test_a_sequence_matches_itself_in_every_mode(expected: tuple[str, ...]) -> None:
    assert all(sequence(expected, expected, mode).value == 1.0 for mode in MODES)


@given(expected=names, actual=names, data=st.data())
def test_order_free_modes_do_not_see_the_order(
    expected: tuple[str, ...], actual: tuple[str, ...], data: st.DataObject
) -> None:
    shuffled = tuple(data.draw(st.permutations(actual)))
    for mode in ("unordered", "superset", "subset", "multiset"):
        assert sequence(expected, actual, mode).value == sequence(expected, shuffled, mode).value


@given(expected=names, actual=names)
def test_a_stricter_mode_never_passes_where_a_looser_one_fails(
    expected: tuple[str, ...], actual: tuple[str, ...]
) -> None:
    passed = {mode: bool(sequence(expected, actual, mode).passed) for mode in MODES}
    assert passed["exact"] <= passed["multiset"] <= passed["unordered"]
    assert passed["exact"] <= passed["subsequence"] <= passed["unordered"]
    assert passed["multiset"] == (passed["superset"] and passed["subset"])


@given(expected=names, actual=names)
def test_the_longest_common_subsequence_equals_the_textbook_one(
    expected: tuple[str, ...], actual: tuple[str, ...]
) -> None:
    row = [0] * (len(actual) + 1)
    for left in expected:
        last = row[:]
        for index, right in enumerate(actual):
            row[index + 1] = last[index] + 1 if left == right else max(row[index], last[index + 1])
    wanted = row[-1] / len(expected) if expected else 1.0
    assert extra(sequence(expected, actual))["lcs"] == pytest.approx(wanted)


def test_noise_and_very_long_runs_are_scored_in_bounded_time() -> None:
    noise = "x" * 1_000_000
    assert sequence((noise, "b"), (noise[:-1], "b")).value == 0.0
    assert len(sequence((noise,), ("b",)).reason) < 1_000
    many = tuple(str(index % 7) for index in range(20_000))
    assert sequence(many, many[::-1], "exact").value is not None
