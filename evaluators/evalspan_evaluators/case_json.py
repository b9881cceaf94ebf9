"""Case JSON: a case as one JSON object and back, every mistake named by its field."""

import difflib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, cast

from evalspan.errors import InputError
from evalspan_collector import messages
from evalspan_collector.message import Message
from evalspan_collector.run import Document, ModelCall, ToolCall, ToolDefinition
from evalspan_collector.span import Usage
from evalspan_evaluators.case import Case, Expected, Turn
from evalspan_evaluators.jsonvalue import is_object

__all__ = ["FieldError", "case_from_json", "case_to_json"]

#: Other names people give to fields of a case.
_ALIASES = {
    "query": "input",
    "question": "input",
    "prompt": "input",
    "actual_output": "output",
    "answer": "output",
    "response": "output",
    "retrieval_context": "documents",
    "tool_calls": "tools",
    "tools_called": "tools",
    "id": "name",
    "cost": "cost_usd",
}
#: Top-level names of fields of the expectation.
_EXPECTED_ALIASES = {
    "expected_output": "output",
    "reference": "output",
    "ground_truth": "output",
    "expected_tools": "tools",
    "expected_sequence": "sequence",
    "expected_calls": "calls",
    "expected_categories": "categories",
    "contains": "contains",
    "not_contains": "not_contains",
}
_EXPECTED_INNER = {"tool_sequence": "sequence", "tool_categories": "categories"}


class FieldError(InputError):
    """A field of a case is wrong.

    Attributes:
        field: Where, such as `expected.tools[1]`.
        message: What, with the value and the next action.
    """

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}" if field else message)
        self.field = field
        self.message = message


def case_from_json(data: object) -> Case:
    """The case of a JSON object.

    Fields of `Case` by their names (`query`, `actual_output`, `expected_output` and the like are understood too);
    names that are near a field's name are refused as typing mistakes, others become `metadata`.

    Raises:
        FieldError: A field is wrong.
    """
    if not is_object(data):
        raise FieldError("", f"{_short(data)} is no case: write an object such as {{'input': ..., 'output': ...}}")
    values: dict[str, Any] = {}
    expected: dict[str, Any] = {}
    metadata: dict[str, Any] = {}
    for key, value in data.items():
        if key in _EXPECTED_ALIASES:
            _set_once(expected, _EXPECTED_ALIASES[key], value, key)
        elif key in {"expected", "expect"}:
            _merge_expected(expected, value)
        elif key == "metadata":
            metadata.update(_object(value, "metadata"))
        elif (name := _ALIASES.get(key, key)) in _READERS:
            _set_once(values, name, value, key)
        else:
            _refuse_typo(key, "")
            metadata[key] = value
    read = {name: _READERS[name](value, name) for name, value in values.items() if value is not None}
    for name in ("documents", "context", "conversation", "turns", "flags"):
        read.setdefault(name, ())
    read.setdefault("usage", Usage())
    read.setdefault("cost_unknown_calls", 0)
    return Case(expected=_expected(expected), metadata=metadata, **read)


def _set_once(values: dict[str, Any], name: str, value: Any, key: str) -> None:
    if name in values and value is not None:
        raise FieldError(key, f"{name!r} is there twice under different names: keep one")
    values[name] = value


