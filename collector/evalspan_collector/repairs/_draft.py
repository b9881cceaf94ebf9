"""Draft: a span while it is being normalised, and what a repair of it is."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from evalspan_collector.raw import RawSpan
from evalspan_collector.span import SpanKind

__all__ = ["Draft", "Repair"]


class Draft:
    """A span while it is being normalised."""

    __slots__ = ("dialect", "fields", "flags", "kind", "raw")

    def __init__(self, raw: RawSpan, kind: SpanKind, dialect: str, fields: dict[str, Any]) -> None:
        self.raw = raw
        self.kind = kind
        self.dialect = dialect
        self.fields = fields
        self.flags: list[str] = []


@dataclass(frozen=True, slots=True)
class Repair:
    """One correction.

    Attributes:
        name: What `--explain` calls it.
        apply: Changes the draft; True when it did.
        dialects: Dialects it is for; None for all.
        kinds: Kinds it is for; None for all.
        needs: Fields or attribute keys of which the span must have one; None for nothing.
        gives: Fields it may add that a later repair needs.
    """

    name: str
    apply: Callable[[Draft], bool]
    dialects: frozenset[str] | None = None
    kinds: frozenset[SpanKind] | None = None
    needs: frozenset[str] | None = None
    gives: frozenset[str] = frozenset()

    def concerns(self, names: frozenset[str], dialect: str, kind: SpanKind) -> bool:
        """True when a span with these fields and keys may need it."""
        if self.dialects is not None and dialect not in self.dialects:
            return False
        if self.kinds is not None and kind not in self.kinds:
            return False
        return self.needs is None or not self.needs.isdisjoint(names)
