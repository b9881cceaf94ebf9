"""Hint: which calculations the words around a claim ask for."""

import re
from dataclasses import dataclass

from evalspan_evaluators.grounding.text import words

__all__ = ["Hints", "hints_of"]

_SUM = frozenset(
    [
        "total",
        "totals",
        "sum",
        "combined",
        "altogether",
        "overall",
        "together",
        "both",
        "all",
        "aggregate",
        "cumulative",
        "totalling",
        "totaling",
        "summing",
        "gesamt",
        "insgesamt",
        "summe",
        "zusammen",
        "somme",
        "ensemble",
        "suma",
        "conjunto",
        "soma",
        "juntos",
        "合計",
        "总计",
        "一共",
        "共",
    ]
)
_DIFFERENCE = frozenset(
    [
        "difference",
        "change",
        "changes",
        "changed",
        "increase",
        "increased",
        "increases",
        "decrease",
        "decreased",
        "decreases",
        "more",
        "less",
        "higher",
        "lower",
        "rose",
        "risen",
        "fell",
        "fallen",
        "grew",
        "growth",
        "dropped",
        "drop",
        "declined",
        "decline",
        "remaining",
        "remain",
        "left",
        "save",
        "saved",
        "saving",
        "savings",
        "refund",
        "refunded",
        "additional",
        "extra",
        "gap",
        "reduced",
        "reduction",
        "gain",
        "gained",
        "loss",
        "lost",
        "net",
        "exceed",
        "exceeds",
        "exceeded",
        "outscored",
        "margin",
        "cheaper",
        "older",
        "ahead",
        "behind",
        "trailing",
        "younger",
        "longer",
        "shorter",
        "between",
        "than",
        "differ",
        "variance",
        "shortfall",
        "surplus",
        "balance",
        "swing",
        "deducted",
        "succeeded",
        "successful",
        "free",
        "available",
        "unused",
        "short",
        "below",
        "above",
        "warmer",
        "colder",
        "cooler",
        "hotter",
        "faster",
        "slower",
        "rest",
        "others",
        "up",
        "down",
        "kept",
        "better",
        "worse",
        "taller",
        "heavier",
        "lighter",
        "bigger",
        "smaller",
        "larger",
        "not",
        "didn't",
        "don't",
        "doesn't",
        "without",
        "unterschied",
        "differenz",
        "mehr",
        "weniger",
        "gestiegen",
        "gesunken",
        "différence",
        "augmentation",
        "baisse",
        "diferencia",
        "aumento",
        "diferença",
        "redução",
    ]
)
_AVERAGE = frozenset(
    [
        "average",
        "averages",
        "averaged",
        "mean",
        "avg",
        "durchschnitt",
        "durchschnittlich",
        "moyenne",
        "promedio",
        "media",
        "média",
        "平均",
    ]
)
_RATIO = frozenset(
    [
        "ratio",
        "percent",
        "percentage",
        "proportion",
        "share",
        "times",
        "rate",
        "per",
        "portion",
        "fraction",
        "contribution",
        "represent",
        "represents",
        "multiple",
        "twice",
        "verhältnis",
        "anteil",
        "proportion",
        "razón",
        "proporción",
        "proporção",
    ]
)
_PRICED = frozenset(["price", "value", "amount", "cost", "total", "worth", "earnings", "revenue"])
_PRODUCT = frozenset(
    ["total", "per", "each", "every", "times", "x", "×", "passengers", "people", "nights", "altogether"]
)


_OF = frozenset(("of", "der", "des", "vom", "von", "de", "du", "del", "do", "da", "sur"))
_SHARE_OF = re.compile(
    r"(?:%|percent|prozent)\s(?:of|der|des|vom|von|de|du|del|do|da)\b"
    r"|\d\s?[^\W\d_]{0,10}\s(?:of|out of|von|sur|de)\s(?:the\s|all\s)?\d",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Hints:
    """Which operations the words around a claim ask for, and all those words."""

    words: frozenset[str]
    total: bool
    difference: bool
    average: bool
    ratio: bool
    priced: bool
    each: bool
    #: A percent is told `of` something: a part of a whole, no change.
    share: bool = False


def hints_of(*texts: str) -> Hints:
    """Operations named in the sentence of a claim and in the question."""
    found = frozenset(w for text in texts for w in words(text))
    cjk = "".join(texts)
    return Hints(
        words=found,
        total=bool(found & _SUM) or any(w in cjk for w in ("合計", "总计", "一共")),
        difference=bool(found & _DIFFERENCE),
        average=bool(found & _AVERAGE) or "平均" in cjk,
        ratio=bool(found & _RATIO) or (bool(found & _OF) and _SHARE_OF.search(cjk) is not None),
        priced=bool(found & _PRICED),
        each=bool(found & _PRODUCT),
    )
