"""Token: ids, addresses and quotes of an answer against the sources."""

from collections.abc import Sequence

from evalspan_evaluators.grounding.bind import linked, links
from evalspan_evaluators.grounding.claim import Claim
from evalspan_evaluators.grounding.fact import Fact
from evalspan_evaluators.grounding.mention import Mention
from evalspan_evaluators.grounding.reading import Reading
from evalspan_evaluators.grounding.text import key_words
from evalspan_evaluators.grounding.verdict import ClaimVerdict

__all__ = ["Tokens"]


class Tokens(Reading):
    """Checks of ids, addresses and quotes."""

    def token(self, claim: Claim) -> ClaimVerdict:
        """The verdict on an id, an address or a quote."""
        facts = self.index.strings.get(claim.text.lower())
        if facts:
            return self.identifier(claim, facts)
        if self.index.holds(claim.text) >= 0 or (claim.text[0] == "#" and self.index.holds(claim.text[1:]) >= 0):
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
        stale = self.stale(claim, facts, mentions)
        return stale or ClaimVerdict(claim=claim, outcome="supported", fact=facts[0])

    def stale(self, claim: Claim, facts: list[Fact], mentions: Sequence[Mention]) -> ClaimVerdict | None:
        """An id nobody asked for last, while the last tool call was about another one that the answer leaves out."""
        last = max((s.call for s in self.index.sources if s.kind == "tool_result"), default=-1)
        answer = self.text.lower()
        shape = _shape(claim.text)
        if last < 0 or any(f.record.source.call == last for f in facts):
            return None
        keys = {f.key.rstrip("s") for f in facts}
        said = [
            c
            for c in self.claims
            if c.kind == "id" and _shape(c.text) == shape and c.text.lower() != claim.text.lower()
        ]
        fetched = [f for f in facts if f.place < 0 and f.record.source.kind == "tool_result" and f.record.prose is None]
        if said or (fetched and (linked(fetched, mentions) or claim.text.lower() in self.last_words)):
            return None
        others = [
            f
            for record in self.index.records
            if record.source.call == last
            for f in record.facts
            if f.place < 0 and isinstance(f.value, str) and _shape(f.value) == shape and _alike(f.key, keys)
        ]
        if not others or any(str(f.value).lower() in answer for f in others):
            return None
        return ClaimVerdict(claim=claim, outcome="contradicted", fact=others[0], code="OTHER_RECORD")


def _shape(token: str) -> tuple[int, bool, bool]:
    """Length and kinds of characters of an id."""
    return len(token), any(c.isdigit() for c in token), any(c.isalpha() for c in token)


def _alike(key: str, keys: set[str]) -> bool:
    parts = set(key_words(key)) - {"id", "number", "no", "code"}
    return key in keys or any(parts & set(key_words(other)) or other in parts for other in keys)
