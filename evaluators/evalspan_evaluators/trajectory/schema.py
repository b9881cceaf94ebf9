"""Schema: do the calls fit the tools' definitions, declared or learned from good runs?"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

from evalspan_collector.run import ToolCall, ToolDefinition
from evalspan_evaluators.case import Case
from evalspan_evaluators.closed_schema import SchemaRefusedError, schema_validator
from evalspan_evaluators.jsonvalue import is_list, is_object, loaded, member_path, short
from evalspan_evaluators.metric import MetricBase
from evalspan_evaluators.score import Evidence, Score
from evalspan_evaluators.trajectory.identity import ByIdentity
from evalspan_evaluators.trajectory.names import listing, near_name, shown

__all__ = ["ToolSchema", "learned_definitions"]

_MOST_EVIDENCE = 20
_MOST_ERRORS = 5
#: Type names of other schema dialects.
_TYPE_NAMES = {
    "dict": "object",
    "float": "number",
    "tuple": "array",
    "int": "integer",
    "str": "string",
    "bool": "boolean",
}
_CODES = {
    "Required": "ARGUMENT_MISSING",
    "AdditionalProperties": "ARGUMENT_UNDECLARED",
    "Type": "ARGUMENT_MISTYPED",
    "Enum": "ARGUMENT_NOT_IN_ENUM",
    "Constant": "ARGUMENT_NOT_IN_ENUM",
}


@dataclass(frozen=True, slots=True)
class _Problem:
    path: str
    code: str
    text: str
    value: str | None = None


class _Checker:
    """One tool's parameters, compiled; None of it is checkable when the schema itself is broken."""

    def __init__(self, schema_text: str) -> None:
        schema: Any = _plain(json.loads(schema_text))
        self._declared: Mapping[str, Any] = schema.get("properties") or {}
        free = schema.get("additionalProperties")
        self._closed = free in (None, False) and "patternProperties" not in schema and bool(self._declared)
        try:
            self._validator: Any = schema_validator(schema)
        except SchemaRefusedError:
            self._validator = None

    def problems(self, arguments: Mapping[str, Any]) -> list[_Problem]:
        found: list[_Problem] = []
        if self._closed:
            for key in arguments:
                if key not in self._declared:
                    near = near_name(key, list(self._declared))
                    hint = f", did the agent mean {near!r}?" if near else ""
                    text = f"{shown(key)!r} is not declared{hint}"
                    found.append(_Problem(member_path("$", key), "ARGUMENT_UNDECLARED", text, short(arguments[key])))
        if self._validator is None or self._validator.is_valid(arguments):
            return found
        for error in self._validator.iter_errors(arguments):
            kind = type(error.kind).__name__.removeprefix("ValidationErrorKind_")
            code = _CODES.get(kind, "ARGUMENT_INVALID")
            if code == "ARGUMENT_UNDECLARED" and not error.instance_path:
                continue  # said above, with a remedy
            path = "$" + "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in error.instance_path)
            if kind == "Required":
                path = member_path(path, str(error.kind.property))
            found.append(_Problem(path, code, short(error.message, 200)))
            if len(found) >= _MOST_ERRORS:
                break
        return found


def _plain(node: Any) -> Any:
    """The schema with the type names JSON schema knows."""
    if is_object(node):
        return {
            key: _TYPE_NAMES.get(item, item) if key == "type" and isinstance(item, str) else _plain(item)
            for key, item in node.items()
            if not (key == "type" and item == "any")
        }
    return [_plain(item) for item in node] if is_list(node) else node


@lru_cache(maxsize=1024)
def _checker(schema_text: str) -> _Checker:
    return _Checker(schema_text)


def _checker_for(parameters: Mapping[str, Any]) -> _Checker:
    return _checker(json.dumps(dict(parameters), sort_keys=True, default=str))


