"""Provenance: did every argument value come from somewhere, or was it invented?"""

import json
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

from evalspan_collector.run import ToolCall
from evalspan_evaluators.case import Case
from evalspan_evaluators.jsonvalue import is_object, leaves, loaded, member_path, short
from evalspan_evaluators.metric import MetricBase
from evalspan_evaluators.score import Evidence, Score
from evalspan_evaluators.trajectory.identity import ByIdentity
from evalspan_evaluators.trajectory.names import shown

__all__ = ["ArgumentProvenance"]

#: Ids are words with a digit in them, or several joined by `-`.
_ID = r"(?<![\w.-])(?=[\w-]{0,60}\d)[\w]{1,60}(?:-\w{1,60}){0,8}(?![\w-])"
_IDS = re.compile(_ID)
#: The same beside e-mails and URLs.
_ADDRESSES = re.compile(rf"[\w.+-]{{1,64}}@[\w-]{{1,64}}(?:\.[\w-]{{1,64}}){{1,5}}|https?://[^\s\"'<>]{{3,500}}|{_ID}")
#: Without any of these there is no such value.
_HINT = re.compile(r"[\d@]|://")
_LONGEST_TEXT = 2_000
#: Up to this length it is quicker to look for ids at once.
_SHORT = 20
_DATE = re.compile(r"^(\d{4})-(\d{2})-(\d{2})(?:[T ].*)?$")
_TIME = re.compile(
    r"^\d{1,2}:\d{2}(?::\d{2})?$|^\d{1,2}(?:st|nd|rd|th|am|pm|AM|PM|h|d|m|s|k|K|M|x|px|kg|km|cm|mm|GB|MB)$"
)
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_RELATIVE = re.compile(
    r"\b(?:today|tomorrow|tonight|yesterday|now|next|last|this|week|month|weekend|morgen|heute|demain|hier|mañana|hoy"
    r"|monday|tuesday|wednesday|thursday|friday|saturday|sunday)\b|明日|今日|明天|今天",
    re.IGNORECASE,
)
_SMALL = 100
_MOST_TEXT = 4_000_000
_MOST_VALUES = 200
_MOST_LEAVES = 2_000
_PLAIN = frozenset({str, int, float, bool, type(None)})
#: Longer texts of a result are searched, not looked up.
_LONGEST_VALUE = 200
_MOST_NUMBERS = 50_000
_MOST_DERIVED = 200
_NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")


class _Known:
    """Everything the agent had seen before a call, as text; values are looked up in it."""

    def __init__(self, case: Case) -> None:
        self._size = 0
        self._texts: list[str] = []
        self._definitions = case.tool_definitions or ()
        self._counted = 0
        self._numbers: set[str] = set()
        self._values: set[float] = set()
        self._add_texts(case.input, case.system_prompt, *case.context)
        self._add_texts(*(message.text for message in case.conversation if message.role in ("user", "system")))
        for turn in case.turns:
            self._add_texts(turn.input, turn.output)
            for call in turn.tools:
                self.add(call.result)
        self._add_texts(*(document.content for document in case.documents))

    def add(self, result: Any) -> None:
        """A result the agent has got."""
        if not result:
            return
        text = result if type(result) is str else _text(result)
        self._size += len(text)
        if self._size > _MOST_TEXT:
            text = text[: max(0, len(text) - (self._size - _MOST_TEXT))]
            self._size = _MOST_TEXT
        self._texts.append(text.casefold())

    def _add_texts(self, *texts: str | None) -> None:
        for text in texts:
            if text:
                self.add(text)

    def _all_texts(self) -> list[str]:
        """Every text, those of the tools' definitions included, which are read last."""
        for definition in self._definitions:
            if definition.parameters:
                self._add_texts(_definition_text(definition.parameters))
        self._definitions = ()
        return self._texts

    def holds(self, value: str) -> bool:
        folded = value.casefold()
        for text in reversed(self._texts):  # most values come from the newest result
            if folded in text:
                return True
        if not self._definitions:
            return False
        seen = len(self._texts)
        return any(folded in text for text in self._all_texts()[seen:])

    def relative_dates(self) -> bool:
        return any(_RELATIVE.search(text) for text in self._all_texts())

    def has_date(self, month: int, day: int) -> bool:
        """The date in any usual writing, the year left out or not; day and month must both be there."""
        name = _MONTHS[month - 1]
        numeric = (
            f"{month:02d}-{day:02d}",
            f"{month}/{day}",
            f"{month:02d}/{day:02d}",
            f"{day:02d}.{month:02d}",
            f"{day}.{month}.",
        )
        for text in self._all_texts():
            if any(form in text for form in numeric) or (name in text and re.search(rf"(?<!\d)0?{day}(?!\d)", text)):
                return True
        return False

    def has_number(self, number: str) -> bool:
        """Whether it was seen, in any writing, or follows from two seen numbers."""
        for text in self._all_texts()[self._counted :]:
            for found in _NUMBER.findall(text):
                plain = _plain_number(found)
                if plain not in self._numbers and len(self._numbers) < _MOST_NUMBERS:
                    self._numbers.add(plain)
                    if len(plain) < 16:
                        self._values.add(float(plain))
        self._counted = len(self._texts)
        return _plain_number(number) in self._numbers or _derived(float(number), self._values)


