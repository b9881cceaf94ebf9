"""The live assembly: spans in the store become runs, close when quiet, and are revised when something comes late."""

import random
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from apparatus.stores import FaultyStore
from apparatus.waiting import until
from apparatus.workload import Workload, attributes
from golden.captures import capture
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span as OtlpSpan

from evalspan_collector import assembler as assembler_module
from evalspan_collector.assemble import assemble
from evalspan_collector.assembler import Assembler
from evalspan_collector.intake import read_traces
from evalspan_collector.pending import in_shard
from evalspan_collector.records import RunSummary
from evalspan_collector.run import Run
from evalspan_collector.selfmetrics import SelfMetrics
from evalspan_collector.span import Span, SpanKind
from evalspan_collector.store.current import Stamp

SECOND = 1_000_000_000


class Live:
    """An assembler over a memory store, on a clock of its own."""

    def __init__(
        self, store: FaultyStore | None = None, *, shard: tuple[int, int] = (0, 1), traces_per_page: int = 10_000
    ) -> None:
        self.store = store or FaultyStore()
        self.now_ns = 1_700_000_000 * SECOND
        self.metrics = SelfMetrics()
        self.assembler = Assembler(
            stores=lambda: self.store,
            metrics=self.metrics,
            shard=shard,
            watermark_ns=lambda: self.now_ns,
            traces_per_page=traces_per_page,
        )
        self._blocks = 0

    def receive(self, spans: Iterable[Span]) -> None:
        """Spans reach the store now."""
        self._blocks += 1
        block = list(spans)
        self.store.insert_spans(block, token=f"{id(self)}-{self._blocks}")
        self.assembler.spans_stored(block, [])

    def pass_time(self, seconds: float) -> None:
        self.now_ns += int(seconds * SECOND)
        while self.assembler.tick():
            pass

    def runs(self, spans: Sequence[Span]) -> list[RunSummary]:
        found = self.store.runs_of_traces("default", sorted({span.trace_id for span in spans}))
        return sorted(found, key=lambda run: run.run_id)

    def run(self, spans: Sequence[Span]) -> RunSummary:
        (found,) = self.runs(spans)
        return found


def spans_of(seed: int, live: Live, *, length: int = 7) -> list[Span]:
    """One agent run, the root last, received now."""
    request = Workload(seed, content=0.1).one(length)
    return list(read_traces(request.body, project="default", received_ns=live.now_ns).spans)


def received(spans: Iterable[Span], live: Live) -> list[Span]:

    return [replace(span, received_ns=live.now_ns) for span in spans]


def test_a_run_closes_once_it_is_quiet_and_not_before() -> None:
    live = Live()
    spans = spans_of(1, live)
    live.receive(spans)
    live.pass_time(1.0)
    assert live.runs(spans) == []
    live.pass_time(1.5)
    run = live.run(spans)
    assert (run.state, run.revision, len(run.tool_names) > 0) == ("closed", 1, True)


def test_spans_that_keep_coming_postpone_the_close() -> None:
    live = Live()
    spans = spans_of(1, live)
    for span in spans:
        live.receive(received([span], live))
        live.pass_time(1.5)
        assert [run.state for run in live.runs(spans)] in ([], ["open"])
    live.pass_time(1.0)
    assert live.run(spans).state == "closed"


def test_a_long_run_shows_as_open_meanwhile() -> None:
    live = Live()
    spans = spans_of(1, live, length=20)
    for span in spans[:10]:
        live.receive(received([span], live))
        live.pass_time(1.9)
    assert live.run(spans).state == "open"
    live.receive(received(spans[10:], live))
    live.pass_time(3)
    assert (live.run(spans).state, live.run(spans).revision) == ("closed", 1)


def test_a_run_whose_root_never_comes_closes_as_incomplete_when_idle() -> None:
    live = Live()
    spans = spans_of(1, live)[:-1]
    live.receive(spans)
    live.pass_time(30)
    assert live.run(spans).state == "open"
    live.pass_time(31)
    assert live.run(spans).state == "closed"
    assert "incomplete" in live.run(spans).flags


