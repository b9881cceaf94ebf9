"""Acceptable: arguments against lists of acceptable values, as the Berkeley function-calling leaderboard checks them.

The rules are those of the official checker of `bfcl-eval` (Apache-2.0) for Python: texts are compared loosely, an
empty text among the acceptable values lets an argument be left out, declared types count, and an object's members
have lists of acceptable values of their own.
"""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from evalspan_evaluators.jsonvalue import is_list, is_object
from evalspan_evaluators.trajectory.values import Difference, loose

__all__ = ["acceptable_differences"]

_PYTHON_TYPES: Mapping[str, type] = {
    "string": str,
    "any": str,
    "integer": int,
    "float": float,
    "number": float,
    "boolean": bool,
    "array": list,
    "tuple": list,
    "dict": dict,
    "object": dict,
}


def acceptable_differences(
    acceptable: Mapping[str, Sequence[Any]], arguments: Mapping[str, Any], schema: Mapping[str, Any] | None
) -> list[Difference]:
    """Where the arguments are none of the acceptable values; empty when all are.

    Args:
        acceptable: Argument name to its acceptable values; an empty text among them makes it optional.
        arguments: What the agent sent.
        schema: The tool's declared parameters (JSON schema, or BFCL's dialect of it); None skips type checks.
    """
    found: list[Difference] = []
    properties: Mapping[str, Any] = (schema or {}).get("properties") or {}
    required: Sequence[str] = (schema or {}).get("required") or ()
    found.extend(
        Difference(f"$.{name}", acceptable.get(name), None, "ARGUMENT_MISSING")
        for name in required
        if name not in arguments
    )
    for name, value in arguments.items():
        if name not in acceptable or (schema is not None and name not in properties):
            found.append(Difference(f"$.{name}", None, value, "ARGUMENT_UNEXPECTED"))
            continue
        declared: Mapping[str, Any] = properties.get(name) or {}
        code = _problem(value, acceptable[name], declared)
        if code:
            found.append(Difference(f"$.{name}", acceptable[name], value, code))
    for name, values in acceptable.items():
        if name not in arguments and "" not in values and all(d.path != f"$.{name}" for d in found):
            found.append(Difference(f"$.{name}", values, None, "ARGUMENT_MISSING"))
    return found


def _problem(value: Any, acceptable: Sequence[Any], declared: Mapping[str, Any]) -> str | None:
    wanted: Any = _PYTHON_TYPES.get(str(declared.get("type"))) if declared else None
    if wanted is None:
        wanted = _type(value)
    if isinstance(value, tuple):
        value = [*value]
    if wanted is float and type(value) is int:
        try:
            value = float(value)
        except OverflowError:
            return "ARGUMENT_MISTYPED"
    items: Any = declared.get("items") or {}
    nested = _PYTHON_TYPES.get(str(items.get("type"))) if wanted is list else None
    kind = next((_type(answer) for answer in acceptable if answer != ""), None)
    # A literal of another type than declared stands for a variable; it is then compared as it is.
    variable = kind is not None and kind is not wanted
    if _type(value) is wanted:
        if nested is not None and not _items_fit(value, acceptable, nested):
            if _type(value) is not kind:
                return "ARGUMENT_MISTYPED"
            variable = True
    elif kind is not None and _type(value) is kind:
        variable = True
    else:
        return "ARGUMENT_MISTYPED"
    met = _plainly_in(value, acceptable) if variable else _one_of(value, acceptable, wanted, nested)
    return None if met else "ARGUMENT_DIFFERS"


def _type(value: Any) -> Any:
    return cast("Any", type(value))


def _items_fit(value: Sequence[Any], acceptable: Sequence[Any], nested: type) -> bool:
    """Whether every item has the declared type, or that of the items of one acceptable array."""
    for answer in acceptable:
        if not is_list(answer):
            return True
        kind = next((_type(item) for item in answer if item != ""), None)
        if all(_type(item) is nested or _type(item) is kind for item in value):
            return True
    return False


def _one_of(value: Any, acceptable: Sequence[Any], wanted: Any, nested: type | None) -> bool:
    if wanted is dict:
        return any(is_object(answer) and _object_fits(value, answer) for answer in acceptable)
    if wanted is list and nested is dict:
        return any(is_list(answer) and _objects_fit(value, answer) for answer in acceptable)
    if wanted is str:
        return loose(value) in {loose(answer) for answer in acceptable if isinstance(answer, str)}
    if wanted is list:
        mine = [_loosened(item) for item in value]
        return any(
            mine == [_loosened(item) for item in answer] for answer in acceptable if is_list(answer) or answer == ""
        )
    return _plainly_in(value, acceptable)


def _plainly_in(value: Any, acceptable: Sequence[Any]) -> bool:
    return value in acceptable


def _loosened(item: Any) -> Any:
    return loose(item) if isinstance(item, str) else item


def _object_fits(value: Mapping[str, Any], answer: Mapping[str, Any]) -> bool:
    for key, item in value.items():
        if key not in answer or _loosened(item) not in [_loosened(option) for option in answer[key]]:
            return False
    return all(key in value or "" in options for key, options in answer.items())


def _objects_fit(value: Sequence[Any], answer: Sequence[Any]) -> bool:
    return len(value) == len(answer) and all(
        is_object(item) and is_object(wanted) and _object_fits(item, wanted)
        for item, wanted in zip(value, answer, strict=True)
    )