def _merge_expected(expected: dict[str, Any], value: Any) -> None:
    if value is None:
        return
    if isinstance(value, str):
        _set_once(expected, "output", value, "expected")
        return
    known = {f.name for f in fields(Expected)}
    for key, item in _object(value, "expected").items():
        name = _EXPECTED_INNER.get(key, key)
        if name not in known:
            near = difflib.get_close_matches(key, known, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"one of {', '.join(sorted(known))}"
            raise FieldError(f"expected.{key}", f"unknown field: {hint}")
        _set_once(expected, name, item, f"expected.{key}")


def _refuse_typo(key: str, prefix: str) -> None:
    known = [*_READERS, *_ALIASES, *_EXPECTED_ALIASES, "expected", "metadata"]
    near = difflib.get_close_matches(key, known, 1, cutoff=0.79)
    if near:
        raise FieldError(f"{prefix}{key}", f"unknown field: did you mean {near[0]!r}? Other data goes under metadata")


def _expected(values: Mapping[str, Any]) -> Expected:
    read: dict[str, Any] = {}
    for name, value in values.items():
        if value is None:
            continue
        place = f"expected.{name}"
        if name == "output":
            read[name] = _text(value, place)
        elif name == "calls":
            read[name] = tuple(_call(c, f"{place}[{i}]") for i, c in enumerate(_list(value, place)))
        else:
            read[name] = _texts(value, place)
    return Expected(**read)


def _call(value: Any, place: str) -> Mapping[str, Any]:
    call = _object(value, place)
    if not isinstance(call.get("name"), str):
        raise FieldError(f"{place}.name", f"{_short(call.get('name'))} is no tool name: write a text")
    return call


def _short(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= 80 else shown[:79] + "…"


def _text(value: Any, place: str) -> str:
    if isinstance(value, str):
        return value
    raise FieldError(place, f"{_short(value)} is no text: put it in quotes")


def _list(value: Any, place: str) -> Sequence[Any]:
    if isinstance(value, list | tuple):
        return cast("Sequence[Any]", value)
    raise FieldError(place, f"{_short(value)} is no list: write [...]")


def _object(value: Any, place: str) -> Mapping[str, Any]:
    if is_object(value):
        return value
    raise FieldError(place, f"{_short(value)} is no object: write {{...}}")


def _texts(value: Any, place: str) -> tuple[str, ...]:
    if isinstance(value, str):
        return (value,)
    return tuple(_text(item, f"{place}[{i}]") for i, item in enumerate(_list(value, place)))


def _number(value: Any, place: str) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value >= 0:
        return float(value)
    raise FieldError(place, f"{_short(value)} is no number of 0 or more")


def _count(value: Any, place: str) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    raise FieldError(place, f"{_short(value)} is no whole number of 0 or more")


def _flag(value: Any, place: str) -> bool:
    if isinstance(value, bool):
        return value
    raise FieldError(place, f"{_short(value)} is neither true nor false")


def _plain(value: Any, place: str) -> Any:  # noqa: ARG001  one signature for all readers
    return value


Reader = Callable[[Any, str], Any]


@dataclass(frozen=True, slots=True)
class _Kind:
    """A nested object: its class, the readers of its fields, and the field a bare text stands for."""

    make: Callable[..., Any]
    readers: Mapping[str, Reader]
    bare: str | None = None
    aliases: Mapping[str, str] | None = None

    def read(self, value: Any, place: str) -> Any:
        if self.bare is not None and isinstance(value, str):
            return self.make(**{self.bare: value})
        read: dict[str, Any] = {}
        for key, item in _object(value, place).items():
            name = (self.aliases or {}).get(key, key)
            if name not in self.readers:
                near = difflib.get_close_matches(key, self.readers, 1)
                hint = f"did you mean {near[0]!r}?" if near else f"one of {', '.join(sorted(self.readers))}"
                raise FieldError(f"{place}.{key}", f"unknown field: {hint}")
            if item is not None:
                read[name] = self.readers[name](item, f"{place}.{key}")
        try:
            return self.make(**read)
        except TypeError as error:
            raise FieldError(place, f"{_short(value)} lacks a field: {error}") from error


def _all(kind: _Kind) -> Reader:
    def read(value: Any, place: str) -> tuple[Any, ...]:
        return tuple(kind.read(item, f"{place}[{i}]") for i, item in enumerate(_list(value, place)))

    return read


_TOOL = _Kind(
    ToolCall,
    {
        "name": _text,
        "call_id": _text,
        "arguments": _plain,
        "result": _plain,
        "failed": _flag,
        "error": _text,
        "started_ns": _count,
        "duration_s": _number,
        "agent": _text,
        "span_id": _text,
        "tool_type": _text,
        "attempt": _count,
        "observed": _text,
        "content_captured": _flag,
    },
    bare="name",
    aliases={"tool": "name", "args": "arguments", "parameters": "arguments", "output": "result"},
)
_USAGE = _Kind(Usage, {f.name: _count for f in fields(Usage)})
_DOCUMENT = _Kind(
    Document, {"id": _text, "content": _text, "score": _number}, bare="content", aliases={"text": "content"}
)
_DEFINITION = _Kind(
    ToolDefinition, {"name": _text, "description": _text, "parameters": _object, "agent": _text}, bare="name"
)
_MODEL_CALL = _Kind(
    ModelCall,
    {
        "model": _text,
        "provider": _text,
        "usage": _USAGE.read,
        "cost_usd": _number,
        "failed": _flag,
        "error": _text,
        "started_ns": _count,
        "duration_s": _number,
        "agent": _text,
        "span_id": _text,
    },
)
_TURN = _Kind(Turn, {"input": _text, "output": _text, "tools": _all(_TOOL)})


def _messages(value: Any, place: str) -> tuple[Message, ...]:
    return messages.loads(value if isinstance(value, str) else json.dumps(_list(value, place)))


_READERS: dict[str, Reader] = {
    "input": _text,
    "output": _text,
    "tools": _all(_TOOL),
    "documents": _all(_DOCUMENT),
    "context": _texts,
    "conversation": _messages,
    "turns": _all(_TURN),
    "system_prompt": _text,
    "tool_definitions": _all(_DEFINITION),
    "model_calls": _all(_MODEL_CALL),
    "usage": _USAGE.read,
    "cost_usd": _number,
    "cost_unknown_calls": _count,
    "duration_s": _number,
    "status": _text,
    "error": _text,
    "agent": _text,
    "flags": _texts,
    "name": _text,
}


_SCALARS = ("name", "input", "output", "agent", "status", "error", "system_prompt", "cost_usd", "duration_s")
_PARTS: tuple[tuple[str, _Kind], ...] = (
    ("tools", _TOOL),
    ("documents", _DOCUMENT),
    ("turns", _TURN),
    ("tool_definitions", _DEFINITION),
    ("model_calls", _MODEL_CALL),
)
#: Where an empty list (none were made) differs from no list (unknown).
_EMPTY_TELLS = frozenset({"tools", "model_calls"})


def case_to_json(case: Case) -> dict[str, Any]:
    """The case as JSON; `case_from_json` reads it back. The run itself and the contents of model calls stay out."""
    found: dict[str, Any] = {name: value for name in _SCALARS if (value := getattr(case, name)) is not None}
    for name, kind in _PARTS:
        items: Sequence[Any] | None = getattr(case, name)
        if items or (items is not None and name in _EMPTY_TELLS):
            found[name] = [_filled(item, kind.readers) for item in items]
    rest: dict[str, Any] = {
        "expected": _filled(case.expected, {}),
        "usage": _filled(case.usage, {}),
        "cost_unknown_calls": case.cost_unknown_calls,
        "context": list(case.context),
        "flags": list(case.flags),
        "conversation": json.loads(messages.dumps(case.conversation)) if case.conversation else None,
        "metadata": dict(case.metadata),
    }
    return found | {name: value for name, value in rest.items() if value}


def _filled(item: Any, readers: Mapping[str, Reader]) -> dict[str, Any]:
    """The fields that differ from their defaults."""
    found: dict[str, Any] = {}
    for spec in fields(item):
        value = getattr(item, spec.name)
        if (readers and spec.name not in readers) or value == spec.default:
            continue
        if isinstance(value, Usage):
            value = _filled(value, {})
        elif isinstance(value, tuple):
            value = [_filled(v, _TOOL.readers) if isinstance(v, ToolCall) else v for v in _list(value, spec.name)]
        found[spec.name] = value
    return found
