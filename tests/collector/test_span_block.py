"""Span blocks: what is encoded, what is left out, and that a bad request leaves no trace in its block."""

from dataclasses import replace
from typing import Any, cast

import pytest

from evalspan_collector.span import Span
from evalspan_collector.store.span_block import SpanBlock

DAY = 86_400 * 1_000_000_000


def span(number: int, **changes: Any) -> Span:
    made = Span(trace_id="a" * 32, span_id=f"{number:016x}", name="n", start_ns=5, end_ns=9, received_ns=DAY)
    return replace(made, **changes)


def test_columns_that_hold_nothing_are_left_out() -> None:
    block = SpanBlock()
    block.add([span(0), span(1)])
    assert "tool_result" not in block.names()
    assert "input_tokens" not in block.names()
    block.add([span(2, tool_result="late")])
    assert "tool_result" in block.names()


def test_what_says_nothing_by_being_zero_is_never_left_out() -> None:
    block = SpanBlock()
    block.add([span(0, received_ns=0, failed=False)])
    assert {"project", "trace_id", "span_id", "received_ns", "failed"} <= set(block.names())


def test_a_request_that_cannot_be_encoded_leaves_the_block_as_it_was() -> None:
    block = SpanBlock()
    block.add([span(0, attributes={"k": "v"}, cost_carried=1.5)])
    before = b"".join(block.native())
    bad = span(2, attributes=cast("dict[str, str]", {"k": object()}), cost_carried=2.5, flags=("f",), tool_name="t")
    with pytest.raises(Exception):  # noqa: B017  # whatever the encoder raises
        block.add([span(1), *(span(n + 10, output_value="x") for n in range(300)), bad])
    assert len(block) == 1
    assert block.arrivals["default", "a" * 32].count == 1
    assert b"".join(block.native()) == before


def test_a_block_says_when_it_crosses_many_partitions() -> None:
    block = SpanBlock()
    block.add([span(n, project=f"p{n}") for n in range(49)])
    assert not block.is_wide
    block.add([span(n, received_ns=DAY * n) for n in range(2)])
    assert block.is_wide