def test_a_late_span_amends_the_run_with_the_next_revision() -> None:
    live = Live()
    spans = spans_of(1, live)
    live.receive(spans[:2] + spans[3:])
    live.pass_time(61)
    before = live.run(spans)
    assert before.state == "closed"
    live.receive(received([spans[2]], live))
    live.pass_time(61)
    after = live.run(spans)
    assert (after.run_id, after.state, after.revision) == (before.run_id, "amended", 2)
    assert after.steps == before.steps + 1


def test_a_span_that_is_sent_again_changes_nothing() -> None:
    live = Live()
    spans = spans_of(1, live)
    live.receive(spans)
    live.pass_time(3)
    before = live.run(spans)
    live.receive(received(spans[:3], live))
    live.pass_time(30)
    assert live.run(spans) == before
    assert live.store.open_traces() == []


def test_any_order_and_any_split_gives_the_same_run() -> None:
    seen: list[tuple[object, ...]] = []
    for seed in range(12):
        live = Live()
        spans = spans_of(5, live, length=12)
        rng = random.Random(seed)
        rng.shuffle(spans)
        while spans:
            cut = rng.randint(1, 4)
            live.receive(received(spans[:cut], live))
            del spans[:cut]
            live.pass_time(rng.choice((0.1, 3.0, 70.0)))
        live.pass_time(120)
        summary = live.run(spans_of(5, live, length=12))
        run = live.store.run("default", summary.run_id)
        assert run is not None
        seen.append((run.steps, run.usage, run.cost_usd, run.output, run.status, run.agent, summary.fingerprint))
    assert all(facts == seen[0] for facts in seen)


def test_a_new_root_withdraws_the_run_that_had_stood_for_it() -> None:
    live = Live()
    spans = spans_of(1, live)
    agent = spans[-1]

    inner = replace(agent, parent_id="aaaaaaaaaaaaaaaa")
    outer = replace(agent, span_id="aaaaaaaaaaaaaaaa", agent_name="boss", tool_name=None)
    live.receive([*spans[:-1], inner])
    live.pass_time(120)
    first = live.run(spans)
    live.receive(received([outer], live))
    live.pass_time(120)
    second = live.run(spans)
    assert second.run_id != first.run_id
    assert second.agent == "boss"
    assert live.store.run_summary("default", first.run_id) is None


def test_a_restart_takes_up_what_was_pending() -> None:
    live = Live()
    spans = spans_of(1, live)
    live.receive(spans)
    again = Live(live.store)
    again.pass_time(10)
    assert again.runs(spans) == []
    again.assembler.poll_store()
    again.pass_time(0)
    assert again.run(spans).state == "closed"
    assert again.store.open_traces() == []


def test_a_restart_takes_up_more_than_one_page_of_pending_traces() -> None:
    live = Live()
    traces = [spans_of(seed, live) for seed in range(1, 8)]
    for spans in traces:
        live.receive(spans)
    again = Live(live.store, traces_per_page=2)
    again.assembler.poll_store()
    again.pass_time(10)
    assert [again.run(spans).state for spans in traces] == ["closed"] * 7
    assert again.store.open_traces() == []


def test_shards_split_the_traces_and_leave_none_out() -> None:
    store = FaultyStore()
    lives = [Live(store, shard=(index, 3)) for index in range(3)]
    spans = [span for seed in range(20) for span in spans_of(seed, lives[0])]
    lives[0].receive(spans)
    for live in lives:
        live.assembler.poll_store()
        live.pass_time(5)
    runs = lives[0].runs(spans)
    assert len(runs) == 20
    shares = [sum(in_shard(run.trace_id, (index, 3)) for run in runs) for index in range(3)]
    assert sum(shares) == 20
    assert all(shares)


def test_a_trace_that_cannot_be_assembled_stops_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    live = Live()
    good, bad = spans_of(1, live), spans_of(2, live)

    def hostile(spans: Iterable[Span], *rest: object, **more: object) -> tuple[Run, ...]:
        kept = list(spans)
        if any(span.trace_id == bad[0].trace_id for span in kept):
            raise RecursionError("deep")
        return assemble(kept, *rest, **more)  # type: ignore[arg-type]  # passed through

    monkeypatch.setattr(assembler_module, "assemble", hostile)
    live.receive(good + bad)
    for _ in range(10):
        live.pass_time(5)
    assert live.run(good).state == "closed"
    assert live.runs(bad) == []
    assert live.metrics.registry.get_sample_value("evalspan_assembly_errors_total") == 3