def _plain_number(text: str) -> str:
    plain = text.replace(",", "")
    return plain.rstrip("0").rstrip(".") if "." in plain else plain.lstrip("0") or "0"


def _text(value: Any) -> str:
    """A value as text; ids, numbers, dates and addresses in it stay as they are."""
    try:
        # Python's own writing takes a third of the time of JSON; it differs where an object is no JSON, such as
        # `datetime.date(2024, 5, 3)`.
        text = repr(value)
        return text if "(" not in text and "<" not in text else json.dumps(value, ensure_ascii=False, default=str)
    except (ValueError, TypeError, RecursionError):
        return ""


_definition_text = ByIdentity(_text)


def _checkable(value: Any) -> Sequence[str]:
    """The parts of a value that a model cannot know by itself."""
    if isinstance(value, (int, float)):
        if isinstance(value, bool) or -_SMALL < value < _SMALL or not math.isfinite(value):
            return ()
        return (str(value),)
    return () if value is None else _text_parts(str(value))


@lru_cache(maxsize=8192)
def _short_parts(text: str) -> tuple[str, ...]:
    """Those of a short text, remembered: the same ids and words come again and again in a run."""
    return tuple(_text_parts(text))


def _text_parts(text: str) -> Sequence[str]:
    if len(text) > _SHORT and (len(text) > _LONGEST_TEXT or _HINT.search(text) is None):
        return ()  # longer is prose the agent wrote, such as a document or code
    parts = (_ADDRESSES if "@" in text or "://" in text else _IDS).findall(text)
    if parts and parts[0][0].isalpha() and len(parts) == 1:
        return parts
    return [part for part in parts if not (part[0].isdecimal() and _is_common(part))]


