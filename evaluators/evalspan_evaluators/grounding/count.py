"""Count: small whole numbers of an answer, which prove nothing by standing somewhere: what they count must agree."""

import re
from collections.abc import Sequence

from evalspan_evaluators.grounding.bind import Scope, known_units
from evalspan_evaluators.grounding.claim import Claim
from evalspan_evaluators.grounding.context import Context, key_stems, own_name
from evalspan_evaluators.grounding.fact import Fact, Record
from evalspan_evaluators.grounding.fitness import comparable
from evalspan_evaluators.grounding.lookup import find_numbers, number_of
from evalspan_evaluators.grounding.quantity import Quantity
from evalspan_evaluators.grounding.rate import is_rate, rate
from evalspan_evaluators.grounding.reckon import Reckoning, proved
from evalspan_evaluators.grounding.rough import bound_of
from evalspan_evaluators.grounding.text import stem, words
from evalspan_evaluators.grounding.unit import measure
from evalspan_evaluators.grounding.verdict import ClaimVerdict

__all__ = ["Counts"]

_QUANTITY = frozenset(("qty", "quantity", "quantiti", "count", "units", "unit", "pieces", "piec", "pcs"))
_FULLY = 0.9
_BREAK = re.compile(r"[,;:.]\s|\b(?:and|but|while|und|et|y|e|than|of|over|under)\b|\d", re.IGNORECASE)
#: Letters behind a number in which what it counts starts.
_NEXT = 80
#: What is told of degrees that nobody measured.
_NOT_MEASURED = re.compile(
    r"\b(?:if|feels?|would|could|should|set|recommend\w*|comfortable|between|ideal\w*)\b", re.IGNORECASE
)
_NOTHING = re.compile(
    r"\b(?:there (?:are|were|is|was)|es gibt|es gab|il n'y a|no hay)\s(?P<no>no|zero|keine?|aucune?)\s"
    r"(?P<what>[^\W\d_]+(?:\s[^\W\d_]+)?)\s*(?:[.,;!)\n]|$)",
    re.IGNORECASE,
)
#: Smaller numbers are too often right by chance, or counted by the writer.
_TELLING = 10
#: More facts than this about the same thing name no single true value.
_FEW = 6
_QUALIFIER = re.compile(
    r"(?:\s?(?:-|–|to)\s?\d+)?\s([^\W\d_]{3,})\s(?:days?|hours?|weeks?|months?|years?)\b", re.IGNORECASE
)


