"""Moment: dates, times of day and weekdays in text, in the written forms of seven languages."""

import datetime as dt
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from evalspan_evaluators.grounding.text import fold, guess_language, kept_if_short, letter_runs

__all__ = ["Day", "Moment", "scan"]


class Day(NamedTuple):
    """A calendar day; 0 stands for a part that is not written.

    A named tuple, as moments and quantities are: thousands are made and looked up for one answer.
    """

    year: int = 0
    month: int = 0
    day: int = 0

    def agrees(self, other: "Day") -> bool:
        """Whether the parts both name are equal."""
        return all(
            a == b or not a or not b
            for a, b in ((self.year, other.year), (self.month, other.month), (self.day, other.day))
        ) and bool((self.month and other.month) or (self.year and other.year and not self.month and not self.day))

    def ordinal(self) -> dt.date | None:
        """The date, where it is complete and exists."""
        try:
            return dt.date(self.year, self.month, self.day) if self.year and self.month and self.day else None
        except ValueError:
            return None

    def __str__(self) -> str:
        parts = [f"{self.year:04d}" if self.year else "", f"{self.month:02d}" if self.month else ""]
        return "-".join(p for p in (*parts, f"{self.day:02d}" if self.day else "") if p)


class Moment(NamedTuple):
    """One date, time or weekday as written.

    Attributes:
        kind: `date`, `time` or `weekday`.
        days: Readings of a date, most likely first (`05/04/2024` has two).
        minutes: Readings of a time of day in minutes after midnight.
        weekday: 0 for Monday.
        seconds: Seconds behind the minute, where written.
    """

    kind: str
    start: int
    end: int
    text: str
    days: tuple[Day, ...] = ()
    minutes: tuple[int, ...] = ()
    weekday: int = -1


_MONTH_NAMES = {
    1: "january jan januar jänner janvier janv enero ene janeiro",
    2: "february feb februar février févr fév febrero fevereiro fev",
    3: "march mar märz mrz mars marzo março",
    4: "april apr avril avr abril abr",
    5: "may mai mayo maio",
    6: "june jun juni juin junio junho",
    7: "july jul juli juillet juil julio julho",
    8: "august aug août agosto ago",
    9: "september sep sept septembre septiembre setembro set",
    10: "october oct oktober okt octobre octubre outubro out",
    11: "november nov novembre noviembre novembro",
    12: "december dec dezember dez décembre déc diciembre dic dezembro",
}
_MONTHS = {name: number for number, names in _MONTH_NAMES.items() for name in names.split()}
#: Months of other languages that are words of English: `15 out of 20`, `a 10 set course`.
_WORDS_TOO = frozenset(("out", "set", "ago"))
_WEEKDAY_NAMES = {
    0: "monday mon montag lundi lunes segunda-feira 月曜日 星期一 周一",
    1: "tuesday tue tues dienstag mardi martes terça-feira 火曜日 星期二 周二",
    2: "wednesday wed mittwoch mercredi miércoles quarta-feira 水曜日 星期三 周三",
    3: "thursday thu thur thurs donnerstag jeudi jueves quinta-feira 木曜日 星期四 周四",
    4: "friday fri freitag vendredi viernes sexta-feira 金曜日 星期五 周五",
    5: "saturday sat samstag sonnabend samedi sábado 土曜日 星期六 周六",
    6: "sunday sun sonntag dimanche domingo 日曜日 星期日 星期天 周日",
}
_WEEKDAYS = {name: number for number, names in _WEEKDAY_NAMES.items() for name in names.split()}

