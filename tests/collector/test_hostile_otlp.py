"""Hostile OTLP through the gRPC port into a store: the process lives, the code is right, good neighbours are stored."""

import random
import time
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from apparatus.load import GrpcClient
from apparatus.stores import FaultyStore
from apparatus.waiting import until
from apparatus.workload import Workload, attributes
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from evalspan.errors import DecodeError
from evalspan_collector.collector import Collector
from evalspan_collector.intake import read_traces
from evalspan_collector.receiver.check import check_traces
from evalspan_collector.settings import load_settings

TRACE = bytes(range(16))
NOW = 1_700_000_000_000_000_000


class Whole:
    """A collector over a memory store in this process, and a client."""

    def __init__(self, folder: Path) -> None:
        self.store = FaultyStore()
        settings = load_settings({
            "data": folder / "data",
            "grpc_port": 0,
            "http_port": 0,
            "metrics_port": 0,
            "durability": "process",
            "block_wait_s": 0.02,
            "grace_complete_s": 0.1,
            "grace_s": 0.2,
            "idle_s": 0.3,
        })  # fmt: skip
        self.collector = Collector(settings, self.store)
        self.collector.start()
        self.client = GrpcClient(f"127.0.0.1:{self.collector.grpc_port}", timeout_s=60)

    def send(self, *spans: Span) -> ExportTraceServiceResponse:
        request = ExportTraceServiceRequest()
        request.resource_spans.add().scope_spans.add().spans.extend(spans)
        return ExportTraceServiceResponse.FromString(self.client.call(request.SerializeToString()))

    def code(self, body: bytes) -> grpc.StatusCode:
        try:
            self.client.call(body)
        except grpc.RpcError as error:
            return error.code()
        return grpc.StatusCode.OK

    def wait_drained(self) -> None:
        until(lambda: self.collector.backlog_bytes == 0, within_s=60)

    def count(self, name: str, **labels: str) -> float:
        return self.collector.metrics.registry.get_sample_value(name, labels) or 0.0

    def ids(self, trace_id: bytes = TRACE) -> set[str]:
        return {span.span_id for span in self.store.spans("default", [trace_id.hex()])}


@pytest.fixture
def whole(tmp_path: Path) -> Iterator[Whole]:
    made = Whole(tmp_path)
    yield made
    made.client.close()
    made.collector.stop()