def test_an_outage_of_the_store_only_delays() -> None:
    live = Live()
    spans = spans_of(1, live)
    live.receive(spans)
    read = live.store.spans

    def down(project: str, trace_ids: Sequence[str]) -> list[Span]:
        del project, trace_ids
        raise ConnectionError("no store")

    live.store.spans = down  # type: ignore[method-assign]  # a fault
    with pytest.raises(ConnectionError):
        live.pass_time(3)
    live.store.spans = read  # type: ignore[method-assign]  # repaired
    live.pass_time(3)
    assert live.run(spans).state == "closed"


def chat(trace_id: bytes, start_s: float, text: str) -> bytes:
    """A trace of one bare model call, as an app without an agent span sends it."""
    request = ExportTraceServiceRequest()
    resource = request.resource_spans.add()
    resource.resource.attributes.extend(attributes({"service.name": "bare", "service.instance.id": "p1"}))
    span = OtlpSpan(trace_id=trace_id, span_id=trace_id[:8], name="chat m", kind=OtlpSpan.SPAN_KIND_CLIENT)
    span.start_time_unix_nano = int((1_700_000_000 + start_s) * SECOND)
    span.end_time_unix_nano = span.start_time_unix_nano + SECOND // 2
    span.attributes.extend(
        attributes({
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": "anthropic",
            "gen_ai.request.model": "claude-haiku-4-5",
            "gen_ai.conversation.id": "c1",
            "gen_ai.input.messages": f'[{{"role":"user","parts":[{{"type":"text","content":"{text}"}}]}}]',
            "gen_ai.output.messages": '[{"role":"assistant","parts":[{"type":"text","content":"ok"}]}]',
        })
    )  # fmt: skip
    resource.scope_spans.add().spans.append(span)
    return request.SerializeToString()


def test_traces_of_one_process_are_looked_at_together(monkeypatch: pytest.MonkeyPatch) -> None:
    live = Live()
    groups: list[int] = []

    def watch(spans: Iterable[Span], *rest: object, **more: object) -> tuple[Run, ...]:
        kept = list(spans)
        groups.append(len({span.trace_id for span in kept}))
        return assemble(kept, *rest, **more)  # type: ignore[arg-type]  # passed through

    monkeypatch.setattr(assembler_module, "assemble", watch)
    bodies = [chat(bytes([n + 1]) * 16, float(n), f"question {n}") for n in range(3)]
    for body in bodies:
        live.receive(read_traces(body, project="default", received_ns=live.now_ns).spans)
    live.pass_time(3)
    assert groups == [3]
    # After a restart the store is asked for the neighbours that this process has never seen.
    groups.clear()
    again = Live(live.store)
    again.now_ns = live.now_ns
    late = read_traces(chat(b"\x09" * 16, 3.0, "question 3"), project="default", received_ns=again.now_ns).spans
    again.receive(late)
    again.pass_time(3)
    assert groups == [4]


def watch_groups(monkeypatch: pytest.MonkeyPatch) -> list[frozenset[str]]:
    """The traces of each assembly from now on."""
    groups: list[frozenset[str]] = []

    def watch(spans: Iterable[Span], *rest: object, **more: object) -> tuple[Run, ...]:
        kept = list(spans)
        groups.append(frozenset(span.trace_id for span in kept))
        return assemble(kept, *rest, **more)  # type: ignore[arg-type]  # passed through

    monkeypatch.setattr(assembler_module, "assemble", watch)
    return groups


