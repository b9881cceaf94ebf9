"""Normalise: one raw span of any dialect to one Span, in one pass over its attributes."""

from dataclasses import fields as dataclass_fields
from typing import Any, cast

from evalspan_collector.conventions import RESOURCE, scope_dialect, shape_of
from evalspan_collector.converters import redacted
from evalspan_collector.events import KNOWN_EVENTS, event_facts
from evalspan_collector.filling import add_left, fill, kind_of
from evalspan_collector.form import Form, form_of, repairs_of
from evalspan_collector.lenient_json import as_text
from evalspan_collector.raw import Origin, RawSpan
from evalspan_collector.repairs import Draft, kind_from_fields, kind_from_name
from evalspan_collector.span import Content, Span, SpanEvent, SpanKind, SpanLink, Status
from evalspan_collector.unguarded import unguarded

__all__ = ["normalise", "origin"]

_STATUS: tuple[Status, ...] = ("unset", "ok", "error")
_UNKNOWN = SpanKind.UNKNOWN
#: No span takes longer: a start that was never set, or an end from nowhere.
_LONGEST_NS = 30 * 86_400 * 1_000_000_000
#: One for all spans, which nobody changes.
_NO_SOURCES: dict[str, str] = {}
_CONTENT_FIELDS = frozenset(
    {
        "input_messages",
        "output_messages",
        "system_prompt",
        "input_value",
        "output_value",
        "tool_arguments",
        "tool_result",
        "run_input",
        "run_output",
        "documents",
    }
)


def origin(resource: dict[str, Any], scope: dict[str, Any], *, project: str, received_ns: int) -> Origin:
    """What all spans of one scope share.

    Args:
        resource: Attributes of the resource.
        scope: `name` and `version` of the instrumentation scope.
        project: Project the request's key belongs to.
        received_ns: When the request arrived.
    """
    fields = _SHARED_DEFAULTS.copy()
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
    layout = raw.layout
    if layout is not None and not explain:
        form = layout.forms.get(shared.dialect) or form_of(layout, shared.dialect)
        if form is not None:
            return _by_form(raw, shared, form)
    attributes, left = raw.attributes, list[str]()
    sources: dict[str, str] | None = {} if explain else None
    shape = shape_of(tuple(attributes))
    draft = Draft(raw, _UNKNOWN, shared.dialect or shape.dialect, {})
    fields = draft.fields
    draft.kind = kind_of(shape, attributes, fields, sources)
    if draft.kind is _UNKNOWN and kind_from_name(draft):
        _note(sources, "kind", "span name")
    plan = shape.plan(draft.kind)
    fill(plan, attributes, fields, left, sources)
    if draft.kind is _UNKNOWN and kind_from_fields(draft):
        _note(sources, "kind", "fields present")
        plan = shape.plan(draft.kind)
        left.clear()
        fill(plan, attributes, fields, left, sources)
    if raw.events:
        _add_events(draft, sources)
    for name, apply in repairs_of(shape, plan, draft.dialect, draft.kind):
        if apply(draft):
            _note(sources, name, "fired")
    for scratch in shape.scratch:
        fields.pop(scratch, None)
    leftover = {k: as_text(attributes[k]) for k in plan.leftover}
    add_left(plan, attributes, left, leftover)
    return _span(draft, shared, leftover, sources or _NO_SOURCES)


def _by_form(raw: RawSpan, shared: Origin, form: Form) -> Span:
    """Read a span whose constants have been read before: only what varies is left to do."""
    attributes, fields, left = raw.attributes, form.fields.copy(), form.left.copy()
    fill(form.plan, attributes, fields, left)
    draft = Draft(raw, form.kind, form.dialect, fields)
    if raw.events:
        _add_events(draft, None)
    for apply in form.all_repairs if raw.events else form.repairs:
        apply(draft)
    for scratch in form.scratch:
        fields.pop(scratch, None)
    leftover = form.leftover.copy()
    for key in form.loose:
        leftover[key] = as_text(attributes[key])
    if left:
        add_left(form.plan, attributes, left, leftover)
    return _span(draft, shared, leftover, _NO_SOURCES)


def _note(sources: dict[str, str] | None, field: str, source: str) -> None:
    """Note where a field came from, when asked to."""
    if sources is not None:
        sources[field] = source


def _add_events(draft: Draft, sources: dict[str, str] | None) -> None:
    """Facts of span events, where no attribute gave them."""
    known = [e for e in draft.raw.events if e.name in KNOWN_EVENTS]
    if not known:
        return
    for field, value in event_facts(known, draft.kind, draft.raw.start_ns).items():
        if field not in draft.fields:
            draft.fields[field] = value
            _note(sources, field, "span event")


def _content(draft: Draft) -> Content:
    """Whether the span's content travelled with it."""
    if draft.raw.dropped:
        return "truncated"
    if not _CONTENT_FIELDS.isdisjoint(draft.fields):
        return "captured"
    return "redacted" if any(map(redacted, draft.raw.attributes.values())) else "not_captured"


def _span(draft: Draft, shared: Origin, leftover: dict[str, str], sources: dict[str, str]) -> Span:
    """Put the Span together."""
    raw = draft.raw
    start_ns, end_ns = raw.start_ns, raw.end_ns
    rest = shared.fields.copy()
    rest.update(draft.fields)
    if raw.events:
        rest["events"] = tuple(SpanEvent(e.name, e.time_ns, _texts(e.attributes)) for e in raw.events)
    if raw.links:
        rest["links"] = tuple(SpanLink(li.trace_id, li.span_id, _texts(li.attributes)) for li in raw.links)
    if len(rest) != _SHARED_COUNT:  # a repair or an event gave a field that only repairs know
        rest = {name: rest[name] for name in _SHARED_DEFAULTS}
    code = raw.status_code
    span = _OpenSpan(
        raw.trace_id,
        raw.span_id,
        raw.parent_id or None,
        raw.name,
        start_ns,
        end_ns,
        raw.otel_kind,
        raw.flags,
        _STATUS[code] if 0 <= code <= 2 else "unset",
        raw.status_message,
        draft.dialect,
        draft.kind,
        _content(draft),
        _flags(draft) if draft.flags or raw.dropped or raw.damaged or not 0 <= end_ns - start_ns < _LONGEST_NS else (),
        leftover,
        sources,
        *rest.values(),
    )
    span.__class__ = Span
    return cast("Span", span)


def _flags(draft: Draft) -> tuple[str, ...]:
    """What the repairs found, and what the span itself shows."""
    raw = draft.raw
    found = draft.flags
    if raw.dropped:
        found.append("truncated")
    if raw.damaged:
        found.append("invalid_utf8")
    if not 0 <= raw.end_ns - raw.start_ns < _LONGEST_NS:
        found.append("clock_skew")
    return tuple(found)


def _texts(attributes: dict[str, Any]) -> dict[str, str]:
    return {k: as_text(v) for k, v in attributes.items()}


#: The fields that each span has for itself; the others have a default, or its resource or an attribute says them.
_OWN = (
    "trace_id", "span_id", "parent_id", "name", "start_ns", "end_ns", "otel_kind", "span_flags", "status",
    "status_message", "dialect", "kind", "content", "flags", "attributes", "sources",
)  # fmt: skip
#: The other fields with their defaults, in order.
_SHARED_DEFAULTS: dict[str, Any] = {f.name: f.default for f in dataclass_fields(Span) if f.name not in _OWN}
_SHARED_COUNT = len(_SHARED_DEFAULTS)
_OpenSpan = unguarded(Span, *_OWN)
