"""Claim: a checkable piece of an answer, with its kind and place."""

import re
from collections.abc import Iterator
from typing import Literal, NamedTuple

from evalspan_evaluators.grounding import moment as moments
from evalspan_evaluators.grounding import quantity as quantities
from evalspan_evaluators.grounding.moment import Moment
from evalspan_evaluators.grounding.quantity import Quantity
from evalspan_evaluators.grounding.text import fold
from evalspan_evaluators.grounding.unit import dimension

__all__ = ["Claim", "ClaimKind", "extract", "is_id"]

ClaimKind = Literal[
    "number", "money", "percent", "duration", "date", "time", "weekday",
    "id", "url", "email", "quote", "name", "category", "polarity",
]  # fmt: skip


class Claim(NamedTuple):
    """One checkable piece of an answer.

    Attributes:
        start: Offset in the answer; `end` lies behind it.
        quantity: Set for number, money, percent and duration.
        moment: Set for date, time and weekday.
    """

    kind: ClaimKind
    text: str
    start: int
    end: int
    quantity: Quantity | None = None
    moment: Moment | None = None


_URL = re.compile(r"https?://[^\s<>\"'`|)\]}]+|\bwww\.[^\s<>\"'`|)\]}]+")
_EMAIL = re.compile(r"\b[\w.+-]{1,64}@[\w-]+(?:\.[\w-]+)+\b")
_ID = re.compile(r"(?<![\w@/.])#?[A-Za-z0-9]+(?:[_-][A-Za-z0-9]+)*(?![\w@]|[/.][A-Za-z0-9])", re.ASCII)
#: `2.14.1` and `10.0.0.7`, no number with marks of thousands.
_VERSION = re.compile(r"(?<![\w.,])v?\d{1,4}(?:\.\d{1,4}){2,3}(?:-[a-z]+(?:\.\d+)?)?(?![\w,])(?!\.\d)", re.IGNORECASE)
_THOUSANDS = re.compile(r"\d{1,3}(?:\.\d{3})+")
_MAY_BE_ID = re.compile(r"[\d_]").search
_QUOTE = re.compile(
    r"(?:(?<![^\s(\[])[\"“]|[«「])(?P<q>[^\s\"“”«»「」][^\"“”«»「」\n]{6,400}[^\s\"“”«»「」])(?:[\"”](?!\w)|[»」])"
)
_ORDINAL_LIKE = re.compile(
    r"^\d+(?:st|nd|rd|th|s|x|k|m|b|bn|am|pm|h|hr|hrs|min|mins|sec|kg|g|km|cm|mm|ft|gb|mb|tb|kb|mph|d)$|^\d+-\d+$|^(?:Q|H|FY|CY)\d{1,4}$|^\d+[CFK]$|^(?:mid|early|late|pre|post|pré|anfang|ende)-\d{2,4}s?$",
    re.IGNORECASE,
)
_LABEL_NUMBER = re.compile(r"(?:^|\n)[\s>*_#-]*$")
_ENUMERATED = re.compile(r"[A-Za-z]\s$")


def is_id(token: str) -> bool:
    """Whether a token is a code: letters and digits mixed, or a long row of digits."""
    bare = token.lstrip("#")
    digits = sum(c.isdigit() for c in bare)
    letters = sum(c.isalpha() for c in bare)
    if _ORDINAL_LIKE.match(bare) or not _ID.fullmatch(token):
        return False
    if token.startswith("#"):
        return digits > 0
    if letters == 0:
        # Without letters only long unbroken rows and grouped codes (such as 4-3-2 digits) are ids.
        return (digits >= 7 and "-" not in bare) or bool(re.fullmatch(r"\d{2,}(?:-\d{2,}){2,}", bare))
    if digits == 0:
        return "_" in bare and len(bare) >= 6
    words = re.split(r"[-_]", bare)
    if any(re.fullmatch(r"\d+", w) for w in words) and any(
        w.isalpha() and w.islower() and len(w) > 2 for w in words[1:]
    ):
        return False  # 30-day, 7-day-rolling
    return len(bare) >= 4 and (digits >= 2 or len(words) == 1)


def _take(found: list[Claim], taken: bytearray, claim: Claim) -> None:
    if not any(taken[claim.start : claim.end]):
        taken[claim.start : claim.end] = b"\1" * (claim.end - claim.start)
        found.append(claim)


def _kind_of(q: Quantity) -> ClaimKind:
    if q.percent:
        return "percent"
    if q.currency:
        return "money"
    return "duration" if dimension(q.unit) == "time" else "number"


def _is_label(text: str, q: Quantity) -> bool:
    """List numbers and enumerated headings (`2.`, `Option 1:`) claim nothing."""
    if q.percent or q.currency or q.decimals or q.worded:
        return False
    after = text[q.end : q.end + 3]
    if (
        after[:1] in (".", ")", ":")
        and (len(after) == 1 or after[1] in " *_\n")
        and _LABEL_NUMBER.search(text, max(0, q.start - 12), q.start)
    ):
        return True
    return (
        abs(q.value) <= 20
        and after.lstrip("*")[:1] == ":"
        and bool(_ENUMERATED.search(text, max(0, q.start - 2), q.start))
    )


def extract(answer: str) -> list[Claim]:
    """Typed claims of the answer in order, without overlaps; names, categories and polarity come later."""
    text = fold(answer)
    found: list[Claim] = []
    taken = bytearray(len(text))
    for claim in (*_addresses(text), *_ids(text), *_moments(text), *_numbers(text)):
        _take(found, taken, claim)
    found.extend(
        Claim("quote", match["q"].strip(), match.start("q"), match.end("q"))
        for match in _QUOTE.finditer(text)
        if len(match["q"].split()) >= 4
    )
    found.sort(key=lambda c: (c.start, c.end))
    return found


def _addresses(text: str) -> Iterator[Claim]:
    for match in _URL.finditer(text):
        url = match[0].rstrip(".,;:!?*")
        yield Claim("url", url, match.start(), match.start() + len(url))
    for match in _EMAIL.finditer(text):
        yield Claim("email", match[0], match.start(), match.end())


def _ids(text: str) -> Iterator[Claim]:
    dated = bytearray(len(text))
    for m in moments.scan(text):
        dated[m.start : m.end] = b"\1" * (m.end - m.start)
    for match in _VERSION.finditer(text):
        if not any(dated[match.start() : match.end()]) and not _THOUSANDS.fullmatch(match[0]):
            yield Claim("id", match[0], match.start(), match.end())
    for match in _ID.finditer(text):
        if _MAY_BE_ID(match[0]) and is_id(match[0]) and not any(dated[match.start() : match.end()]):
            yield Claim("id", match[0], match.start(), match.end())


def _moments(text: str) -> Iterator[Claim]:
    for m in moments.scan(text):
        kind: ClaimKind = "date" if m.kind == "date" else "time" if m.kind == "time" else "weekday"
        yield Claim(kind, m.text, m.start, m.end, moment=m)


def _numbers(text: str) -> Iterator[Claim]:
    for q in quantities.scan(text):
        if not _is_label(text, q):
            yield Claim(_kind_of(q), q.text, q.start, q.end, quantity=q)