#: Parameters stay the same object over the calls of a run, and writing them out costs more than checking a call.
_checker_of = ByIdentity(_checker_for)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSchema(MetricBase):
    """Share of the calls that fit the definition of their tool.

    Found are calls of tools nobody offered, missing, undeclared and mistyped arguments, values outside an enum, and
    whatever else the JSON schema rules out.

    Attributes:
        definitions: Tools with their parameters, each {"name", "parameters"}; None takes those of the run.
    """

    name: ClassVar[str] = "tool_schema"
    requires: ClassVar[tuple[str, ...]] = ("tools",)
    default_threshold: ClassVar[float | None] = 1.0

    definitions: tuple[Mapping[str, Any], ...] | None = None

    def evaluate(self, case: Case) -> Score:
        """Check every call against its tool's definition."""
        known = self._definitions(case)
        if not known:
            return self.skip("no tool definitions: capture them, or set the parameter definitions")
        checked = bad = 0
        evidence: list[Evidence] = []
        for call in case.tools or ():
            problems = _problems(call, known)
            if problems is None:
                continue
            checked += 1
            if problems:
                bad += 1
                evidence.extend(_evidence(call, problem) for problem in problems[: _MOST_EVIDENCE - len(evidence)])
        if not checked:
            return self.skip("no call whose arguments were captured")
        value = (checked - bad) / checked
        if not bad:
            return self.score(value, f"all {checked} calls fit their tools' definitions")
        first = evidence[0]
        reason = f"{bad} of {checked} calls do not fit: '{shown(first.tool or '')}' {first.note}"
        return self.score(value, reason, evidence=tuple(evidence))

    def _definitions(self, case: Case) -> dict[str, Mapping[str, Any] | None]:
        if self.definitions is None:
            return {definition.name: definition.parameters for definition in case.tool_definitions or ()}
        return {str(definition["name"]): definition.get("parameters") for definition in self.definitions}


def _problems(call: ToolCall, known: Mapping[str, Mapping[str, Any] | None]) -> list[_Problem] | None:
    """What does not fit; None when it cannot be checked."""
    if call.name not in known:
        near = near_name(call.name, list(known))
        hint = f", did the agent mean '{shown(near)}'?" if near else ""
        return [_Problem("$", "TOOL_NOT_FOUND", f"is not among the offered tools {listing(known)}{hint}")]
    parameters = known[call.name]
    if parameters is None or (call.arguments is None and not call.content_captured):
        return None
    arguments: Any = loaded(call.arguments)
    if arguments is None or arguments == "":
        arguments = {}
    if not is_object(arguments):
        return [_Problem("$", "ARGUMENTS_NO_OBJECT", "arguments are no JSON object", short(arguments))]
    return _checker_of(parameters).problems(arguments)


def _evidence(call: ToolCall, problem: _Problem) -> Evidence:
    return Evidence(
        verdict="mismatch",
        claim=f"{shown(call.name)} {problem.path}",
        value=problem.value,
        source="tool_arguments",
        tool=call.name,
        span_id=call.span_id,
        path=problem.path,
        code=problem.code,
        note=problem.text,
    )


def learned_definitions(
    calls: Iterable[ToolCall], *, min_calls: int = 20, max_enum: int = 8
) -> tuple[ToolDefinition, ...]:
    """Definitions learned from calls of good runs, for agents whose definitions were not captured.

    An argument is required when every call had it; its types are those seen; texts become an enum when a tool was
    called `min_calls` times and showed at most `max_enum` different values, each at least twice.
    """
    seen: dict[str, list[Mapping[str, Any]]] = {}
    for call in calls:
        arguments = loaded(call.arguments)
        if is_object(arguments) and not call.failed:
            seen.setdefault(call.name, []).append(arguments)
    return tuple(
        ToolDefinition(name=name, parameters=_learned(rows, min_calls, max_enum)) for name, rows in seen.items()
    )


def _learned(rows: list[Mapping[str, Any]], min_calls: int, max_enum: int) -> dict[str, Any]:
    names = dict.fromkeys(key for row in rows for key in row)
    properties: dict[str, Any] = {}
    for name in names:
        values = [row[name] for row in rows if name in row]
        types = sorted({_json_type(value) for value in values})
        if "integer" in types and "number" in types:
            types.remove("integer")
        declared: dict[str, Any] = {"type": types if len(types) > 1 else types[0]}
        texts = [value for value in values if isinstance(value, str)]
        choices = sorted(set(texts))
        often = len(values) >= min_calls and len(texts) == len(values) and len(choices) <= max_enum
        if often and all(texts.count(text) >= 2 for text in choices):
            declared["enum"] = choices
        properties[name] = declared
    required = [name for name in names if all(name in row for row in rows)]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _json_type(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "integer"
    if isinstance(value, float):
        return "number"
    if isinstance(value, str):
        return "string"
    return "object" if is_object(value) else "array"
