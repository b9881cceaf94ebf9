"""Text: the small language tools the checks share: widths, sentences, words, stems and abbreviations."""

import re
from collections.abc import Callable
from functools import lru_cache, wraps
from typing import TypeVar

__all__ = [
    "STOP_WORDS",
    "abbreviates",
    "fold",
    "guess_language",
    "kept_if_short",
    "key_words",
    "letter_runs",
    "sentences",
    "stem",
    "words",
]

_T = TypeVar("_T")

_WIDE = {0xFF01 + i: 0x21 + i for i in range(94)}
_WIDE.update(
    {0x2212: 0x2D, 0x2010: 0x2D, 0x2011: 0x2D, 0x2019: 0x27, 0x00A0: 0x20, 0x202F: 0x20, 0x2009: 0x20, 0x3000: 0x20}
)

#: Whether a text holds one of those; translating costs many times as much.
_ODD = re.compile("[" + "".join(map(re.escape, map(chr, _WIDE))) + "]")

_STOP: dict[str, frozenset[str]] = {
    "en": frozenset(
        [
            "a",
            "an",
            "the",
            "and",
            "or",
            "but",
            "of",
            "to",
            "in",
            "on",
            "at",
            "by",
            "for",
            "from",
            "with",
            "as",
            "is",
            "are",
            "was",
            "were",
            "be",
            "been",
            "has",
            "have",
            "had",
            "it",
            "its",
            "this",
            "that",
            "these",
            "those",
            "i",
            "you",
            "he",
            "she",
            "they",
            "we",
            "your",
            "their",
            "his",
            "her",
            "our",
            "my",
            "there",
            "here",
            "not",
            "no",
            "if",
            "then",
            "than",
            "so",
            "do",
            "does",
            "did",
            "will",
            "would",
            "can",
            "could",
            "should",
            "may",
            "also",
            "into",
            "per",
            "each",
            "any",
            "all",
            "both",
            "between",
            "which",
            "who",
            "whom",
            "what",
            "when",
            "where",
            "how",
            "please",
        ]
    ),
    "de": frozenset(
        [
            "der",
            "die",
            "das",
            "und",
            "oder",
            "ein",
            "eine",
            "einen",
            "einem",
            "einer",
            "zu",
            "im",
            "in",
            "am",
            "an",
            "auf",
            "von",
            "mit",
            "für",
            "ist",
            "sind",
            "war",
            "wurde",
            "nicht",
            "kein",
            "sie",
            "er",
            "es",
            "wir",
            "ihr",
            "ihre",
            "sein",
            "bei",
            "nach",
            "aus",
            "dem",
            "den",
            "des",
            "als",
            "auch",
        ]
    ),
    "fr": frozenset(
        [
            "le",
            "la",
            "les",
            "un",
            "une",
            "des",
            "et",
            "ou",
            "de",
            "du",
            "au",
            "aux",
            "en",
            "dans",
            "sur",
            "par",
            "pour",
            "avec",
            "est",
            "sont",
            "été",
            "a",
            "ne",
            "pas",
            "ce",
            "cette",
            "il",
            "elle",
            "nous",
            "vous",
            "votre",
            "vos",
            "son",
            "sa",
            "ses",
            "qui",
            "que",
        ]
    ),
    "es": frozenset(
        [
            "el",
            "la",
            "los",
            "las",
            "un",
            "una",
            "unos",
            "unas",
            "y",
            "o",
            "de",
            "del",
            "al",
            "en",
            "por",
            "para",
            "con",
            "es",
            "son",
            "fue",
            "ha",
            "no",
            "se",
            "su",
            "sus",
            "que",
            "este",
            "esta",
            "usted",
            "lo",
            "como",
            "más",
        ]
    ),
    "pt": frozenset(
        [
            "o",
            "a",
            "os",
            "as",
            "um",
            "uma",
            "e",
            "ou",
            "de",
            "do",
            "da",
            "dos",
            "das",
            "no",
            "na",
            "nos",
            "nas",
            "em",
            "por",
            "para",
            "com",
            "é",
            "são",
            "foi",
            "não",
            "se",
            "seu",
            "sua",
            "que",
            "este",
            "esta",
            "você",
            "ao",
            "à",
            "mais",
        ]
    ),
}
STOP_WORDS: frozenset[str] = frozenset[str]().union(*_STOP.values())

