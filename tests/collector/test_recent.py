"""Recent traces: what is remembered is what the store holds, and it is forgotten as a whole."""

from dataclasses import replace

from evalspan_collector.recent import RecentTraces
from evalspan_collector.run import Run
from evalspan_collector.span import LogRecord, Span
from evalspan_collector.store.current import Stamp
from evalspan_collector.store.memory import MemoryStore

A, B = "a" * 32, "b" * 32


def span(trace_id: str, number: int, received_ns: int = 10, name: str = "n") -> Span:
    return Span(trace_id=trace_id, span_id=f"{number:016x}", name=name, start_ns=1, end_ns=2, received_ns=received_ns)


def log(trace_id: str, sequence: int, received_ns: int = 10) -> LogRecord:
    return LogRecord(
        project="default",
        trace_id=trace_id,
        span_id=f"{1:016x}",
        event_name="e",
        time_ns=5,
        received_ns=received_ns,
        attributes={"k": "v"},
        sequence=sequence,
    )


def test_what_is_remembered_has_the_stamp_of_the_store() -> None:
    recent, store = RecentTraces(max_bytes=1000), MemoryStore()
    blocks = [
        ([span(A, 1), span(A, 2), span(B, 1)], [log(A, 1)]),
        ([span(A, 1, 20, "again"), span(A, 2, 5, "older")], [log(A, 1, 30), log(A, 2, 30)]),
    ]
    for number, (spans, logs) in enumerate(blocks):
        store.insert_spans(spans, token=f"s{number}")
        store.insert_logs(logs, token=f"l{number}")
        recent.add(spans, logs, size_bytes=10)
    found = recent.get("default", A)
    assert found is not None
    assert found.stamp == store.stamps("default", [A])[A] == Stamp(2, 20, 2, 30)
    assert sorted(s.name for s in found.spans) == ["again", "n"]
    assert sorted(found.spans, key=str) == sorted(store.spans("default", [A]), key=str)


def test_a_trace_is_forgotten_whole_with_its_oldest_block() -> None:
    recent = RecentTraces(max_bytes=25)
    recent.add([span(A, 1)], [], size_bytes=10)
    recent.add([span(B, 1)], [], size_bytes=10)
    recent.add([span(A, 2)], [], size_bytes=10)
    assert recent.get("default", A) is None
    assert recent.get("default", B) is not None
    recent.add([span(A, 3)], [], size_bytes=1)
    found = recent.get("default", A)
    assert found is not None
    assert found.stamp.spans == 1


def test_one_block_above_the_limit_is_not_kept() -> None:
    recent = RecentTraces(max_bytes=25)
    recent.add([span(A, 1)], [], size_bytes=100)
    assert recent.get("default", A) is None


def test_runs_are_remembered_with_their_traces() -> None:
    recent = RecentTraces(max_bytes=100)
    recent.add([span(A, 1), span(B, 1)], [], size_bytes=10)
    run = Run(run_id="r", trace_id=A, project="default", trace_ids=(A, B), revision=3, state="closed", fingerprint="f")
    recent.note_runs([run, replace(run, run_id="elsewhere", trace_id="c" * 32, trace_ids=("c" * 32,))])
    for trace_id in (A, B):
        found = recent.get("default", trace_id)
        assert found is not None
        assert [(r.run_id, r.revision, r.state, r.fingerprint) for r in found.runs] == [("r", 3, "closed", "f")]
    recent.forget_runs("default", [A, B], ["r"])
    found = recent.get("default", B)
    assert found is not None
    assert found.runs == []