_M = "(?:" + "|".join(sorted(_MONTHS, key=len, reverse=True)) + r")\b\.?"
_DAY = r"(?:[12]\d|3[01]|0?[1-9])"
_YEAR = r"(?:1[5-9]\d\d|20\d\d|21\d\d)"
#: No year stands before one of these.
_MEASURES = "ms|sec|min|kg|km|cm|mm|mph|kmh|mb|gb|kb|hpa|lbs?|ft|kwh|kcal"
_DATE_FORMS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (name, re.compile(pattern, re.IGNORECASE))
    for name, pattern in (
        ("ymd", rf"(?<![\d-])(?P<y>{_YEAR})[-/.](?P<m>0?[1-9]|1[0-2])[-/.](?P<d>{_DAY})(?![\d])"),
        ("ym", rf"(?<![\d-])(?P<y>{_YEAR})-(?P<m>0[1-9]|1[0-2])(?![\d-])"),
        ("cjk", rf"(?:(?P<y>{_YEAR})年)?(?P<m>0?[1-9]|1[0-2])月(?:(?P<d>{_DAY})[日号])?"),
        ("mdy", rf"\b(?P<m>{_M}) ?(?P<d>{_DAY})(?:st|nd|rd|th)?\b(?!:)(?:,? (?P<y>{_YEAR})\b)?"),
        (
            "dmy",
            rf"\b(?P<d>{_DAY})(?:st|nd|rd|th|\.|er|º)?(?: of| de)? (?P<m>{_M})(?:,? (?:de |del )?(?P<y>{_YEAR})\b)?",
        ),
        (
            "num",
            rf"(?<![\d/.-])(?P<a>{_DAY}|1[0-2])(?P<sep>[-/._])(?P<b>{_DAY})(?P=sep)(?P<y>{_YEAR}|\d\d)(?![\d/-]|\.\d)",
        ),
        # Only behind one of the words that go with it: else `15.05.` is a price at the end of a sentence.
        ("dm", rf"(?P<d>{_DAY})\.\s?(?P<m>0?[1-9]|1[0-2])\.(?!\d)"),
        ("my", rf"\b(?P<m>{_M}),?(?: de| del| of)? (?P<y>{_YEAR})\b"),
        ("y", rf"(?<![\w.,$€£/-])(?P<y>1[89]\d\d|20\d\d)(?![\w%]|[.,/-]\d|\s(?:{_MEASURES})\b)"),
    )
)
_MORE_DAYS = re.compile(
    rf"\s?(?:,|and|und|et|y|e|to|-|–|&|through)\s(?P<d>{_DAY})(?:st|nd|rd"
    rf"|th)\b(?:,? (?P<y>{_YEAR})\b)?|\s(?:and|und|et|y|e) (?P<d2>{_DAY}), (?P<y2>{_YEAR})\b"
)
_TIME = re.compile(
    r"(?<![\d:.])(?:(?P<pre>午前|午後|上午|下午|晚上|早上)\s?)?"
    r"(?:(?P<h>[01]?\d|2[0-4])[:h](?P<m>[0-5]\d)(?::(?P<s>[0-5]\d)(?:\.\d+)?)?(?:\s?(?P<ap>[ap]\.m\.|[ap]m\b))?"
    r"|(?P<h2>1[0-2]|0?[1-9])\s?(?P<ap2>[ap]\.m\.|[ap]m\b)"
    r"|(?P<h3>[01]?\d|2[0-3])\s?(?:Uhr\b|時(?!間)|点)(?:\s?(?P<m3>[0-5]?\d)(?:分)?)?)(?![\d:])",
    re.IGNORECASE,
)
_WEEKDAY = re.compile(
    r"\b("
    + "|".join(
        n
        for n in _WEEKDAYS
        if (n.isascii() and len(n) > 4) or "-" in n or n in ("lundi", "mardi", "jeudi", "lunes", "miércoles", "sábado")
    )
    + r")s?\b"
    r"|(" + "|".join(n for n in _WEEKDAYS if n[0] in "月火水木金土日星周" and len(n) >= 2) + r")",
    re.IGNORECASE,
)


_GERMAN_WORDS = frozenset(("am", "vom", "bis", "ab", "zum", "den", "dem", "seit"))
_GERMAN = re.compile(rf"\b(?:{'|'.join(sorted(_GERMAN_WORDS))})\s$", re.IGNORECASE)
_DIGIT_RUN = re.compile(r"\d+")
_LETTERS = re.compile(r"[^\W\d_]+")
_HALF_DAY = re.compile(r"[午上下晚早]").search
_CJK_WEEKDAY = re.compile(r"[月火水木金土日星周]").search
#: Words that a weekday starts with, to look for weekdays where one stands only.
_WEEKDAY_RUNS = frozenset(part for name in _WEEKDAYS for part in (name, f"{name}s", name.partition("-")[0]))
#: Digits that a form starts with, and what may follow them; the forms not told of here start with a month.
_STARTS: dict[str, tuple[tuple[int, ...], str]] = {
    "dm": ((1, 2), "."),
    "ymd": ((4,), "-/."),
    "ym": ((4,), "-"),
    "dmy": ((1, 2), ""),
    "num": ((1, 2), "-/._"),
    "y": ((4,), ""),
}


def _year(text: str | None) -> int:
    if not text:
        return 0
    value = int(text)
    return value if value > 99 else value + (2000 if value < 70 else 1900)


def _month(text: str) -> int:
    text = text.rstrip(".").lower().replace("ſ", "s")  # the long s is an s to a pattern that ignores case
    return int(text) if text.isdigit() else _MONTHS[text]


def _days(form: str, match: re.Match[str]) -> tuple[Day, ...]:
    groups = match.groupdict()
    year = _year(groups.get("y"))
    if form == "y":
        return (Day(year),)
    if form != "num":
        return (Day(year, _month(groups["m"]), int(groups.get("d") or 0)),)
    a, b = int(groups["a"]), int(groups["b"])
    first = (Day(year, b, a), Day(year, a, b)) if groups["sep"] == "." else (Day(year, a, b), Day(year, b, a))
    return tuple(dict.fromkeys(day for day in first if day.month <= 12))


