"""Normalise: one raw span of any dialect to one Span, in one pass over its attributes."""

from collections.abc import Iterable, Iterator
from dataclasses import MISSING, make_dataclass
from dataclasses import fields as dataclass_fields
from typing import Any, cast

from evalspan_collector.conventions import (
    RESOURCE,
    Choice,
    Shape,
    scope_dialect,
    shape_of,
)
from evalspan_collector.converters import redacted
from evalspan_collector.events import KNOWN_EVENTS, event_facts
from evalspan_collector.lenient_json import as_text
from evalspan_collector.raw import Origin, RawSpan
from evalspan_collector.repairs import REPAIRS, Draft, Repair, kind_from_fields, kind_from_name
from evalspan_collector.span import Content, Span, SpanEvent, SpanKind, SpanLink, Status

__all__ = ["normalise", "origin"]

_STATUS: tuple[Status, ...] = ("unset", "ok", "error")
_UNKNOWN = SpanKind.UNKNOWN
_CONTENT_FIELDS = frozenset(
    {"input_messages", "output_messages", "system_prompt", "input_value", "output_value", "tool_arguments", "tool_result",
     "run_input", "run_output", "documents"}
)  # fmt: skip


def origin(resource: dict[str, Any], scope: dict[str, Any], *, project: str, received_ns: int) -> Origin:
    """What all spans of one scope share.

    Args:
        resource: Attributes of the resource.
        scope: `name` and `version` of the instrumentation scope.
        project: Project the request's key belongs to.
        received_ns: When the request arrived.
    """
    fields: dict[str, Any] = {}
    for field, sources in RESOURCE.items():
        for source in sources:
            value = resource.get(source.key)
            found = None if value is None else source.convert(value)
            if found is not None:
                fields[field] = found
                break
    name = str(scope.get("name") or "")
    fields["scope_name"] = name
    fields["scope_version"] = str(scope.get("version") or "")
    fields["project"] = project
    fields["received_ns"] = received_ns
    return Origin(fields, scope_dialect(name))


def normalise(raw: RawSpan, shared: Origin, *, explain: bool = False) -> Span:
    """Read a span by the convention table, then repair what its dialect is known to get wrong.

    Args:
        raw: The span as it travelled.
        shared: What its resource and scope say.
        explain: Fill `Span.sources` with the source of each field and the repairs that fired.
    """
    attributes = raw.attributes
    shape = shape_of(tuple(attributes))
    fields: dict[str, Any] = {}
    taken: set[str] = set()
    sources: dict[str, str] | None = {} if explain else None
    kind = _UNKNOWN
    for option in shape.kinds:
        found = option.convert(attributes[option.key])
        if found is not None:
            kind = found
            taken.add(option.key)
            if sources is not None:
                sources["kind"] = option.key
            break
    draft = Draft(raw, kind, shared.dialect or shape.dialect, fields)
    if kind is _UNKNOWN and kind_from_name(draft) and sources is not None:
        sources["kind"] = "span name"
    specific, generic = shape.of_kind(draft.kind)
    _fill(specific, attributes, fields, taken, sources)
    if draft.kind is _UNKNOWN and kind_from_fields(draft):
        if sources is not None:
            sources["kind"] = "fields present"
        specific, generic = shape.of_kind(draft.kind)
        _fill(specific, attributes, fields, taken, sources)
    if generic:
        _fill(_untaken(generic, taken), attributes, fields, taken, sources)
    if raw.events:
        _add_events(draft, sources)
    for repair in _repairs(shape, draft):
        if repair.apply(draft) and sources is not None:
            sources[f"repair {repair.name}"] = "fired"
    for scratch in shape.scratch:
        fields.pop(scratch, None)
    return _span(draft, shared, taken, sources or {})


def _repairs(shape: Shape, draft: Draft) -> tuple[Repair, ...]:
    """The repairs that can concern a span of this shape, dialect and kind; remembered with the shape."""
    key = (draft.dialect, draft.kind)
    found = shape.repairs.get(key)
    if found is None:
        found = shape.repairs[key] = tuple(r for r in REPAIRS if r.concerns(shape.names, draft.dialect, draft.kind))
    return found


