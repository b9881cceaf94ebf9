"""Lenient JSON: read what instrumentations call JSON (JSON in JSON, Python reprs), write JSON that never fails."""

import ast
import json
import math
import warnings
from typing import Any, TypeGuard

import orjson

__all__ = ["as_text", "dump", "is_list", "is_object", "parse", "parse_object", "unwrap"]

#: A Python repr longer than this is kept as text: `ast` costs about a kilobyte per node.
MAX_REPR_CHARS = 65_536
#: A text that orjson refuses (lone surrogates, NaN, huge numbers) is given to the slower reader up to this size.
MAX_SLOW_CHARS = 4_194_304

_JSON_START = frozenset('{["-0123456789')
#: Words of JSON, and of what Python's reader takes for it.
_JSON_WORDS = ("true", "false", "null", "NaN", "Infinity")
_REPR_START = frozenset("{[(")


def is_object(value: object) -> TypeGuard[dict[str, Any]]:
    """True for a JSON object."""
    return isinstance(value, dict)


def is_list(value: object) -> TypeGuard[list[Any]]:
    """True for a JSON list."""
    return isinstance(value, list)


def parse(text: str, *, python: bool = False) -> Any:
    """Read JSON text; anything else comes back as the text it was.

    Args:
        text: JSON, or not.
        python: Read a Python literal (`{'a': None}`) too, where it is no JSON.
    """
    stripped = text.lstrip()
    start = stripped[:1]
    if start not in _JSON_START and not stripped.startswith(_JSON_WORDS):
        return _parse_python(text) if python and start in _REPR_START and start else text
    try:
        return orjson.loads(text)
    except ValueError:  # orjson refuses lone surrogates, NaN and integers over 64 bits, which json reads
        pass
    if len(text) <= MAX_SLOW_CHARS:
        try:
            return _clean(json.loads(text))
        except (ValueError, RecursionError):
            pass
    return _parse_python(text) if python and start in _REPR_START else text


def _clean(value: Any) -> Any:
    """The value without lone surrogates, which no store takes."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if is_list(value):
        return [_clean(v) for v in value]
    if is_object(value):
        return {_clean(k): _clean(v) for k, v in value.items()}
    return value


def _parse_python(text: str) -> Any:
    """A Python literal, else the text."""
    if len(text) > MAX_REPR_CHARS:
        return text
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # invalid escapes in somebody's repr are no news
            value: Any = ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return text
    if isinstance(value, tuple):
        value = [*value]
    return value if is_object(value) or is_list(value) else text


def unwrap(value: Any, *, python: bool = False) -> Any:
    """Undo JSON in JSON: a string that holds an object, a list or a string becomes that.

    Numbers, booleans and null inside a string stay the text they were: `"42"` may be an identifier.
    Every level of quoting doubles the backslashes, so the number of levels is bounded by the length.
    """
    while isinstance(value, str):
        inner = parse(value, python=python)
        if not isinstance(inner, str):
            return inner if is_object(inner) or is_list(inner) else value
        if inner is value or inner == value:
            return value
        value = inner
    return value


def parse_object(value: Any) -> dict[str, Any] | None:
    """The object that a value is or holds as text (JSON or Python repr), else None."""
    value = unwrap(value, python=True)
    return value if is_object(value) else None


def dump(value: Any) -> str:
    """JSON text of any value; what JSON cannot say is said as a string, never an error."""
    try:
        return orjson.dumps(value, default=_default, option=orjson.OPT_NON_STR_KEYS).decode()
    except (TypeError, ValueError, RecursionError):
        pass
    try:
        return json.dumps(_plain(value, 200), ensure_ascii=True, default=_default)
    except (TypeError, ValueError, RecursionError):
        return '"..."'


def _default(value: Any) -> Any:
    """What JSON has no word for."""
    if isinstance(value, bytes | bytearray):
        return value.hex()
    return str(value)


def _plain(value: Any, depth: int) -> Any:
    """The value with text keys, finite numbers and no more than `depth` levels."""
    if is_object(value):
        return {str(k): _plain(v, depth - 1) for k, v in value.items()} if depth else "..."
    if is_list(value):
        return [_plain(v, depth - 1) for v in value] if depth else "..."
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def as_text(value: Any) -> str:
    """An attribute value as text: strings as they are, anything else as JSON (NaN by its name)."""
    if isinstance(value, str):
        return value
    if type(value) is int:
        return str(value)
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return dump(value)
