"""Quantity: a number in text with its sign, scale, currency, percent, unit and precision, in several locales."""

import re
from collections.abc import Iterator
from itertools import islice
from math import prod
from typing import NamedTuple

from evalspan_evaluators.grounding.notation import APPROXIMATE, CURRENCIES, MAGNITUDES, NUMBER_WORDS, PERCENTS, SCALES
from evalspan_evaluators.grounding.text import STOP_WORDS, fold, guess_language, kept_if_short, letter_runs, stem
from evalspan_evaluators.grounding.unit import dimension, measure

__all__ = ["Quantity", "has_words", "scan"]


class Quantity(NamedTuple):
    """One number as written.

    Attributes:
        values: Signed readings before scaling; more than one where `1.234` may be a thousand or a decimal.
        decimals: Digits behind the decimal mark of the first reading.
        scale: 1, 1e3, 1e6, ... from a word or letter behind the number.
        percent: Written as a percentage.
        currency: ISO code, None when none is written.
        unit: Stem of the noun or unit behind the number, empty when there is none.
        worded: Written in words, such as `three`.
        approximate: Preceded by `about`, `nearly`, ...
        digits: Digits as written, to tell an id from a number.
    """

    start: int
    end: int
    text: str
    values: tuple[float, ...]
    decimals: int = 0
    scale: float = 1.0
    percent: bool = False
    currency: str | None = None
    unit: str = ""
    worded: bool = False
    approximate: bool = False
    digits: str = ""

    @property
    def value(self) -> float:
        """The first reading, scaled."""
        return self.values[0] * self.scale

    @property
    def step(self) -> float:
        """Half a unit of the last digit written, scaled: what rounding may hide."""
        return 0.5 * 10.0**-self.decimals * self.scale


_DIGITS = (
    r"\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d{1,3}(?:\.\d{3})+(?:,\d+)?|\d{1,2}(?:,\d{2})+,\d{3}(?:\.\d+)?"
    r"|\d{1,3}(?:[ ']\d{3})+(?:[.,]\d+)?|\d+(?:[.,]\d+)?|\.\d+"
)
_NUMBER = re.compile(
    r"(?<![A-Za-z0-9_.,/])(?P<open>\()?(?P<sign1>[-+~≈])?"
    r"(?:(?P<cur1>(?:US|[RCA]|HK)?\$|[€£¥₹₩₿]|\b(?:USD|EUR|GBP|JPY|CNY|INR|CHF|CAD|AUD|BRL|Rs)\b\.?)\s?(?P<sign2>[-+])?)?"
    r"(?P<num>" + _DIGITS + r")"
    r"(?P<exp>[eE][-+]?\d{1,2}\b)?(?![\d])"
    r"(?:(?P<per>\s?(?:" + PERCENTS + r"))|(?P<scale>[ -]?(?:mil millones|mil milhões|[^\W\d_]+\.?))?)",
    re.IGNORECASE,
)
_AFTER = re.compile(
    r"[ -]?(?:(?P<per>" + PERCENTS + r")|(?P<cur>[€£¥$₹₩]|[\u3040-\u9fff]{1,4}|[^\W\d_]{2,10})|(?P<of>of (?:the )?))",
    re.IGNORECASE,
)
_UNIT = re.compile(r"[ -]?(?P<unit>°[CFK]?|[^\W\d_]+(?:/[^\W\d_]+)?(?:[²³])?(?:-[^\W\d_]+)*)")


def _is_approximate(text: str, at: int) -> bool:
    """Whether the word before a number makes it a rough one: `about`, `more than`, `up to`."""
    words = text[max(0, at - 20) : at].rstrip(" ($€£~≈").rsplit(None, 2)
    if not words:
        return False
    word = words[-1].lower().strip(".([")
    if word in ("to", "de"):
        return len(words) > 1 and words[-2].lower() in ("up", "close", "equal", "près", "plus", "más", "mais", "cerca")
    return word in APPROXIMATE or word[-1:] in "約约"


_WORDED = {
    language: re.compile(
        r"(?<![\w-])(" + "|".join(table) + r")(?![\w])(?:-(one|two|three|four|five|six|seven|eight|nine)\b)?",
        re.IGNORECASE,
    )
    for language, table in NUMBER_WORDS.items()
}


def _readings(digits: str) -> tuple[tuple[float, ...], int]:
    """Every reading of a digit group, most likely first, and the decimals of the first."""
    text = digits.replace(" ", "").replace("'", "")
    dots, commas = text.count("."), text.count(",")
    if dots and commas:
        mark = "." if text.rfind(".") > text.rfind(",") else ","
        plain = text.replace("," if mark == "." else ".", "").replace(mark, ".")
        return (float(plain),), len(plain.partition(".")[2])
    if dots + commas == 0:
        return (float(text),), 0
    mark = "." if dots else ","
    head, _, tail = text.rpartition(mark)
    if dots + commas > 1:
        return (float(text.replace(mark, "")),), 0
    decimal = float(f"{head or '0'}.{tail}")
    if len(tail) == 3 and head not in ("", "0") and len(head) <= 3:
        whole = float(head + tail)
        return ((whole, decimal), 0) if mark == "," else ((decimal, whole), 3)
    return (decimal,), len(tail)