_LETTERS = re.compile(r"[^\W\d_]+")
#: The words of longer texts are not held.
_SHORT = 1_000
_WORD = re.compile(r"[^\W\d_]+(?:['-][^\W\d_]+)*")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_KEY_PART = re.compile(r"[^\W\d_]+|\d+")
# A set of characters at its head, so that the engine jumps from mark to mark.
_SENTENCE_END = re.compile(
    r"[.!?。！？\n](?:(?<=[.!?])(?P<gap>[\"')\]*]*\s+)(?=[\"'(\[*#]*[A-ZÀ-Þ0-9])|(?<=[。！？])|(?<=\n)\n*)"
)
_NOT_AN_END = re.compile(
    r"(?:\b(?:Mr|Mrs|Ms|Dr|St|No|Nr|vs|approx|ca|Mio|Mrd|Inc|Ltd|Corp|e\.g|i\.e|[A-Z])|^\s*\d+)\.$"
)


def fold(text: str) -> str:
    """The same text at the same length with full-width and typographic variants made plain."""
    return text if text.isascii() or _ODD.search(text) is None else text.translate(_WIDE)


@lru_cache(maxsize=64)  # the texts of one run: they may be long
def sentences(text: str) -> tuple[tuple[int, int], ...]:
    """Offsets of sentences and lines, in order; line ends always separate."""
    spans: list[tuple[int, int]] = []
    start = 0
    for match in _SENTENCE_END.finditer(text):
        end = match.start() + (match["gap"] is not None)
        if _NOT_AN_END.search(text, max(start, end - 12), end):
            continue
        if end > start:
            spans.append((start, end))
        start = match.end()
    if start < len(text):
        spans.append((start, len(text)))
    return tuple(spans)


def kept_if_short(most: int) -> Callable[[Callable[[str], _T]], Callable[[str], _T]]:
    """Have a function of a text remember what it gave for the last `most` short texts; long ones would fill memory."""

    def keep(function: Callable[[str], _T]) -> Callable[[str], _T]:
        kept = lru_cache(maxsize=most)(function)

        @wraps(function)
        def of(text: str) -> _T:
            return kept(text) if len(text) <= _SHORT else function(text)

        return of

    return keep


@kept_if_short(2048)
def letter_runs(text: str) -> frozenset[str]:
    """The words of a text in lower case, digits and marks between them; tells cheaply what cannot stand in it."""
    return frozenset(_LETTERS.findall(text.lower()))


def words(text: str) -> list[str]:
    """Lower-case words without numbers."""
    return [w.lower() for w in _WORD.findall(text)]


@lru_cache(maxsize=8192)
def stem(word: str) -> str:
    """A crude stem, enough to join singular and plural, -ed and -ing."""
    word = word.lower()
    if len(word) > 4 and word.endswith("ies"):
        return word[:-3] + "y"
    for end in ("ings", "ing", "ed"):
        if word.endswith(end) and len(word) - len(end) >= 4:
            base = word[: -len(end)]
            return base[:-1] if base[-1] == base[-2] and base[-1] not in "sl" else base.rstrip("e")
    if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")):
        word = word[:-2] if word.endswith(("ches", "shes", "sses", "xes")) else word[:-1]
    return word.rstrip("e") if len(word) > 4 else word


@lru_cache(maxsize=8192)
def key_words(key: str) -> tuple[str, ...]:
    """The lower-case parts of a JSON key or column title: snake, kebab, camel, digits split off."""
    return tuple(p.lower() for part in _CAMEL.split(key) for p in _KEY_PART.findall(part))


@lru_cache(maxsize=16384)
def abbreviates(short: str, word: str) -> bool:
    """Whether `short` (2 to 5 letters) can stand for `word`: same first letter, letters in order, not all at once.

    A prefix of three letters counts, and so do consonant skeletons such as `qty` for quantity.
    """
    if not 3 <= len(short) <= 5 or len(word) <= len(short) or short[0] != word[0]:
        return False
    if word.startswith(short):
        return True
    at = 0
    for letter in short:
        at = word.find(letter, at) + 1
        if not at:
            return False
    # The skeleton must reach the end of the word's consonants, else "ast" would be "associations".
    return len(word) <= 2 * len(short) + 3


@kept_if_short(2048)
def guess_language(text: str) -> str:
    """`en`, `de`, `fr`, `es`, `pt`, `ja` or `zh`, by script and function words; `en` when unsure."""
    if not text.isascii():
        if re.search(r"[\u3040-\u30ff]", text):
            return "ja"
        if re.search(r"[\u4e00-\u9fff]", text):
            return "zh"
    found = [w for w in _WORD.findall(text[:2000]) if w[1:].islower() or len(w) == 1]
    found = [w.lower() for w in found]
    counts = {language: sum(w in stop for w in found) for language, stop in _STOP.items()}
    best = max(counts, key=lambda language: counts[language])
    return best if counts[best] > counts["en"] else "en"
