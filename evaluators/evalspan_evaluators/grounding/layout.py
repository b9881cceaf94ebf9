"""Layout: lines, list items and headings of an answer, to know which subject a line speaks of."""

import re
from bisect import bisect_right
from dataclasses import dataclass

__all__ = ["Layout", "Line"]

#: Lines looked at above and below.
_REACH = 60
_BULLET = re.compile(r"(?P<indent>\s*)(?P<mark>#{1,6}\s|[-*•+]\s|\d{1,3}[.)]\s)?")


@dataclass(frozen=True, slots=True)
class Line:
    """One line with its depth: headings -2, numbered items and plain text by indent, bullets deeper."""

    start: int
    end: int
    depth: int
    heading: bool


class Layout:
    """The lines of an answer and which line stands over which."""

    def __init__(self, text: str) -> None:
        self.lines: list[Line] = []
        at = 0
        for raw in text.split("\n"):
            if raw.strip():
                self.lines.append(_line(raw, at))
            at += len(raw) + 1
        self._starts = [line.start for line in self.lines]

    def line_at(self, offset: int) -> int:
        """Position of the line that holds an offset."""
        return max(0, bisect_right(self._starts, offset) - 1)

    def headers(self, position: int) -> list[Line]:
        """Lines that stand over this one, nearest first."""
        found: list[Line] = []
        depth = self.lines[position].depth if self.lines else 0
        for line in reversed(self.lines[max(0, position - _REACH) : position]):
            if line.depth < depth:
                found.append(line)
                depth = line.depth
        return found

    def body(self, position: int) -> list[Line]:
        """Deeper lines right below this one."""
        found: list[Line] = []
        for line in self.lines[position + 1 : position + _REACH]:
            if line.depth <= self.lines[position].depth:
                break
            found.append(line)
        return found


def _line(raw: str, at: int) -> Line:
    match = _BULLET.match(raw)
    assert match is not None
    indent = len(match["indent"].expandtabs(4))
    mark = (match["mark"] or "").strip()
    if mark.startswith("#"):
        return Line(at, at + len(raw), -20 + len(mark), heading=True)
    bullet = 2 if mark in ("-", "*", "•", "+") else 0
    bold_head = not mark and raw.strip().startswith("**") and raw.strip().rstrip(":").endswith("**")
    depth = (
        2 * indent + bullet + (1 if mark and not bullet else 0) - (1 if bold_head or raw.rstrip().endswith(":") else 0)
    )
    return Line(at, at + len(raw), depth, heading=bold_head)
