"""Polarity: `not`, `without` and `cannot` against what a flag, the last call or a policy sentence says."""

import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import islice

from evalspan_evaluators.grounding.bind import Binder, closeness
from evalspan_evaluators.grounding.claim import Claim
from evalspan_evaluators.grounding.context import context_of, own_match
from evalspan_evaluators.grounding.fact import Fact
from evalspan_evaluators.grounding.index import Index
from evalspan_evaluators.grounding.text import STOP_WORDS, key_words, sentences, stem, words
from evalspan_evaluators.grounding.verdict import ClaimVerdict

__all__ = ["check_polarity", "is_negated"]

#: Sentences beyond these are not looked at.
_MOST = 200
_NEGATION = re.compile(
    r"\b(?:not|no|never|without|cannot|none|neither|nor|unable|lacks?|lacking|ineligible|non-?refundable|isn't|aren't|wasn't|weren't|don't|doesn't|didn't|"
    r"can't|couldn't|won't|wouldn't|hasn't|haven't|hadn't|kein\w*|nicht|ohne|nie|pas|aucune?|sans|jamais|sin|nunca|ningun\w*|não|sem|nenhum\w*)\b"
    r"|ない|ません|没有|不能|未",
    re.IGNORECASE,
)
_SUCCESS = re.compile(
    r"\b(?:successfully|erfolgreich|avec succès|con éxito|exitosamente|com sucesso)\b|成功", re.IGNORECASE
)
_DONE = re.compile(
    r"\b(?:has|have|had) (?P<not>not )?been (?:successfully )?(?P<verb>\w+ed|made|sent|paid|set)\b", re.IGNORECASE
)
_CLAUSE = re.compile(
    r"[.;!?\n,]|\b(?=[bhaosiuw])(?:but|however|although|and|or|because|since|if|unless|when|while|so)\b",
    re.IGNORECASE,
)
_FAILED = re.compile(
    r"\b(?:error|failed|failure|exception|denied|not found|invalid|unauthori[sz]ed|forbidden|timed? ?out)\b",
    re.IGNORECASE,
)
_CONDITION = re.compile(
    r"\b(?:if|unless|only|except|otherwise|before|until|but|regardless|either|should|must|may)\b", re.IGNORECASE
)
_TRUE = frozenset(("yes", "true", "y", "enabled", "active", "included", "1"))
_FALSE = frozenset(("no", "false", "n", "disabled", "inactive", "none", "0"))


def is_negated(text: str) -> bool:
    """Whether a clause holds an odd number of negations."""
    return len(_NEGATION.findall(text)) % 2 == 1


def _clauses(text: str, start: int, end: int) -> list[tuple[int, int]]:
    spans: list[tuple[int, int]] = []
    at = start
    for match in islice(_CLAUSE.finditer(text, start, end), _MOST):
        if match.start() > at:
            spans.append((at, match.start()))
        at = match.end()
    if at < end:
        spans.append((at, end))
    return spans


def check_polarity(text: str, binder: Binder, index: Index) -> list[ClaimVerdict]:
    """Clauses whose yes or no the sources state the other way round."""
    found: list[ClaimVerdict] = []
    flags = _flags(index)
    policies = _policies(index)
    failed = _last_call_failed(index)
    for span in binder.spans[:_MOST]:
        sentence = text[span[0] : span[1]]
        if sentence.rstrip().endswith("?"):
            continue
        outcome = _of_success(text, span, index, failed=failed) or _of_policy(text, span, policies)
        if outcome is not None:
            found.append(outcome)
            continue
        for clause in _clauses(text, *span):
            verdict = _of_flag(text, clause, span, flags, binder)
            if verdict is not None:
                found.append(verdict)
    return found


def _claim(text: str, start: int, end: int) -> Claim:
    while start < end and text[start] in " *-_\n":
        start += 1
    return Claim("polarity", text[start:end].rstrip(), start, start + len(text[start:end].rstrip()))


# What the last call did


