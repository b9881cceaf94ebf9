"""Check: every claim of an answer against the sources."""

import re
from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher

from evalspan_evaluators.grounding import quantity as quantities
from evalspan_evaluators.grounding.bind import Binder, Scope, is_number, known_units, linked, links, same_key
from evalspan_evaluators.grounding.claim import Claim, extract
from evalspan_evaluators.grounding.context import Context, attribute_match, context_of, fact_words
from evalspan_evaluators.grounding.derive import derive, hints_of
from evalspan_evaluators.grounding.index import Fact, Index
from evalspan_evaluators.grounding.lookup import find_days, find_numbers, find_times, number_of
from evalspan_evaluators.grounding.source import Source
from evalspan_evaluators.grounding.text import fold, sentences
from evalspan_evaluators.grounding.verdict import ClaimVerdict

__all__ = ["check"]

_OF = re.compile(r"\s+(?:of|von|de|des)\b")
_COUNT_WORDS = frozenset(
    "seat count quantity qty num age year month day hour minut second id zip phone index page rank position size".split()
)


class _Checker:
    """One answer against one index."""

    def __init__(self, answer: str, index: Index) -> None:
        self.text = fold(answer)
        self.claims = extract(answer)
        self.question = " ".join(
            s.content[:600] for s in [s for s in index.sources if s.kind == "user" and isinstance(s.content, str)][-2:]
        )
        self.index = index
        self.spans = sentences(self.text)
        self.binder = Binder(self.text, index, self.spans)

    def context(self, claim: Claim) -> Context:
        span = next(((a, b) for a, b in self.spans if a <= claim.start < b), (0, len(self.text)))
        return context_of(self.text, claim.start, claim.end, span)

    def check(self, claim: Claim) -> ClaimVerdict:
        if claim.quantity is not None:
            return self.number(claim)
        if claim.kind == "date":
            return self.moment(claim, find_days(claim.moment.days, self.index) if claim.moment else [])
        if claim.kind == "time":
            return self.moment(claim, find_times(claim.moment.minutes, self.index) if claim.moment else [])
        if claim.kind in ("id", "url", "email", "quote"):
            return self.token(claim)
        return ClaimVerdict(claim=claim, outcome="not_checkable")

    # Numbers

    def number(self, claim: Claim) -> ClaimVerdict:
        context = self.context(claim)
        scope = self.binder.scope(claim, context)
        found = [f for f in find_numbers(claim, self.index) if not _clashes(claim, f)]
        if claim.quantity is not None and claim.quantity.worded and _OF.match(self.text, claim.end):
            return ClaimVerdict(claim=claim, outcome="not_checkable")
        bound = self.by_attribute(claim, context, scope, found)
        if bound is not None:
            return bound
        if found:
            if _is_small(claim):
                return self.small(claim, context, found)
            other = self.other_record(claim, scope, found)
            if other is not None:
                return other
            best = max(found, key=lambda f: attribute_match(context.all, f))
            return ClaimVerdict(claim=claim, outcome="supported", fact=best)
        derived = self.derived(claim, context)
        if derived is not None:
            return derived
        if _is_small(claim):
            return self.small(claim, context, found)
        truth = self.truth(claim, context)
        return ClaimVerdict(claim=claim, outcome="contradicted" if truth else "unsupported", fact=truth)

    def by_attribute(self, claim: Claim, context: Context, scope: Scope, found: Sequence[Fact]) -> ClaimVerdict | None:
        """The subject's own field, where the claim's words name it."""
        words = context.label + context.after
        if not words:
            return None
        known = set(map(id, found))
        for mention in scope.near:
            facts = self.binder.attribute_facts(mention, words)
            if not facts:
                continue
            for fact in facts:
                if id(fact) in known:
                    return ClaimVerdict(claim=claim, outcome="supported", fact=fact)
            for other in scope.line:
                for fact in self.binder.attribute_facts(other, words):
                    if id(fact) in known:
                        return ClaimVerdict(claim=claim, outcome="supported", fact=fact)
            for fact in found:
                if attribute_match(words, fact) >= 0.5 and linked([fact], (mention,)):
                    return ClaimVerdict(claim=claim, outcome="supported", fact=fact)
            if not all(_comparable(claim, f) for f in facts):
                return None
            derived = self.derived(claim, context) if not _is_small(claim) or self.hinted(context) else None
            if derived is not None:
                return derived
            return ClaimVerdict(claim=claim, outcome="contradicted", fact=facts[0], code="OTHER_VALUE")
        return None

    def small(self, claim: Claim, context: Context, found: Sequence[Fact]) -> ClaimVerdict:
        """A small whole number proves nothing by standing somewhere: what it counts must agree."""
        nouns = context.after[:3]
        known, exact = known_units(self.binder, nouns)
        same = [f for f in found if any(f is k for k in known)]
        if same:
            return ClaimVerdict(claim=claim, outcome="supported", fact=same[0])
        derived = self.derived(claim, context) or self.counted(claim)
        if derived is not None:
            return derived
        derived = self.multiple(claim, exact)
        if derived is not None:
            return derived
        if exact:
            return ClaimVerdict(claim=claim, outcome="contradicted", fact=exact[0], code="OTHER_COUNT")
        if found:
            return ClaimVerdict(claim=claim, outcome="supported", fact=found[0], code="WEAK")
        return ClaimVerdict(claim=claim, outcome="not_checkable")

    def derived(self, claim: Claim, context: Context) -> ClaimVerdict | None:
        """Supported by a small formula over the sources or over the answer's own numbers."""
        start, end = context.sentence
        hints = hints_of(self.text[start:end], self.question)
        found = derive(claim, hints, self.index, self.claims)
        if found is None:
            return None
        return ClaimVerdict(claim=claim, outcome="supported", fact=found.fact, formula=found.formula, code="DERIVED")

    def hinted(self, context: Context) -> bool:
        """Whether the sentence itself speaks of a sum, a difference or an average."""
        hints = hints_of(self.text[context.sentence[0] : context.sentence[1]])
        return hints.total or hints.difference or hints.average

    def multiple(self, claim: Claim, known: Sequence[Fact]) -> ClaimVerdict | None:
        """Supported as so much for each of several things: 2 bags for each of 2 passengers."""
        assert claim.quantity is not None
        value = claim.quantity.value
        for fact in known:
            each = number_of(fact)
            if each and value % each == 0 and 2 <= value / each <= 20 and int(value / each) in self.index.lengths:
                times = self.index.lengths[int(value / each)][0]
                formula = f"{each:g} * count({times.path})"
                return ClaimVerdict(claim=claim, outcome="supported", fact=fact, formula=formula, code="DERIVED")
        return None

    def counted(self, claim: Claim) -> ClaimVerdict | None:
        """Supported by the length of a list."""
        assert claim.quantity is not None
        value = claim.quantity.value
        lists = self.index.lengths.get(int(value)) if value == int(value) and value >= 2 else None
        if not lists:
            return None
        return ClaimVerdict(claim=claim, outcome="supported", fact=lists[0], formula=f"count({lists[0].path})", code="DERIVED")

    def other_record(self, claim: Claim, scope: Scope, found: Sequence[Fact]) -> ClaimVerdict | None:
        """The value stands in another record than the one the answer speaks of."""
        mentions = scope.all
        if not mentions or any(f.record.prose is not None or f.record.source.kind == "user" for f in found):
            return None
        if linked(found, mentions):
            return None
        near = scope.near or mentions[:1]
        for mention in (*near, *mentions):
            for record in mention.records[:8]:
                for fact in record.below(200):
                    if same_key(fact, found) and _same_type(fact, claim):
                        return ClaimVerdict(claim=claim, outcome="contradicted", fact=fact, code="OTHER_RECORD")
        return None

    def truth(self, claim: Claim, context: Context) -> Fact | None:
        """The value the claim most likely gets wrong: by the words around it, then by its digits."""
        best: tuple[float, Fact] | None = None
        for _, fact in self.index.numbers:
            if fact.record.source.kind in ("system_prompt", "user") or _clashes(claim, fact):
                continue
            near = max(attribute_match(context.label, fact), attribute_match(context.after, fact), 0.9 * attribute_match(context.before[-4:], fact))
            alike = digit_likeness(claim, fact)
            score = near + alike
            if (near >= 0.45 or alike >= 0.75) and (best is None or score > best[0]):
                best = (score, fact)
        return best[1] if best else None

    # Dates and times

    def moment(self, claim: Claim, found: list[Fact]) -> ClaimVerdict:
        context = self.context(claim)
        scope = self.binder.scope(claim, context)
        if found:
            other = self.other_record(claim, scope, found)
            return other or ClaimVerdict(claim=claim, outcome="supported", fact=found[0])
        if claim.text.isdigit() and self.index.holds(claim.text) >= 0:
            return ClaimVerdict(claim=claim, outcome="supported")
        return ClaimVerdict(claim=claim, outcome="unsupported")

    # Ids, addresses and quotes

    def token(self, claim: Claim) -> ClaimVerdict:
        facts = self.index.strings.get(claim.text.lower())
        if facts:
            return self.identifier(claim, facts)
        if self.index.holds(claim.text) >= 0:
            return ClaimVerdict(claim=claim, outcome="supported")
        return ClaimVerdict(claim=claim, outcome="unsupported", severity="minor" if claim.kind == "quote" else "major")

    def identifier(self, claim: Claim, facts: list[Fact]) -> ClaimVerdict:
        """A known id may still be the id of another record."""
        context = self.context(claim)
        scope = self.binder.scope(claim, context)
        mentions = [m for m in scope.all if not any(f.key == g.key for f in m.facts[:5] for g in facts[:5])]
        if len(mentions) >= 2:
            ours = max(links(f, mentions) for f in facts[:40])
            best: tuple[int, Fact] | None = None
            keys = {f.key for f in facts if f.key}
            for mention in mentions:
                for record in mention.records[:8]:
                    for fact in record.facts:
                        if fact.key in keys and str(fact.value).lower() != claim.text.lower():
                            score = links(fact, mentions)
                            if best is None or score > best[0]:
                                best = (score, fact)
            if best and best[0] >= ours + 2 and str(best[1].value).lower() not in self.text.lower():
                return ClaimVerdict(claim=claim, outcome="contradicted", fact=best[1], code="OTHER_RECORD")
        return ClaimVerdict(claim=claim, outcome="supported", fact=facts[0])