_HIRAGANA = re.compile("[\u3041-\u309f]")


def _unspaced_unit(run: str) -> str:
    """The unit that a run of letters without spaces starts with, else the run up to its grammatical ending."""
    known = (run[:size] for size in (3, 2, 1) if measure((run[:size],)))
    return next(known, _HIRAGANA.split(run)[0])


def _unit_after(text: str, at: int) -> tuple[str, int]:
    """The stem of the unit noun behind a number, skipping up to two adjectives is left to the caller."""
    match = _UNIT.match(text, at)
    if match is None:
        return "", at
    unit = match["unit"]
    if unit[0] >= "\u3040":
        return _unspaced_unit(unit), match.end()
    if unit.lower() in STOP_WORDS:
        return "", at
    if (
        dimension(stem(unit)) == ""
        and (second := _UNIT.match(text, match.end()))
        and dimension(stem(second["unit"])) == "time"
    ):
        return stem(second["unit"]), second.end()  # business days, calendar weeks
    return (unit.lower() if unit.startswith("°") or "/" in unit else stem(unit)), match.end()


def _build(match: re.Match[str], text: str) -> Quantity | None:
    digits = match["num"]
    values, decimals = _readings(digits)
    if match["exp"]:
        values = tuple(v * 10.0 ** int(match["exp"][1:]) for v in values)
    scaled = _scale(match, match.end("exp") if match["exp"] else match.end("num"))
    if scaled is None:
        return None
    scale, end = scaled
    percent, currency, end = _percent_and_currency(match, text, end)
    unit = "" if percent else _unit_after(text, end)[0]
    start, end, negative = _sign(match, text, end, unit)
    return Quantity(
        start=start,
        end=end,
        text=text[start:end],
        values=tuple(-v for v in values) if negative else values,
        decimals=decimals,
        scale=scale,
        percent=percent,
        currency=currency,
        unit=unit,
        approximate=_is_approximate(text, start) or match["sign1"] in ("~", "≈"),
        digits=digits,
    )


def _scale(match: re.Match[str], end: int) -> tuple[float, int] | None:
    """Scale and end behind a scale word; None where the letters make the number an ordinal or an id."""
    word = (match["scale"] or "").strip(" -.").lower()
    if match["per"] or not word:
        return 1.0, end
    glued = match["scale"][0] not in " -"
    known = None if _is_measure(match, word) else SCALES.get(word)
    if known is not None and (len(word) > 1 or MAGNITUDES.fullmatch(word) or glued or match["cur1"]):
        return known, match.end("scale") - match["scale"].endswith(".")
    if glued and (powers := MAGNITUDES.match(word)):
        return prod(SCALES[letter] for letter in powers[0]), match.start("scale") + powers.end()
    ordinal = word in ("st", "nd", "rd", "th")
    unknown = word not in CURRENCIES and word.isascii() and dimension(stem(word)) == "" and len(word) > 2
    return None if glued and (ordinal or unknown) else (1.0, end)


def _is_measure(match: re.Match[str], word: str) -> bool:
    """Whether a word that may scale a number is a unit here: metres in `4.6m/s`, millimetres in `12 mm`."""
    behind = match.string[match.end("scale") : match.end("scale") + 1]
    compound = behind != "" and behind in "/²³^" and dimension(word) != ""
    return compound or (word == "mm" and "MM" not in match["scale"] and not match["cur1"])


def _percent_and_currency(match: re.Match[str], text: str, end: int) -> tuple[bool, str | None, int]:
    currency = CURRENCIES.get((match["cur1"] or "").strip(" .").lower())
    if match["per"]:
        return True, currency, match.end("per")
    after = _AFTER.match(text, end)
    if after is None:
        return False, currency, end
    if after["per"]:
        return True, currency, after.end()
    name = _currency_name((after["cur"] or "").lower())
    if name and currency is None:
        return False, CURRENCIES[name], after.start("cur") + len(name)
    return False, currency, end


def _currency_name(run: str) -> str:
    """The currency that a run of letters is, or starts with in a script without spaces; empty for none."""
    sizes = (len(run),) if run < "\u3040" else range(len(run), 0, -1)
    return next((run[:size] for size in sizes if run[:size] in CURRENCIES), "")