def _last_call_failed(index: Index) -> bool | None:
    """Whether the last tool call failed; None without tool results."""
    results = [s for s in index.sources if s.kind == "tool_result"]
    if not results or _only_reads(results[-1].tool):
        return None
    last = results[-1]
    if last.failed:
        return True
    text = last.content if isinstance(last.content, str) else ""
    return bool(_FAILED.search(text[:200])) and len(text) < 600


_READS = frozenset(
    ["get", "list", "search", "find", "lookup", "look", "fetch", "read", "query", "check", "show", "describe", "view"]
)


def _only_reads(tool: str | None) -> bool:
    """Whether a tool's name says that it changes nothing, so that its success says nothing of a deed."""
    return tool is not None and not _READS.isdisjoint(key_words(tool)[:2])


def _of_success(text: str, span: tuple[int, int], index: Index, *, failed: bool | None) -> ClaimVerdict | None:
    """`has not been successfully cancelled` after a call that worked, and success told after a call that failed."""
    if failed is None:
        return None
    sentence = text[span[0] : span[1]]
    match = _DONE.search(sentence)
    if match is None or (_SUCCESS.search(match[0]) is None and match["verb"].lower() not in _DEEDS):
        return None
    negated = match["not"] is not None
    if failed and not negated and _SUCCESS.search(match[0]) is None:
        return None
    source = [s for s in index.sources if s.kind == "tool_result"][-1]
    claim = _claim(text, span[0] + match.start(), span[0] + match.end())
    if negated != failed:
        code = "SUCCESS_DENIED" if negated else "FAILURE_HIDDEN"
        note = "the last tool call worked" if negated else "the last tool call failed"
        return ClaimVerdict(claim=claim, outcome="contradicted", severity="minor", source=source, code=code, note=note)
    return ClaimVerdict(claim=claim, outcome="supported", severity="minor", source=source)


_DEEDS = frozenset(
    [
        "processed",
        "applied",
        "cancelled",
        "canceled",
        "updated",
        "issued",
        "completed",
        "sent",
        "refunded",
        "charged",
        "created",
        "deleted",
        "booked",
        "submitted",
        "approved",
        "confirmed",
        "upgraded",
        "changed",
        "placed",
        "scheduled",
        "saved",
        "shipped",
        "made",
        "paid",
    ]
)


# Flags


def _flags(index: Index) -> list[tuple[Fact, bool]]:
    found = [(f, bool(f.value)) for f in index.flags]
    for words_ in _TRUE | _FALSE:
        if words_ in ("1", "0"):
            continue
        found.extend((f, words_ in _TRUE) for f in index.strings.get(words_, ()) if f.key)
    return [(f, v) for f, v in found if f.record.source.kind not in ("user", "system_prompt")][:200]


def _of_flag(
    text: str, clause: tuple[int, int], span: tuple[int, int], flags: Sequence[tuple[Fact, bool]], binder: Binder
) -> ClaimVerdict | None:
    """A clause that says a flagged thing is there, or is not."""
    if not flags:
        return None
    part = text[clause[0] : clause[1]]
    stems = tuple(stem(w) for w in words(part) if w not in STOP_WORDS)
    named = [(f, v) for f, v in flags if own_match(stems, f) >= 0.9 and len(key_words(f.key)) <= 3]
    if not named or _CONDITION.search(text[span[0] : clause[1]]) or _HEDGE.search(part):
        return None
    stated = _stated(part, named[0][0].key)
    if stated is None:
        return None
    claim = _claim(text, *clause)
    scope = binder.scope(claim, context_of(text, claim.start, claim.end, span))
    mentions = tuple(dict.fromkeys((*binder.mentions.within(*clause), *scope.all)))
    scored = [(closeness(f, mentions), f, v) for f, v in named]
    best = max(s for s, _, _ in scored)
    picked = [(f, v) for s, f, v in scored if s >= best - 1e-9]
    if len({v for _, v in picked}) != 1:
        return None
    fact, value = picked[0]
    if stated == value:
        return ClaimVerdict(claim=claim, outcome="supported", severity="minor", fact=fact)
    return ClaimVerdict(claim=claim, outcome="contradicted", severity="minor", fact=fact, code="OTHER_POLARITY")


