"""Normalise: one raw span of any dialect to one Span, in one pass over its attributes."""

from dataclasses import MISSING, make_dataclass
from dataclasses import fields as dataclass_fields
from typing import Any, cast

from evalspan_collector.conventions import (
    RESOURCE,
    Option,
    Plan,
    Shape,
    scope_dialect,
    shape_of,
)
from evalspan_collector.converters import redacted, text
from evalspan_collector.events import KNOWN_EVENTS, event_facts
from evalspan_collector.lenient_json import as_text
from evalspan_collector.raw import Origin, RawSpan
from evalspan_collector.repairs import REPAIRS, Draft, Repair, kind_from_fields, kind_from_name
from evalspan_collector.span import Content, Span, SpanEvent, SpanKind, SpanLink, Status

__all__ = ["normalise", "origin"]

_STATUS: tuple[Status, ...] = ("unset", "ok", "error")
_UNKNOWN = SpanKind.UNKNOWN
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
    filling = _Filling(attributes, explain=explain)
    kind = filling.kind(shape)
    draft = Draft(raw, kind, shared.dialect or shape.dialect, filling.fields)
    if kind is _UNKNOWN and kind_from_name(draft):
        filling.explain("kind", "span name")
    plan = shape.plan(draft.kind)
    filling.fill(plan)
    if draft.kind is _UNKNOWN and kind_from_fields(draft):
        filling.explain("kind", "fields present")
        plan = shape.plan(draft.kind)
        filling.fill(plan)
    if raw.events:
        _add_events(draft, filling)
    repairs = plan.repairs.get(draft.dialect)
    if repairs is None:
        repairs = plan.repairs[draft.dialect] = _repairs(shape, draft)
    for repair in repairs:
        if repair.apply(draft):
            filling.explain(f"repair {repair.name}", "fired")
    for scratch in shape.scratch:
        filling.fields.pop(scratch, None)
    return _span(draft, shared, filling.leftover(plan), filling.sources or {})


def _repairs(shape: Shape, draft: Draft) -> tuple[Repair, ...]:
    """The repairs that can concern a span of this shape, dialect and kind."""
    return tuple(r for r in REPAIRS if r.concerns(shape.names, draft.dialect, draft.kind))


class _Filling:
    """The fields of one span while its attributes are read."""

    __slots__ = ("attributes", "fields", "left", "sources", "taken")

    def __init__(self, attributes: dict[str, Any], *, explain: bool) -> None:
        self.attributes = attributes
        self.fields: dict[str, Any] = {}
        self.sources: dict[str, str] | None = {} if explain else None
        #: Keys that a field took though another might have, and keys that no field could use.
        self.taken: set[str] = set()
        self.left: list[str] = []

    def explain(self, field: str, source: str) -> None:
        """Note where a field came from, when asked to."""
        if self.sources is not None:
            self.sources[field] = source

    def kind(self, shape: Shape) -> SpanKind:
        """The kind that the best of the kind keys tells."""
        if shape.operation is not None:
            self.fields["operation"] = text(self.attributes[shape.operation]) or ""
        for option in shape.kinds:
            found: SpanKind | None = option.convert(self.attributes[option.key])
            if found is not None:
                self.explain("kind", option.key)
                return found
        return _UNKNOWN

    def fill(self, plan: Plan) -> None:
        """Give each field of the plan the value of the first option that has one."""
        attributes, fields = self.attributes, self.fields
        for field, key, convert in plan.simple:
            value = convert(attributes[key])
            if value is None:
                self.left.append(key)
            else:
                fields[field] = value
        if self.sources is not None:
            self.sources.update((field, key) for field, key, _ in plan.simple if field in fields)
        for field, options in plan.choices:
            self._choose(field, options)
        for field, options in plan.generic:
            self._choose(field, tuple(o for o in options if o.key not in self.taken))

    def _choose(self, field: str, options: tuple[Option, ...]) -> None:
        attributes = self.attributes
        winner: Any = None
        for key, convert, family, _, shared in options:
            value = attributes[key] if family is None else {rest: attributes[k] for k, rest in family}
            if winner is None:
                converted = convert(value)
                if converted is not None:
                    self.fields[field] = converted
                    winner = value
                    if self.sources is not None:
                        self.sources[field] = key
                    if shared:
                        self.taken.update((key,) if family is None else (k for k, _ in family))
                    continue
            elif value == winner:  # the same fact in another vocabulary
                if shared:
                    self.taken.add(key)
                continue
            self.left.extend((key,) if family is None else (k for k, _ in family))

    def leftover(self, plan: Plan) -> dict[str, str]:
        """The attributes that no field took, as text."""
        attributes, taken = self.attributes, self.taken
        left = {k: attributes[k] for k in plan.leftover}
        for key in self.left:
            if key not in taken:
                left[key] = attributes[key]
        return {k: v if type(v) is str else as_text(v) for k, v in left.items()}


def _add_events(draft: Draft, filling: _Filling) -> None:
    """Facts of span events, where no attribute gave them."""
    known = [e for e in draft.raw.events if e.name in KNOWN_EVENTS]
    if not known:
        return
    for field, value in event_facts(known, draft.kind, draft.raw.start_ns).items():
        if field not in draft.fields:
            draft.fields[field] = value
            filling.explain(field, "span event")


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
    values["attributes"] = leftover
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
