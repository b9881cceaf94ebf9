"""The runs of one trace are assembled once for all of them, and again when its spans change."""

from collections.abc import Sequence
from dataclasses import replace

from evalspan_collector.assemble import assemble
from evalspan_collector.run import Run
from evalspan_collector.span import LogRecord, Span, SpanKind
from evalspan_collector.store.memory import MemoryStore

NOW = 1_796_000_000_000_000_000


def agent(number: int) -> Span:
    return Span(
        trace_id="a" * 32,
        span_id=f"{number:016x}",
        name="invoke_agent",
        start_ns=NOW + number,
        end_ns=NOW + number + 1,
        received_ns=NOW,
        kind=SpanKind.AGENT,
        operation="invoke_agent",
        agent_name="analyst",
    )


class Counting:
    """Assembles, and counts how often."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, spans: Sequence[Span], logs: Sequence[LogRecord]) -> Sequence[Run]:
        self.calls += 1
        return assemble(spans, logs)


def test_a_trace_of_many_runs_is_assembled_once_for_all_of_them() -> None:
    counting = Counting()
    store = MemoryStore(assemble=counting)
    spans = [agent(i) for i in range(1, 51)]
    store.insert_spans(spans, token="t")
    store.write_runs(assemble(spans), token="r")
    ids = [summary.run_id for summary in store.runs_of_traces("default", ["a" * 32])]
    assert [run.run_id for i in ids if (run := store.run("default", i)) is not None] == ids
    assert counting.calls == 1


def test_a_large_run_is_assembled_once_until_a_span_comes() -> None:
    counting = Counting()
    store = MemoryStore(assemble=counting)
    root = agent(1)
    tools = [
        replace(agent(i), kind=SpanKind.TOOL, operation="execute_tool", parent_id=root.span_id, tool_name="t")
        for i in range(2, 6_000)
    ]
    store.insert_spans([root, *tools], token="t")
    (run,) = assemble([root, *tools])
    store.write_runs([run], token="r")
    assert store.run("default", run.run_id) == store.run("default", run.run_id)
    assert counting.calls == 1
    store.insert_spans([replace(tools[0], span_id="f" * 16, received_ns=NOW + 1)], token="late")
    assert store.run("default", run.run_id) is not None
    assert counting.calls == 2


def test_it_is_assembled_again_when_a_span_comes_or_is_replaced() -> None:
    counting = Counting()
    store = MemoryStore(assemble=counting)
    spans = [agent(1), agent(2)]
    store.insert_spans(spans, token="t")
    runs = assemble(spans)
    store.write_runs(runs, token="r")
    store.run("default", runs[0].run_id)
    store.insert_spans([replace(spans[1], run_output="said later", received_ns=NOW + 1)], token="late")
    found = store.run("default", runs[1].run_id)
    assert found is not None
    assert found.output == "said later"
    assert counting.calls == 2