def bare_calls(live: Live, count: int, *, apart_s: float, **fields: Any) -> list[Span]:
    """Traces of one model call of two seconds each, of one process."""
    began = live.now_ns - 3600 * SECOND
    return [
        Span(
            trace_id=f"{10**20 + n:032x}",
            span_id=f"{n + 1:016x}",
            name="chat m",
            kind=SpanKind.LLM,
            operation="chat",
            model_request="m",
            service_name="svc",
            start_ns=began + int(n * apart_s * SECOND),
            end_ns=began + int((n * apart_s + 2) * SECOND),
            received_ns=live.now_ns,
            **fields,
        )
        for n in range(count)
    ]


@pytest.mark.parametrize("seen_before", [True, False])
@pytest.mark.parametrize("finish", ["stop", "tool_calls"])
@pytest.mark.parametrize("apart_s", [0.000_001, 0.1, 5.0])
def test_each_of_many_traces_beside_each_other_is_assembled_once(
    monkeypatch: pytest.MonkeyPatch, *, apart_s: float, finish: str, seen_before: bool
) -> None:
    groups = watch_groups(monkeypatch)
    live = Live()
    live.assembler._complete_since_ns = 0 if seen_before else 2**63  # as a fresh or an old process
    spans = bare_calls(live, 300, apart_s=apart_s, finish_reasons=(finish,))
    live.receive(random.Random(1).sample(spans, len(spans)))
    live.pass_time(61)
    assert sum(len(group) for group in groups) == 300
    assert max(len(group) for group in groups) <= 64
    assert {run.state for run in live.runs(spans)} == {"closed"}


def test_in_a_crowd_the_calls_of_one_run_are_still_put_together(monkeypatch: pytest.MonkeyPatch) -> None:
    groups = watch_groups(monkeypatch)
    live = Live()
    spans, logs = capture("openai-v2__event__stock_analyst").read()
    (alone,) = assemble(spans, logs)
    began = min(span.start_ns for span in spans)
    said = '[{"role":"user","parts":[{"type":"text","content":"another question"}]}]'
    noise = [
        replace(
            call,
            project=spans[0].project,
            service_name=spans[0].service_name,
            service_instance_id=spans[0].service_instance_id,
            start_ns=began + n * SECOND // 10,
            end_ns=began + n * SECOND // 10 + SECOND,
            input_messages=said,
        )
        for n, call in enumerate(bare_calls(live, 200, apart_s=0))
    ]
    here = [*noise[100:], *received(spans, live), *noise[:100]]
    heard = [replace(record, received_ns=live.now_ns) for record in logs]
    live.store.insert_spans(here, token="t")
    live.store.insert_logs(heard, token="t")
    live.assembler.spans_stored(here, heard)
    live.pass_time(61)
    (run,) = live.store.runs_of_traces(spans[0].project, [alone.trace_id])
    assert len(run.trace_ids) > 1
    assert (run.run_id, run.trace_ids) == (alone.run_id, alone.trace_ids)
    assert sum(len(group) for group in groups) == 200 + len({span.trace_id for span in spans})


def reads_of(live: Live) -> list[int]:
    """Numbers of traces whose spans are read from the store from now on."""
    reads: list[int] = []
    read = live.store.spans

    def counted(project: str, trace_ids: Sequence[str]) -> list[Span]:
        reads.append(len(trace_ids))
        return read(project, trace_ids)

    stamps = live.store.stamps

    def uncounted(project: str, trace_ids: Sequence[str]) -> dict[str, Stamp]:
        before = len(reads)
        found = stamps(project, trace_ids)
        del reads[before:]
        return found

    live.store.spans = counted  # type: ignore[method-assign]  # counted on the way
    live.store.stamps = uncounted  # type: ignore[method-assign]  # the memory store's own reads do not count
    return reads


def test_spans_that_are_still_in_memory_are_not_read_back() -> None:
    live = Live()
    reads = reads_of(live)
    first, second = spans_of(1, live), spans_of(2, live)
    live.receive(first[:3])
    live.receive(first[3:] + second)
    live.pass_time(3)
    late = replace(second[0], span_id="e" * 16, received_ns=live.now_ns)
    live.receive([late])
    live.pass_time(61)
    assert (live.run(first).revision, live.run(second).revision) == (1, 2)
    assert reads == []


