"""Check: every claim of an answer against the sources."""

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from difflib import SequenceMatcher

from evalspan_evaluators.grounding import quantity as quantities
from evalspan_evaluators.grounding.bind import Binder, Scope, closeness, is_number, known_units, linked, links, same_key
from evalspan_evaluators.grounding.category import check_categories
from evalspan_evaluators.grounding.claim import Claim, extract
from evalspan_evaluators.grounding.context import Context, attribute_match, context_of, fact_words
from evalspan_evaluators.grounding.derive import derive, hints_of
from evalspan_evaluators.grounding.index import Fact, Index
from evalspan_evaluators.grounding.lookup import find_days, find_numbers, find_times, number_of
from evalspan_evaluators.grounding.mention import Mention
from evalspan_evaluators.grounding.name import check_names
from evalspan_evaluators.grounding.polarity import check_polarity
from evalspan_evaluators.grounding.quantity import Quantity
from evalspan_evaluators.grounding.series import check_series
from evalspan_evaluators.grounding.source import Source
from evalspan_evaluators.grounding.text import fold, key_words, sentences, stem, words
from evalspan_evaluators.grounding.verdict import ClaimVerdict

__all__ = ["check"]

_PAIR_AFTER = re.compile(r"\s?(?:-|–|/)\s?(?:(?:for|of)\s?-\s?)?\d")
_PAIR_BEFORE = re.compile(r"\d\s?(?:-|–|/)\s?(?:(?:for|of)\s?-\s?)?$")
_BRACKETED = re.compile(r"[\s'*]*(?:s\s)?\(\s*(?:\d+\s?[-–/]\s?)?")
_LETTERS = re.compile(r"[A-Za-z]{4,}")
_OF = re.compile(r"\s+(?:of|von|de|des)\b")
_STAMPS = frozenset(["created", "updated", "modified", "timestamp", "at", "fetched", "generated", "inserted"])
_MADE = frozenset(
    ["created", "booked", "made", "placed", "ordered", "updated", "modified", "changed", "issued", "opened", "registered", "booking", "creation", "since", "last", "purchased", "erstellt", "créé", "creado", "criado", "gebucht"]
)
_MAX_ANSWER = 30_000
#: `a 30-point win`: a difference between two subjects, not a field of one.
_MARGIN = frozenset(stem(w) for w in ["win", "victory", "lead", "margin", "deficit", "advantage", "loss", "run", "gap", "difference", "swing"])
#: More facts than this about the same thing name no single true value.
_FEW = 6
_COUNT_WORDS = frozenset(
    ["seat", "count", "quantity", "qty", "num", "age", "year", "month", "day", "hour", "minut", "second", "id", "zip", "phone", "index", "page", "rank", "position", "size"]
)