def span(number: int = 1, trace_id: bytes = TRACE, parent: int = 0, **fields: int) -> Span:
    made = Span(
        trace_id=trace_id,
        span_id=number.to_bytes(8, "big"),
        parent_span_id=parent.to_bytes(8, "big") if parent else b"",
        name=f"span {number}",
        start_time_unix_nano=fields.get("start", NOW),
        end_time_unix_nano=fields.get("end", NOW + 1000),
    )
    made.attributes.extend(attributes({"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "a"}))
    return made


def varint(number: int) -> bytes:
    made = bytearray()
    while number > 127:
        made.append(number & 127 | 128)
        number >>= 7
    return bytes([*made, number])


def nested(depth: int) -> AnyValue:
    value = AnyValue(string_value="core")
    for _ in range(depth):
        outer = AnyValue()
        outer.array_value.values.append(value)
        value = outer
    return value


def test_garbage_and_truncation_are_invalid_argument(whole: Whole) -> None:
    body = Workload(1).one().body
    for broken in (b"\xff" * 40, body[:-3], body[: len(body) // 2], b"\x0a" + body):
        assert whole.code(broken) is grpc.StatusCode.INVALID_ARGUMENT
    assert whole.code(body) is grpc.StatusCode.OK


def test_a_value_nested_too_deep_costs_itself_and_not_its_span(whole: Whole) -> None:
    shallow = span(1)
    shallow.attributes.add(key="deep").value.CopyFrom(nested(10))
    whole.send(shallow)
    # No protobuf library here can write more than it would read: the bytes are made by hand.
    value = AnyValue(string_value="core").SerializeToString()
    for _ in range(400):
        value = b"\x0a" + varint(len(value)) + value  # ArrayValue.values
        value = b"\x2a" + varint(len(value)) + value  # AnyValue.array_value
    pair = b"\x0a\x04deep\x12" + varint(len(value)) + value
    body = span(2).SerializeToString() + b"\x4a" + varint(len(pair)) + pair
    for level in range(3):  # ScopeSpans.spans = 2, ResourceSpans.scope_spans = 2, request.resource_spans = 1
        body = (b"\x12" if level < 2 else b"\x0a") + varint(len(body)) + body
    assert whole.code(body) is grpc.StatusCode.OK
    whole.wait_drained()
    found = {s.span_id: s for s in whole.store.spans("default", [TRACE.hex()])}
    assert found[f"{1:016x}"].flags == ()
    assert found[f"{2:016x}"].flags == ("truncated",)


def test_bad_ids_cost_only_their_own_span(whole: Whole) -> None:
    answer = whole.send(span(1), span(2, trace_id=bytes(16)), span(3, trace_id=b"short"), span(4))
    assert answer.partial_success.rejected_spans == 2
    whole.wait_drained()
    assert whole.ids() == {f"{1:016x}", f"{4:016x}"}


def test_a_span_that_comes_again_with_other_content_is_kept_once_the_last_wins_and_is_counted(whole: Whole) -> None:
    first, second = span(1), span(1)
    second.name = "renamed"
    whole.send(first, first)
    whole.wait_drained()
    whole.send(first)
    whole.wait_drained()
    assert whole.count("evalspan_resent_spans_total", content="same") == 2
    assert whole.count("evalspan_resent_spans_total", content="other") == 0
    whole.send(second)
    whole.wait_drained()
    (stored,) = whole.store.spans("default", [TRACE.hex()])
    assert stored.name == "renamed"
    until(lambda: whole.count("evalspan_resent_spans_total", content="other") == 1)


def test_many_attributes_and_long_values_are_stored(whole: Whole) -> None:
    wide, long = span(1), span(2)
    wide.attributes.extend(attributes({f"key.{n}": n for n in range(10_000)}))
    long.attributes.extend(attributes({"input.value": "x" * 1_000_000, "other": "line" * 250_000}))
    huge = [span(n) for n in range(3, 8)]
    for one in huge:
        one.attributes.extend(attributes({"output.value": "y" * 900_000}))
    whole.send(wide)
    whole.send(long)
    whole.send(*huge)
    whole.wait_drained()
    assert len(whole.ids()) == 7


@pytest.mark.parametrize(
    ("start", "end"),
    [(0, 0), (NOW, NOW - 10**12), (2**63 + 5, 2**63 + 9), (2**64 - 1, 2**64 - 1), (1, 2**64 - 1), (NOW + 10**16, NOW)],
)
def test_absurd_times_are_stored_and_assembled(whole: Whole, start: int, end: int) -> None:
    whole.send(span(1, start=start, end=end), span(2, parent=1))
    whole.wait_drained()
    assert len(whole.ids()) == 2
    until(lambda: whole.store.runs_of_traces("default", [TRACE.hex()]), within_s=30)


def test_cycles_orphans_two_roots_and_self_parents_become_runs_or_nothing_but_never_a_crash(whole: Whole) -> None:
    shapes: dict[str, list[Span]] = {
        "self": [span(1, parent=1)],
        "pair": [span(1, parent=2), span(2, parent=1)],
        "ring": [span(n + 1, parent=(n + 1) % 1000 + 1) for n in range(1000)],
        "orphan": [span(1, parent=99)],
        "two roots": [span(1), span(2)],
        "good": [span(1), span(2, parent=1)],
    }
    for number, spans in enumerate(shapes.values()):
        trace_id = bytes([number + 1]) * 16
        for one in spans:
            one.trace_id = trace_id
        whole.send(*spans)
    whole.wait_drained()
    good = (bytes([len(shapes)]) * 16).hex()
    until(lambda: whole.store.runs_of_traces("default", [good]), within_s=60)
    assert whole.count("evalspan_assembly_errors_total") == 0


@pytest.mark.parametrize("text", ["\x00nul", "\u202eright to left", "\x1b[31mansi", "a\r\nb\tc", "𝕏" * 1000, ""])
def test_odd_text_is_stored_as_it_came(whole: Whole, text: str) -> None:
    odd = span(1)
    odd.name = text
    odd.attributes.extend(attributes({"input.value": text, text or "empty": text}))
    whole.send(odd)
    whole.wait_drained()
    (stored,) = whole.store.spans("default", [TRACE.hex()])
    assert stored.name == text


def test_text_that_is_no_utf_8_harms_no_neighbour(whole: Whole) -> None:
    request = ExportTraceServiceRequest()
    request.resource_spans.add().scope_spans.add().spans.extend([span(1), span(2)])
    body = request.SerializeToString().replace(b"span 1", b"sp\xff\xfe 1")
    assert whole.code(body) in (grpc.StatusCode.OK, grpc.StatusCode.INVALID_ARGUMENT)
    whole.send(span(3))
    whole.wait_drained()
    assert f"{3:016x}" in whole.ids()


def test_a_chain_as_deep_as_it_is_long_is_assembled(whole: Whole) -> None:
    whole.send(*[span(n + 1, parent=n) for n in range(5_000)])
    whole.wait_drained()
    assert len(whole.ids()) == 5_000
    until(lambda: whole.store.runs_of_traces("default", [TRACE.hex()]), within_s=90)
    assert whole.count("evalspan_assembly_errors_total") == 0


def mutations(seed: int, count: int) -> Iterator[bytes]:
    """Requests with bytes flipped, cut, doubled, swapped or filled in."""
    rng = random.Random(seed)
    sound = [Workload(seed + n, content=0.02).one(3).body for n in range(8)]
    for _ in range(count):
        body = bytearray(rng.choice(sound))
        for _ in range(rng.choice((1, 1, 2, 4, 16))):
            at = rng.randrange(len(body))
            match rng.randrange(6):
                case 0:
                    body[at] ^= 1 << rng.randrange(8)
                case 1:
                    body[at] = rng.choice((0, 0x7F, 0x80, 0xFF))
                case 2:
                    del body[at : at + rng.randint(1, 40)]
                case 3:
                    body[at:at] = body[at : at + rng.randint(1, 200)]
                case 4:
                    body[at:at] = rng.randbytes(rng.randint(1, 12))
                case _:
                    body[at : at + 10] = b"\xff" * 9 + b"\x01"
            if not body:
                break
        yield bytes(body)


@pytest.mark.parametrize("count", [1_500, pytest.param(20_000, marks=[pytest.mark.soak, pytest.mark.timeout(7200)])])
def test_mutated_requests_are_taken_or_refused_quickly_and_never_stop_the_others(whole: Whole, count: int) -> None:
    seed = 20261130
    codes: dict[str, int] = {}
    slowest = 0.0
    for body in mutations(seed, count):
        began = time.process_time()
        name = whole.code(body).name
        slowest = max(slowest, time.process_time() - began)
        codes[name] = codes.get(name, 0) + 1
    good = Workload(99, content=0.1).one()
    assert whole.code(good.body) is grpc.StatusCode.OK
    whole.wait_drained()
    stored = whole.store.spans("default", [good.spans[0].trace_id])
    print(f"seed {seed}: {count} mutated requests {codes}, slowest {slowest * 1000:.0f} ms of CPU")
    assert {span.span_id for span in stored} == {sent.span_id for sent in good.spans}
    assert set(codes) <= {"OK", "INVALID_ARGUMENT"}
    assert slowest < 1.0
    assert whole.collector.metrics.registry.get_sample_value(
        "evalspan_quarantined_total", {"reason": "undecodable"}
    ) in (None, 0)


@pytest.mark.parametrize("count", [3_000, pytest.param(100_000, marks=[pytest.mark.soak, pytest.mark.timeout(7200)])])
def test_whatever_the_check_lets_in_can_be_read(count: int) -> None:
    seed = 20261201
    taken = refused = 0
    slowest = 0.0
    for body in mutations(seed, count):
        began = time.process_time()
        try:
            check = check_traces(body, json=False)
        except DecodeError:
            refused += 1
        else:
            found = read_traces(body, project="p", received_ns=NOW)
            assert (len(found.spans), found.rejected) == (check.accepted, check.rejected)
            taken += 1
        slowest = max(slowest, time.process_time() - began)
    print(f"seed {seed}: {taken} taken, {refused} refused, slowest {slowest * 1000:.0f} ms of CPU")
    assert taken
    assert refused
    assert slowest < 1.0
