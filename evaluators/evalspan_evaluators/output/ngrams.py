"""N-grams: ROUGE, BLEU and chrF, equal to the reference libraries to six places."""

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Overlap", "bleu", "chrf", "rouge_l", "rouge_n", "words_of"]

_NO_WORD = re.compile(r"[^a-z0-9]+")


@dataclass(frozen=True, slots=True)
class Overlap:
    """Precision, recall and their harmonic mean, each 0 to 1."""

    precision: float
    recall: float
    f1: float


def words_of(text: str) -> list[str]:
    """Words as rouge-score cuts them: lower case, letters a-z and digits only.

    Texts in other scripts have no such words; there every letter is one.
    """
    words = _NO_WORD.sub(" ", text.lower()).split()
    if not words and any(c.isalpha() for c in text):
        return [c for c in text.lower() if c.isalnum()]
    return words


def _overlap(matches: int, hypothesis: int, reference: int) -> Overlap:
    precision = matches / max(hypothesis, 1)
    recall = matches / max(reference, 1)
    f1 = 2 * precision * recall / (precision + recall) if precision + recall else 0.0
    return Overlap(precision, recall, f1)


def rouge_n(hypothesis: Sequence[str], reference: Sequence[str], n: int) -> Overlap:
    """ROUGE-N (Lin 2004) over words."""
    mine, theirs = _counts(hypothesis, n), _counts(reference, n)
    matches = sum(min(count, theirs[gram]) for gram, count in mine.items() if gram in theirs)
    return _overlap(matches, mine.total(), theirs.total())


def _counts(items: Sequence[str], n: int) -> "Counter[tuple[str, ...]]":
    return Counter(zip(*(items[start:] for start in range(n)), strict=False))


def rouge_l(hypothesis: Sequence[str], reference: Sequence[str]) -> Overlap:
    """ROUGE-L: the longest common subsequence of words (bit-parallel, Hyyrö 2004)."""
    masks: dict[str, int] = {}
    for index, word in enumerate(reference):
        masks[word] = masks.get(word, 0) | (1 << index)
    ones = row = (1 << len(reference)) - 1
    for word in hypothesis:
        hit = row & masks.get(word, 0)
        row = ((row + hit) | (row - hit)) & ones
    return _overlap(len(reference) - row.bit_count(), len(hypothesis), len(reference))


#: The mteval-v13a tokenisation, as in sacrebleu (Apache-2.0).
_TOKEN_RULES = (
    (re.compile(r"([\{-\~\[-\` -\&\(-\+\:-\@\/])"), r" \1 "),
    (re.compile(r"([^0-9])([\.,])"), r"\1 \2 "),
    (re.compile(r"([\.,])([^0-9])"), r" \1 \2"),
    (re.compile(r"([0-9])(-)"), r"\1 \2 "),
)


def _tokens_13a(text: str) -> list[str]:
    text = text.rstrip().replace("<skipped>", "").replace("-\n", "").replace("\n", " ")
    if "&" in text:
        for entity, sign in (("&quot;", '"'), ("&amp;", "&"), ("&lt;", "<"), ("&gt;", ">")):
            text = text.replace(entity, sign)
    text = f" {text} "
    for rule, by in _TOKEN_RULES:
        text = rule.sub(by, text)
    return text.split()


def bleu(hypothesis: str, references: Sequence[str]) -> float:
    """Sentence BLEU, 0 to 1: sacrebleu's `sentence_bleu` (13a, exponential smoothing, effective order) over 100."""
    mine = _tokens_13a(hypothesis)
    theirs = [_tokens_13a(reference) for reference in references]
    nearest = min((abs(len(mine) - len(r)), len(r)) for r in theirs)[1]
    matches: list[int] = []
    totals: list[int] = []
    for n in range(1, 5):
        counts = _counts(mine, n)
        best: Counter[tuple[str, ...]] = Counter()
        for reference in theirs:
            best |= _counts(reference, n)
        matches.append(sum(min(count, best[gram]) for gram, count in counts.items() if gram in best))
        totals.append(counts.total())
    if not any(matches):
        return 0.0
    penalty = math.exp(1 - nearest / len(mine)) if len(mine) < nearest else 1.0
    smooth, order, logs = 1.0, 0, 0.0
    for match, total in zip(matches, totals, strict=True):
        if not total:
            break
        order += 1
        if not match:
            smooth *= 2
            logs += math.log(1 / (smooth * total))
        else:
            logs += math.log(match / total)
    return min(1.0, penalty * math.exp(logs / order))


def chrf(hypothesis: str, references: Sequence[str], *, order: int = 6, beta: float = 2.0) -> float:
    """Sentence chrF, 0 to 1: sacrebleu's `sentence_chrf` over 100; the best reference counts (Popović 2015)."""
    mine = _char_counts(hypothesis, order)
    return max(_chrf_against(mine, _char_counts(reference, order), beta) for reference in references)


def _char_counts(text: str, order: int) -> list["Counter[str]"]:
    plain = "".join(text.split())
    return [Counter(plain[i : i + n] for i in range(len(plain) - n + 1)) for n in range(1, order + 1)]


def _chrf_against(mine: list["Counter[str]"], theirs: list["Counter[str]"], beta: float) -> float:
    precision = recall = 0.0
    used = 0
    for left, right in zip(mine, theirs, strict=True):
        if not left or not right:
            continue
        matches = sum(min(count, right[gram]) for gram, count in left.items() if gram in right)
        precision += matches / left.total()
        recall += matches / right.total()
        used += 1
    if not used or not precision + recall:
        return 0.0
    precision, recall = precision / used, recall / used
    return min(1.0, (1 + beta**2) * precision * recall / (beta**2 * precision + recall))
