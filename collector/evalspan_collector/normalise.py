"""Normalise: one raw span of any dialect to one Span, in one pass over its attributes."""

from typing import Any

from evalspan_collector.conventions import (
    FIELDS,
    GENERIC_FIELDS,
    RESOURCE,
    Hit,
    dialect_of_rank,
    lookup,
    scope_dialect,
)
from evalspan_collector.converters import redacted
from evalspan_collector.events import KNOWN_EVENTS, event_facts
from evalspan_collector.lenient_json import as_text
from evalspan_collector.raw import Origin, RawSpan
from evalspan_collector.repairs import REPAIRS, Draft, Repair, kind_from_fields, kind_from_name
from evalspan_collector.span import Content, Span, SpanEvent, SpanKind, SpanLink, Status

__all__ = ["normalise", "origin"]

_Candidate = tuple[int, Any, Hit, Any, str]
_STATUS: tuple[Status, ...] = ("unset", "ok", "error")
_UNKNOWN = SpanKind.UNKNOWN
_SPAN_FIELDS = frozenset(f for f in Span.__dataclass_fields__)
_SCRATCH = frozenset(FIELDS) - _SPAN_FIELDS
_CONTENT_FIELDS = frozenset(
    {"input_messages", "output_messages", "system_prompt", "input_value", "output_value", "tool_arguments", "tool_result",
     "run_input", "run_output", "documents"}
)  # fmt: skip
_GENERIC = frozenset(GENERIC_FIELDS)


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
    return Origin(project, received_ns, fields, name, str(scope.get("version") or ""), scope_dialect(name))


def normalise(raw: RawSpan, shared: Origin, *, explain: bool = False) -> Span:
    """Read a span by the convention table, then repair what its dialect is known to get wrong.

    Args:
        raw: The span as it travelled.
        shared: What its resource and scope say.
        explain: Fill `Span.sources` with the source of each field and the repairs that fired.
    """
    candidates, dialect_rank, hidden = _collect(raw.attributes)
    dialect = shared.dialect or dialect_of_rank(dialect_rank)
    fields: dict[str, Any] = {}
    sources: dict[str, str] = {}
    taken: set[str] = set()
    kinds = candidates.pop("kind", None)
    if kinds:
        _resolve("kind", kinds, _UNKNOWN, fields, sources, taken)
    draft = Draft(raw, fields.pop("kind", _UNKNOWN), dialect, fields)
    if draft.kind is _UNKNOWN and kind_from_name(draft):
        sources["kind"] = "span name"
    generic = [(f, candidates.pop(f)) for f in GENERIC_FIELDS if f in candidates]
    if draft.kind is _UNKNOWN:
        _resolve_all(candidates, draft.kind, fields, sources, taken)
        if kind_from_fields(draft):
            sources["kind"] = "fields present"
    if draft.kind is not _UNKNOWN or not fields:
        _resolve_all(candidates, draft.kind, fields, sources, taken)
    for field, found in generic:
        untaken = [c for c in found if c[4] not in taken]
        if untaken:
            _resolve(field, untaken, draft.kind, fields, sources, taken)
    if raw.events:
        _add_events(draft, sources)
    for repair in _repairs_of(dialect, draft.kind):
        if repair.apply(draft) and explain:
            sources[f"repair {repair.name}"] = "fired"
    return _span(draft, shared, taken, sources if explain else {}, hidden=hidden)


def _collect(attributes: dict[str, Any]) -> tuple[dict[str, list[_Candidate]], int, bool]:
    """Every use that the table has for the attributes, by field; the best dialect rank; whether content is hidden."""
    candidates: dict[str, list[_Candidate]] = {}
    best, hidden = 1_000, False
    for key, value in attributes.items():
        entry = lookup(key)
        if entry.dialect_rank < best:
            best = entry.dialect_rank
        if not entry.hits or value is None:
            continue
        if not hidden and isinstance(value, str) and redacted(value):
            hidden = True
        for hit in entry.hits:
            found = candidates.get(hit[0])
            if found is None:
                candidates[hit[0]] = found = []
            if hit[3] is None:
                found.append((hit[1], value, hit, None, key))
            else:
                _add_to_family(found, hit, key, value)
    return candidates, best, hidden


