"""Markup: XML results of tools as objects, so that their values have names and units."""

import re
from typing import Any
from xml.parsers import expat

__all__ = ["read_markup"]

_MAY_BE = re.compile(r"\s*(?:<\?xml\b[^>]*>\s*)?<([A-Za-z_][\w:.-]*)[\s>/]")
#: Longer ones are read as text.
_MOST_LETTERS = 200_000
_MOST_ELEMENTS = 5_000
_MOST_DEEP = 30
_UNIT = ("unit", "units", "uom", "currency")


class _TooMuchError(Exception):
    """Not worth reading, or not harmless."""


class _Builder:
    """Elements to objects: attributes and children are fields, several of a name a list; a unit follows its value."""

    def __init__(self) -> None:
        self._open: list[tuple[str, dict[str, Any], list[str]]] = []
        self._elements = 0
        self.root: dict[str, Any] = {}

    def start(self, name: str, attributes: dict[str, str]) -> None:
        """An element begins."""
        self._elements += 1
        if self._elements > _MOST_ELEMENTS or len(self._open) >= _MOST_DEEP:
            raise _TooMuchError
        self._open.append((name.rpartition(":")[2], dict(attributes), []))

    def text(self, data: str) -> None:
        """Text in the innermost element."""
        self._open[-1][2].append(data)

    def end(self, _name: str) -> None:
        """The innermost element ends."""
        name, fields, parts = self._open.pop()
        text = "".join(parts).strip()
        unit = next((fields.pop(u) for u in _UNIT if u in fields), None) if text else None
        value: Any = f"{text} {unit}" if unit else text
        if fields:
            value = fields | ({"text": text} if text else {})
        parent = self._open[-1][1] if self._open else self.root
        if name not in parent:
            parent[name] = value
        elif isinstance(parent[name], list):
            parent[name].append(value)
        else:
            parent[name] = [parent[name], value]


def _refuse(*_: object) -> None:
    raise _TooMuchError


def read_markup(text: str) -> dict[str, Any] | None:
    """The object an XML text says; None for anything else, for HTML, and for what declares entities."""
    match = _MAY_BE.match(text)
    if match is None or match[1].lower() in ("html", "body", "div", "p", "span", "b", "i", "a", "table"):
        return None
    if len(text) > _MOST_LETTERS or not text.rstrip().endswith(">"):
        return None
    builder = _Builder()
    parser = expat.ParserCreate()
    parser.StartElementHandler = builder.start
    parser.EndElementHandler = builder.end
    parser.CharacterDataHandler = builder.text
    parser.StartDoctypeDeclHandler = parser.EntityDeclHandler = _refuse
    try:
        parser.Parse(text, True)
    except (expat.ExpatError, _TooMuchError, ValueError):
        return None
    return builder.root