_HEDGE = re.compile(
    r"\b(?:might|could|would|can|cannot|can't|recommend|regarding|about|policy|providers?|options?)\b", re.IGNORECASE
)
_GOVERNS = (
    r"(?P<neg>without|no|not|n't|never|lacks?)?\W*(?:any |an? "
    r"|the )?(?P<verb>with|without|no|have|has|had|includes?|included|including|"
    r"purchased?|bought|added|is|was|are|were|does|do|did)\W+(?:\w+\W+){0,3}?"
)


def _stated(part: str, key: str) -> bool | None:
    """Whether a clause says the thing is there; None when it says neither."""
    noun = next((w for w in reversed(key_words(key)) if len(w) > 2), "")
    if not noun:
        return None
    label = re.search(rf"\b{re.escape(noun)}\w*[\s*_]*:[\s*_]*(\w+)", part, re.IGNORECASE)
    if label is not None:
        said = label[1].lower()
        return said in _TRUE if said in _TRUE | _FALSE else None
    before = re.search(rf"\b{_GOVERNS}{re.escape(noun)}", part, re.IGNORECASE)
    after = re.search(
        rf"{re.escape(noun)}\w*\W+(?:\w+\W+){{0,2}}?(?:is|was|has|have|were|are)\b(?:\W+not\b|n't)?",
        part,
        re.IGNORECASE,
    )
    if before is None and after is None:
        return None
    start = min(m.start() for m in (before, after) if m is not None)
    end = max(m.end() for m in (before, after) if m is not None)
    return not is_negated(part[max(0, start - 25) : end + 12])


# Policy sentences


def _policies(index: Index) -> list[tuple[frozenset[str], bool, str]]:
    """Plain rules: clauses with a verb of being allowed or of happening, without conditions."""
    found: list[tuple[frozenset[str], bool, str]] = []
    for source in index.sources:
        if source.kind in ("system_prompt", "document", "context") and isinstance(source.content, str):
            found.extend(_rules(source.content[:60_000]))
    return found


@lru_cache(maxsize=64)
def _rules(text: str) -> tuple[tuple[frozenset[str], bool, str], ...]:
    found: list[tuple[frozenset[str], bool, str]] = []
    for start, end in sentences(text):
        sentence = text[start:end]
        for a, b in _clauses(sentence, 0, len(sentence)) if len(sentence) > 120 else [(0, len(sentence))]:
            part = sentence[a:b]
            stems = _content(part)
            if len(stems) >= 3 and _MODAL.search(part) and not _CONDITION.search(part):
                found.append((stems, is_negated(part), part.strip()))
    return tuple(found)


_MODAL = re.compile(
    r"\b(?=[cwmaibdnkp])(?:can|cannot|can't|will|won't|must|may|is|are|be|do|does|not|kann|können|peut|puede|pode)\b",
    re.IGNORECASE,
)


def _content(text: str) -> frozenset[str]:
    return frozenset(stem(w) for w in words(text) if w not in STOP_WORDS)


def _of_policy(
    text: str, span: tuple[int, int], policies: Sequence[tuple[frozenset[str], bool, str]]
) -> ClaimVerdict | None:
    """A clause that says nearly the same words as a rule, with the opposite sign."""
    if not policies:
        return None
    for clause in _clauses(text, *span):
        part = text[clause[0] : clause[1]]
        if not _MODAL.search(part) or len(stems := _content(part)) < 3:
            continue
        best: tuple[float, bool, str] | None = None
        for own, negated, rule in policies:
            shared = len(stems & own)
            share = min(shared / len(own), 1.25 * shared / len(stems))
            if shared >= 3 and share >= 0.6 and (best is None or share > best[0]):
                best = (share, negated, rule)
        if best is not None:
            claim = _claim(text, *clause)
            if is_negated(part) == best[1]:
                return ClaimVerdict(claim=claim, outcome="supported", severity="minor", note=best[2])
            return ClaimVerdict(
                claim=claim, outcome="contradicted", severity="minor", code="OTHER_POLARITY", note=best[2]
            )
    return None
