"""OTLP over gRPC, through real sockets: the right code for every kind of request, and durability before OK."""

import resource
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import grpc
import pytest
from apparatus.load import TRACES, GrpcClient
from apparatus.receiving import Intake, make_intake
from apparatus.workload import Workload
from google.rpc import error_details_pb2, status_pb2  # type: ignore[import-untyped]  # ships no stubs
from grpc_health.v1 import health_pb2, health_pb2_grpc
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from prometheus_client import generate_latest

from evalspan.errors import ConfigError
from evalspan_collector.receiver.grpc_server import GrpcServer
from evalspan_collector.receiver.keys import KeyFile
from evalspan_collector.spool import Signal

LOGS = TRACES.replace("trace.v1.TraceService", "logs.v1.LogsService")
METRICS = TRACES.replace("trace.v1.TraceService", "metrics.v1.MetricsService")


class Served:
    """A server and a channel to it."""

    def __init__(self, intake: Intake) -> None:
        self.intake = intake
        self.server = GrpcServer(intake.acceptance, host="127.0.0.1", port=0, threads=4)
        self.server.start()
        self.channel = grpc.insecure_channel(
            f"127.0.0.1:{self.server.port}", options=[("grpc.max_send_message_length", -1)]
        )

    def send(
        self, body: bytes, method: str = TRACES, metadata: tuple[tuple[str, str], ...] = ()
    ) -> ExportTraceServiceResponse:
        client = GrpcClient(f"127.0.0.1:{self.server.port}", metadata=metadata, method=method)
        try:
            return ExportTraceServiceResponse.FromString(client.call(body))
        finally:
            client.close()

    def refused(self, body: bytes, metadata: tuple[tuple[str, str], ...] = (), method: str = TRACES) -> grpc.RpcError:
        with pytest.raises(grpc.RpcError) as caught:
            self.send(body, method, metadata)
        return caught.value

    def close(self) -> None:
        self.channel.close()
        self.server.stop(1)
        self.intake.spool.close()


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    made = Served(make_intake(tmp_path))
    yield made
    made.close()


def request_of(*spans: Span) -> bytes:
    request = ExportTraceServiceRequest()
    request.resource_spans.add().scope_spans.add().spans.extend(spans)
    return request.SerializeToString()


def span(trace_id: bytes = b"t" * 16, span_id: bytes = b"s" * 8) -> Span:
    return Span(trace_id=trace_id, span_id=span_id, name="x")


def test_an_accepted_request_is_durable_before_the_answer(served: Served) -> None:
    sent = Workload(1).one()
    answer = served.send(sent.body)
    assert not answer.HasField("partial_success")
    (record,) = served.intake.records()
    assert (record.payload, record.project, record.signal) == (sent.body, "default", Signal.TRACES)
    assert served.intake.count("otelcol_receiver_accepted_spans_total", transport="grpc") == len(sent.spans)


def test_an_empty_request_is_a_success_and_keeps_nothing(served: Served) -> None:
    assert not served.send(b"").HasField("partial_success")
    assert served.intake.records() == []


@pytest.mark.parametrize("body", [b"\xff\xff\xff", b"hello", b"\x0a\x05abc", b"\x0a\xff\xff\xff\xff\x0f"])
def test_bytes_that_are_no_request_are_invalid_argument(served: Served, body: bytes) -> None:
    error = served.refused(body)
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "ExportTraceServiceRequest" in (error.details() or "")
    assert served.intake.records() == []
    assert served.intake.count("evalspan_receiver_refused_requests_total", transport="grpc", reason="malformed") == 1
    served.send(Workload(1).one().body)


def test_spans_with_bad_ids_are_rejected_and_their_neighbours_kept(served: Served) -> None:
    body = request_of(
        span(), span(trace_id=b"\0" * 16), span(span_id=b"\0" * 8), span(trace_id=b"short"), span(span_id=b"")
    )
    answer = served.send(body)
    assert answer.partial_success.rejected_spans == 4
    assert "1 x trace id is all zeros" in answer.partial_success.error_message
    assert len(served.intake.records()) == 1


def test_a_request_of_bad_spans_only_is_answered_and_not_kept(served: Served) -> None:
    assert served.send(request_of(span(span_id=b"\0" * 8))).partial_success.rejected_spans == 1
    assert served.intake.records() == []


def test_logs_are_kept_and_metrics_are_dropped_with_a_count(served: Served) -> None:
    served.send(b"", METRICS)
    served.send(b"", LOGS)
    assert served.intake.count("evalspan_receiver_dropped_metric_requests_total", transport="grpc") == 1
    assert served.refused(b"\xff\xff", method=LOGS).code() is grpc.StatusCode.INVALID_ARGUMENT


def test_an_unknown_method_is_unimplemented(served: Served) -> None:
    assert served.refused(b"", method="/opentelemetry.Nothing/Export").code() is grpc.StatusCode.UNIMPLEMENTED


def test_a_large_request_passes_up_to_the_limit_and_not_beyond(tmp_path: Path) -> None:
    served = Served(make_intake(tmp_path, max_request_bytes=6 << 20))
    big = span()
    big.attributes.add(key="input.value").value.string_value = "x" * (5 << 20)
    served.send(request_of(big))
    big.attributes.add(key="output.value").value.string_value = "x" * (1 << 20)
    just_over, far_over = request_of(big), request_of(big, big, big)
    refusal = served.refused(just_over)
    assert refusal.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "the limit is 6291456: send smaller batches" in str(refusal.details())
    assert served.intake.count("evalspan_receiver_refused_requests_total", transport="grpc", reason="too_large") == 1
    assert served.refused(far_over).code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    served.send(Workload(1).one().body)
    served.close()


