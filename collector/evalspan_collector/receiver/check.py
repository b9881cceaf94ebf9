"""Check: can a request be read, and which of its spans will be refused; asked while the sender waits, so cheap."""

from typing import Any, NamedTuple

from evalspan_collector.decode import Refusals, bad_ids, read_parts
from evalspan_collector.decode_json import read_json_log_scopes, read_json_span_scopes
from evalspan_collector.otlp_schema import LogsData, TracesData

__all__ = ["Check", "check_logs", "check_traces"]

_NO_TRACE = bytes(16)
_NO_SPAN = bytes(8)


class Check(NamedTuple):
    """What a request will bring.

    Attributes:
        accepted: Spans or records that will be kept.
        rejected: Those that cannot be.
        message: Why, in one line; empty when nothing is refused.
    """

    accepted: int
    rejected: int
    message: str


def check_traces(body: bytes, *, json: bool) -> Check:
    """Look at the ids of every span, at nothing else.

    Raises:
        DecodeError: The bytes are no ExportTraceServiceRequest.
    """
    refusals = Refusals()
    if json:
        total = sum(1 for _, _, spans in read_json_span_scopes(body, refusals) for _ in spans)
        return _result(total, refusals)
    parts = read_parts(TracesData, body, "ExportTraceServiceRequest")
    return _result(sum(_usable(request, refusals) for request in parts), refusals)


def _usable(request: Any, refusals: Refusals) -> int:
    """Spans whose ids are some."""
    total = 0
    for resource in request.resource_spans:
        for scope in resource.scope_spans:
            for span in scope.spans:
                trace_id, span_id = span.trace_id, span.span_id
                if len(trace_id) != 16 or len(span_id) != 8 or trace_id == _NO_TRACE or span_id == _NO_SPAN:
                    refusals[bad_ids(trace_id, span_id) or "bad id"] += 1
                else:
                    total += 1
    return total


def check_logs(body: bytes, *, json: bool) -> Check:
    """Count log records; those without a span are taken and belong nowhere.

    Raises:
        DecodeError: The bytes are no ExportLogsServiceRequest.
    """
    refusals = Refusals()
    if json:
        return _result(sum(1 for _, _, records in read_json_log_scopes(body, refusals) for _ in records), refusals)
    parts = read_parts(LogsData, body, "ExportLogsServiceRequest")
    total = sum(len(s.log_records) for request in parts for r in request.resource_logs for s in r.scope_logs)
    return _result(total, refusals)


def _result(accepted: int, refusals: Refusals) -> Check:
    message = "; ".join(f"{count} x {reason}" for reason, count in sorted(refusals.items()))
    return Check(accepted, refusals.total(), message)
