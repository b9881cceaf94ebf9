"""Figure: numbers, money, percents and durations of an answer against the sources."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from evalspan_evaluators.grounding.bind import Scope, closeness, linked, same_key
from evalspan_evaluators.grounding.claim import Claim
from evalspan_evaluators.grounding.context import Context, attribute_match, key_stems
from evalspan_evaluators.grounding.count import Counts
from evalspan_evaluators.grounding.fact import Fact
from evalspan_evaluators.grounding.field import may_mean, other_currency, other_sign, share_of_same
from evalspan_evaluators.grounding.fitness import (
    clashes,
    comparable,
    is_small,
    same_type,
)
from evalspan_evaluators.grounding.lookup import find_numbers
from evalspan_evaluators.grounding.mention import Mention
from evalspan_evaluators.grounding.pair import is_share, pair_fields, pair_unit, stands_apart
from evalspan_evaluators.grounding.period import period_fields
from evalspan_evaluators.grounding.quantity import Quantity
from evalspan_evaluators.grounding.reckon import OF
from evalspan_evaluators.grounding.series import check_series
from evalspan_evaluators.grounding.text import stem
from evalspan_evaluators.grounding.unit import dimension
from evalspan_evaluators.grounding.verdict import ClaimVerdict

__all__ = ["Figures"]

_BRACKET = re.compile(r"\([^)]*$")
_BRACKETED = re.compile(r"[\s'*]*(?:s\s)?\(\s*(?:\d+\s?[-–/]\s?)?")
#: `a 30-point win`: a difference between two subjects, not a field of one.
_MARGIN = frozenset(
    stem(w)
    for w in ["win", "victory", "lead", "margin", "deficit", "advantage", "loss", "run", "gap", "difference", "swing"]
)
_ARTICLE = re.compile(r"(?:,|\band)\s+(a pair of|an?)\s+(?=[a-z]{3,}\b)")
_JOINED = re.compile(r"[\s*_]*(?:,|and|&|or|und|et|y|e)?[\s*_]*(?:the\s)?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class _Field:
    """A subject, the words that name a field of it, and the facts of that field."""

    mention: Mention
    words: tuple[str, ...]
    facts: list[Fact]


class Figures(Counts):
    """Checks of numbers."""

    def number(self, claim: Claim) -> ClaimVerdict:
        """The verdict on one number, money, percent or duration."""
        context = self.context(claim)
        scope = self.binder.scope(claim, context)
        found = [f for f in find_numbers(claim, self.index) if not clashes(claim, f)]
        early = (
            self.settled(claim)
            or self.elapsed(claim)
            or self.of_many(claim)
            or (self.roughly(claim, context) if not found else None)
            or self.otherwise(claim, found)
            or check_series(self.text, claim, found, self.claims)
            or self.of_part(claim, context, found)
            or self.of_another(claim, context, scope, found)
        )
        if early is not None:
            return early
        bound = self.by_attribute(claim, context, scope, found) or self.by_field(claim, context, found)
        if bound is not None:
            if bound.fact is not None and context.after:
                self.bound.add(context.sentence)
            return bound
        if (other := self.other_line(claim, context, found)) is not None and self.derived(claim, context) is None:
            return other
        if is_small(claim):
            return self.small(claim, context, scope, found)
        if found:
            other = self.other_record(claim, scope, found) if claim.kind != "percent" else None
            best = max(found[:200], key=lambda f: attribute_match(context.all, f))
            return other or ClaimVerdict(claim=claim, outcome="supported", fact=best)
        return self.derived(claim, context) or self.wrong(claim, context)

    def of_another(self, claim: Claim, context: Context, scope: Scope, found: Sequence[Fact]) -> ClaimVerdict | None:
        """A value of another subject, unless it also follows from what the claim's own subject has."""
        verdict = None if self.paired(claim) else self.elsewhere(claim, context, scope, found)
        if verdict is not None and not is_small(claim):
            return self.derived(claim, context) or verdict
        return verdict

    def of_part(self, claim: Claim, context: Context, found: Sequence[Fact]) -> ClaimVerdict | None:
        """Contradicted where a pair is told of a counted part (`in the third quarter`) that has other values."""
        if not self.paired(claim) or _BRACKET.search(self.text, max(0, claim.start - 12), claim.start):
            return None
        fields = period_fields(self.text[context.sentence[0] : context.sentence[1]], self.index)
        if len(fields) < 2 or not {id(f) for f in fields}.isdisjoint(map(id, found)):
            return None
        return ClaimVerdict(claim=claim, outcome="contradicted", fact=fields[0], code="OTHER_VALUE")

    def settled(self, claim: Claim) -> ClaimVerdict | None:
        """A number that says nothing (`one of`), or that was derived before."""
        assert claim.quantity is not None
        if claim.quantity.worded and OF.match(self.text, claim.end):
            return ClaimVerdict(claim=claim, outcome="not_checkable")
        repeated = self.proven.get(claim.quantity.value)
        return replace(repeated, claim=claim) if repeated is not None and not is_small(claim) else None

    def otherwise(self, claim: Claim, found: Sequence[Fact]) -> ClaimVerdict | None:
        """Contradicted where the value is right, but not its sign, its currency or that it is a share."""
        told = {
            "OTHER_CURRENCY": other_currency(claim, found),
            "OTHER_SIGN": other_sign(self.text, claim, found),
            "OTHER_FIELD": share_of_same(claim, found),
        }
        code = next((code for code, fact in told.items() if fact is not None), None)
        return ClaimVerdict(claim=claim, outcome="contradicted", fact=told[code], code=code) if code else None

    def by_field(self, claim: Claim, context: Context, found: Sequence[Fact]) -> ClaimVerdict | None:
        """Contradicted where the words name another field of the record, unless the value follows from others."""
        if not found or (claim.quantity is not None and claim.quantity.worded):
            return None
        fact = self.named_field(claim, context, found, may_mean(claim, found[0]))
        if fact is None:
            return None
        derived = self.derived(claim, context, bold=False) if not is_small(claim) and self.hinted(context) else None
        return derived or ClaimVerdict(claim=claim, outcome="contradicted", fact=fact, code="OTHER_FIELD")

    def by_attribute(self, claim: Claim, context: Context, scope: Scope, found: Sequence[Fact]) -> ClaimVerdict | None:
        """The subject's own field, where the claim's words name it."""
        if self.paired(claim):
            return self.pair(claim, scope, found)
        named = context.label + context.after
        if claim.kind == "percent":
            named = (*named, "percent", "pct")
        if not named or any(w in _MARGIN for w in context.after[:2]):
            return None
        for mention in scope.near:
            facts = self.binder.attribute_facts(mention, named, lambda f: comparable(claim, f))
            blank = None if facts else self.binder.blank(mention, named)
            if blank is not None and claim.quantity is not None and claim.quantity.value:
                return ClaimVerdict(claim=claim, outcome="contradicted", fact=blank, code="NO_VALUE")
            if facts:
                return self.against_field(claim, context, scope, found, _Field(mention, named, facts))
        return None

    def against_field(
        self, claim: Claim, context: Context, scope: Scope, found: Sequence[Fact], field: "_Field"
    ) -> ClaimVerdict:
        """A claim against the field it names: the field of this subject, of one beside it, or a calculation."""
        known = set(map(id, found))
        others = scope.line if field.mention.start > claim.start else self.beside(field.mention, scope)
        candidates = [*field.facts, *(f for m in others for f in self.binder.attribute_facts(m, field.words))]
        for fact in candidates:
            if id(fact) in known:
                return ClaimVerdict(claim=claim, outcome="supported", fact=fact)
        for fact in found:
            # Two fields of different names may both be meant (`pe_ratio`, `sector_pe`), but not those of another
            # record of the same kind: its values are swapped ones.
            if linked([fact], (field.mention,)):
                named = attribute_match(field.words, fact)
            elif any(same_key(f, field.facts) for f in fact.record.facts) or _of_rival(fact, field.mention):
                continue
            else:
                named = max(attribute_match(field.words, fact), attribute_match(context.before[-2:], fact))
            if named >= 0.5:
                return ClaimVerdict(claim=claim, outcome="supported", fact=fact)
        derived = self.derived(claim, context) if self.hinted_here(claim, context) else None
        if derived is None and is_small(claim) and all(_has_other_unit(f, field.words) for f in field.facts):
            return ClaimVerdict(claim=claim, outcome="not_checkable")  # `three doses` are no `dose_mg`
        return derived or ClaimVerdict(claim=claim, outcome="contradicted", fact=field.facts[0], code="OTHER_VALUE")

    def beside(self, mention: Mention, scope: Scope) -> list[Mention]:
        """Mentions joined to this one by `and` or a comma: what is said may be about either."""
        return [
            m
            for m in scope.line
            if m is not mention and _JOINED.fullmatch(self.text[min(m.end, mention.end) : max(m.start, mention.start)])
        ]

    def pair(self, claim: Claim, scope: Scope, found: Sequence[Fact]) -> ClaimVerdict | None:
        """Any number of a subject in reach supports a half of a pair, if it has no fields of the pair's own."""
        unit = pair_unit(self.text, claim)
        own = [fields for m in scope.near for r in m.records[:8] if len(fields := pair_fields(r, unit)) >= 2]
        if own:
            known = set(map(id, found))
            fact = next((f for fields in own for f in fields if id(f) in known), None)
            if fact is not None:
                return ClaimVerdict(claim=claim, outcome="supported", fact=fact)
            return ClaimVerdict(claim=claim, outcome="contradicted", fact=own[0][0], code="OTHER_VALUE")
        for mention in scope.near:
            # `Name ( 16 - 32 )`: right behind its subject a pair must stand in the subject's record.
            gap = self.text[mention.end : claim.start]
            told = mention.end <= claim.start and (_BRACKETED.fullmatch(gap) or is_share(self.text, claim))
            facts = [f for r in mention.records[:8] for f in r.facts if same_type(f, claim)] if told else []
            if len(facts) >= 4:
                return self.of_subject(claim, mention, found) or ClaimVerdict(
                    claim=claim, outcome="contradicted", fact=facts[0], code="OTHER_VALUE"
                )
        records = [r for m in scope.near for r in m.records[:8]]
        if records and all(stands_apart(self.text, claim, r) for r in records):
            return ClaimVerdict(claim=claim, outcome="unsupported", code="OTHER_VALUE")
        for mention in (*scope.near, *scope.line):
            if (verdict := self.of_subject(claim, mention, found)) is not None:
                return verdict
        return None

    def of_subject(self, claim: Claim, mention: Mention, found: Sequence[Fact]) -> ClaimVerdict | None:
        """Supported where a record of the subject itself holds the value."""
        for record in mention.records[:8]:
            for fact in found:
                if fact.record is record:
                    return ClaimVerdict(claim=claim, outcome="supported", fact=fact)
        return None

    def other_record(self, claim: Claim, scope: Scope, found: Sequence[Fact]) -> ClaimVerdict | None:
        """The value stands in another record than the one the answer speaks of."""
        mentions = scope.all
        if not mentions or any(f.record.prose is not None or f.record.source.kind == "user" for f in found):
            return None
        if _belongs(found, scope) or any(self.beside(m, scope) and linked(found, (m,)) for m in scope.line):
            return None  # of `Kim and Omar` it may be either's
        ours = max(closeness(f, mentions) for f in found[:60])
        best: tuple[float, Fact] | None = None
        for mention in mentions:
            for record in mention.records[:8]:
                for fact in record.below(200):
                    if same_key(fact, found) and same_type(fact, claim):
                        near = closeness(fact, mentions)
                        if best is None or near > best[0]:
                            best = (near, fact)
        if best is None or best[0] < max(ours + 0.25, 1.5 * ours):
            return None
        return ClaimVerdict(claim=claim, outcome="contradicted", fact=best[1], code="OTHER_RECORD")

    def articles(self) -> list[ClaimVerdict]:
        """`38 points, six assists and a steal`: in such a list an article counts one."""
        found: list[ClaimVerdict] = []
        for start, end in self.bound:
            for match in _ARTICLE.finditer(self.text, start, end):
                number = 2.0 if "pair" in match[1] else 1.0
                quantity = Quantity(match.start(1), match.end(1), match[1], (number,), worded=True)
                claim = Claim("number", match[1], match.start(1), match.end(1), quantity=quantity)
                context = self.context(claim)
                context = context._replace(label=(), after=context.after[:1])
                scope = self.binder.scope(claim, context)
                verdict = self.by_attribute(claim, context, scope, find_numbers(claim, self.index))
                if verdict is not None:
                    found.append(verdict)
        return found


def _has_other_unit(fact: Fact, named: Sequence[str]) -> bool:
    """Whether a key ends with a unit of measure that the words do not say."""
    stems = key_stems(fact.key)
    return len(stems) > 1 and bool(dimension(stems[-1])) and dimension(stems[-1]) != "time" and stems[-1] not in named


def _belongs(found: Sequence[Fact], scope: Scope) -> bool:
    """Whether the value stands in the record of the nearest subject, where that subject names few records."""
    fewest = min((len(m.records) for m in scope.all), default=0)
    near = [m for m in scope.near[:1] if len(m.records) <= max(2, fewest)]
    return linked(found, near)


def _of_rival(fact: Fact, mention: Mention) -> bool:
    """Whether a value's record names another subject in the field that names the mentioned one."""
    keys = {f.key for f in mention.facts[:20] if f.key}
    return any(f.key in keys for record in fact.record.chain() for f in record.facts[:60])