def _fill(
    choices: Iterable[Choice], attributes: dict[str, Any], fields: dict[str, Any], taken: set[str], sources: dict[str, str] | None
) -> None:
    """Give each field the value of the first option that has one."""
    for field, options in choices:
        winner: Any = None
        for option in options:
            if option.family is None:
                value = attributes[option.key]
                if winner is not None:
                    if value == winner:
                        taken.add(option.key)  # the same fact in another vocabulary
                    continue
                converted = option.convert(value)
                if converted is None:
                    continue
                taken.add(option.key)
            elif winner is not None:
                continue
            else:
                value = {rest: attributes[key] for key, rest in option.family}
                converted = option.convert(value)
                if converted is None:
                    continue
                taken.update(value_key for value_key, _ in option.family)
            fields[field] = converted
            winner = value
            if sources is not None:
                sources[field] = option.key


def _untaken(choices: Iterable[Choice], taken: set[str]) -> Iterator[Choice]:
    """Generic fields take only attributes that no other field took."""
    for field, options in choices:
        left = tuple(o for o in options if o.key not in taken)
        if left:
            yield field, left


def _add_events(draft: Draft, sources: dict[str, str] | None) -> None:
    """Facts of span events, where no attribute gave them."""
    known = [e for e in draft.raw.events if e.name in KNOWN_EVENTS]
    if not known:
        return
    for field, value in event_facts(known, draft.kind, draft.raw.start_ns).items():
        if field not in draft.fields:
            draft.fields[field] = value
            if sources is not None:
                sources[field] = "span event"


def _content(draft: Draft) -> Content:
    """Whether the span's content travelled with it."""
    if draft.raw.dropped:
        return "truncated"
    if not _CONTENT_FIELDS.isdisjoint(draft.fields):
        return "captured"
    return "redacted" if any(map(redacted, draft.raw.attributes.values())) else "not_captured"


def _span(draft: Draft, shared: Origin, taken: set[str], sources: dict[str, str]) -> Span:
    """Put the Span together."""
    raw = draft.raw
    flags = draft.flags
    if raw.dropped:
        flags.append("truncated")
    if raw.damaged:
        flags.append("invalid_utf8")
    if raw.end_ns < raw.start_ns:
        flags.append("clock_skew")
    values = _DEFAULTS.copy()
    values.update(shared.fields)
    values.update(draft.fields)
    values["trace_id"] = raw.trace_id
    values["span_id"] = raw.span_id
    values["parent_id"] = raw.parent_id or None
    values["name"] = raw.name
    values["start_ns"] = raw.start_ns
    values["end_ns"] = raw.end_ns
    values["otel_kind"] = raw.otel_kind
    values["span_flags"] = raw.flags
    values["status"] = _STATUS[raw.status_code] if 0 <= raw.status_code <= 2 else "unset"
    values["status_message"] = raw.status_message
    values["dialect"] = draft.dialect
    values["kind"] = draft.kind
    values["content"] = _content(draft)
    values["flags"] = tuple(flags)
    values["attributes"] = {k: v if type(v) is str else as_text(v) for k, v in raw.attributes.items() if k not in taken}
    values["sources"] = sources
    if raw.events:
        values["events"] = tuple(SpanEvent(e.name, e.time_ns, _texts(e.attributes)) for e in raw.events)
    if raw.links:
        values["links"] = tuple(SpanLink(li.trace_id, li.span_id, _texts(li.attributes)) for li in raw.links)
    return _sealed(values)


def _texts(attributes: dict[str, Any]) -> dict[str, str]:
    return {k: as_text(v) for k, v in attributes.items()}


#: Every field of Span with its default, in order.
_DEFAULTS: dict[str, Any] = {f.name: None if f.default is MISSING else f.default for f in dataclass_fields(Span)}
#: The same slots as Span without the guard of a frozen class: four times cheaper to fill.
_OpenSpan: Any = make_dataclass("_OpenSpan", [(name, object) for name in _DEFAULTS], slots=True)


def _sealed(values: dict[str, Any]) -> Span:
    """A Span of these values, which must be all its fields in order."""
    if len(values) != len(_DEFAULTS):  # a repair or an event gave a field that only repairs know
        values = {name: values[name] for name in _DEFAULTS}
    span = _OpenSpan(*values.values())
    span.__class__ = Span
    return cast("Span", span)
