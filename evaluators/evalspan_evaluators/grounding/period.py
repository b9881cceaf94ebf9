"""Period: numbers of a counted part of a whole, `31 - 19 in the third quarter`, and that part's fields (`pts_q3`)."""

import re
from collections.abc import Iterable

from evalspan_evaluators.grounding.fact import Fact
from evalspan_evaluators.grounding.index import Index
from evalspan_evaluators.grounding.text import abbreviates, stem

__all__ = ["period_fields"]

_ORDINALS = {word: at for at, word in enumerate(("first", "second", "third", "fourth", "fifth", "sixth"), start=1)}
_ORDINAL = rf"\b(?:{'|'.join(_ORDINALS)}|\d{{1,2}}(?:st|nd|rd|th))\b"
_JOINED = re.compile(rf"{_ORDINAL}\s*(?:,|and\b|or\b|to\b|through\b)", re.IGNORECASE)
_PART = re.compile(rf"({_ORDINAL})\s+([^\W\d_]{{3,10}})\b", re.IGNORECASE)
_KEY = re.compile(r"([^\W\d_]+)[-_ ]?(\d{1,2})$")


def period_fields(sentence: str, index: Index) -> list[Fact]:
    """Numbers whose keys name the one counted part that a sentence speaks of; none where it speaks of several.

    A key names it by its noun, or a short form of that, and its number: `QTR3` and `quarter_3` the third quarter.
    """
    parts = {(_number(m[1]), m[2].lower()) for m in _PART.finditer(sentence)}
    if not parts or _JOINED.search(sentence):
        return []
    counted = _counted(index)
    keys = [named for part in parts if (named := {key for key in counted if _names(key, part)})]
    return [fact for _, fact in index.numbers if fact.key in keys[0]] if len(keys) == 1 else []


def _number(ordinal: str) -> int:
    return _ORDINALS.get(ordinal.lower()) or int(re.sub(r"\D", "", ordinal))


def _counted(index: Index) -> Iterable[str]:
    """Keys of numbers that end in a number."""
    return {fact.key for _, fact in index.numbers if fact.record.prose is None and fact.key[-1:].isdigit()}


def _names(key: str, part: tuple[int, str]) -> bool:
    match = _KEY.search(key)
    if match is None or int(match[2]) != part[0]:
        return False
    short = match[1].lower()
    return short == part[1][: len(short)] or stem(short) == stem(part[1]) or abbreviates(short, part[1])