def _is_small(claim: Claim) -> bool:
    q = claim.quantity
    return (
        q is not None
        and claim.kind in ("number", "duration")
        and q.decimals == 0
        and q.scale == 1
        and abs(q.value) < 100
    )


def _clashes(claim: Claim, fact: Fact) -> bool:
    """Money is no count and no time."""
    if fact.quantity is not None and fact.quantity.currency and claim.quantity is not None:
        ours = claim.quantity.currency
        return ours is not None and ours != fact.quantity.currency and {ours, fact.quantity.currency} != {"USD"}
    if claim.kind == "money":
        words = fact_words(fact) if fact.record.prose is None else (fact.quantity.unit,) if fact.quantity else ()
        return any(w in _COUNT_WORDS or quantities.dimension(w) == "time" for w in words)
    return False


def _comparable(claim: Claim, fact: Fact) -> bool:
    if claim.kind == "duration" and not any(quantities.dimension(w) == "time" for w in fact_words(fact)):
        return False
    return not _clashes(claim, fact) and number_of(fact) is not None


def _same_type(fact: Fact, claim: Claim) -> bool:
    if claim.quantity is not None:
        return fact.quantity is not None or is_number(fact)
    return fact.moment is not None and claim.moment is not None and fact.moment.kind == claim.moment.kind


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
    return tuple(checker.check(claim) for claim in checker.claims)
