"""Reckon: what a number follows from where no value says it: formulas, bounds, conversions; else its true value."""

import re
from dataclasses import replace
from itertools import islice

from evalspan_evaluators.grounding.claim import Claim
from evalspan_evaluators.grounding.context import Context, attribute_match, key_stems
from evalspan_evaluators.grounding.derive import Derivation, derive
from evalspan_evaluators.grounding.elapsed import find_elapsed
from evalspan_evaluators.grounding.fact import Fact
from evalspan_evaluators.grounding.fitness import MOST_ALIKE, clashes, digit_likeness, is_small, may_resemble
from evalspan_evaluators.grounding.hint import hints_of
from evalspan_evaluators.grounding.lookup import number_of
from evalspan_evaluators.grounding.quantity import Quantity
from evalspan_evaluators.grounding.rate import after_percent, complement, is_rate, multiple, out_of, over_time, rate
from evalspan_evaluators.grounding.reading import Reading
from evalspan_evaluators.grounding.rough import bound_of, equivalent, find_within
from evalspan_evaluators.grounding.verdict import ClaimVerdict, Outcome

__all__ = ["OF", "Reckoning", "proved"]

_PAIR_AFTER = re.compile(r"\s?(?:-|–|/)\s?(?:(?:for|of)\s?-\s?)?\d")
_PAIR_BEFORE = re.compile(r"\d\s?(?:-|–|/)\s?(?:(?:for|of)\s?-\s?)?$")
#: A number `of` something.
OF = re.compile(r"\s+(?:of|von|der|vom|de|des|du|del|do|da)\b")
#: Counts that a number may be a multiple of stand so near, in letters, and are so many at most.
_COUNTS_WITHIN, _MOST_COUNTS = 120, 8
_BOTH = re.compile(r"\b(?:both|twice|beide|doppelt|les deux|ambos|ambas|os dois)\b", re.IGNORECASE)
_TELLING_DIGITS = 4
#: Values looked at for the one a wrong number most likely stands for.
_MOST_GUESSES = 3000
#: Words name a value this well, at least, where it may be the one meant.
_NAMED = 0.45
_SLACK = 1e-9