class _Checker:
    """One answer against one index."""

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
        span = next(((a, b) for a, b in self.spans if a <= claim.start < b), (0, len(self.text)))
        return context_of(self.text, claim.start, claim.end, span)

    def check(self, claim: Claim) -> ClaimVerdict:
        if claim.quantity is not None:
            verdict = self.number(claim)
            if verdict.outcome == "supported" and verdict.formula:
                self.proven.setdefault(claim.quantity.value, verdict)
            return verdict
        if claim.kind == "date":
            return self.moment(claim, find_days(claim.moment.days, self.index) if claim.moment else [])
        if claim.kind == "time":
            return self.moment(claim, find_times(claim.moment.minutes, self.index) if claim.moment else [])
        if claim.kind in ("id", "url", "email", "quote"):
            return self.token(claim)
        if claim.kind == "weekday":
            return self.weekday(claim)
        return ClaimVerdict(claim=claim, outcome="not_checkable")

    # Numbers

    def number(self, claim: Claim) -> ClaimVerdict:
        context = self.context(claim)
        scope = self.binder.scope(claim, context)
        found = [f for f in find_numbers(claim, self.index) if not _clashes(claim, f)]
        if claim.quantity is not None and claim.quantity.worded and _OF.match(self.text, claim.end):
            return ClaimVerdict(claim=claim, outcome="not_checkable")
        repeated = self.proven.get(claim.quantity.value) if claim.quantity is not None else None
        if repeated is not None and not _is_small(claim):
            return replace(repeated, claim=claim)
        wrong = check_series(self.text, claim, found, self.claims)
        if wrong is not None:
            return wrong
        bound = self.by_attribute(claim, context, scope, found)
        if bound is not None:
            if bound.fact is not None and context.after:
                self.bound.add(context.sentence)
            return bound
        if found:
            if _is_small(claim):
                return self.small(claim, context, found)
            other = self.other_record(claim, scope, found) if claim.kind != "percent" else None
            if other is not None:
                return other
            best = max(found, key=lambda f: attribute_match(context.all, f))
            return ClaimVerdict(claim=claim, outcome="supported", fact=best)
        if _is_small(claim):
            return self.small(claim, context, found)
        derived = self.derived(claim, context)
        if derived is not None:
            return derived
        truth = self.truth(claim, context)
        return ClaimVerdict(claim=claim, outcome="contradicted" if truth else "unsupported", fact=truth)

    def by_attribute(self, claim: Claim, context: Context, scope: Scope, found: Sequence[Fact]) -> ClaimVerdict | None:
        """The subject's own field, where the claim's words name it."""
        named = context.label + context.after
        if self.paired(claim):
            return self.pair(claim, scope, found)
        if claim.kind == "percent":
            named = (*named, "percent", "pct")
        if not named:
            return None
        known = set(map(id, found))
        if any(w in _MARGIN for w in context.after[:2]):
            return None
        for mention in scope.near:
            facts = self.binder.attribute_facts(mention, named, lambda f: _comparable(claim, f))
            if not facts:
                blank = self.binder.blank(mention, named)
                if blank is not None and claim.quantity is not None and claim.quantity.value:
                    return ClaimVerdict(claim=claim, outcome="contradicted", fact=blank, code="NO_VALUE")
                continue
            for fact in facts:
                if id(fact) in known:
                    return ClaimVerdict(claim=claim, outcome="supported", fact=fact)
            for other in scope.line if mention.start > claim.start else self.beside(mention, scope):
                for fact in self.binder.attribute_facts(other, named):
                    if id(fact) in known:
                        return ClaimVerdict(claim=claim, outcome="supported", fact=fact)
            for fact in found:
                if attribute_match(named, fact) >= 0.5 and linked([fact], (mention,)):
                    return ClaimVerdict(claim=claim, outcome="supported", fact=fact)
            derived = self.derived(claim, context) if self.hinted_here(claim, context) else None
            if derived is not None:
                return derived
            return ClaimVerdict(claim=claim, outcome="contradicted", fact=facts[0], code="OTHER_VALUE")
        return None

    def beside(self, mention: Mention, scope: Scope) -> list[Mention]:
        """Mentions joined to this one by `and` or a comma: what is said may be about either."""
        return [
            m
            for m in scope.line
            if m is not mention and _JOINED.fullmatch(self.text[min(m.end, mention.end) : max(m.start, mention.start)])
        ]

    def small(self, claim: Claim, context: Context, found: Sequence[Fact]) -> ClaimVerdict:
        """A small whole number proves nothing by standing somewhere: what it counts must agree."""
        assert claim.quantity is not None
        nouns = (*context.after[:3], claim.quantity.unit) if claim.quantity.unit else context.after[:3]
        known, exact = known_units(self.binder, nouns)
        same = [f for f in found if any(f is k for k in known)]
        if same and (kind := self.other_qualifier(claim, same)) is not None:
            return kind
        if same:
            return ClaimVerdict(claim=claim, outcome="supported", fact=same[0])
        derived = self.counted(claim)
        if derived is not None:
            return derived
        derived = self.multiple(claim, exact) or (self.derived(claim, context) if self.hinted(context) else None)
        if derived is not None:
            return derived
        if exact and len(exact) <= _FEW:
            return ClaimVerdict(claim=claim, outcome="contradicted", fact=exact[0], code="OTHER_COUNT")
        if found:
            return ClaimVerdict(claim=claim, outcome="supported", fact=found[0], code="WEAK")
        return ClaimVerdict(claim=claim, outcome="not_checkable")

    def derived(self, claim: Claim, context: Context) -> ClaimVerdict | None:
        """Supported by a small formula over the sources or over the answer's own numbers."""
        start, end = context.sentence
        asked = "" if _is_small(claim) else self.question
        hints = hints_of(self.text[start:end], asked)
        found = derive(claim, hints, self.index, self.claims)
        if found is None:
            return None
        return ClaimVerdict(claim=claim, outcome="supported", fact=found.fact, formula=found.formula, code="DERIVED")

    def paired(self, claim: Claim) -> bool:
        """Part of `110 - 106`, `7-of-12` or `3/4`: which of two fields it means is open."""
        return bool(
            _PAIR_AFTER.match(self.text, claim.end)
            or _PAIR_BEFORE.search(self.text, max(0, claim.start - 14), claim.start)
        )

    def pair(self, claim: Claim, scope: Scope, found: Sequence[Fact]) -> ClaimVerdict | None:
        """Any number of a subject in reach supports a half of a pair."""
        for mention in (*scope.near, *scope.line):
            for record in mention.records[:8]:
                for fact in found:
                    if fact.record is record:
                        return ClaimVerdict(claim=claim, outcome="supported", fact=fact)
        for mention in scope.near:
            # `Name ( 16 - 32 )`: right behind its subject a pair must stand in the subject's record.
            gap = self.text[mention.end : claim.start]
            facts = [f for r in mention.records[:8] for f in r.facts if _same_type(f, claim)]
            if mention.end <= claim.start and len(facts) >= 4 and _BRACKETED.fullmatch(gap):
                return ClaimVerdict(claim=claim, outcome="contradicted", fact=facts[0], code="OTHER_VALUE")
        return None if found else ClaimVerdict(claim=claim, outcome="not_checkable")

    def hinted_here(self, claim: Claim, context: Context) -> bool:
        """Whether the words next to a claim speak of a calculation; a small number needs them close by."""
        if not _is_small(claim):
            return True
        near = self.text[max(context.sentence[0], claim.start - 30) : claim.end + 20]
        hints = hints_of(near)
        return hints.total or hints.difference or hints.average

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
        return ClaimVerdict(
            claim=claim, outcome="supported", fact=lists[0], formula=f"count({lists[0].path})", code="DERIVED"
        )

    def other_record(self, claim: Claim, scope: Scope, found: Sequence[Fact]) -> ClaimVerdict | None:
        """The value stands in another record than the one the answer speaks of."""
        mentions = scope.all
        if not mentions or any(f.record.prose is not None or f.record.source.kind == "user" for f in found):
            return None
        if _belongs(found, scope):
            return None
        ours = max(closeness(f, mentions) for f in found[:60])
        best: tuple[float, Fact] | None = None
        for mention in mentions:
            for record in mention.records[:8]:
                for fact in record.below(200):
                    if same_key(fact, found) and _same_type(fact, claim):
                        near = closeness(fact, mentions)
                        if best is None or near > best[0]:
                            best = (near, fact)
        if best is None or best[0] < max(ours + 0.25, 1.5 * ours):
            return None
        return ClaimVerdict(claim=claim, outcome="contradicted", fact=best[1], code="OTHER_RECORD")

    def truth(self, claim: Claim, context: Context) -> Fact | None:
        """The value the claim most likely gets wrong: by the words around it, then by its digits."""
        best: tuple[float, Fact] | None = None
        for _, fact in self.index.numbers:
            if fact.record.source.kind in ("system_prompt", "user") or _clashes(claim, fact):
                continue
            near = max(
                attribute_match(context.label, fact),
                attribute_match(context.after, fact),
                0.9 * attribute_match(context.before[-4:], fact),
            )
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
            found = self.dated(claim, context, found)
            other = (
                self.other_day(claim, scope, found) if claim.kind == "date" else self.other_record(claim, scope, found)
            )
            return other or ClaimVerdict(claim=claim, outcome="supported", fact=found[0])
        if claim.text.isdigit() and self.index.holds(claim.text) >= 0:
            return ClaimVerdict(claim=claim, outcome="supported")
        return ClaimVerdict(claim=claim, outcome="unsupported")

    def speaks_of_making(self, claim: Claim) -> bool:
        """Whether the words right before a date say that something was created, booked or changed then."""
        start = max(0, claim.start - 60)
        return bool(set(words(self.text[start : claim.end + 20])) & _MADE)

    def dated(self, claim: Claim, context: Context, found: list[Fact]) -> list[Fact]:
        """Without `created at` and the like, unless the sentence speaks of that."""
        if claim.kind != "date" or self.speaks_of_making(claim):
            return found
        return [f for f in found if not _is_bookkeeping(f)] or found

    def other_day(self, claim: Claim, scope: Scope, found: list[Fact]) -> ClaimVerdict | None:
        """The day belongs to another record, or only to the clock, and the subject has days of its own."""
        assert claim.moment is not None
        if any(
            f.record.source.kind == "user" or (f.record.prose is not None and f.record.source.kind != "system_prompt")
            for f in found
        ):
            return None
        mentions = scope.all
        if not mentions:
            return None
        if any(_is_bookkeeping(f) for f in found) and self.speaks_of_making(claim):
            return None
        loose = all(_is_bookkeeping(f) or f.record.source.kind == "system_prompt" for f in found)
        ours = 0.0 if loose else max(closeness(f, mentions) for f in found[:60])
        best: tuple[float, Fact] | None = None
        for mention in mentions:
            for record in mention.records[:8]:
                for fact in record.below(200):
                    if _same_type(fact, claim) and not _is_bookkeeping(fact) and (loose or same_key(fact, found)):
                        near = closeness(fact, mentions)
                        if best is None or near > best[0]:
                            best = (near, fact)
        if best is None or best[0] < max(ours + 0.3, 1.5 * ours):
            return None
        return ClaimVerdict(claim=claim, outcome="contradicted", fact=best[1], code="OTHER_RECORD")

    def weekday(self, claim: Claim) -> ClaimVerdict:
        """A weekday must be that of the date beside it, or of some date of the sources."""
        assert claim.moment is not None
        for other in self.claims:
            if other.kind == "date" and other.moment and 0 <= other.start - claim.end <= 4:
                dates = [d for day in other.moment.days if (d := day.ordinal()) is not None]
                if dates and all(d.weekday() != claim.moment.weekday for d in dates):
                    return ClaimVerdict(
                        claim=claim,
                        outcome="contradicted",
                        code="OTHER_WEEKDAY",
                        note=f"{dates[0]:%Y-%m-%d} is a {dates[0]:%A}",
                    )
        if self.index.holds(claim.text) >= 0:
            return ClaimVerdict(claim=claim, outcome="supported", severity="minor")
        known = [
            (date, facts[0])
            for day, facts in self.index.days.items()
            if (date := day.ordinal()) is not None and facts[0].record.source.kind not in ("system_prompt", "user")
        ]
        same = next((f for d, f in known if d.weekday() == claim.moment.weekday), None)
        if same is not None or not known:
            return ClaimVerdict(
                claim=claim, outcome="supported" if same else "not_checkable", severity="minor", fact=same
            )
        return ClaimVerdict(
            claim=claim, outcome="contradicted", severity="minor", fact=known[0][1], code="OTHER_WEEKDAY"
        )

    def articles(self) -> list[ClaimVerdict]:
        """`38 points, six assists and a steal`: in such a list an article counts one."""
        found: list[ClaimVerdict] = []
        for start, end in self.bound:
            for match in _ARTICLE.finditer(self.text, start, end):
                number = 2.0 if "pair" in match[1] else 1.0
                quantity = Quantity(match.start(1), match.end(1), match[1], (number,), worded=True)
                claim = Claim("number", match[1], match.start(1), match.end(1), quantity=quantity)
                context = self.context(claim)
                context = replace(context, label=(), after=context.after[:1])
                scope = self.binder.scope(claim, context)
                verdict = self.by_attribute(claim, context, scope, find_numbers(claim, self.index))
                if verdict is not None:
                    found.append(verdict)
        return found

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


