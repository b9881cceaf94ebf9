"""Reading: one answer against one index, and what the checks share about it."""

from evalspan_evaluators.grounding.bind import Binder
from evalspan_evaluators.grounding.claim import Claim, extract
from evalspan_evaluators.grounding.context import Context, context_of
from evalspan_evaluators.grounding.index import Index
from evalspan_evaluators.grounding.text import fold, sentences
from evalspan_evaluators.grounding.verdict import ClaimVerdict

__all__ = ["Reading"]


class Reading:
    """An answer with its claims and subjects, and the sources it is read against."""

    def __init__(self, answer: str, index: Index) -> None:
        self.text = fold(answer)
        self.claims = extract(answer)
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
        self.index = index
        self.spans = sentences(self.text)
        self.binder = Binder(self.text, index, self.spans)

    def context(self, claim: Claim) -> Context:
        """The words around a claim."""
        span = self.binder.sentence(claim.start)
        return context_of(self.text, claim.start, claim.end, span)
