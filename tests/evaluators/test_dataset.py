"""Data sets from files, runs and the store."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalspan.errors import ConfigError, EvalspanError, InputError
from evalspan_collector.message import Message, Part
from evalspan_collector.run import Document, ModelCall, Run, Step, ToolCall, ToolDefinition
from evalspan_collector.span import Usage
from evalspan_collector.store.contract import RunQuery
from evalspan_collector.store.memory import MemoryStore
from evalspan_evaluators.case import Case, Expected, Turn
from evalspan_evaluators.case_json import case_from_json, case_to_json
from evalspan_evaluators.dataset import Dataset, case_from_run, write_cases

FULL = Case(
    name="full",
    input="How much?",
    output="12.50",
    expected=Expected(
        output="12.5",
        tools=("search",),
        sequence=("search", "pay"),
        calls=({"name": "search", "arguments": {"q": "x"}},),
        categories=("search",),
        contains=("12",),
        not_contains=("13",),
    ),
    tools=(
        ToolCall(name="search", arguments={"q": "x"}, result=[1, {"a": None}], failed=True, error="no", duration_s=0.5),
    ),
    documents=(Document(id="d", content="text", score=0.5),),
    context=("a fact",),
    conversation=(Message(role="user", parts=(Part(type="text", content="How much?"),)),),
    turns=(Turn(input="hi", output="hello", tools=(ToolCall(name="greet"),)),),
    system_prompt="be brief",
    tool_definitions=(ToolDefinition(name="search", parameters={"type": "object"}),),
    model_calls=(ModelCall(model="m", usage=Usage(input_tokens=3)),),
    usage=Usage(input_tokens=3, output_tokens=4),
    cost_usd=0.01,
    cost_unknown_calls=1,
    duration_s=2.0,
    status="ok",
    agent="bot",
    flags=("incomplete",),
    metadata={"team": "x"},
)


def test_a_case_is_the_same_after_writing_and_reading() -> None:
    assert case_from_json(json.loads(json.dumps(case_to_json(FULL)))) == FULL


texts = st.text(max_size=20)


@given(
    st.builds(
        Case,
        input=st.none() | texts,
        output=st.none() | texts,
        expected=st.builds(
            Expected,
            output=st.none() | texts,
            tools=st.none() | st.lists(texts, max_size=3).map(tuple),
            contains=st.none() | st.lists(texts, max_size=3).map(tuple),
        ),
        tools=st.none()
        | st.lists(st.builds(ToolCall, name=texts, failed=st.booleans(), result=st.none() | texts), max_size=3).map(
            tuple
        ),
        cost_usd=st.none() | st.floats(0, 10),
        metadata=st.dictionaries(st.just("k"), texts),
    )
)
def test_any_case_is_the_same_after_writing_and_reading(case: Case) -> None:
    assert case_from_json(json.loads(json.dumps(case_to_json(case)))) == case


def test_no_tools_and_unknown_tools_stay_apart() -> None:
    assert case_from_json(case_to_json(Case(tools=()))).tools == ()
    assert case_from_json(case_to_json(Case())).tools is None


def test_a_jsonl_file_is_read_again_and_again(tmp_path: Path) -> None:
    path = tmp_path / "set.jsonl"
    assert write_cases(path, [FULL, Case(input="b")]) == 2
    write_cases(path, [Case(input="c")], append=True)
    data = Dataset.read(path)

    assert [c.input for c in data] == [c.input for c in data] == ["How much?", "b", "c"]
    assert next(iter(data)) == FULL


def test_a_data_set_is_streamed(tmp_path: Path) -> None:
    path = tmp_path / "set.jsonl"
    path.write_text('{"input": "first"}\nnot json\n')

    cases = iter(Dataset.read(path))

    assert next(cases).input == "first"
    with pytest.raises(InputError, match=r"set\.jsonl:2: is no JSON"):
        next(cases)


def test_other_names_of_fields_are_understood() -> None:
    case = case_from_json(
        {
            "query": "q",
            "actual_output": "a",
            "expected_output": "e",
            "tools_called": ["x"],
            "expected_tools": ["x"],
            "topic": 3,
        }
    )

    assert (case.input, case.output, case.expected.output) == ("q", "a", "e")
    assert case.tools == (ToolCall(name="x"),)
    assert case.expected.tools == ("x",)
    assert case.metadata == {"topic": 3}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"input": 3}', "input: 3 is no text"),
        ('{"inptu": "x"}', "inptu: unknown field: did you mean 'input'"),
        ('{"expected": {"tols": []}}', "expected.tols: unknown field: did you mean 'tools'"),
        ('{"expected": {"tools": [1]}}', r"expected\.tools\[0\]: 1 is no text"),
        ('{"tools": [{"nme": "a"}]}', r"tools\[0\]\.nme: unknown field: did you mean 'name'"),
        ('{"tools": [{"arguments": {}}]}', r"tools\[0\]: .* lacks a field"),
        ('{"cost_usd": -1}', "cost_usd: -1 is no number of 0 or more"),
        ('{"cost_usd": true}', "cost_usd: True is no number"),
        ('{"query": "a", "input": "b"}', "input: 'input' is there twice"),
        ("[]", r"\[\] is no case"),
    ],
)
def test_a_mistake_is_named_by_file_line_and_field(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "set.jsonl"
    path.write_text(f'{{"input": "fine"}}\n\n{line}\n')

    with pytest.raises(InputError, match=rf"set\.jsonl:3: {message}"):
        list(Dataset.read(path))


def test_a_csv_file_has_lists_numbers_and_dotted_columns(tmp_path: Path) -> None:
    path = tmp_path / "set.csv"
    path.write_text(
        "\ufeffinput,output,expected_tools,expected.contains,cost_usd,team\n"
        '"Two\nlines",ok,a|b,"[""x, y""]",0.5,red\n'
        "plain,,,,,\n"
    )

    first, second = Dataset.read(path)

    assert first.input == "Two\nlines"
    assert first.expected == Expected(tools=("a", "b"), contains=("x, y",))
    assert (first.cost_usd, first.metadata) == (0.5, {"team": "red"})
    assert (second.output, second.cost_usd) == (None, None)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('input,cost_usd\n"a\nb",1\nc,dear\n', r"set\.csv:4: cost_usd: 'dear'"),
        ("input,output\na\n", r"set\.csv:2: 1 cells under 2 columns"),
        ("input,input\na,b\n", r"set\.csv:1: column 'input' is there twice"),
        ("", r"set\.csv:1: is empty"),
    ],
)
def test_a_mistake_in_csv_is_named_by_its_line(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "set.csv"
    path.write_text(text)

    with pytest.raises(InputError, match=message):
        list(Dataset.read(path))


def test_a_yaml_file_holds_a_list_or_cases(tmp_path: Path) -> None:
    path = tmp_path / "set.yaml"
    path.write_text("cases:\n  - input: a\n    expected: {sequence: [x, y]}\n  - input: b\n")

    first, second = Dataset.read(path)

    assert first.expected.sequence == ("x", "y")
    assert second.input == "b"


def test_a_mistake_in_yaml_is_named_by_its_line(tmp_path: Path) -> None:
    path = tmp_path / "set.yaml"
    path.write_text("- input: a\n- input: b\n  expected:\n    tools:\n      - x\n      - 5\n")

    with pytest.raises(InputError, match=r"set\.yaml:6: expected\.tools\[1\]: 5 is no text"):
        list(Dataset.read(path))


def test_broken_yaml_and_other_endings_are_named(tmp_path: Path) -> None:
    broken = tmp_path / "set.yaml"
    broken.write_text("- input: [\n")
    with pytest.raises((ConfigError, InputError), match=r"set\.yaml:\d+"):
        list(Dataset.read(broken))
    with pytest.raises(InputError, match="its ending must be one of"):
        Dataset.read(tmp_path / "set.txt")
    with pytest.raises(InputError, match="there is no file"):
        Dataset.read(tmp_path / "gone.csv")


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | texts,
        lambda s: st.lists(s) | st.dictionaries(texts, s),
        max_leaves=8,
    )
)
def test_no_json_breaks_the_reader_without_a_message(value: Any) -> None:
    messages: list[str] = []
    for data in (value, {"input": value}, {"tools": value}, {"expected": value}, {"usage": value}, {"turns": value}):
        try:
            case_from_json(data)
        except EvalspanError as error:
            messages.append(str(error))
    assert all(messages)


def run(run_id: str = "r1") -> Run:
    calls = (ToolCall(name="search", arguments={"q": 1}), ToolCall(name="search"), ToolCall(name="pay"))
    steps = tuple(Step(index=i, kind="tool_call", name=c.name, tool=c) for i, c in enumerate(calls))
    return Run(run_id=run_id, trace_id="t" * 32, input="buy", output="bought", steps=steps, started_ns=1)


def test_a_run_becomes_a_case_that_expects_what_it_did() -> None:
    case = case_from_run(run(), learn=("output", "tools", "sequence", "calls"))

    assert case.expected.output == "bought"
    assert case.expected.tools == ("search", "pay")
    assert case.expected.sequence == ("search", "search", "pay")
    assert case.expected.calls is not None
    assert case.expected.calls[0] == {"name": "search", "arguments": {"q": 1}}
    with pytest.raises(ValueError, match="'cost' is unknown"):
        case_from_run(run(), learn=("cost",))


def test_stored_runs_are_a_data_set() -> None:
    store = MemoryStore()
    store.write_runs([run("r1"), run("r2")], token="a")

    data = Dataset.from_store(store, RunQuery(), learn=("output",))

    assert sorted(c.name or "" for c in data) == ["r1", "r2"]
    assert all(c.expected.output == "bought" for c in data)
    assert [c.name for c in Dataset.from_runs([run("r3")])] == ["r3"]
