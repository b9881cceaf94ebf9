"""Table: JSON, literals, delimited lines and `key: value` lines read out of text."""

import ast
import json
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from evalspan_evaluators.jsonvalue import is_list, is_object

if TYPE_CHECKING:
    from evalspan_evaluators.grounding.fact import Record
    from evalspan_evaluators.grounding.index import Index

__all__ = ["Columns", "columns_of", "read_literal", "read_tables"]

_KEY_VALUE = re.compile(r"^[\s#>*-]*(?P<key>[^\W\d_][^:\n|]{0,60}?)\s*[:=]\s+(?P<value>\S.{0,200})$")
_MAX_ROWS = 10_000


def read_literal(text: str) -> Any:
    """The JSON or Python literal a text consists of; None when it is something else."""
    bare = text.strip()
    if not bare or bare[0] not in "[{":
        return None
    try:
        return json.loads(bare)
    except ValueError:
        pass
    except RecursionError:
        return None
    if len(bare) > 300_000 or bare[-1] not in "]}" or bare.count("[") + bare.count("{") > 20_000:
        return None
    try:
        value: Any = ast.literal_eval(bare)
    except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
        return None
    return cast("Any", value) if isinstance(value, dict | list) else None


class Columns(NamedTuple):
    """Rows of values, and the names of their columns.

    Attributes:
        key: The field that holds the rows.
        others: Further fields of the object.
    """

    names: tuple[str, ...]
    key: str
    rows: Sequence[Sequence[Any]]
    others: tuple[tuple[str, Any], ...]


_COLUMN_KEYS = ("columns", "headers", "header", "fields", "column_names", "schema", "cols")
_ROW_KEYS = ("rows", "data", "values", "records", "results", "result")


def columns_of(value: Mapping[str, Any]) -> Columns | None:
    """The table an object is, such as `{"columns": ["id", "total"], "rows": [[1, 9.5]]}`; None when it is none."""
    heads = next((key for key in _COLUMN_KEYS if is_list(value.get(key))), None)
    key = next((key for key in _ROW_KEYS if is_list(value.get(key))), None)
    if heads is None or key is None:
        return None
    given: list[Any] = [h.get("name") if is_object(h) else h for h in value[heads]]
    names = [name for name in given if isinstance(name, str)]
    rows = value[key]
    if not names or not rows or len(names) < len(given):
        return None
    if not all(is_list(row) and len(row) == len(names) for row in rows):
        return None
    others = tuple((str(k), v) for k, v in value.items() if k not in (heads, key))
    return Columns(tuple(names), key, rows, others)


def _delimiter(line: str) -> str:
    if "|" in line:
        return "|"
    if "\t" in line:
        return "\t"
    for mark in (";", ","):
        if mark in line and f"{mark} " not in line:
            return mark
    return ""


def _cells(line: str, mark: str) -> list[str]:
    cells = [c.strip() for c in line.split(mark)]
    if mark == "|" and line.strip().startswith("|") and line.strip().endswith("|"):
        cells = cells[1:-1]
    return cells


def _is_value(cell: str) -> bool:
    return bool(cell) and (cell[0].isdigit() or cell[0] in "$€£¥(-—+." or cell in ("n/a", "N/A"))


def _rows(lines: list[str], start: int) -> tuple[list[list[str]], int, str]:
    mark = _delimiter(lines[start])
    rows: list[list[str]] = []
    at = start
    while (
        mark
        and at < min(len(lines), start + _MAX_ROWS)
        and mark in lines[at]
        and (mark in "|\t" or _delimiter(lines[at]) == mark)
    ):
        rows.append(_cells(lines[at], mark))
        at += 1
    return rows, at, mark


def read_tables(text: str, record: "Record", index: "Index") -> str:
    """Put the tables and `key: value` lines of a text into the index; the same text with them blanked out."""
    if "\n" not in text:
        return text
    lines = text.split("\n")
    kept = list(lines)
    at = 0
    number = 0
    while at < len(lines) and not index.full:
        rows, end, mark = _rows(lines, at)
        if len(rows) >= (2 if mark == "|" else 3) and len({len(r) for r in rows}) <= 3:
            _add_table(rows, record, index, number)
            number += 1
            kept[at:end] = [""] * (end - at)
            at = end
            continue
        pair = _KEY_VALUE.match(lines[at]) if len(lines[at]) < 300 else None
        if pair is not None:
            index.add_leaf(record, pair["key"].strip(" *_"), pair["value"].strip())
            kept[at] = ""
        at += 1
    return "\n".join(kept)


def _add_table(rows: list[list[str]], record: "Record", index: "Index", number: int) -> None:
    """Rows become records: keys are the column titles, the first cell names the row."""
    heads = 0
    while heads < len(rows) - 1 and heads < 3 and not any(_is_number_cell(c) for c in rows[heads][1:]):
        heads += 1
    width = max(len(r) for r in rows)
    body = [r for r in rows[heads:] if not all(set(c) <= set("-: =") for c in r)]
    index.count(record, "", len(body))
    titles = [" ".join(dict.fromkeys(r[c] for r in rows[:heads] if c < len(r) and r[c])) for c in range(width)]
    for position, row in enumerate(body):
        inner = index.add_record(record, f"[{number}][{position}]" if number else f"[{position}]")
        for column, cell in enumerate(row):
            if cell:
                index.add_leaf(inner, titles[column] or f"[{column}]", cell)


def _is_number_cell(cell: str) -> bool:
    """A figure, not a year that titles a column."""
    return _is_value(cell) and not re.fullmatch(r"(?:19|20)\d\d|20\d\d[-/]\d\d", cell)