def _add_to_family(found: list[_Candidate], hit: Hit, key: str, value: Any) -> None:
    """Put a key of a family with its siblings."""
    for candidate in found:
        if candidate[0] == hit[1]:
            candidate[1][hit[3]] = value
            candidate[3].append(key)
            return
    found.append((hit[1], {hit[3]: value}, hit, [key], hit[2].key))


def _resolve_all(
    candidates: dict[str, list[_Candidate]],
    kind: SpanKind,
    fields: dict[str, Any],
    sources: dict[str, str],
    taken: set[str],
) -> None:
    for field, found in candidates.items():
        _resolve(field, found, kind, fields, sources, taken)


def _resolve(
    field: str,
    found: list[_Candidate],
    kind: SpanKind,
    fields: dict[str, Any],
    sources: dict[str, str],
    taken: set[str],
) -> None:
    """The first source, in the table's order, that gives the field a value."""
    if len(found) > 1:
        found.sort(key=_rank)
    winner: Any = None
    for rank, value, hit, family, key in found:
        del rank
        source = hit[2]
        if winner is not None:
            if value == winner:
                taken.add(key)  # the same fact in another vocabulary
            continue
        if source.when is not None and kind not in source.when:
            continue
        converted = source.convert(value)
        if converted is None:
            continue
        fields[field] = converted
        sources[field] = key
        winner = value
        if family is None:
            taken.add(key)
        else:
            taken.update(family)


def _rank(candidate: _Candidate) -> int:
    return candidate[0]


_REPAIR_CACHE: dict[tuple[str, SpanKind], tuple[Repair, ...]] = {}


def _repairs_of(dialect: str, kind: SpanKind) -> tuple[Repair, ...]:
    """The repairs that concern a dialect and a kind."""
    found = _REPAIR_CACHE.get((dialect, kind))
    if found is None:
        found = tuple(
            r for r in REPAIRS if (r.dialects is None or dialect in r.dialects) and (r.kinds is None or kind in r.kinds)
        )
        _REPAIR_CACHE[dialect, kind] = found
    return found


def _add_events(draft: Draft, sources: dict[str, str]) -> None:
    """Facts of span events, where no attribute gave them."""
    known = [e for e in draft.raw.events if e.name in KNOWN_EVENTS]
    if not known:
        return
    for field, value in event_facts(known, draft.kind, draft.raw.start_ns).items():
        if field not in draft.fields:
            draft.fields[field] = value
            sources[field] = "span event"


def _content(draft: Draft, *, hidden: bool) -> Content:
    """Whether the span's content travelled with it."""
    if draft.raw.dropped:
        return "truncated"
    if not _CONTENT_FIELDS.isdisjoint(draft.fields):
        return "captured"
    return "redacted" if hidden else "not_captured"


def _span(draft: Draft, shared: Origin, taken: set[str], sources: dict[str, str], *, hidden: bool) -> Span:
    """Put the Span together."""
    raw, fields = draft.raw, draft.fields
    for key in _SCRATCH & fields.keys():
        del fields[key]
    for key, value in shared.fields.items():
        if key not in fields:
            fields[key] = value
    flags = draft.flags
    if raw.dropped:
        flags.append("truncated")
    if raw.damaged:
        flags.append("invalid_utf8")
    if raw.end_ns < raw.start_ns:
        flags.append("clock_skew")
    return Span(
        trace_id=raw.trace_id,
        span_id=raw.span_id,
        parent_id=raw.parent_id or None,
        name=raw.name,
        start_ns=raw.start_ns,
        end_ns=raw.end_ns,
        project=shared.project,
        otel_kind=raw.otel_kind,
        span_flags=raw.flags,
        received_ns=shared.received_ns,
        status=_STATUS[raw.status_code] if 0 <= raw.status_code <= 2 else "unset",
        status_message=raw.status_message,
        scope_name=shared.scope_name,
        scope_version=shared.scope_version,
        dialect=draft.dialect,
        kind=draft.kind,
        content=_content(draft, hidden=hidden),
        flags=tuple(flags),
        attributes={k: v if type(v) is str else as_text(v) for k, v in raw.attributes.items() if k not in taken},
        events=tuple(SpanEvent(e.name, e.time_ns, {k: as_text(v) for k, v in e.attributes.items()}) for e in raw.events)
        if raw.events
        else (),
        links=tuple(
            SpanLink(li.trace_id, li.span_id, {k: as_text(v) for k, v in li.attributes.items()}) for li in raw.links
        )
        if raw.links
        else (),
        sources=sources,
        **fields,
    )