_ARTICLE = re.compile(r"(?:,|\band)\s+(a pair of|an?)\s+(?=[a-z]{3,}\b)")
_JOINED = re.compile(r"[\s*_]*(?:,|and|&|or|und|et|y|e)?[\s*_]*(?:the\s)?", re.IGNORECASE)
_QUALIFIER = re.compile(
    r"(?:\s?(?:-|–|to)\s?\d+)?\s([^\W\d_]{3,})\s(?:days?|hours?|weeks?|months?|years?)\b", re.IGNORECASE
)


def _qualifier(text: str, at: int) -> str:
    """The word between a number and its unit of time."""
    match = _QUALIFIER.match(text, at)
    return match[1].lower() if match is not None else ""


def _belongs(found: Sequence[Fact], scope: Scope) -> bool:
    """Whether the value stands in the record of the nearest subject, where that subject names few records."""
    fewest = min((len(m.records) for m in scope.all), default=0)
    near = [m for m in scope.near[:1] if len(m.records) <= max(2, fewest)]
    return linked(found, near)


def _is_bookkeeping(fact: Fact) -> bool:
    """A `created_at`-like stamp, which answers seldom speak of."""
    return fact.record.prose is None and bool(_STAMPS.intersection(key_words(fact.key)))


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
        if isinstance(fact.value, str) and fact.record.prose is None and _LETTERS.search(fact.value):
            return True  # Suite 744
        parts = fact_words(fact) if fact.record.prose is None else (fact.quantity.unit,) if fact.quantity else ()
        return any(w in _COUNT_WORDS or quantities.dimension(w) == "time" for w in parts)
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
    return (
        0.8 if sorted(ours) == sorted(theirs) and len(ours) >= 4 else 0.5 * SequenceMatcher(None, ours, theirs).ratio()
    )


