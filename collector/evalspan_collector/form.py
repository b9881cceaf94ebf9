"""Form: what the constants of a layout say of its spans, worked out once and used for all of them."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Literal

from evalspan_collector.conventions import Choice, Option, Plan, Shape, shape_of
from evalspan_collector.filling import fill, kind_of
from evalspan_collector.layout import Layout
from evalspan_collector.lenient_json import as_text
from evalspan_collector.repairs import REPAIRS, Draft
from evalspan_collector.span import SpanKind

__all__ = ["Form", "form_of", "repairs_of"]

#: What `--explain` calls a repair, and what it does.
Named = tuple[str, Callable[[Draft], bool]]


@dataclass(frozen=True, slots=True)
class Form:
    """What is known of every span of a layout.

    Attributes:
        kind: The kind.
        dialect: The dialect.
        fields: Fields that constants give.
        left: Constants that a field wanted and did not take, once for each such field.
        plan: How to fill the other fields.
        leftover: Attributes that no field wants, as text, empty for those that vary.
        loose: Keys of the latter.
        repairs: The repairs that can concern such a span without events.
        all_repairs: Those that can concern one with events.
        scratch: Fields of the table that are no fields of a span.
    """

    kind: SpanKind
    dialect: str
    fields: dict[str, Any]
    left: list[str]
    plan: Plan
    leftover: dict[str, str]
    loose: tuple[str, ...]
    repairs: tuple[Callable[[Draft], bool], ...]
    all_repairs: tuple[Callable[[Draft], bool], ...]
    scratch: tuple[str, ...]


def repairs_of(shape: Shape, plan: Plan, dialect: str, kind: SpanKind) -> tuple[Named, ...]:
    """The repairs that can concern a span of this shape, dialect and kind."""
    found: tuple[Named, ...] | None = plan.repairs.get(dialect)
    if found is None:
        found = tuple((f"repair {r.name}", r.apply) for r in REPAIRS if r.concerns(shape.names, dialect, kind))
        plan.repairs[dialect] = found
    return found


def form_of(layout: Layout, dialect: str | None) -> Form | None:
    """The form of a layout's spans, made when the second one comes.

    Args:
        layout: The layout.
        dialect: The dialect that the scope of the spans tells.

    Returns:
        None for the first span, and where the constants do not tell the kind.
    """
    if dialect not in layout.forms:
        layout.forms[dialect] = None
        return None
    found: Form | Literal[False] | None = layout.forms[dialect]
    if found is None:
        found = layout.forms[dialect] = _form(layout, dialect) or False
    return found or None


def _form(layout: Layout, stated: str | None) -> Form | None:
    constants = {k: v for k, v in layout.constants.items() if k not in layout.varying}
    shape = shape_of(layout.keys)
    telling = [o.key for o in shape.kinds] + ([shape.operation] if shape.operation is not None else [])
    if any(key not in constants for key in telling):
        return None
    fields: dict[str, Any] = {}
    kind = kind_of(shape, constants, fields)
    if kind is SpanKind.UNKNOWN:
        return None
    plan = shape.plan(kind)
    dialect = stated or shape.dialect
    known, rest = _parted(plan, frozenset(constants))
    left: list[str] = []
    fill(known, constants, fields, left)
    all_repairs = repairs_of(shape, plan, dialect, kind)
    names = _fields_of(plan)
    return Form(
        kind=kind,
        dialect=dialect,
        fields=fields,
        left=left,
        plan=rest,
        leftover={k: as_text(constants[k]) if k in constants else "" for k in plan.leftover},
        loose=tuple(k for k in plan.leftover if k not in constants),
        repairs=_without_events(all_repairs, shape, names),
        all_repairs=tuple(apply for _, apply in all_repairs),
        scratch=tuple(f for f in shape.scratch if f in names),
    )


def _fields_of(plan: Plan) -> frozenset[str]:
    parts = ((s[0] for s in plan.singles), (p[0] for p in plan.pairs), (c[0] for c in plan.choices))
    return frozenset(chain(*parts, (g[0] for g in plan.generic)))


def _without_events(
    repairs: tuple[Named, ...], shape: Shape, fields: frozenset[str]
) -> tuple[Callable[[Draft], bool], ...]:
    """Of the repairs that can concern a shape those that can concern this kind of span when no event adds fields."""
    names = {*shape.keys, *fields}
    wanted = {apply for _, apply in repairs}
    kept: list[Callable[[Draft], bool]] = []
    for repair in REPAIRS:
        if repair.apply in wanted and (repair.needs is None or not repair.needs.isdisjoint(names)):
            kept.append(repair.apply)
            names |= repair.gives
    return tuple(kept)


def _parted(plan: Plan, constants: frozenset[str]) -> tuple[Plan, Plan]:
    """The part of a plan that needs nothing but constants, and the rest."""
    known = [choice for choice in plan.choices if _is_known(choice, constants)]
    return (
        replace(
            plan,
            singles=tuple(s for s in plan.singles if s[1] in constants),
            pairs=tuple(p for p in plan.pairs if p[1] in constants and p[3] in constants),
            choices=tuple(known),
            generic=(),
        ),
        replace(
            plan,
            singles=tuple(s for s in plan.singles if s[1] not in constants),
            pairs=tuple(p for p in plan.pairs if p[1] not in constants or p[3] not in constants),
            choices=tuple(c for c in plan.choices if c not in known),
        ),
    )


def _is_known(choice: Choice, constants: frozenset[str]) -> bool:
    return all(_keys(option) <= constants for option in choice[1])


def _keys(option: Option) -> frozenset[str]:
    return frozenset((option.key,) if option.family is None else (key for key, _ in option.family))
