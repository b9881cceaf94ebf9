"""Output: how the command line shows things, with untrusted text made harmless."""

import json
import re
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

__all__ = ["clean", "console", "errors", "number", "print_json", "print_table", "seconds", "usd"]


def _width() -> int | None:
    """A pipe has no width: take one that tables fit in."""
    return None if sys.stdout.isatty() else 140


class _SafeConsole(Console):
    """A console that prints no character a terminal obeys, whoever wrote the text."""

    def print(self, *objects: Any, **options: Any) -> None:
        """Print; texts are cleaned, newlines stay."""
        super().print(*(clean(o, lines=True) if isinstance(o, str) else o for o in objects), **options)


#: For people; stdout. Markup is off: what agents said is never read as markup.
console = _SafeConsole(markup=False, highlight=False, soft_wrap=True, width=_width())
#: For errors and progress; stderr.
errors = _SafeConsole(stderr=True, markup=False, highlight=False, soft_wrap=True)

# Control characters but tab and newline, DEL, C1, and the marks that reorder text.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]")
_SURROGATE = re.compile("[\ud800-\udfff]")
# What JSON lets through as it is and a terminal obeys or reorders text by.
_OBEYED = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]")


def clean(text: object, *, limit: int | None = None, lines: bool = False) -> str:
    """Text from a trace, safe for a terminal: control characters and text-direction marks become visible.

    Args:
        text: Anything; None becomes a dash.
        limit: Characters to keep, an ellipsis shows the cut.
        lines: Keep newlines; else they become spaces.
    """
    if text is None:
        return "-"
    shown = _CONTROL.sub(lambda m: f"\\x{ord(m[0]):02x}", str(text))
    shown = _SURROGATE.sub("�", shown)
    if not lines:
        shown = " ".join(shown.split())
    if limit is not None and len(shown) > limit:
        shown = shown[: limit - 1] + "…"
    return shown


def print_json(value: Any) -> None:
    """One JSON object on one line of stdout."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    text = _OBEYED.sub(lambda m: f"\\u{ord(m[0]):04x}", text)  # the same JSON, written with escapes
    sys.stdout.write(_SURROGATE.sub("�", text) + "\n")


def print_table(
    title: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    numeric: Sequence[str] = (),
    whole: Sequence[str] = (),
) -> None:
    """A table for people; every cell is cleaned, those of the columns in `whole` are never cut or folded."""
    table = Table(title=clean(title), title_justify="left", header_style="bold", box=SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        table.add_column(
            column, justify="right" if column in numeric else "left", overflow="fold", no_wrap=column in whole
        )
    for row in rows:
        table.add_row(*(cell if isinstance(cell, Text) else Text(clean(cell, limit=400)) for cell in row))
    console.print(table)


def number(value: float | None, digits: int = 2) -> str:
    """A number, or a dash where it is unknown."""
    return "-" if value is None else f"{value:.{digits}f}"


def seconds(value: float | None) -> str:
    """A duration in seconds, or a dash where it is unknown."""
    return "-" if value is None else f"{value:.2f} s"


def usd(value: float | None, unknown: int = 0) -> str:
    """US dollars; a plus sign marks that some calls have no known price."""
    if value is None:
        return "unknown" if unknown else "-"
    return f"${value:.4f}" + (" +?" if unknown else "")
