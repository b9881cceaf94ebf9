"""Filling: the fields of one span, taken from its attributes by a plan of the convention table."""

from typing import Any

from evalspan_collector.conventions import Option, Plan, Shape
from evalspan_collector.converters import text
from evalspan_collector.lenient_json import as_text
from evalspan_collector.span import SpanKind

__all__ = ["add_left", "fill", "kind_of"]

_Dict = dict[str, Any]
#: Field to where its value came from, kept only for `--explain`.
Sources = dict[str, str]


def kind_of(shape: Shape, attributes: _Dict, fields: _Dict, sources: Sources | None = None) -> SpanKind:
    """The kind that the best of the kind keys tells; the dialect's own word for it goes into the fields."""
    if shape.operation is not None:
        fields["operation"] = text(attributes[shape.operation]) or ""
    for option in shape.kinds:
        found: SpanKind | None = option.convert(attributes[option.key])
        if found is not None:
            if sources is not None:
                sources["kind"] = option.key
            return found
    return SpanKind.UNKNOWN


def fill(plan: Plan, attributes: _Dict, fields: _Dict, left: list[str], sources: Sources | None = None) -> None:
    """Give each field of the plan the value of the first option that has one.

    Args:
        plan: What to take from which attribute.
        attributes: Attributes of the span.
        fields: Gets the values.
        left: Gets the keys that a field wanted and did not take, once for each such field.
        sources: Gets the source of each field.
    """
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
    if sources is not None:
        _explain(plan, attributes, fields, sources)
    for field, options in plan.choices:
        _choose(field, options, attributes, fields, left, sources=sources)
    for field, offers in plan.generic:
        # Offered is what every field before wanted and left.
        offered = [o for o, times in offers if not times or left.count(o.key) >= times]
        _choose(field, offered, attributes, fields, left, sources=sources)


def _explain(plan: Plan, attributes: _Dict, fields: _Dict, sources: Sources) -> None:
    """Note the sources of the fields that have at most two."""
    sources.update((field, key) for field, key, _ in plan.singles if field in fields)
    for field, key, convert, other, _ in plan.pairs:
        if field in fields:
            sources[field] = other if convert(attributes[key]) is None else key


def _choose(
    field: str,
    options: tuple[Option, ...] | list[Option],
    attributes: _Dict,
    fields: _Dict,
    left: list[str],
    *,
    sources: Sources | None,
) -> None:
    winner: Any = None
    for key, convert, family, _ in options:
        value = attributes[key] if family is None else {rest: attributes[k] for k, rest in family}
        if winner is None:
            converted = convert(value)
            if converted is not None:
                fields[field] = converted
                winner = value
                if sources is not None:
                    sources[field] = key
                continue
        elif value == winner:  # the same fact in another vocabulary
            continue
        if family is None:
            left.append(key)
        else:
            left.extend(k for k, _ in family)


def add_left(plan: Plan, attributes: _Dict, left: list[str], found: dict[str, str]) -> None:
    """Add the attributes that some field wanted and none took, as text."""
    for key in left:
        if key not in plan.wanted or left.count(key) >= plan.wanted[key]:
            found[key] = as_text(attributes[key])
