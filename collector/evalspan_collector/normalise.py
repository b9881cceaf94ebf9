"""Normalise: one raw span of any dialect to one Span, in one pass over its attributes."""

from collections.abc import Callable
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
from evalspan_collector.repairs import REPAIRS, Draft, kind_from_fields, kind_from_name
from evalspan_collector.span import Content, Span, SpanEvent, SpanKind, SpanLink, Status
from evalspan_collector.unguarded import unguarded

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
    for name, apply in repairs:
        if apply(draft):
            filling.explain(name, "fired")
    for scratch in shape.scratch:
        filling.fields.pop(scratch, None)
    return _span(draft, shared, filling.leftover(plan), filling.sources or {})


def _repairs(shape: Shape, draft: Draft) -> tuple[tuple[str, Callable[[Draft], bool]], ...]:
    """The repairs that can concern a span of this shape, dialect and kind, each with what `--explain` calls it."""
    concerned = (r for r in REPAIRS if r.concerns(shape.names, draft.dialect, draft.kind))
    return tuple((f"repair {r.name}", r.apply) for r in concerned)


class _Filling:
    """The fields of one span while its attributes are read."""

    __slots__ = ("attributes", "fields", "left", "sources")

    def __init__(self, attributes: dict[str, Any], *, explain: bool) -> None:
        self.attributes = attributes
        self.fields: dict[str, Any] = {}
        self.sources: dict[str, str] | None = {} if explain else None
        #: Keys that a field wanted and did not take, once for each such field.
        self.left: list[str] = []

    def explain(self, field: str, source: str) -> None:
        """Note where a field came from, when asked to."""
        if self.sources is not None:
            self.sources[field] = source

    def kind(self, shape: Shape) -> SpanKind:
        """The kind that the best of the kind keys tells."""
        attributes = self.attributes
        if shape.operation is not None:
            self.fields["operation"] = text(attributes[shape.operation]) or ""
        for option in shape.kinds:
            found: SpanKind | None = option.convert(attributes[option.key])
            if found is not None:
                self.explain("kind", option.key)
                return found
        return _UNKNOWN

    def fill(self, plan: Plan) -> None:
        """Give each field of the plan the value of the first option that has one."""
        attributes, fields = self.attributes, self.fields
        left = self.left = []
        for field, key, convert in plan.singles:
            value = convert(attributes[key])
            if value is None:
                left.append(key)
            else:
                fields[field] = value
        for field, key, convert, other, convert_other in plan.pairs:
            stated = attributes[key]
            value = convert(stated)
            if value is not None:
                fields[field] = value
                if attributes[other] != stated:  # else the same fact in another vocabulary
                    left.append(other)
                continue
            left.append(key)
            value = convert_other(attributes[other])
            if value is None:
                left.append(other)
            else:
                fields[field] = value
        if self.sources is not None:
            self._explain_fill(plan, self.sources)
        for field, options in plan.choices:
            self._choose(field, options)
        for field, offers in plan.generic:
            # Offered is what every field before wanted and left.
            self._choose(field, tuple(o for o, times in offers if not times or left.count(o.key) >= times))

    def _explain_fill(self, plan: Plan, sources: dict[str, str]) -> None:
        """Note the sources of the fields that have at most two."""
        sources.update((field, key) for field, key, _ in plan.singles if field in self.fields)
        for field, key, convert, other, _ in plan.pairs:
            if field in self.fields:
                sources[field] = other if convert(self.attributes[key]) is None else key

    def _choose(self, field: str, options: tuple[Option, ...]) -> None:
        attributes = self.attributes
        winner: Any = None
        for key, convert, family, _ in options:
            value = attributes[key] if family is None else {rest: attributes[k] for k, rest in family}
            if winner is None:
                converted = convert(value)
                if converted is not None:
                    self.fields[field] = converted
                    winner = value
                    if self.sources is not None:
                        self.sources[field] = key
                    continue
            elif value == winner:  # the same fact in another vocabulary
                continue
            self.left.extend((key,) if family is None else (k for k, _ in family))

    def leftover(self, plan: Plan) -> dict[str, str]:
        """The attributes that no field took, as text."""
        attributes, left = self.attributes, self.left
        found: dict[str, str] = {}
        for key in plan.leftover:
            value = attributes[key]
            found[key] = value if type(value) is str else as_text(value)
        for key in left:
            if key not in plan.wanted or left.count(key) >= plan.wanted[key]:
                found[key] = as_text(attributes[key])
        return found


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
        _flags(draft) if draft.flags or raw.dropped or raw.damaged or end_ns < start_ns else (),
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
    if raw.end_ns < raw.start_ns:
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
