"""Reading: one answer against one index, and what the checks share about it."""

from collections.abc import Callable, Sequence

from evalspan_evaluators.grounding.bind import Binder, Scope
from evalspan_evaluators.grounding.claim import Claim
from evalspan_evaluators.grounding.context import Context, context_of, tail_of
from evalspan_evaluators.grounding.fact import Fact
from evalspan_evaluators.grounding.field import Around, named_field
from evalspan_evaluators.grounding.index import Index
from evalspan_evaluators.grounding.line import of_other_line
from evalspan_evaluators.grounding.owner import Owners, Said
from evalspan_evaluators.grounding.quantity import scan
from evalspan_evaluators.grounding.text import fold, sentences
from evalspan_evaluators.grounding.verdict import ClaimVerdict

__all__ = ["Reading"]


class Reading:
    """An answer with its claims and subjects, and the sources it is read against."""

    def __init__(self, answer: str, index: Index, claims: list[Claim], *, hasty: bool = False) -> None:
        #: Only whether something is held against a claim counts, not what the true value is.
        self.hasty = hasty
        self.text = fold(answer)
        self.claims = claims
        said = [s.content for s in index.sources if s.kind == "user" and isinstance(s.content, str)]
        #: The last thing the user said.
        self.last_words = said[-1].lower() if said else ""
        #: Sentences with a number bound to a field by its noun.
        self.bound: set[tuple[int, int]] = set()
        #: Derived values by number: said again, they need no second proof.
        self.proven: dict[float, ClaimVerdict] = {}
        self.question = " ".join(
            s.content[:600] for s in [s for s in index.sources if s.kind == "user" and isinstance(s.content, str)][-2:]
        )
        #: Numbers the user asked with, such as the passengers of `for two passengers`.
        self.asked = [
            Claim("number", q.text, 0, 0, quantity=q) for q in scan(self.question) if not q.decimals and not q.currency
        ]
        self.index = index
        self.spans = sentences(self.text)
        self.binder = Binder(self.text, index, self.spans)
        self.owners = Owners(index)

    def context(self, claim: Claim) -> Context:
        """The words around a claim."""
        span = self.binder.sentence(claim.start)
        return context_of(self.text, claim.start, claim.end, span)

    def named_field(
        self, claim: Claim, context: Context, found: Sequence[Fact], says: Callable[[Fact], bool]
    ) -> Fact | None:
        """The field the words next to a claim name, where only other fields hold its value."""
        # Not `24-hour`: such a number is part of a name.
        before = max((c.end for c in self.claims if c.end <= claim.start and self.text[c.end] != "-"), default=0)
        return named_field(Around(self.text, before, context.sentence), claim, found, says)

    def other_line(self, claim: Claim, context: Context, found: Sequence[Fact]) -> ClaimVerdict | None:
        """Contradicted where the value stands in a line of a listing that the sentence does not speak of."""
        fact = of_other_line(claim, self.text[context.sentence[0] : context.sentence[1]], found)
        if fact is None:
            return None
        return ClaimVerdict(claim=claim, outcome="contradicted", fact=fact, code="OTHER_RECORD")

    def elsewhere(self, claim: Claim, context: Context, scope: Scope, found: Sequence[Fact]) -> ClaimVerdict | None:
        """Contradicted where the value is known of another subject only, and the claim's own has a value for it."""
        if not self.owners.may_tell(claim, context, found):
            return None
        start, end = context.sentence
        before = max((c.end for c in self.claims if start <= c.start and c.end <= claim.start), default=start)
        near = f"{self.text[before : claim.start]} {tail_of(self.text, claim.end, end)}"
        sentence = f"{self.text[start : claim.start]} {self.text[claim.end : end]}"
        truth = self.owners.own_value(Said(near, sentence), claim, context, scope.all, found)
        if truth is None:
            return None
        return ClaimVerdict(claim=claim, outcome="contradicted", fact=truth, code="OTHER_RECORD")
