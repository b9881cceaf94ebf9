"""Parameters: whether a value of YAML has the kind a metric's field declares, with the standard library only."""

import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Union, cast, get_args, get_origin

from evalspan_evaluators.jsonvalue import is_object

__all__ = ["kind_problem"]


def kind_problem(hint: Any, value: Any) -> str | None:
    """What is wrong with the value, as `must be ...`; None when it fits or the hint is beyond this check."""
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        return _union_problem(get_args(hint), value)
    if origin is Literal:
        allowed = get_args(hint)
        return None if value in allowed else f"must be one of {', '.join(map(repr, allowed))}"
    check = _CONTAINERS.get(origin)
    if check is not None:
        return check(get_args(hint), value)
    return _plain_problem(hint, value)


def _union_problem(options: tuple[Any, ...], value: Any) -> str | None:
    problems: list[str] = []
    for option in options:
        problem = kind_problem(option, value)
        if problem is None:
            return None
        problems.append(problem.removeprefix("must be "))
    return "must be " + " or ".join(dict.fromkeys(problems))


def _plain_problem(hint: Any, value: Any) -> str | None:
    if hint is type(None):
        return None if value is None else "must be null"
    if hint is bool:
        return None if isinstance(value, bool) else "must be true or false"
    if hint is int:
        return None if isinstance(value, int) and not isinstance(value, bool) else "must be a whole number"
    if hint is float:
        return None if isinstance(value, int | float) and not isinstance(value, bool) else "must be a number"
    if hint is str:
        return None if isinstance(value, str) else "must be text"
    return None


def _tuple_problem(arguments: tuple[Any, ...], value: Any) -> str | None:
    if not isinstance(value, tuple | list):
        return "must be a list"
    if len(arguments) == 2 and arguments[1] is Ellipsis:
        for index, item in enumerate(cast("Sequence[Any]", value)):
            problem = kind_problem(arguments[0], item)
            if problem:
                return f"must be a list whose item {index} {problem.removeprefix('must be ')}"
    return None


def _mapping_problem(arguments: tuple[Any, ...], value: Any) -> str | None:
    if not is_object(value):
        return "must be a mapping"
    for key, item in value.items():
        problem = kind_problem(arguments[1], item) if arguments else None
        if problem:
            return f"must be a mapping whose {key!r} {problem.removeprefix('must be ')}"
    return None


_CONTAINERS: dict[Any, Callable[[tuple[Any, ...], Any], str | None]] = {
    tuple: _tuple_problem,
    Mapping: _mapping_problem,
    dict: _mapping_problem,
}
