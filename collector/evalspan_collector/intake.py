"""Intake: the bytes of one OTLP request to spans and log records, with what was refused and why."""

from dataclasses import dataclass, field
from itertools import islice

from evalspan_collector.decode import Refusals, read_log_scopes, read_span_scopes
from evalspan_collector.decode_json import read_json_log_scopes, read_json_span_scopes
from evalspan_collector.derived import with_derived
from evalspan_collector.events import KERNEL_USAGE
from evalspan_collector.lenient_json import as_text, dump
from evalspan_collector.normalise import normalise, origin
from evalspan_collector.raw import RawEvent
from evalspan_collector.span import LogRecord, Span

__all__ = ["Intake", "read_logs", "read_traces"]

_BATCH = 100


@dataclass(frozen=True, slots=True)
class Intake:
    """What one request brought.

    Attributes:
        spans: Spans that can be used.
        logs: Log records that name a span.
        rejected: Spans or records refused.
        reasons: Reason to count.
        message: The reasons in one line, for OTLP's partial success; empty when nothing was refused.
    """

    spans: tuple[Span, ...] = ()
    logs: tuple[LogRecord, ...] = ()
    rejected: int = 0
    reasons: dict[str, int] = field(default_factory=dict[str, int])
    message: str = ""


def _message(refusals: Refusals) -> str:
    return "; ".join(f"{count} x {reason}" for reason, count in sorted(refusals.items()))


def read_traces(body: bytes, *, project: str, received_ns: int, json: bool = False, explain: bool = False) -> Intake:
    """Spans of an ExportTraceServiceRequest.

    Args:
        body: The request, uncompressed.
        project: Project of the request's key.
        received_ns: When it arrived, nanoseconds since the epoch.
        json: The body is OTLP JSON, not protobuf.
        explain: Fill `Span.sources`.

    Raises:
        DecodeError: The bytes are no such request.
    """
    refusals = Refusals()
    spans: list[Span] = []
    scopes = read_json_span_scopes(body, refusals) if json else read_span_scopes(body, refusals)
    for resource, scope, raws in scopes:
        shared = origin(resource, scope, project=project, received_ns=received_ns)
        name = str(scope.get("name") or "")
        # Some at a time: each of the two steps is faster in a row, and all at once would hold the request twice.
        while batch := list(islice(raws, _BATCH)):
            read = [normalise(raw, shared, explain=explain) for raw in batch]
            spans.extend(with_derived(read, name))
    return Intake(tuple(spans), (), refusals.total(), dict(refusals), _message(refusals))


def read_logs(body: bytes, *, project: str, received_ns: int, json: bool = False) -> Intake:
    """Log records of an ExportLogsServiceRequest that belong to a span; others are left out without complaint.

    Raises:
        DecodeError: The bytes are no such request.
    """
    refusals = Refusals()
    logs: list[LogRecord] = []
    sequence = 0
    scopes = read_json_log_scopes(body, refusals) if json else read_log_scopes(body, refusals)
    for resource, scope, records in scopes:
        for trace_id, span_id, event in records:
            sequence += 1
            name = event.name or _name_of(event)
            if len(trace_id) != 32 or len(span_id) != 16 or not name:
                continue
            logs.append(
                LogRecord(
                    project=project,
                    trace_id=trace_id,
                    span_id=span_id,
                    event_name=name,
                    time_ns=event.time_ns,
                    received_ns=received_ns,
                    body=None if event.body is None else dump(event.body),
                    attributes={k: as_text(v) for k, v in event.attributes.items()},
                    scope_name=str(scope.get("name") or ""),
                    service_name=as_text(resource.get("service.name") or ""),
                    service_instance_id=as_text(resource.get("service.instance.id") or ""),
                    sequence=sequence,
                )
            )
    return Intake((), tuple(logs), refusals.total(), dict(refusals), _message(refusals))


def _name_of(event: RawEvent) -> str:
    """A name for records without one whose body is worth reading."""
    return KERNEL_USAGE if isinstance(event.body, str) and event.body.startswith("OpenAI usage: ") else ""