class Reckoning(Reading):
    """Calculations that lead to a number, and guesses at the true one."""

    def derived(self, claim: Claim, context: Context, *, bold: bool = True) -> ClaimVerdict | None:
        """Supported by a small formula over the sources or over the answer's own numbers.

        Args:
            claim: The number.
            context: The words around it.
            bold: Try differences that no word asks for, where the number has many digits.
        """
        assert claim.quantity is not None
        start, end = context.sentence
        asked = "" if is_small(claim) else self.question
        hints = hints_of(self.text[start:end], asked)
        if claim.kind == "percent" and OF.match(self.text, claim.end):
            hints = replace(hints, ratio=True, share=True)
        if is_rate(self.text, claim):
            hints = replace(hints, ratio=True, words=hints.words | {"per"})
        digits = claim.quantity.digits.replace(".", "").replace(",", "").strip("0")
        if bold and len(digits) >= _TELLING_DIGITS and not claim.quantity.percent:
            hints = replace(hints, difference=True)  # so many digits seldom come out by chance
        found = derive(claim, hints, self.index, self.claims)
        if found is None:
            near = (c for c in self.claims if start <= c.start < end and abs(c.start - claim.start) < _COUNTS_WITHIN)
            counts = [*islice(near, _MOST_COUNTS), *self.asked[:_MOST_COUNTS]]
            if both := _BOTH.search(self.text, start, end):
                two = Quantity(both.start(), both.end(), both[0], (2.0,), worded=True)
                counts.append(Claim("number", both[0], both.start(), both.end(), quantity=two))
            percents = [c for c in self.claims if c.kind == "percent" and start <= c.start < end][:_MOST_COUNTS]
            found = (
                multiple(claim, counts, self.index)
                or over_time(claim, self.text[start:end], self.index)
                or after_percent(claim, percents, self.index)
                or self.per_time_of(claim)
            )
        return proved(claim, found) if found is not None else None

    def per_time_of(self, claim: Claim) -> Derivation | None:
        """A number told per day or hour, of a field of the same unit."""
        if claim.quantity is None or not claim.quantity.unit or not is_rate(self.text, claim):
            return None
        known = (facts[0] for (key, _), facts in self.binder.keyed().items() if claim.quantity.unit in key_stems(key))
        return rate(claim, known)

    def hinted_here(self, claim: Claim, context: Context) -> bool:
        """Whether the words next to a claim speak of a calculation; a small number needs them close by."""
        if not is_small(claim):
            return True
        near = self.text[max(context.sentence[0], claim.start - 30) : claim.end + 20]
        hints = hints_of(near)
        return hints.total or hints.difference or hints.average

    def hinted(self, context: Context) -> bool:
        """Whether the sentence itself speaks of a sum, a difference or an average."""
        hints = hints_of(self.text[context.sentence[0] : context.sentence[1]])
        return hints.total or hints.difference or hints.average

    def elapsed(self, claim: Claim) -> ClaimVerdict | None:
        """Supported as part of a duration in two units, `9 h 35 min`, that a source holds in one."""
        found = find_elapsed(self.text, claim, self.index)
        if found is None:
            return None
        return ClaimVerdict(claim=claim, outcome="supported", fact=found[0], formula=found[1], code="DERIVED")

    def of_many(self, claim: Claim) -> ClaimVerdict | None:
        """Supported as a part of `15 out of every 1,000` or `one in four`."""
        found = out_of(self.text, claim, self.claims, self.index)
        return proved(claim, found) if found is not None else None

    def roughly(self, claim: Claim, context: Context) -> ClaimVerdict | None:
        """A bound that a value keeps to, the same value in another unit, or what is left of a share."""
        told = equivalent(self.text, claim, self.claims)
        if told is not None:
            outcome: Outcome = "supported" if told[1] else "contradicted"
            return ClaimVerdict(claim=claim, outcome=outcome, code="EQUIVALENT", formula=f"{told[0].text} converted")
        found = complement(claim, self.index)
        if found is not None:
            return proved(claim, found)
        bound = bound_of(self.text, claim)
        fact, named = find_within(claim, bound, context, self.index) if bound is not None else (None, False)
        if fact is None:
            return None
        # Which value a bound without a name is about is open.
        return ClaimVerdict(claim=claim, outcome="supported" if named else "not_checkable", fact=fact, code="BOUND")

    def wrong(self, claim: Claim, context: Context) -> ClaimVerdict:
        """A number no source holds: contradicted where the true value can be told."""
        if self.index.cut and claim.quantity is not None and self.index.holds(claim.quantity.digits) >= 0:
            return ClaimVerdict(claim=claim, outcome="supported", code="IN_TEXT")
        # Of sources that were not read whole nothing is held against it, so nobody asks for the truth.
        truth = None if self.hasty or self.index.cut else self.truth(claim, context)
        return ClaimVerdict(claim=claim, outcome="contradicted" if truth else "unsupported", fact=truth)

    def truth(self, claim: Claim, context: Context) -> Fact | None:
        """The value the claim most likely gets wrong: by the words around it, then by its digits."""
        best: Fact | None = None
        most, first = 0.0, 0
        # The best named ones first, so that the others need no look; of equal ones the first counts.
        for near, position, fact in self.guesses(context):
            if near + MOST_ALIKE < most:
                break
            if (near < _NAMED and not may_resemble(claim, fact)) or clashes(claim, fact):
                continue
            # Digit by digit only where that may still make it the best.
            alike = digit_likeness(claim, fact, above=most - near - _SLACK if near >= _NAMED else 1.0)
            score = near + alike
            if (near >= _NAMED or alike >= 0.75) and (score > most or (score == most and position < first)):
                best, most, first = fact, score, position
        return self.first_told(best) if best is not None else None

    def guesses(self, context: Context) -> list[tuple[float, int, Fact]]:
        """How well the words around a claim name each number, its position and the number; the best named first."""
        found: list[tuple[float, int, Fact]] = []
        known: dict[tuple[str, str, bool], float] = {}
        for position, (_, fact) in enumerate(self.index.numbers[:_MOST_GUESSES]):
            record = fact.record
            if record.source.kind in ("system_prompt", "user"):
                continue
            if record.prose is not None:
                near = _nearness(context, fact)
            else:
                field = (fact.key, record.named_key, record.parent is None)
                if field not in known:
                    known[field] = _nearness(context, fact)
                near = known[field]
            found.append((near, position, fact))
        found.sort(key=lambda guess: -guess[0])
        return found

    def first_told(self, fact: Fact) -> Fact:
        """The same value in a tool's result, the latest one, where an earlier answer only repeated it."""
        if fact.record.source.kind != "earlier_turn":
            return fact
        same = [
            f
            for _, f in self.index.numbers
            if f.record.source.kind == "tool_result" and number_of(f) == number_of(fact)
        ]
        return max(same, key=lambda f: f.record.source.call, default=fact)

    def paired(self, claim: Claim) -> bool:
        """Part of `110 - 106`, `7-of-12` or `3/4`: which of two fields it means is open."""
        return bool(
            _PAIR_AFTER.match(self.text, claim.end)
            or _PAIR_BEFORE.search(self.text, max(0, claim.start - 14), claim.start)
        )


def _nearness(context: Context, fact: Fact) -> float:
    """How well the words around a claim name a value."""
    return max(
        attribute_match(context.label, fact),
        attribute_match(context.after, fact),
        0.9 * attribute_match(context.before[-4:], fact),
    )


def proved(claim: Claim, found: Derivation) -> ClaimVerdict:
    """Supported by a formula."""
    return ClaimVerdict(claim=claim, outcome="supported", fact=found.fact, formula=found.formula, code="DERIVED")