def _matches(pattern: re.Pattern[str], text: str, starts: Iterable[int]) -> Iterator[re.Match[str]]:
    """What `finditer` finds for a pattern that can only match at these places."""
    at = 0
    for start in starts:
        if start >= at and (match := pattern.match(text, start)) is not None:
            yield match
            at = match.end()


def _starts(form: str, text: str, runs: Sequence[tuple[int, int]]) -> Iterator[int]:
    """Where a form that starts with digits may start."""
    lengths, following = _STARTS[form]
    for start, end in runs:
        if end - start not in lengths or (following and text[end : end + 1] not in following):
            continue
        if form != "dm" or _GERMAN.search(text, max(0, start - 8), start):
            yield start


def _dates(text: str, runs: Sequence[tuple[int, int]], taken: bytearray) -> list[Moment]:
    found: list[Moment] = []
    months = not _MONTHS.keys().isdisjoint(letter_runs(text))
    named = [m.start() for m in _LETTERS.finditer(text) if m[0].lower() in _MONTHS] if months else []
    english = months and not _WORDS_TOO.isdisjoint(letter_runs(text)) and guess_language(text) == "en"
    lengths = {end - start for start, end in runs}
    german = not _GERMAN_WORDS.isdisjoint(letter_runs(text))
    for form, pattern in _DATE_FORMS:
        if form in ("mdy", "dmy", "my") and not months:
            continue
        if (form in _STARTS and lengths.isdisjoint(_STARTS[form][0])) or (form == "dm" and not german):
            continue
        if form == "cjk" and "月" not in text:
            continue
        if form == "cjk":
            matches = pattern.finditer(text)
        else:
            matches = _matches(pattern, text, _starts(form, text, runs) if form in _STARTS else named)
        for match in matches:
            if any(taken[match.start() : match.end()]):
                continue
            days = _days(form, match)
            if not days or (english and form in ("mdy", "dmy", "my") and match["m"].lower() in _WORDS_TOO):
                continue
            taken[match.start() : match.end()] = b"\1" * (match.end() - match.start())
            found.append(Moment("date", match.start(), match.end(), match[0], days))
            if form in ("mdy", "dmy") and days[0].day:
                found.extend(_further_days(text, match.end(), days[0], taken))
    return found


def _further_days(text: str, at: int, first: Day, taken: bytearray) -> list[Moment]:
    """`May 10th and 11th`: later days share the month."""
    found: list[Moment] = []
    while (more := _MORE_DAYS.match(text, at)) is not None:
        group = "d" if more["d"] else "d2"
        day = Day(_year(more["y"] or more["y2"]) or first.year, first.month, int(more[group]))
        end = more.end()
        found.append(Moment("date", more.start(group), end, text[more.start(group) : end], (day,)))
        taken[more.start(group) : end] = b"\1" * (end - more.start(group))
        at = end
    return found


def _minutes(match: re.Match[str]) -> tuple[int, ...]:
    hour = int(match["h"] or match["h2"] or match["h3"])
    minute = int(match["m"] or match["m3"] or 0)
    mark = (match["ap"] or match["ap2"] or "").lower()[:1]
    if match["pre"]:
        mark = "p" if match["pre"] in ("午後", "下午", "晚上") else "a"
    if mark:
        hour = hour % 12 + (12 if mark == "p" else 0)
    return (hour % 24 * 60 + minute,)


def _times(text: str, runs: Sequence[tuple[int, int]]) -> Iterator[re.Match[str]]:
    if not runs or (not text.isascii() and _HALF_DAY(text)):
        return _TIME.finditer(text)
    return _matches(_TIME, text, (start for start, end in runs if end - start <= 2))


def _weekdays(text: str) -> Iterator[re.Match[str]]:
    if not text.isascii() and _CJK_WEEKDAY(text):
        return _WEEKDAY.finditer(text)
    if _WEEKDAY_RUNS.isdisjoint(letter_runs(text)):
        return iter(())
    return _matches(_WEEKDAY, text, (m.start() for m in _LETTERS.finditer(text) if m[0].lower() in _WEEKDAY_RUNS))


@kept_if_short(2048)
def scan(text: str) -> tuple[Moment, ...]:
    """Every date, time and weekday of the text, in order, without overlaps."""
    text = fold(text)
    taken = bytearray(len(text))
    runs = [m.span() for m in _DIGIT_RUN.finditer(text)]
    found = _dates(text, runs, taken) if runs else []
    for match in _times(text, runs):
        if not any(taken[match.start() : match.end()]):
            found.append(Moment("time", match.start(), match.end(), match[0], minutes=_minutes(match)))
    for match in _weekdays(text):
        name = (match[1] or match[2]).lower()
        found.append(Moment("weekday", match.start(), match.end(), match[0], weekday=_WEEKDAYS[name]))
    found.sort(key=lambda m: m.start)
    return tuple(found)
