"""Provenance: did every argument value come from somewhere, or was it invented?"""

import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from evalspan_collector.run import ToolCall
from evalspan_evaluators.case import Case
from evalspan_evaluators.jsonvalue import leaves, loaded, short
from evalspan_evaluators.metric import MetricBase
from evalspan_evaluators.score import Evidence, Score
from evalspan_evaluators.trajectory.names import shown

__all__ = ["ArgumentProvenance"]

#: Values a model cannot know by itself: e-mails, URLs, ids (a digit and a letter, or a separator), long numbers.
_IDENTIFIER = re.compile(
    r"[\w.+-]{1,64}@[\w-]{1,64}(?:\.[\w-]{1,64}){1,5}|https?://[^\s\"'<>]{3,500}"
    r"|(?<![\w.-])(?=[\w-]{0,60}\d)[\w]{1,60}(?:-\w{1,60}){0,8}(?![\w-])"
)
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
_MOST_NUMBERS = 50_000
_MOST_DERIVED = 200
_NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")


class _Known:
    """Everything the agent had seen before a call, as text; values are looked up in it."""

    def __init__(self, case: Case) -> None:
        parts: list[str] = [case.input or "", case.system_prompt or "", *case.context]
        parts.extend(message.text for message in case.conversation if message.role in ("user", "system"))
        for turn in case.turns:
            parts.extend((turn.input or "", turn.output or ""))
            parts.extend(_text(call.result) for call in turn.tools)
        parts.extend(document.content or "" for document in case.documents)
        parts.extend(json.dumps(d.parameters, default=str) for d in case.tool_definitions or () if d.parameters)
        self._size = 0
        self._texts: list[str] = []
        self._counted = 0
        self._numbers: set[str] = set()
        self._values: set[float] = set()
        for part in parts:
            self.add(part)

    def add(self, text: str) -> None:
        if text and self._size < _MOST_TEXT:
            text = text[: _MOST_TEXT - self._size].casefold()
            self._texts.append(text)
            self._size += len(text)

    def holds(self, value: str) -> bool:
        folded = value.casefold()
        return any(folded in text for text in reversed(self._texts))  # most values come from the newest result

    def relative_dates(self) -> bool:
        return any(_RELATIVE.search(text) for text in self._texts)

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
        for text in self._texts:
            if any(form in text for form in numeric) or (name in text and re.search(rf"(?<!\d)0?{day}(?!\d)", text)):
                return True
        return False

    def has_number(self, number: str) -> bool:
        """Whether it was seen, in any writing, or follows from two seen numbers."""
        for text in self._texts[self._counted :]:
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
    if value is None or isinstance(value, str):
        return value or ""
    try:
        return json.dumps(value, ensure_ascii=False, default=str)
    except (ValueError, RecursionError):
        return ""


def _checkable(value: Any) -> Iterator[str]:
    """The parts of a value that a model cannot know by itself."""
    if isinstance(value, bool) or value is None:
        return
    if isinstance(value, int | float):
        if math.isfinite(value) and abs(value) >= _SMALL:
            yield str(value)
        return
    text = str(value)
    if len(text) > 2_000:  # prose the agent wrote, such as a document or code
        return
    for found in _IDENTIFIER.finditer(text):
        part = found.group()
        if not _TIME.match(part) and not (part.isdigit() and int(part) < _SMALL):
            yield part


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
        checked = 0
        invented: list[tuple[ToolCall, str, str]] = []
        for call in case.tools or ():
            for path, part in self._values(call):
                seen = _seen(part, known)
                checked += seen is not None
                if seen is False:
                    invented.append((call, path, part))
            known.add(_text(call.result))
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
                path=path,
                code="VALUE_OF_UNKNOWN_ORIGIN",
            )
            for call, path, part in invented[:20]
        )
        call, path, part = invented[0]
        reason = (
            f"{len(invented)} of {checked} values come from nowhere: {short(part, 60)!r} in '{shown(call.name)}' {path}"
        )
        return self.score(value, reason, evidence=evidence)

    def _values(self, call: ToolCall) -> Iterator[tuple[str, str]]:
        given = 0
        for path, leaf in leaves(loaded(call.arguments), limit=2_000):
            if self.ignore and any(f".{name}" in path for name in self.ignore):
                continue
            for part in _checkable(leaf):
                given += 1
                if given > _MOST_VALUES:
                    return
                yield path, part


def _seen(part: str, known: _Known) -> bool | None:
    """Whether the value was seen; None when that cannot be told."""
    if known.holds(part):
        return True
    date = _DATE.match(part)
    if date is not None:
        _, month, day = (int(piece) for piece in date.groups())
        if 1 <= month <= 12 and known.has_date(month, day):
            return True
        return None if known.relative_dates() else False
    number = part.removeprefix("-")
    if number.replace(".", "", 1).isdigit():
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