def test_a_trace_that_another_process_brought_in_part_is_read_back() -> None:
    live = Live()
    spans = spans_of(1, live)
    live.store.insert_spans(spans[:2], token="another's")
    reads = reads_of(live)
    live.receive(spans[2:])
    live.pass_time(61)
    assert live.run(spans).steps == len(spans) - 1
    assert reads == [1]


def test_a_run_written_before_a_restart_is_amended_and_not_begun_again() -> None:
    live = Live()
    spans = spans_of(1, live)
    live.receive(spans[:2] + spans[3:])
    live.pass_time(61)
    again = Live(live.store)
    again.now_ns = live.now_ns
    again.receive(received([spans[2]], again))
    again.pass_time(61)
    assert (again.run(spans).state, again.run(spans).revision) == ("amended", 2)


def resend(live: Live, change: Callable[[Live], Live]) -> tuple[Live, list[Span]]:
    """A closed run, of which every span comes again, the answer changed; in between, what `change` does."""
    spans = spans_of(1, live)
    live.receive(spans)
    live.pass_time(61)
    assert live.run(spans).revision == 1
    after = change(live)
    after.now_ns = live.now_ns
    again = [replace(span, output_value="another answer") for span in received(spans, after)]
    again[-1] = replace(again[-1], run_output="another answer")
    after.receive(again)
    after.pass_time(61)
    return after, again


def restarted(live: Live) -> Live:
    again = Live(live.store)
    again.now_ns = live.now_ns
    return again


def evicted(live: Live) -> Live:
    live.assembler._recent.add([], [], size_bytes=100 << 20)  # a block that leaves room for nothing
    return live


def beside_another(live: Live) -> Live:
    other = restarted(live)
    other.receive(spans_of(2, other))
    other.pass_time(61)
    return other


@pytest.mark.parametrize("change", [restarted, evicted, beside_another])
def test_a_trace_that_is_sent_again_whole_amends_what_memory_never_knew(change: Callable[[Live], Live]) -> None:
    live, spans = resend(Live(), change)
    assert (live.run(spans).state, live.run(spans).revision) == ("amended", 2)


@pytest.mark.parametrize("change", [restarted, evicted, beside_another])
def test_a_trace_that_is_sent_again_with_a_new_root_withdraws_the_old_run(change: Callable[[Live], Live]) -> None:
    live, spans = resend(Live(), change)
    old = live.run(spans)
    live = change(live)
    top = replace(spans[-1], span_id="f" * 16, name="invoke_agent outer", received_ns=live.now_ns)
    again = [replace(s, parent_id=top.span_id) if s is spans[-1] else s for s in received(spans, live)]
    again = [replace(s, parent_id=top.span_id) if s.parent_id is None else s for s in again]
    live.receive([*again, top])
    live.pass_time(61)
    assert live.run(spans).run_id != old.run_id
    found = live.store.run_summary("default", old.run_id)
    assert found is None or found.state == "withdrawn"


def test_a_run_sent_again_with_other_times_after_a_restart_is_its_next_revision() -> None:
    live = Live()
    spans = spans_of(1, live)
    live.receive(spans)
    live.pass_time(61)
    again = Live(live.store)
    again.now_ns = live.now_ns
    hour = 3600 * SECOND
    later = [replace(s, start_ns=s.start_ns + hour, end_ns=s.end_ns + hour) for s in received(spans, again)]
    again.receive([replace(s, output_value="another answer", run_output="another answer") for s in later])
    again.pass_time(61)
    run = again.run(spans)
    assert (run.state, run.revision) == ("amended", 2)


def test_a_withdrawn_run_that_comes_back_goes_on_with_the_next_revision() -> None:
    live = Live()
    spans = spans_of(1, live)
    root = next(span for span in spans if span.parent_id is None)
    live.receive(spans[:2] + spans[3:])
    live.pass_time(61)
    live.receive(received([spans[2]], live))
    live.pass_time(61)
    first = live.run(spans)
    assert (first.state, first.revision) == ("amended", 2)
    outer = replace(root, span_id="f" * 16, name="invoke_agent outer", agent_name="outer")
    live.receive(received([outer, replace(root, parent_id=outer.span_id)], live))
    live.pass_time(61)
    assert live.run(spans).run_id != first.run_id
    plain = replace(outer, kind=SpanKind.UNKNOWN, operation="", agent_name="", name="GET /", attributes={}, otel_kind=2)
    live.receive(received([root, plain], live))
    live.pass_time(61)
    back = live.run(spans)
    assert (back.run_id, back.state, back.revision) == (first.run_id, "closed", 3)


