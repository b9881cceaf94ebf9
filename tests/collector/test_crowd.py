"""Crowds of traces: groups are small and disjoint, and the same whatever came first."""

import json
import random
from collections.abc import Sequence
from typing import Any

import pytest

from evalspan_collector.neighbourhood import Neighbourhood
from evalspan_collector.span import Span, SpanKind, Usage

SECOND = 1_000_000_000
T0 = 1_700_000_000 * SECOND


def call(number: int, at_s: float, took_s: float = 1, kind: SpanKind = SpanKind.LLM, **fields: Any) -> Span:
    """A trace of one span."""
    start = T0 + int(at_s * SECOND)
    return Span(
        trace_id=f"{number:032x}",
        span_id=f"{number:016x}",
        name="chat m",
        kind=kind,
        start_ns=start,
        end_ns=start + int(took_s * SECOND),
        service_name="svc",
        **fields,
    )


def user(text: str, *more: dict[str, Any]) -> str:
    return json.dumps([{"role": "user", "parts": [{"type": "text", "content": text}]}, *more])


def groups(spans: Sequence[Span], due: Sequence[Span] | None = None, *, limit: int = 64) -> list[list[int]]:
    neighbourhood = Neighbourhood()
    for span in spans:
        neighbourhood.note(span.trace_id, [span])
    found = neighbourhood.groups("default", [s.trace_id for s in (due or spans)], limit=limit)
    return sorted(sorted(int(trace_id, 16) for trace_id in group) for group in found)


def test_calls_with_nothing_in_common_are_groups_of_their_own() -> None:
    spans = [call(n, n / 10, input_messages=user(f"question {n}")) for n in range(20)]
    assert groups(spans) == [[n] for n in range(20)]


def test_a_call_that_brings_a_result_is_with_the_call_that_asked() -> None:
    asked: dict[str, Any] = {"type": "tool_call", "id": "c1", "name": "look", "arguments": {}}
    result = {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "response": "3"}]}
    first = call(1, 0, input_messages=user("a"), output_messages=json.dumps([{"role": "assistant", "parts": [asked]}]))
    second = call(2, 100, input_messages=user("a", {"role": "assistant", "parts": [asked]}, result))
    assert groups([first, call(3, 1, input_messages=user("b")), second]) == [[1, 2], [3]]
    assert groups([first, call(3, 1, input_messages=user("b")), second], [second]) == [[1, 2]]


def test_a_call_without_content_is_with_those_that_wait_for_a_tool_shortly_before() -> None:
    waits = call(1, 0, finish_reasons=("tool_calls",))
    assert groups([waits, call(2, 5), call(3, 40)]) == [[1, 2], [3]]
    assert groups([call(1, 0, finish_reasons=("stop",)), call(2, 5)]) == [[1], [2]]


def test_two_libraries_that_tell_of_one_call_are_together() -> None:
    outer = call(1, 0, 3, scope_name="one", usage=Usage(output_tokens=5))
    inner = call(2, 1, 1, scope_name="two", usage=Usage(output_tokens=5))
    other = call(3, 1, 1, scope_name="two", usage=Usage(output_tokens=6))
    assert groups([outer, inner, other]) == [[1, 2], [3]]


def test_a_lone_retrieval_is_with_the_call_that_follows() -> None:
    found = call(1, 0, kind=SpanKind.RETRIEVER)
    assert groups([found, call(2, 5, input_messages=user("a")), call(3, 6, input_messages=user("b"))]) == [[1, 2], [3]]


@pytest.mark.parametrize("seed", range(5))
def test_what_is_too_much_is_cut_the_same_way_in_any_order(seed: int) -> None:
    chance = random.Random(seed)
    spans = [call(n, chance.uniform(0, 400), finish_reasons=("tool_calls",)) for n in range(1, 301)]
    expected = groups(spans)
    assert max(map(len, expected)) <= 64
    assert sorted(n for group in expected for n in group) == list(range(1, 301))
    assert len(expected) < 30, "the parts are large enough to hold runs"
    chance.shuffle(spans)
    assert groups(spans) == expected
    assert all(groups(spans, [span])[0] in expected for span in spans[:20])


def test_traces_that_come_later_leave_the_groups_of_earlier_ones_as_they_were() -> None:
    spans = [call(n, n / 2, finish_reasons=("tool_calls",)) for n in range(1, 401)]
    early = groups(spans[:200])
    late = groups(spans)
    assert sum(group in late for group in early) >= len(early) - 1


def test_what_is_too_much_is_cut_by_conversation_first() -> None:
    spans = [call(n, n / 100, 0.001, finish_reasons=("tool_calls",), session_id=f"s{n % 3}") for n in range(90)]
    assert [{n % 3 for n in group} for group in groups(spans, limit=30)] == [{0}, {1}, {2}]


def test_traces_that_start_at_one_moment_are_cut_too() -> None:
    spans = [call(n, 0, input_messages=user("same", {"role": "assistant", "parts": []})) for n in range(200)]
    assert [len(group) for group in groups(spans)] == [64, 64, 64, 8]


def test_what_is_remembered_is_bounded_by_its_bytes_and_the_oldest_go_first() -> None:
    neighbourhood = Neighbourhood(max_bytes=60_000)
    spans = [call(n, n, input_messages=user(f"question {n}")) for n in range(200)]
    for span in spans:
        neighbourhood.note(span.trace_id, [span])
        assert neighbourhood.size_bytes <= 60_000
    kept = [span for span in spans if neighbourhood.knows("default", span.trace_id)]
    assert 10 < len(kept) < 50
    assert kept == spans[-len(kept) :]


def test_what_was_forgotten_takes_no_room() -> None:
    neighbourhood = Neighbourhood(max_bytes=1)
    for n in range(3):
        neighbourhood.note(f"{n:032x}", [call(n, n, input_messages=user("x" * n))])
    alone = neighbourhood.size_bytes
    neighbourhood.note(f"{2:032x}", [call(2, 2, input_messages=user("xx"), output_messages="[]")])
    assert neighbourhood.size_bytes == alone
    assert [neighbourhood.knows("default", f"{n:032x}") for n in range(3)] == [False, False, True]