class Counts(Reckoning):
    """Checks of small whole numbers."""

    def small(self, claim: Claim, context: Context, scope: Scope, found: Sequence[Fact]) -> ClaimVerdict:
        """The verdict on one of them."""
        assert claim.quantity is not None
        nouns = (*context.after[:3], claim.quantity.unit) if claim.quantity.unit else context.after[:3]
        if self.text.startswith("-", claim.end) or self.text[claim.end : claim.end + 1].isalpha():
            nouns = (
                (claim.quantity.unit,) if claim.quantity.unit else nouns[:1]
            )  # `52-week high` and `24h volume` count weeks and hours
        known, exact = known_units(self.binder, nouns)
        return (
            self.of_named(claim)
            or self.of_sibling(claim, scope, found)
            or self.told(claim, known, exact, found)
            or self.reached(claim, context, exact)
            or self.per_time(claim, known)
            or self.miscounted(claim, context, exact)
            or self.left(claim, context, found)
        )

    def of_named(self, claim: Claim) -> ClaimVerdict | None:
        """`three Ceramic Mugs`: the quantity that the record of what is counted tells."""
        assert claim.quantity is not None
        near = self.binder.mentions.within(claim.end, claim.end + _NEXT)
        mention = next((m for m in near if not self.text[claim.end : m.start].strip(" x×")), None)
        if mention is None or len(mention.records) > _FEW or claim.kind != "number":
            return None
        told = [f for r in mention.records for f in r.facts[:40] if not _QUANTITY.isdisjoint(key_stems(f.key))]
        numbers = [n for f in told if (n := number_of(f)) is not None]
        if not numbers:
            return None
        right = claim.quantity.value in (*numbers, sum(numbers))
        return ClaimVerdict(
            claim=claim,
            outcome="supported" if right else "contradicted",
            fact=told[0],
            code=None if right else "OTHER_COUNT",
        )

    def of_sibling(self, claim: Claim, scope: Scope, found: Sequence[Fact]) -> ClaimVerdict | None:
        """`Tom has 5`: the value stands only in other rows of the list, and the row of Tom has one of its own."""
        assert claim.quantity is not None
        found = [f for f in found if number_of(f) == claim.quantity.value]
        subject = scope.near[0] if scope.near else None
        if subject is None or subject.end > claim.start or len(subject.records) != 1 or not 0 < len(found) <= _FEW:
            return None
        row, between = subject.records[0], self.text[subject.end : claim.start]
        keys = {f.key for f in found}
        if len(keys) != 1 or _BREAK.search(between) or any(not _is_sibling(f.record, row) for f in found):
            return None
        own = [f for f in row.facts if f.key in keys and number_of(f) is not None]
        if len(own) != 1:
            return None
        return ClaimVerdict(claim=claim, outcome="contradicted", fact=own[0], code="OTHER_RECORD")

    def told(
        self, claim: Claim, known: Sequence[Fact], exact: Sequence[Fact], found: Sequence[Fact]
    ) -> ClaimVerdict | None:
        """Supported where a value that counts the same thing says so, or nothing says what it counts."""
        counting = set(map(id, known))
        same = [f for f in found if id(f) in counting]
        if same:
            return self.other_qualifier(claim, same) or ClaimVerdict(claim=claim, outcome="supported", fact=same[0])
        if found and not exact:
            return ClaimVerdict(claim=claim, outcome="supported", fact=found[0], code="WEAK")
        return None

    def reached(self, claim: Claim, context: Context, exact: Sequence[Fact]) -> ClaimVerdict | None:
        """Supported by a list's length or a formula."""
        derived = self.counted(claim, context, exact) or self.multiple(claim, exact)
        return self.derived(claim, context) if derived is None and self.hinted(context) else derived

    def per_time(self, claim: Claim, known: Sequence[Fact]) -> ClaimVerdict | None:
        """`13 requests per second` of a number per hour: of another time nothing can be said."""
        if not is_rate(self.text, claim):
            return None
        per = rate(claim, known)
        return proved(claim, per) if per is not None else ClaimVerdict(claim=claim, outcome="not_checkable")

    def miscounted(self, claim: Claim, context: Context, exact: Sequence[Fact]) -> ClaimVerdict | None:
        """Contradicted where few values count the same thing, and none says so."""
        if not exact or len(exact) > _FEW:
            return None
        numbers = [n for f in exact if (n := number_of(f)) is not None]
        if claim.quantity is not None and len(numbers) > 1 and sum(numbers) == claim.quantity.value:
            formula = " + ".join(f"{n:g}" for n in numbers)
            return ClaimVerdict(claim=claim, outcome="supported", fact=exact[0], formula=formula, code="DERIVED")
        return self.of_some(claim, context) or ClaimVerdict(
            claim=claim, outcome="contradicted", fact=exact[0], code="OTHER_COUNT"
        )

    def left(self, claim: Claim, context: Context, found: Sequence[Fact]) -> ClaimVerdict:
        """The verdict where nothing tells what is counted."""
        assert claim.quantity is not None
        if found:
            return ClaimVerdict(claim=claim, outcome="supported", fact=found[0], code="WEAK")
        if (named := self.named_value(claim, context)) is not None:
            return ClaimVerdict(claim=claim, outcome="contradicted", fact=named, code="OTHER_VALUE")
        paired = self.paired(claim) and claim.quantity.value >= _TELLING
        if paired or self.mismeasured(claim, context):
            return self.derived(claim, context) or self.wrong(claim, context)
        return ClaimVerdict(claim=claim, outcome="not_checkable")

    def named_value(self, claim: Claim, context: Context) -> Fact | None:
        """The only value of the sources that the words right before a number name in full, by two words or more."""
        assert claim.quantity is not None
        ahead = self.text[context.sentence[0] : claim.start]
        if claim.quantity.worded or claim.quantity.approximate or _BREAK.search(ahead):
            return None
        words = context.before[-4:] + context.after
        named = [
            fact
            for (key, _), facts in self.binder.keyed().items()
            if len(key_stems(key)) > 1 and own_name(words, facts[0]) >= _FULLY
            for fact in facts
        ]
        if len(named) != 1 or named[0].record.source.kind != "tool_result" or not comparable(claim, named[0]):
            return None
        return named[0]

    def mismeasured(self, claim: Claim, context: Context) -> bool:
        """Whether a number with a unit of measure is told flatly, and the sources measure the same in fields."""
        assert claim.quantity is not None
        kind = measure((claim.quantity.unit,))
        if kind in ("", "time") or claim.quantity.approximate or self.hinted(context):
            return False
        if bound_of(self.text, claim) is not None or _NOT_MEASURED.search(self.text[context.sentence[0] : claim.start]):
            return False
        return any(
            facts[0].record.source.kind == "tool_result" and measure((*key_stems(key), *_letter(key))) == kind
            for (key, _), facts in self.binder.keyed().items()
        )

    def nothing(self) -> list[ClaimVerdict]:
        """`There were no errors` where the one field of that name holds a number."""
        found: list[ClaimVerdict] = []
        for match in _NOTHING.finditer(self.text):
            quantity = Quantity(match.start("no"), match.end("no"), match["no"], (0.0,), worded=True)
            claim = Claim("number", match["no"], match.start("no"), match.end("no"), quantity=quantity)
            what = frozenset(stem(w) for w in words(match["what"]))
            _, named = known_units(self.binder, tuple(what))
            exact = [f for f in named if f.record.source.kind == "tool_result" and what == frozenset(key_stems(f.key))]
            if len({number_of(f) for f in exact}) == 1 and number_of(exact[0]):
                found.append(ClaimVerdict(claim=claim, outcome="contradicted", fact=exact[0], code="OTHER_COUNT"))
        return found

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

    def counted(self, claim: Claim, context: Context, exact: Sequence[Fact]) -> ClaimVerdict | None:
        """Supported by the length of a list; where a field counts the same thing, only of a list of that name."""
        assert claim.quantity is not None
        value = claim.quantity.value
        lists = self.index.lengths.get(int(value), []) if value == int(value) and value >= 2 else []
        if exact:
            lists = [f for f in lists if not f.key or not set(key_stems(f.key)).isdisjoint(context.after)]
        if not lists:
            return None
        return ClaimVerdict(
            claim=claim, outcome="supported", fact=lists[0], formula=f"count({lists[0].path})", code="DERIVED"
        )

    def of_some(self, claim: Claim, context: Context) -> ClaimVerdict | None:
        """`two accounts have more than $100k`: a count of those within a bound is not the count of all."""
        others = [c for c in self.claims if claim.end <= c.start < context.sentence[1]]
        if not any(bound_of(self.text, c) is not None and not find_numbers(c, self.index) for c in others):
            return None
        return ClaimVerdict(claim=claim, outcome="not_checkable")

    def other_qualifier(self, claim: Claim, found: Sequence[Fact]) -> ClaimVerdict | None:
        """`5 to 7 calendar days` where every source says `5 to 7 business days`."""
        ours = _qualifier(self.text, claim.end)
        theirs = [
            _qualifier(f.record.prose, f.quantity.end) if f.record.prose is not None and f.quantity else ""
            for f in found
        ]
        if claim.kind != "duration" or not ours or not all(theirs) or ours in theirs:
            return None
        return ClaimVerdict(claim=claim, outcome="contradicted", severity="minor", fact=found[0], code="OTHER_UNIT")


def _is_sibling(record: Record, row: Record) -> bool:
    """Whether two records are different rows of one list."""
    return record is not row and record.parent is row.parent and record.parent is not None and record.prose is None


def _letter(key: str) -> tuple[str, ...]:
    """The unit that a key ends with as one letter: `high_c`."""
    return (key[-1],) if len(key) > 2 and key[-2] == "_" and key[-1] in "cf" else ()


def _qualifier(text: str, at: int) -> str:
    """The word between a number and its unit of time."""
    match = _QUALIFIER.match(text, at)
    return match[1].lower() if match is not None else ""
