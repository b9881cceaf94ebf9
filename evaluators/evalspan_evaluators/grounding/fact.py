"""Fact: one value of a source, the record it stands in, and where that is."""

import json
import re
from collections.abc import Iterator
from typing import Any

from evalspan_evaluators.grounding.moment import Moment
from evalspan_evaluators.grounding.quantity import Quantity
from evalspan_evaluators.grounding.source import Source

__all__ = ["Fact", "Record", "path_part"]

_IDENTIFIER = re.compile(r"[A-Za-z_]\w*")


class Record:
    """One JSON object, table row or sentence of a source."""

    __slots__ = ("by_place", "children", "facts", "key", "named_key", "parent", "prose", "source")

    def __init__(self, source: Source, parent: "Record | None", key: str | int, prose: str | None = None) -> None:
        self.source = source
        self.parent = parent
        self.key = key
        self.prose = prose
        #: The nearest key that is a name, not a position.
        self.named_key: str = key if isinstance(key, str) else "" if parent is None else parent.named_key
        self.facts: list[Fact] = []
        #: Its values stand in a list, in the order of columns named elsewhere.
        self.by_place = False
        self.children: list[Record] = []
        if parent is not None:
            parent.children.append(self)

    @property
    def path(self) -> str:
        """JSON path of the object, such as `$.orders[0]`."""
        parts = [path_part(r.key) for r in self.chain() if r.parent is not None and r.prose is None]
        return "$" + "".join(reversed(parts))

    def chain(self) -> Iterator["Record"]:
        """This record and the ones around it."""
        at: Record | None = self
        while at is not None:
            yield at
            at = at.parent

    def below(self, limit: int = 400) -> Iterator["Fact"]:
        """Facts of this record and of the records inside it, at most `limit`."""
        stack: list[Record] = [self]
        while stack and limit > 0:
            record = stack.pop()
            for fact in record.facts:
                limit -= 1
                yield fact
            stack.extend(reversed(record.children))


class Fact:
    """One value of a source."""

    __slots__ = ("key", "moment", "place", "quantity", "record", "value", "words")

    def __init__(self, record: Record, key: str, value: Any, place: int = -1) -> None:
        self.record = record
        self.key = key
        self.value = value
        self.place = place
        self.quantity: Quantity | None = None
        self.moment: Moment | None = None
        #: Stems that say what it is, once asked for.
        self.words: tuple[str, ...] | None = None

    @property
    def path(self) -> str:
        """JSON path of the value."""
        if self.record.prose is not None:
            return self.record.path
        path = self.record.path + (path_part(self.key) if self.key and not self.record.by_place else "")
        return path if self.place < 0 else f"{path}[{self.place}]"

    @property
    def text(self) -> str:
        """The value as a person reads it."""
        if self.quantity is not None and self.record.prose is not None:
            return self.quantity.text
        if self.moment is not None and self.record.prose is not None:
            return self.moment.text
        return self.value if isinstance(self.value, str) else json.dumps(self.value, ensure_ascii=False)


def path_part(key: str | int) -> str:
    """A key as a step of a JSON path."""
    if isinstance(key, int):
        return f"[{key}]"
    if key.startswith(("[", ".")):
        return key
    return f".{key}" if _IDENTIFIER.fullmatch(key) else f"[{json.dumps(key, ensure_ascii=False)}]"