def _is_common(part: str) -> bool:
    """A small number, a time of day, a measure."""
    return _TIME.match(part) is not None or (part.isdecimal() and int(part) < _SMALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArgumentProvenance(MetricBase):
    """Share of the checkable argument values that the agent had seen before the call.

    Checkable are values a model cannot know by itself: ids, e-mails, URLs, dates and numbers from 100 on. Seen means:
    in the user's words, the system prompt, a document, a tool definition, an earlier turn, or the result of an earlier
    call. Dates count as seen when day and month were said in any writing, and are not checked when somebody spoke
    of days relatively ("next Friday"). Sums, differences and products of two seen numbers count as seen.

    Attributes:
        ignore: Names of arguments that are not checked, such as free text or code.
    """

    name: ClassVar[str] = "argument_provenance"
    requires: ClassVar[tuple[str, ...]] = ("tools",)
    default_threshold: ClassVar[float | None] = 1.0
    code_version: ClassVar[int] = 1

    ignore: tuple[str, ...] = ()

    def evaluate(self, case: Case) -> Score:
        """Walk the calls in order, looking each value up in what was known before it."""
        known = _Known(case)
        holds, values_of, add = known.holds, self._values, known.add
        checked = 0
        invented: list[tuple[ToolCall, str, str]] = []
        for call in case.tools or ():
            for place, parts in values_of(call):
                for part in parts:
                    seen = holds(part) or _follows(part, known)
                    checked += seen is not None
                    if seen is False:
                        invented.append((call, place, part))
            add(call.result)
        if not checked:
            return self.skip("no argument holds a value that must come from somewhere")
        value = (checked - len(invented)) / checked
        if not invented:
            return self.score(value, f"all {checked} checkable values were seen before they were sent")
        evidence = tuple(
            Evidence(
                verdict="unsupported",
                claim=part,
                value=short(part),
                source="tool_arguments",
                tool=call.name,
                span_id=call.span_id,
                path=_path(call, place),
                code="VALUE_OF_UNKNOWN_ORIGIN",
            )
            for call, place, part in invented[:20]
        )
        call, place, part = invented[0]
        where = f"'{shown(call.name)}' {_path(call, place)}"
        reason = f"{len(invented)} of {checked} values come from nowhere: {short(part, 60)!r} in {where}"
        return self.score(value, reason, evidence=evidence)

    def _values(self, call: ToolCall) -> list[tuple[str, Sequence[str]]]:
        """The checkable parts of the arguments, by the place they stand at (see `_path`)."""
        arguments = call.arguments
        kind = type(arguments)  # pyright: ignore[reportUnknownVariableType]  # any JSON value
        if kind is not dict:
            arguments = loaded(arguments)
        found = _flat_values(arguments)
        if found is None:
            found = _deep_values(arguments)
        if self.ignore and found:
            return [(place, parts) for place, parts in found if not self._is_ignored(_path(call, place))]
        return found

    def _is_ignored(self, path: str) -> bool:
        return any(f".{name}" in path for name in self.ignore)


def _is_flat(arguments: Any) -> bool:
    if not is_object(arguments) or len(arguments) > _MOST_VALUES:
        return False
    kinds: Iterable[type[object]] = map(type, arguments.values())
    return _PLAIN.issuperset(kinds)


def _flat_values(arguments: Any) -> list[tuple[str, Sequence[str]]] | None:
    """The checkable parts by key of an object without nesting, which most arguments are; None for any other.

    One pass, and keys in place of paths: this runs for every call of every run.
    """
    holder = type(arguments)  # pyright: ignore[reportUnknownVariableType]  # any JSON value
    if (holder is not dict and not is_object(arguments)) or len(arguments) > _MOST_VALUES:
        return None
    found: list[tuple[str, Sequence[str]]] = []
    for key, value in arguments.items():
        kind = type(value)  # pyright: ignore[reportUnknownVariableType]  # any JSON value
        if kind is str:
            parts = _text_parts(value) if len(value) > _SHORT else _short_parts(value)
        elif kind is int:
            if -_SMALL < value < _SMALL:
                continue
            parts = (str(value),)
        elif kind in _PLAIN:
            parts = _checkable(value)
        else:
            return None
        if parts:
            found.append((key, parts))
    return found


def _deep_values(arguments: Any) -> list[tuple[str, Sequence[str]]]:
    """The checkable parts by path of any arguments, a bounded number of them."""
    found: list[tuple[str, Sequence[str]]] = []
    left = _MOST_VALUES
    for path, leaf in leaves(arguments, limit=_MOST_LEAVES):
        parts = _checkable(leaf)
        if parts:
            found.append((path, parts))
            left -= len(parts)
            if left <= 0:
                break
    return found


def _path(call: ToolCall, place: str) -> str:
    return member_path("$", str(place)) if _is_flat(loaded(call.arguments)) else place


def _follows(part: str, known: _Known) -> bool | None:
    """Whether a value that nobody said follows from what was; None when that cannot be told."""
    date = _DATE.match(part)
    if date is not None:
        _, month, day = (int(piece) for piece in date.groups())
        if 1 <= month <= 12 and known.has_date(month, day):
            return True
        return None if known.relative_dates() else False
    number = part.removeprefix("-")
    if number.replace(".", "", 1).isdecimal():
        return known.has_number(number)
    return False


def _derived(target: float, numbers: set[float]) -> bool:
    """Whether it is a sum, difference, product or quotient of two seen numbers, to the cent."""
    if len(numbers) > _MOST_DERIVED:  # among many numbers some pair fits anything
        return False
    for one in numbers:
        if round(target - one, 2) in numbers or round(target + one, 2) in numbers:
            return True
        if one and (round(target / one, 2) in numbers or round(target * one, 2) in numbers):
            return True
    return False
