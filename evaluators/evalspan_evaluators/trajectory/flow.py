"""Flow: conditions of a rule on one call, among them arguments that come from an earlier result."""

from collections.abc import Iterator, Sequence
from typing import Any

from evalspan_collector.run import ToolCall
from evalspan_evaluators.jsonvalue import is_list, is_object, leaves, loaded
from evalspan_evaluators.output.pattern import search
from evalspan_evaluators.trajectory.grammar import Call, Condition
from evalspan_evaluators.trajectory.outcome import call_failed

__all__ = ["Flow", "values_at"]

_MOST_VALUES = 1_000


def values_at(value: Any, path: Sequence[str | int]) -> Iterator[Any]:
    """The values at a path; `*` (or nothing, at an array) stands for every index."""
    if not path:
        yield value
        return
    head, rest = path[0], path[1:]
    if is_object(value):
        if str(head) in value:
            yield from values_at(value[str(head)], rest)
        elif head == "*":
            for item in value.values():
                yield from values_at(item, rest)
    elif is_list(value):
        if isinstance(head, int):
            if head < len(value):
                yield from values_at(value[head], rest)
        else:
            for item in value:
                yield from values_at(item, rest if head == "*" else path)


class Flow:
    """The calls of one run, with an index of their results that is built when a condition first needs it.

    Args:
        calls: The calls, in order.
    """

    def __init__(self, calls: Sequence[ToolCall]) -> None:
        self._calls = calls
        self._first: dict[tuple[str, tuple[str | int, ...]], dict[Any, int]] = {}

    def __call__(self, atom: Call, call: ToolCall, index: int) -> bool:
        """Whether the call at this place meets every condition of the atom."""
        return all(self._meets(condition, call, index) for condition in atom.conditions)

    def _meets(self, condition: Condition, call: ToolCall, index: int) -> bool:
        if condition.path[:1] == ("result",):
            found = list(_some(values_at(loaded(call.result), condition.path[1:])))
        else:
            found = list(_some(values_at(loaded(call.arguments), condition.path)))
        if condition.operator == "exists":
            return bool(found) or (condition.path == ("failed",) and call_failed(call))
        if condition.tool is not None:
            from_there = bool(found) and all(self._comes_from(value, condition, index) for value in found)
            return from_there == (condition.operator == "=")
        if condition.operator == "!=":
            return all(not _compares("=", value, condition.value) for value in found)
        return any(_compares(condition.operator, value, condition.value) for value in found)

    def _comes_from(self, value: Any, condition: Condition, index: int) -> bool:
        """Every scalar of the value stands in a result before this call."""
        known = self._values(condition.tool or "any", condition.source)
        for _, leaf in leaves(value, limit=_MOST_VALUES):
            if known.get(_key(leaf), index) >= index and not self._in_text(leaf, condition, index):
                return False
        return True

    def _values(self, tool: str, source: tuple[str | int, ...]) -> dict[Any, int]:
        """Each scalar of the tool's results with the place of the first call that gave it."""
        known: dict[Any, int] | None = self._first.get((tool, source))
        if known is None:
            known = {}
            for index, call in enumerate(self._calls):
                if tool in (call.name, "any"):
                    for part in values_at(loaded(call.result), source):
                        for _, leaf in leaves(part):
                            known.setdefault(_key(leaf), index)
            self._first[tool, source] = known
        return known

    def _in_text(self, leaf: Any, condition: Condition, index: int) -> bool:
        """Results that are plain text: the value stands in it, unless a path asks for structure."""
        if condition.source or isinstance(leaf, bool) or leaf is None:
            return False
        text = str(leaf)
        return bool(text) and any(
            text in call.result
            for call in self._calls[:index]
            if (condition.tool in (call.name, "any")) and isinstance(call.result, str)
        )


def _some(values: Iterator[Any]) -> Iterator[Any]:
    for _, value in zip(range(_MOST_VALUES), values, strict=False):
        yield value


def _key(leaf: Any) -> Any:
    """Numbers equal their decimal text, so that an id sent as text still comes from a number."""
    if isinstance(leaf, bool) or leaf is None:
        return (type(leaf).__name__, leaf)
    if isinstance(leaf, int | float):
        return leaf
    text = str(leaf).strip()
    if len(text) <= 30 and text.replace(".", "", 1).removeprefix("-").isdecimal():
        return float(text) if "." in text else int(text)
    return text


def _compares(operator: str, value: Any, wanted: Any) -> bool:
    if operator == "~":
        return isinstance(value, str) and search(str(wanted), value) is not None
    if is_object(value) or is_list(value):
        return False
    left, right = _key(value), _key(wanted)
    if operator == "=":
        return bool(left == right)
    if isinstance(left, tuple) or isinstance(right, tuple) or isinstance(left, str) != isinstance(right, str):
        return False
    return bool({"<": left < right, "<=": left <= right, ">": left > right, ">=": left >= right}[operator])
