"""Span rows: spans and log records as columns of the store, and back without loss."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, fields, replace
from operator import attrgetter
from typing import Any, Final, TypeGuard, cast

import orjson

from evalspan_collector.span import LogRecord, Span, SpanEvent, SpanKind, SpanLink, Usage

__all__ = [
    "FAILED",
    "LOG_COLUMNS",
    "OPTIONAL",
    "SPAN_COLUMNS",
    "Columns",
    "clean_log",
    "clean_span",
    "log_columns",
    "logs_from",
    "rare_texts",
    "spans_from",
]

#: One list of values per column, in the order of the column names.
Columns = list[Sequence[Any]]

_INT64: Final = 2**63 - 1
#: Text that is never None.
_PLAIN: Final = (
    "project", "trace_id", "span_id", "name", "start_ns", "end_ns", "received_ns", "otel_kind", "span_flags", "status",
    "status_message", "scope_name", "scope_version", "service_name", "service_version", "service_instance_id",
    "dialect", "kind", "operation", "content", "flags", "attributes", "cost_carried",
)  # fmt: skip
#: Text that may be None: None is stored as an empty text, a truly empty one is named in `extra`.
OPTIONAL: Final = (
    "parent_id", "environment", "agent_name", "tool_name", "tool_type", "tool_call_id", "tool_arguments", "tool_result",
    "error_type", "error_message", "model_request", "model_response", "provider", "response_id", "input_messages",
    "output_messages", "system_prompt", "tool_definitions", "input_value", "output_value", "session_id", "user_id",
)  # fmt: skip
_COMPUTED: Final = ("failed", "input_tokens", "output_tokens", "extra")
#: Columns of the spans table.
SPAN_COLUMNS: Final = _PLAIN + OPTIONAL + _COMPUTED

#: Rarer fields travel as one JSON object.
_RARE: Final = (
    "agent_id", "agent_version", "agent_description", "parent_agent", "handoff_to", "tool_description",
    "request_params", "service_tier", "finish_reasons", "time_to_first_token_s", "run_input", "run_output",
    "retrieval_query", "documents", "tags", "metadata", "evaluations", "events", "links", "sources",
)  # fmt: skip
_RARE_USAGE: Final = ("cache_read_tokens", "cache_write_tokens", "reasoning_tokens")
_BLANK: Final = ""
#: What a span says about its failure, as a number.
FAILED: Final = {True: 1, False: 0, None: -1}
_FAILED_BACK: Final = {1: True, 0: False}


def _default(name: str) -> Any:
    found = next(f for f in fields(Span) if f.name == name)
    return found.default_factory() if found.default_factory is not MISSING else found.default


#: Name of a rarer field, how to get it from a span, its default.
_RARE_GETTERS: Final = (
    *((name, attrgetter(name), _default(name)) for name in _RARE),
    *((name, attrgetter(f"usage.{name}"), None) for name in _RARE_USAGE),
)
#: Rarer fields that are no JSON as they are.
_RARE_PLAIN: Final[Mapping[str, Callable[[Any], Any]]] = {
    "events": lambda events: [[e.name, e.time_ns, e.attributes] for e in events],
    "links": lambda links: [[k.trace_id, k.span_id, k.attributes] for k in links],
}


def _dumps(value: Any) -> str:
    try:
        return orjson.dumps(value).decode()
    except (TypeError, orjson.JSONEncodeError):
        return json.dumps(value)  # integers above 64 bits, lone surrogates


def _loads(text: str) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return json.loads(text)


def rare_texts(spans: Sequence[Span], blanks: Mapping[int, list[str]]) -> list[str]:
    """The column `extra`: each span's rarer fields as a JSON object, empty where there are none.

    Args:
        spans: The spans of the column.
        blanks: Position to the optional columns that hold an empty text rather than nothing.
    """
    rare: dict[int, dict[str, Any]] = {position: {_BLANK: names} for position, names in blanks.items()}
    for name, get, default in _RARE_GETTERS:
        column = list(map(get, spans))
        if column.count(default) == len(column):
            continue
        plain = _RARE_PLAIN.get(name)
        for position, value in enumerate(column):
            if value != default:
                rare.setdefault(position, {})[name] = plain(value) if plain is not None else value
    if not rare:
        return [_BLANK] * len(spans)
    return [_dumps(rare[position]) if position in rare else _BLANK for position in range(len(spans))]


def spans_from(names: Sequence[str], columns: Sequence[Sequence[Any]]) -> list[Span]:
    """Spans from columns of the spans table; the names may come in any order."""
    if not names:  # chDB in this process names no columns of an empty answer
        return []
    by_name: dict[str, Sequence[Any]] = dict(zip(names, columns, strict=True))
    for name in OPTIONAL:
        by_name[name] = [value or None for value in by_name[name]]
    by_name["kind"] = [_KINDS[value] for value in by_name["kind"]]
    by_name["failed"] = [_FAILED_BACK.get(value) for value in by_name["failed"]]
    by_name["flags"] = [tuple(value) for value in by_name["flags"]]
    keys: tuple[str, ...] = (*_PLAIN, *OPTIONAL, "failed")
    inputs, outputs, extras = by_name["input_tokens"], by_name["output_tokens"], by_name["extra"]
    spans: list[Span] = []
    for position, row in enumerate(zip(*(by_name[key] for key in keys), strict=True)):
        values: dict[str, Any] = dict(zip(keys, row, strict=True))
        usage: dict[str, int | None] = {}
        if extras[position]:
            _spread(_loads(extras[position]), values, usage)
        values["usage"] = Usage(input_tokens=inputs[position], output_tokens=outputs[position], **usage)
        spans.append(Span(**values))
    return spans


class _Kinds(dict[str, SpanKind]):
    """Span kinds by their text; one a newer version wrote reads as unknown."""

    def __missing__(self, key: str) -> SpanKind:
        return SpanKind.UNKNOWN


_KINDS: Final = _Kinds({kind.value: kind for kind in SpanKind})


def _spread(extra: dict[str, Any], values: dict[str, Any], usage: dict[str, int | None]) -> None:
    for name in extra.pop(_BLANK, ()):
        values[name] = _BLANK
    for name in _RARE_USAGE:
        if name in extra:
            usage[name] = extra.pop(name)
    for name in ("finish_reasons", "tags"):
        if name in extra:
            extra[name] = tuple(extra[name])
    if "events" in extra:
        extra["events"] = tuple(SpanEvent(*event) for event in extra["events"])
    if "links" in extra:
        extra["links"] = tuple(SpanLink(*link) for link in extra["links"])
    values.update(extra)


#: Columns of the logs table in the order of `log_columns`.
LOG_COLUMNS: Final = (
    "project", "trace_id", "span_id", "time_ns", "sequence", "received_ns", "event_name", "body", "attributes",
    "scope_name", "service_name", "service_instance_id",
)  # fmt: skip
_LOG: Final = attrgetter(*LOG_COLUMNS)


def log_columns(logs: Sequence[LogRecord]) -> Columns:
    """Columns of the logs table, in the order of `LOG_COLUMNS`; `logs` must not be empty."""
    return list(zip(*map(_LOG, logs), strict=True))


def logs_from(names: Sequence[str], columns: Sequence[Sequence[Any]]) -> list[LogRecord]:
    """Log records from columns of the logs table."""
    return [LogRecord(**dict(zip(names, row, strict=True))) for row in zip(*columns, strict=True)]


def _text(value: str) -> str:
    return value.encode("utf-8", "replace").decode("utf-8")


def _is_pairs(value: Any) -> TypeGuard[dict[str, str]]:
    return isinstance(value, dict)


def _is_texts(value: Any) -> TypeGuard[tuple[str, ...]]:
    return isinstance(value, tuple)


def _clean(value: Any) -> Any:
    if isinstance(value, SpanKind):
        return value
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return min(max(value, -_INT64), _INT64)
    if _is_pairs(value):
        return {_text(k): _text(v) for k, v in value.items()}
    if _is_texts(value):
        return tuple(_text(item) for item in value)
    return value


_LIMITS: Final[Mapping[str, tuple[int, int]]] = {
    "start_ns": (0, 2**64 - 1), "end_ns": (0, 2**64 - 1), "time_ns": (0, 2**64 - 1), "received_ns": (0, _INT64),
    "otel_kind": (0, 255), "span_flags": (0, 2**32 - 1),
}  # fmt: skip


def _cleaned(item: Any, names: Iterable[str], special: Mapping[str, Callable[[Any], Any]]) -> dict[str, Any]:
    changes: dict[str, Any] = {}
    for name in names:
        value = getattr(item, name)
        if name in _LIMITS:
            low, high = _LIMITS[name]
            changes[name] = min(max(value, low), high)
        else:
            changes[name] = special[name](value) if name in special else _clean(value)
    return changes


def clean_span(span: Span) -> Span:
    """The span with what no column can hold replaced: lone surrogates, numbers out of range."""
    special: dict[str, Callable[[Any], Any]] = {
        "usage": lambda usage: Usage(**_cleaned(usage, (f.name for f in fields(Usage)), {})),
        "events": lambda events: tuple(
            SpanEvent(_text(e.name), e.time_ns, cast("dict[str, str]", _clean(e.attributes))) for e in events
        ),
        "links": lambda links: tuple(
            SpanLink(_text(k.trace_id), _text(k.span_id), cast("dict[str, str]", _clean(k.attributes))) for k in links
        ),
    }
    return replace(span, **_cleaned(span, (f.name for f in fields(Span)), special))


def clean_log(log: LogRecord) -> LogRecord:
    """The log record, likewise."""
    return replace(log, **_cleaned(log, (f.name for f in fields(LogRecord)), {}))