def check(answer: str, sources: Iterable[Source]) -> tuple[ClaimVerdict, ...]:
    """Every claim of the answer with its verdict, in order of appearance.

    Linear in the length of answer and sources; answers beyond 30,000 characters are cut. Sources that share no
    number, date or id with the answer are read only when something is left open without them.
    """
    every = tuple(sources)
    answer = answer[:_MAX_ANSWER]
    likely = _likely(answer, every)
    if len(likely) < len(every):
        found = _check_all(answer, likely)
        if not any(v.flagged or v.outcome == "not_checkable" for v in found):
            return found
    return _check_all(answer, every)


def _likely(answer: str, sources: tuple[Source, ...]) -> tuple[Source, ...]:
    """Sources that hold one of the answer's longer tokens with digits; tool results without any are left out."""
    tokens = {t for t in _DIGIT_TOKEN.findall(answer) if len(t) >= _TELLING}
    if not tokens:
        return sources
    kept: list[Source] = []
    for source in sources:
        if source.kind != "tool_result" or source.failed:
            kept.append(source)
            continue
        text = source.content if isinstance(source.content, str) else json.dumps(source.content, default=str)
        if any(t in text for t in tokens):
            kept.append(source)
    # The last result always counts: it says what the last call did.
    last = next((s for s in reversed(sources) if s.kind == "tool_result"), None)
    return tuple(s for s in sources if s in kept or s is last) if last not in kept else tuple(kept)


_TELLING = 4
_DIGIT_TOKEN = re.compile(r"[A-Za-z]*\d[\w.:-]*\w")


def _check_all(answer: str, sources: tuple[Source, ...]) -> tuple[ClaimVerdict, ...]:
    index = Index(sources)
    checker = _Checker(answer, index)
    found = [checker.check(claim) for claim in checker.claims]
    found.extend(checker.articles())
    taken = bytearray(len(checker.text))
    for claim in checker.claims:
        taken[claim.start : claim.end] = b"\1" * (claim.end - claim.start)
    found.extend(check_names(checker.text, checker.binder, index, taken))
    found.extend(check_categories(checker.text, checker.binder, index))
    found.extend(check_polarity(checker.text, checker.binder, index))
    found.sort(key=lambda v: (v.claim.start, v.claim.end))
    return tuple(found)
