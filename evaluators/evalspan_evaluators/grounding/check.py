"""Check: every claim of an answer against the sources."""

from collections.abc import Iterable
from difflib import SequenceMatcher

from evalspan_evaluators.grounding.claim import Claim, extract
from evalspan_evaluators.grounding.context import Context, attribute_match, context_of
from evalspan_evaluators.grounding.index import Fact, Index
from evalspan_evaluators.grounding.lookup import find_days, find_numbers, find_times, number_of
from evalspan_evaluators.grounding.source import Source
from evalspan_evaluators.grounding.text import fold, sentences
from evalspan_evaluators.grounding.verdict import ClaimVerdict

__all__ = ["check"]


class _Checker:
    """One answer against one index."""

    def __init__(self, answer: str, index: Index) -> None:
        self.text = fold(answer)
        self.index = index
        self.spans = sentences(self.text)

    def context(self, claim: Claim) -> Context:
        span = next(((a, b) for a, b in self.spans if a <= claim.start < b), (0, len(self.text)))
        return context_of(self.text, claim.start, claim.end, span)

    def check(self, claim: Claim) -> ClaimVerdict:
        if claim.quantity is not None:
            return self.number(claim)
        if claim.kind == "date":
            return self.date(claim)
        if claim.kind == "time":
            return self.time(claim)
        if claim.kind in ("id", "url", "email", "quote"):
            return self.token(claim)
        return ClaimVerdict(claim=claim, outcome="not_checkable")

    def number(self, claim: Claim) -> ClaimVerdict:
        context = self.context(claim)
        found = find_numbers(claim, self.index)
        if found:
            best = max(found, key=lambda f: attribute_match(context.all, f))
            return ClaimVerdict(claim=claim, outcome="supported", fact=best)
        truth = self.truth(claim, context)
        return ClaimVerdict(claim=claim, outcome="contradicted" if truth else "unsupported", fact=truth)

    def truth(self, claim: Claim, context: Context) -> Fact | None:
        """The value the claim most likely gets wrong: by the words around it, then by its digits."""
        best: tuple[float, Fact] | None = None
        for _, fact in self.index.numbers:
            if fact.record.source.kind in ("system_prompt", "user"):
                continue
            near = max(attribute_match(context.label, fact), attribute_match(context.after, fact), 0.9 * attribute_match(context.before[-4:], fact))
            alike = digit_likeness(claim, fact)
            score = near + alike
            if (near >= 0.45 or alike >= 0.75) and (best is None or score > best[0]):
                best = (score, fact)
        return best[1] if best else None

    def date(self, claim: Claim) -> ClaimVerdict:
        assert claim.moment is not None
        found = find_days(claim.moment.days, self.index)
        if found:
            return ClaimVerdict(claim=claim, outcome="supported", fact=found[0])
        return ClaimVerdict(claim=claim, outcome="unsupported")

    def time(self, claim: Claim) -> ClaimVerdict:
        assert claim.moment is not None
        found = find_times(claim.moment.minutes, self.index)
        if found:
            return ClaimVerdict(claim=claim, outcome="supported", fact=found[0])
        return ClaimVerdict(claim=claim, outcome="unsupported")

    def token(self, claim: Claim) -> ClaimVerdict:
        facts = self.index.strings.get(claim.text.lower())
        if facts:
            return ClaimVerdict(claim=claim, outcome="supported", fact=facts[0])
        if self.index.holds(claim.text) >= 0:
            return ClaimVerdict(claim=claim, outcome="supported")
        return ClaimVerdict(claim=claim, outcome="unsupported")


def digit_likeness(claim: Claim, fact: Fact) -> float:
    """How alike two numbers are written: 1 for equal digits, 0.8 for one changed or two swapped of three or more."""
    assert claim.quantity is not None
    value = number_of(fact)
    if value is None:
        return 0.0
    ours = claim.quantity.digits.replace(",", "")
    theirs = fact.quantity.digits.replace(",", "") if fact.quantity is not None else f"{abs(value):.10g}"
    if len(ours) < 3 or len(theirs) < 3:
        return 0.0
    if ours == theirs or (len(ours) == len(theirs) and sum(a != b for a, b in zip(ours, theirs, strict=True)) == 1):
        return 0.8
    return 0.8 if sorted(ours) == sorted(theirs) and len(ours) >= 4 else 0.5 * SequenceMatcher(None, ours, theirs).ratio()


def check(answer: str, sources: Iterable[Source]) -> tuple[ClaimVerdict, ...]:
    """Every claim of the answer with its verdict, in order of appearance."""
    checker = _Checker(answer, Index(sources))
    return tuple(checker.check(claim) for claim in extract(answer))