def test_one_of_several_shards_asks_the_store_which_runs_were_written() -> None:
    live = Live(shard=(0, 2))
    spans = next(s for s in (spans_of(n, live) for n in range(9)) if in_shard(s[0].trace_id, (0, 2)))
    live.receive(spans)
    live.pass_time(61)
    other = Live(live.store, shard=(0, 2))
    other.now_ns = live.now_ns
    other.receive([replace(spans[-1], run_output="x", received_ns=live.now_ns)])
    other.pass_time(61)
    assert live.run(spans).revision == 2
    live.now_ns = other.now_ns
    live.receive([replace(s, run_output=s.run_output and "y", received_ns=live.now_ns) for s in spans])
    live.pass_time(61)
    assert live.run(spans).revision == 3


def test_runs_of_traces_that_are_new_are_not_asked_for() -> None:
    live = Live()
    asked: list[str] = []
    read = live.store.runs_of_traces

    def counted(project: str, trace_ids: Sequence[str]) -> list[RunSummary]:
        asked.extend(trace_ids)
        return read(project, trace_ids)

    live.store.runs_of_traces = counted  # type: ignore[method-assign]  # counted on the way
    spans = spans_of(1, live)
    live.receive(spans[:3])
    live.pass_time(3)
    live.receive(received(spans[3:], live))
    live.pass_time(61)
    assert asked == []
    assert live.run(spans).state == "closed"


def test_a_huge_trace_does_not_delay_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assembler_module, "_HEAVY_SPANS", 30)
    live = Live()
    huge, small = spans_of(1, live, length=40), spans_of(2, live)
    go = threading.Event()

    def slow(spans: Iterable[Span], *rest: object, **more: object) -> tuple[Run, ...]:
        kept = list(spans)
        if len(kept) > 30:
            go.wait(30)
        return assemble(kept, *rest, **more)  # type: ignore[arg-type]  # passed through

    monkeypatch.setattr(assembler_module, "assemble", slow)
    live.receive(huge)
    live.receive(small)
    live.now_ns += 61 * SECOND
    live.assembler.start()
    try:
        until(lambda: live.runs(small))
        assert live.runs(huge) == []
    finally:
        go.set()
    until(lambda: live.runs(huge))
    live.assembler.stop(5)


def test_a_trace_known_to_be_huge_only_by_the_store_goes_to_the_heavy_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assembler_module, "_HEAVY_SPANS", 30)
    live = Live()
    huge, small = spans_of(1, live, length=40), spans_of(2, live)
    live.store.insert_spans(huge[1:], token="before")
    live.receive([huge[0], *small])
    live.pass_time(61)
    assert live.run(huge).steps == 39
    assert live.run(small).state == "closed"


def test_many_runs_of_one_trace_are_written_in_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assembler_module, "_WRITE_RUNS", 2)
    live = Live()
    spans = [span for seed in range(5) for span in spans_of(seed, live)]
    written: list[int] = []
    write = live.store.write_runs

    def counted(runs: Sequence[Run], *, token: str) -> None:
        written.append(len(runs))
        write(runs, token=token)

    live.store.write_runs = counted  # type: ignore[method-assign]  # counted on the way
    live.receive(spans)
    live.pass_time(3)
    assert written == [2, 2, 1]
    assert len(live.runs(spans)) == 5


def test_the_loop_runs_by_itself(tmp_path: Path) -> None:
    del tmp_path
    live = Live()
    spans = spans_of(1, live)
    live.assembler.start()
    live.receive(spans)
    live.now_ns += 3 * SECOND
    until(lambda: live.runs(spans))
    live.assembler.stop(5)
    assert live.metrics.registry.get_sample_value("evalspan_runs_written_total", {"state": "closed"}) == 1
