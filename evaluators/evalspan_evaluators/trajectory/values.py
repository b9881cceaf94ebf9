"""Values: whether an argument's value meets an expected one, by rules a person can state."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, cast

from evalspan_evaluators.jsonvalue import is_list, is_object, member_path, short

__all__ = ["Difference", "TextRule", "ValueRule", "differences", "loose", "strictly_equal"]

TextRule = Literal["exact", "caseless", "loose"]

#: What the Berkeley function-calling leaderboard ignores in texts, so that "April 1, 2024" equals "april 1 2024".
_LOOSE = str.maketrans(dict.fromkeys(" ,./-_*^") | {"'": '"'})

_PLAIN = frozenset({int, float, bool, type(None)})
_INDEX = re.compile(r"\[\d+\]")


def loose(text: str) -> str:
    """The text without spaces and `,./-_*^`, in lower case, single quotes as double ones."""
    return text.translate(_LOOSE).lower()


@dataclass(frozen=True, slots=True)
class Difference:
    """One place at which a value is not what was expected.

    Attributes:
        path: JSON path into the arguments.
        expected: The expected value; None where none was.
        actual: The value sent; None where none was.
        code: Machine-readable reason.
    """

    path: str
    expected: Any
    actual: Any
    code: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueRule:
    """How two values are compared.

    Attributes:
        text: Texts are equal as they are, without regard to case, or loosely (see `loose`).
        tolerance: Largest absolute difference of two numbers.
        relative: Largest difference relative to the larger number.
        any_order: Arrays are compared as multisets.
        extra: An object may hold members that are not expected.
        missing: An object may lack members that are expected.
        ignore: Everything meets the expectation.
    """

    text: TextRule = "exact"
    tolerance: float = 0.0
    relative: float = 1e-9
    any_order: bool = False
    extra: bool = False
    missing: bool = False
    ignore: bool = False
    by_path: Mapping[str, "ValueRule"] = field(default_factory=dict[str, "ValueRule"])


def strictly_equal(left: Any, right: Any) -> bool:
    """Equal as JSON: like `==`, but true is not 1; no recursion beyond what `==` itself does."""
    return bool(left == right) and _same_kinds(left, right)


def _same_kinds(left: Any, right: Any) -> bool:
    """For two equal values: no true stands against a 1. Plain loops, since most arguments come through here."""
    kind = cast("Any", type(left))
    if kind is str or (kind is type(right) and kind in (int, float, bool)):
        return True
    if kind is bool or isinstance(right, bool):
        return False
    if is_object(left):
        for key, item in left.items():
            if type(item) is str or (type(item) in _PLAIN and type(item) is type(right[key])):
                continue
            if not _same_kinds(item, right[key]):
                return False
    elif is_list(left):
        return all(map(_same_kinds, left, right))
    return True


def differences(expected: Any, actual: Any, rule: ValueRule, path: str = "$") -> list[Difference]:
    """Where the actual value does not meet the expected one; empty when it does.

    An expected object with one member whose name begins with `$` is an operator: `{"$any": [a, b]}`,
    `{"$regex": "^A"}`, `{"$approx": 3.1, "$tolerance": 0.1}`, `{"$exists": true}`, `{"$ignore": true}`.
    """
    if rule.by_path:
        rule = rule.by_path.get(path) or rule.by_path.get(_any_index(path)) or rule
    if rule.ignore:
        return []
    if is_object(expected):
        if any(str(key).startswith("$") for key in expected):
            return _operator(expected, actual, rule, path)
        return _objects(expected, actual, rule, path)
    if is_list(expected):
        return _arrays(expected, actual, rule, path)
    if _scalars_equal(expected, actual, rule):
        return []
    code = "ARGUMENT_MISTYPED" if _kind(expected) != _kind(actual) else "ARGUMENT_DIFFERS"
    return [Difference(path, expected, actual, code)]


def _any_index(path: str) -> str:
    """The path with `[*]` for every index."""
    return _INDEX.sub("[*]", path) if "[" in path else path


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float):
        return "number"
    return type(value).__name__


def _scalars_equal(expected: Any, actual: Any, rule: ValueRule) -> bool:
    if isinstance(expected, str) and isinstance(actual, str):
        if expected == actual:
            return True
        if rule.text == "caseless":
            return expected.casefold() == actual.casefold()
        return rule.text == "loose" and loose(expected) == loose(actual)
    if isinstance(expected, bool) or isinstance(actual, bool):
        return expected is actual
    if isinstance(expected, int | float) and isinstance(actual, int | float):
        return _close(expected, actual, rule)
    return bool(expected == actual)


def _close(expected: float, actual: float, rule: ValueRule) -> bool:
    if expected == actual:
        return True
    try:
        return math.isclose(expected, actual, rel_tol=rule.relative, abs_tol=rule.tolerance)
    except OverflowError:  # an integer beyond what a float can hold
        return False


def _objects(expected: Mapping[str, Any], actual: Any, rule: ValueRule, path: str) -> list[Difference]:
    if not is_object(actual):
        return [Difference(path, expected, actual, "ARGUMENT_MISTYPED")]
    found: list[Difference] = []
    for key, wanted in expected.items():
        where = member_path(path, str(key))
        if key in actual:
            found.extend(differences(wanted, actual[key], rule, where))
        elif not rule.missing and not _may_be_absent(wanted, rule, where):
            found.append(Difference(where, wanted, None, "ARGUMENT_MISSING"))
    if not rule.extra:
        others = ((key, member_path(path, str(key))) for key in actual if key not in expected)
        found.extend(
            Difference(where, None, actual[key], "ARGUMENT_UNEXPECTED")
            for key, where in others
            if not _ignored(rule, where)
        )
    return found


def _ignored(rule: ValueRule, path: str) -> bool:
    own = rule.by_path.get(path)
    return own is not None and own.ignore


def _may_be_absent(wanted: Any, rule: ValueRule, path: str) -> bool:
    if _ignored(rule, path):
        return True
    return is_object(wanted) and bool(
        wanted.get("$optional") or wanted.get("$ignore") or wanted.get("$exists") is False
    )


def _arrays(expected: Sequence[Any], actual: Any, rule: ValueRule, path: str) -> list[Difference]:
    if not is_list(actual):
        return [Difference(path, expected, actual, "ARGUMENT_MISTYPED")]
    if len(expected) != len(actual):
        return [Difference(path, expected, actual, "ARGUMENT_DIFFERS")]
    if rule.any_order and len(expected) <= 200:
        rest = list(actual)
        for wanted in expected:
            at = next((i for i, item in enumerate(rest) if not differences(wanted, item, rule, path)), None)
            if at is None:
                return [Difference(path, expected, actual, "ARGUMENT_DIFFERS")]
            rest.pop(at)
        return []
    pairs = enumerate(zip(expected, actual, strict=True))
    return [gap for index, (wanted, item) in pairs for gap in differences(wanted, item, rule, f"{path}[{index}]")]


def _operator(expected: Mapping[str, Any], actual: Any, rule: ValueRule, path: str) -> list[Difference]:
    if expected.get("$ignore"):
        return []
    if "$any" in expected:
        options = cast("Sequence[Any]", expected["$any"])
        met = any(not differences(option, actual, rule, path) for option in options)
    elif "$regex" in expected:
        from evalspan_evaluators.output.pattern import search

        met = isinstance(actual, str) and search(str(expected["$regex"]), actual) is not None
    elif "$approx" in expected:
        wider = ValueRule(
            tolerance=float(expected.get("$tolerance", 0.0)), relative=float(expected.get("$relative", 1e-9))
        )
        met = _kind(actual) == "number" and _close(expected["$approx"], actual, wider)
    elif "$exists" in expected:
        met = bool(expected["$exists"])
    elif "$value" in expected:
        return differences(expected["$value"], actual, rule, path)
    else:
        raise ValueError(
            f"unknown operator in {short(expected)}: one of $any, $regex, $approx, $exists, $value, $ignore"
        )
    return [] if met else [Difference(path, expected, actual, "ARGUMENT_DIFFERS")]