def _sign(match: re.Match[str], text: str, end: int, unit: str) -> tuple[int, int, bool]:
    """Start, end and whether the number is negative; accountants' brackets are a minus."""
    start = match.start()
    negative = "-" in (match["sign1"] or "") or "-" in (match["sign2"] or "")
    if match["open"]:
        closed = text[end : end + 1] == ")" and text[start + 1 : start + 2] in "$€£0123456789"
        if closed and not negative and not unit:
            return start, end + 1, True
        start += 1
    while start < end and text[start] == " ":
        start += 1
    return start, end, negative


_ANY_WORDED = re.compile(
    r"(?<![\w-])(?:" + "|".join(sorted({w for table in NUMBER_WORDS.values() for w in table})) + r")(?!\w)",
    re.IGNORECASE,
)
_WORDED_RUNS = frozenset(w for table in NUMBER_WORDS.values() for w in table)
_HYPHENED = re.compile(r"\s?-\s?[^\W\d_]")


def has_words(text: str) -> bool:
    """Whether numbers may be written in words here."""
    return not _WORDED_RUNS.isdisjoint(letter_runs(text)) and _ANY_WORDED.search(text) is not None


_DIGIT_RUN = re.compile(r"\d+")
#: Letters a number may have before its first digit: bracket, sign, currency, space, sign and point.
_MOST_BEFORE = 9
#: Numbers of one text that are read: more than an index takes and than claims are looked at.
_MOST_NUMBERS = 7_000


def _numbers(text: str) -> Iterator[re.Match[str]]:
    """Every match of a number, jumping from digit to digit."""
    at = 0
    for run in _DIGIT_RUN.finditer(text):
        if run.end() <= at:
            continue
        match = _NUMBER.search(text, max(at, run.start() - _MOST_BEFORE))
        if match is None:
            return
        yield match
        at = match.end()


_SCALE_WORD = re.compile(r"[ -](hundred|thousand|million|billion|trillion)\b", re.IGNORECASE)
_PERCENT_WORD = re.compile(r"\s(?:" + PERCENTS + ")", re.IGNORECASE)


def _worded(match: re.Match[str], text: str, language: str) -> Quantity:
    """A number written in words, with the scale, percent or unit behind it."""
    value = NUMBER_WORDS[language][match[1].lower()] + (NUMBER_WORDS["en"][match[2].lower()] if match[2] else 0)
    end, scale = match.end(), 1.0
    scaled = _SCALE_WORD.match(text, end)
    if scaled:
        end, scale = scaled.end(), SCALES.get(scaled[1].lower(), 100.0)
    percent = _PERCENT_WORD.match(text, end)
    end = percent.end() if percent else end
    unit = "" if percent else _unit_after(text, end)[0]
    said = text[match.start() : end]
    return Quantity(match.start(), end, said, (float(value),), 0, scale, bool(percent), None, unit, worded=True)


@kept_if_short(2048)
def scan(text: str) -> tuple[Quantity, ...]:
    """Every number of the text, in order; ordinals and the digits inside ids are left out."""
    text = fold(text)
    found = [q for m in islice(_numbers(text), _MOST_NUMBERS) if (q := _build(m, text)) is not None]
    language = guess_language(text) if has_words(text) else ""
    if language in _WORDED:
        # Not `one-way`, `three-point`.
        written = (m for m in _WORDED[language].finditer(text) if not _HYPHENED.match(text, m.end()))
        found.extend(_worded(match, text, language) for match in written)
        found.sort(key=lambda q: q.start)
    return tuple(_share_units(_joined(found), text))


def _joined(found: list[Quantity]) -> list[Quantity]:
    """`2兆8700億`: the groups of one number, each of a smaller power than the one before."""
    joined: list[Quantity] = []
    for each in found:
        last = joined[-1] if joined else None
        if last is None or last.end != each.start or not MAGNITUDES.match(last.text[-1]) or each.value >= last.scale:
            joined.append(each)
            continue
        value = (last.value + each.value) / each.scale
        joined[-1] = each._replace(
            start=last.start,
            text=last.text + each.text,
            values=(value,),
            currency=last.currency or each.currency,
            approximate=last.approximate,
            digits=last.digits + each.digits,
        )
    return joined


_RANGE = re.compile(r"\s?(?:to|bis|à|a|or|oder|ou|o|-|–|—|~|至|から)\s?", re.IGNORECASE)


def _share_units(found: list[Quantity], text: str) -> list[Quantity]:
    """`5 to 7 days`: the first end of a range has the unit of the second."""
    for at in range(len(found) - 1):
        first, second = found[at], found[at + 1]
        if first.end < second.start <= first.end + 5 and _RANGE.fullmatch(text, first.end, second.start):
            found[at] = first._replace(
                unit=second.unit,
                percent=second.percent or first.percent,
                currency=first.currency or second.currency,
                scale=first.scale if first.scale != 1 else second.scale,
            )
    return found
