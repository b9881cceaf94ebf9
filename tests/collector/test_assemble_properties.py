"""Properties: whatever way the requests of a capture travel, the final runs are the same, and none closes early."""

import random
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from golden.captures import Capture, capture, captures
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from evalspan_collector.assemble import assemble, is_loose, neighbour_query
from evalspan_collector.completion import closes_at_ns, facts_of, is_closed, run_fingerprint
from evalspan_collector.neighbourhood import Neighbourhood
from evalspan_collector.run import Run
from evalspan_collector.span import LogRecord, Span

SECOND = 1_000_000_000
_SEED_OF_TRAVEL = st.integers(0, 2**32 - 1)
_SOME = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


def prints(runs: Sequence[Run]) -> dict[str, str]:
    return {r.run_id: run_fingerprint(r) for r in runs}


@_SOME
@given(name=st.sampled_from(captures()), seed=_SEED_OF_TRAVEL)
def test_any_order_and_duplication_of_requests_gives_the_identical_runs(name: str, seed: int) -> None:
    one, chance = capture(name), random.Random(seed)
    order = list(range(len(one.requests)))
    order += chance.choices(order, k=chance.randrange(len(order) + 1))
    chance.shuffle(order)
    spans, logs = one.read(order)
    assert prints(assemble(spans, logs)) == prints(one.runs())


@_SOME
@given(name=st.sampled_from(captures()), seed=_SEED_OF_TRAVEL)
def test_any_order_of_spans_gives_the_identical_runs(name: str, seed: int) -> None:
    one, chance = capture(name), random.Random(seed)
    spans, logs = one.read()
    spans += chance.choices(spans, k=chance.randrange(len(spans) + 1)) if spans else []
    spans = [replace(s, received_ns=chance.randrange(1000)) for s in spans]
    chance.shuffle(spans)
    chance.shuffle(logs)
    assert prints(assemble(spans, logs)) == prints(one.runs())


@_SOME
@given(name=st.sampled_from(captures()), seed=_SEED_OF_TRAVEL)
def test_requests_split_into_single_spans_give_the_identical_runs(name: str, seed: int) -> None:
    one, chance = capture(name), random.Random(seed)
    requests = [part for signal, body in one.requests for part in _split(signal, body)]
    chance.shuffle(requests)
    split = Capture(one.name, tuple(requests), one.truth)
    assert prints(split.runs()) == prints(one.runs())


def _split(signal: str, body: bytes) -> list[tuple[str, bytes]]:
    if signal == "logs":
        return [(signal, body)]
    found: list[tuple[str, bytes]] = []
    for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
        for scope in resource.scope_spans:
            for span in scope.spans:
                request = ExportTraceServiceRequest()
                group = request.resource_spans.add(resource=resource.resource, schema_url=resource.schema_url)
                group.scope_spans.add(scope=scope.scope, schema_url=scope.schema_url).spans.append(span)
                found.append((signal, request.SerializeToString()))
    return found


@_SOME
@given(name=st.sampled_from(captures()), seed=_SEED_OF_TRAVEL)
def test_spans_lost_at_random_never_crash_and_never_invent(name: str, seed: int) -> None:
    one, chance = capture(name), random.Random(seed)
    spans, logs = one.read()
    kept = [s for s in spans if chance.random() < 0.6]
    whole = sum(r.usage.input_tokens or 0 for r in one.runs())
    for run in assemble(kept, logs):
        assert (run.usage.input_tokens or 0) <= max(whole, max(s.usage.input_tokens or 0 for s in kept) * len(kept))
        assert run.to_json()["flags"] == sorted(run.flags)


# --- the clock


def _as_it_ends(span: Span, _began: int) -> int:
    return span.end_ns


def _in_batches(span: Span, began: int) -> int:
    """The SDK's schedule: whatever ended is sent every 5 s."""
    return began + ((span.end_ns - began) // (5 * SECOND) + 1) * 5 * SECOND


@pytest.mark.parametrize("schedule", [_as_it_ends, _in_batches])
@pytest.mark.parametrize("name", captures()[::2])
def test_no_run_closes_before_its_last_span(name: str, schedule: Callable[[Span, int], int]) -> None:
    one = capture(name)
    spans, logs = one.read()
    began = min(s.start_ns for s in spans)
    arriving = sorted((replace(s, received_ns=schedule(s, began)) for s in spans), key=lambda s: s.received_ns)
    last = arriving[-1].received_ns
    final = prints(assemble(arriving, logs))
    closed: dict[str, str] = {}
    times = sorted({s.received_ns for s in arriving})
    for now, after in zip(times, [*times[1:], last + 3600 * SECOND], strict=True):
        here = [s for s in arriving if s.received_ns <= now]
        for run in assemble(here, _heard(logs, now)):
            facts = facts_of(run)
            if is_closed(facts, after - 1) and run.run_id not in closed:
                assert closes_at_ns(facts) >= now, "a run is never closed in the past"
                closed[run.run_id] = run_fingerprint(run)
    assert closed == final, "what closed is what the capture says at last"


def _heard(logs: list[LogRecord], now: int) -> list[LogRecord]:
    """Log records that were sent by then, a second after they were written."""
    return [g for g in logs if g.time_ns <= now]


@pytest.mark.parametrize("name", captures())
def test_neighbour_queries_reach_every_trace_of_a_stitched_run(name: str) -> None:
    """From any trace of a run, asking for neighbours again and again finds all its traces."""
    spans, logs = capture(name).read()
    traces: dict[str, list[Span]] = {}
    for span in spans:
        traces.setdefault(span.trace_id, []).append(span)
    for run in assemble(spans, logs):
        for start in run.trace_ids:
            assert set(run.trace_ids) <= _reached(start, traces)


@pytest.mark.parametrize("name", captures())
def test_traces_of_a_stitched_run_share_a_tie(name: str) -> None:
    """Where traces are too many to be looked at together, their ties alone keep each run whole."""
    spans, logs = capture(name).read()
    neighbourhood = Neighbourhood()
    ids = sorted({span.trace_id for span in spans})
    for trace_id in ids:
        heard = [record for record in logs if record.trace_id == trace_id]
        neighbourhood.note(trace_id, [span for span in spans if span.trace_id == trace_id], heard)
    groups = neighbourhood.groups(spans[0].project, ids, limit=1000)
    assert sorted(trace_id for group in groups for trace_id in group) == ids
    for run in assemble(spans, logs):
        assert any(set(run.trace_ids) <= set(group) for group in groups)


def _reached(start: str, traces: dict[str, list[Span]]) -> set[str]:
    found, waiting = {start}, [start]
    while waiting:
        query = neighbour_query(traces[waiting.pop()])
        for trace_id, spans in traces.items():
            if trace_id in found or (query.loose_only and not is_loose(spans)):
                continue
            near = any(
                (s.service_instance_id or s.service_name) in query.processes
                and s.start_ns <= query.end_ns
                and s.end_ns >= query.start_ns
                for s in spans
            )
            if near:
                found.add(trace_id)
                waiting.append(trace_id)
    return found