def test_a_bomb_is_refused_without_unfolding_and_harms_nothing(served: Served) -> None:
    call: Callable[..., bytes] = served.channel.unary_unary(TRACES, None, None)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]  # stub
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    bomb = b"\x0a" + bytes(100 << 20)
    with pytest.raises(grpc.RpcError) as caught:
        call(bomb, timeout=60, compression=grpc.Compression.Gzip)
    assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 350 << 10, "the sender's own copies take 200 MB in this process; the receiver's must not come on top"
    served.send(Workload(1).one().body)


def test_metadata_without_end_is_refused_and_harms_nothing(served: Served) -> None:
    body = Workload(1).one().body
    served.refused(body, metadata=(("x-long", "x" * (64 << 10)),))
    assert served.intake.records() == []
    served.send(body)


def test_a_key_is_nowhere_on_disk_nor_in_what_the_collector_tells(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    good, _ = KeyFile(tmp_path / "keys.json").create("shop")
    intake = make_intake(tmp_path)
    served = Served(intake)
    try:
        served.send(Workload(1).one().body, metadata=(("x-api-key", good),))
        told = str(served.refused(b"", metadata=(("x-api-key", f"{good}x"),)))
    finally:
        served.close()
    written = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    shown = told + generate_latest(intake.metrics.registry).decode() + caplog.text + "".join(capfd.readouterr())
    assert good.encode() not in written
    assert good not in shown


def test_a_full_spool_is_unavailable_with_retry_info_in_both_trailers(tmp_path: Path) -> None:
    served = Served(make_intake(tmp_path, spool_bytes=1000))
    error = served.refused(Workload(1).one().body)
    assert error.code() is grpc.StatusCode.UNAVAILABLE
    trailers = {item.key: bytes(item.value) for item in error.trailing_metadata() or ()}
    info = error_details_pb2.RetryInfo.FromString(trailers["google.rpc.retryinfo-bin"])
    assert info.retry_delay.seconds == 2
    status = status_pb2.Status.FromString(trailers["grpc-status-details-bin"])
    assert status.code == grpc.StatusCode.UNAVAILABLE.value[0]
    assert status.details[0].type_url.endswith("google.rpc.RetryInfo")
    served.close()


def test_a_project_over_its_rate_is_told_when_to_come_back(tmp_path: Path) -> None:
    served = Served(make_intake(tmp_path, rate_requests_per_s=3, clock=lambda: 50.0))
    body = Workload(1).one().body
    for _ in range(3):
        served.send(body)
    error = served.refused(body)
    assert error.code() is grpc.StatusCode.UNAVAILABLE
    assert "more than 3 requests per second" in (error.details() or "")
    served.close()


def test_keys_decide_who_may_send_and_where_it_goes(tmp_path: Path) -> None:
    intake = make_intake(tmp_path / "other")
    intake.spool.close()
    made = make_intake(tmp_path).keys
    shop, _ = made.create("shop")
    bank, bank_entry = made.create("bank")
    made.revoke(bank_entry.key_id)
    # A ring made after the keys knows them at once.
    (tmp_path / "again").mkdir()
    (tmp_path / "again" / "keys.json").write_bytes((tmp_path / "keys.json").read_bytes())
    served = Served(make_intake(tmp_path / "again"))
    body = Workload(1).one().body
    for metadata in ((), (("authorization", "Bearer wrong"),), (("x-api-key", bank),), (("authorization", shop),)):
        error = served.refused(body, metadata)
        assert error.code() is grpc.StatusCode.UNAUTHENTICATED
        assert shop not in str(error)
    served.send(body, metadata=(("authorization", f"Bearer {shop}"),))
    served.send(body, metadata=(("x-api-key", shop),))
    assert [record.project for record in served.intake.records()] == ["shop", "shop"]
    assert served.intake.count("evalspan_receiver_refused_requests_total", transport="grpc", reason="bad_key") == 4
    served.close()


def test_a_busy_port_names_the_port_and_the_flag(served: Served) -> None:
    with pytest.raises(ConfigError, match=rf"port {served.server.port} on 127\.0\.0\.1 is taken.*--grpc-port"):
        GrpcServer(served.intake.acceptance, host="127.0.0.1", port=served.server.port, threads=1)


def test_random_bytes_on_the_port_harm_nothing(served: Served) -> None:
    for junk in (b"GET / HTTP/1.1\r\n\r\n", b"\x00" * 5000, bytes(range(256)) * 40):
        with socket.create_connection(("127.0.0.1", served.server.port)) as connection:
            connection.sendall(junk)
    served.send(Workload(1).one().body)


def test_health_is_served_and_ends_with_the_stop(served: Served) -> None:
    stub = health_pb2_grpc.HealthStub(served.channel)
    answer = stub.Check(health_pb2.HealthCheckRequest(service=""), timeout=30)
    assert answer.status == health_pb2.HealthCheckResponse.SERVING
    served.server.stop(1)
    with pytest.raises(grpc.RpcError):
        served.send(Workload(1).one().body)


def test_a_stopping_receiver_answers_unavailable(served: Served) -> None:
    served.intake.acceptance.stop()
    assert served.refused(Workload(1).one().body).code() is grpc.StatusCode.UNAVAILABLE
