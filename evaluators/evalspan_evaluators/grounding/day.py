"""Day: dates, times and weekdays of an answer against the sources."""

from collections.abc import Sequence

from evalspan_evaluators.grounding.bind import Scope, closeness, same_key
from evalspan_evaluators.grounding.claim import Claim
from evalspan_evaluators.grounding.context import Context
from evalspan_evaluators.grounding.extreme import check_extreme_day
from evalspan_evaluators.grounding.fact import Fact
from evalspan_evaluators.grounding.figure import Figures
from evalspan_evaluators.grounding.fitness import is_bookkeeping, same_type
from evalspan_evaluators.grounding.moment import Day
from evalspan_evaluators.grounding.text import words
from evalspan_evaluators.grounding.verdict import ClaimVerdict
from evalspan_evaluators.grounding.zone import find_zoned, minutes_of

__all__ = ["Days"]

_MADE = frozenset(
    [
        "created",
        "booked",
        "made",
        "placed",
        "ordered",
        "updated",
        "modified",
        "changed",
        "issued",
        "opened",
        "registered",
        "booking",
        "creation",
        "since",
        "last",
        "purchased",
        "erstellt",
        "créé",
        "creado",
        "criado",
        "gebucht",
    ]
)


class Days(Figures):
    """Checks of dates, times and weekdays."""

    def moment(self, claim: Claim, found: list[Fact]) -> ClaimVerdict:
        """The verdict on a date or time, given the facts that name it."""
        context = self.context(claim)
        scope = self.binder.scope(claim, context)
        extreme = check_extreme_day(self.text, claim, context.sentence, self.claims, self.index)
        if extreme is not None:
            return extreme
        if found:
            found = self.dated(claim, found)
            other = (
                self.other_day(claim, scope, found) if claim.kind == "date" else self.other_record(claim, scope, found)
            )
            other = other or self.elsewhere(claim, context, scope, found) or self.by_name(claim, context, found)
            other = other or self.other_line(claim, context, found)
            return other or ClaimVerdict(claim=claim, outcome="supported", fact=found[0])
        if (claim.text.isdigit() or self.index.cut) and self.index.holds(claim.text) >= 0:
            return ClaimVerdict(claim=claim, outcome="supported")
        if claim.kind == "time":
            zoned = find_zoned(self.text, claim, self.index)
            if zoned is not None:
                return ClaimVerdict(
                    claim=claim, outcome="supported", fact=zoned, code="DERIVED", note="another time zone"
                )
            if (elapsed := self.elapsed(claim)) is not None:
                return elapsed
        return ClaimVerdict(claim=claim, outcome="unsupported")

    def by_name(self, claim: Claim, context: Context, found: list[Fact]) -> ClaimVerdict | None:
        """Contradicted where the words name a field of the record that holds another date or time."""
        assert claim.moment is not None
        days, minutes = claim.moment.days, claim.moment.minutes

        def says(other: Fact) -> bool:
            if other.moment is None or is_bookkeeping(other):
                return False
            if claim.kind == "time":
                return bool(times := minutes_of(other)) and not times.intersection(minutes)
            return bool(other.moment.days) and not any(d.agrees(k) for d in days for k in other.moment.days)

        fact = self.named_field(claim, context, found, says)
        if fact is None:
            return None
        return ClaimVerdict(claim=claim, outcome="contradicted", fact=fact, code="OTHER_FIELD")

    def speaks_of_making(self, claim: Claim) -> bool:
        """Whether the words right before a date say that something was created, booked or changed then."""
        start = max(0, claim.start - 60)
        return bool(set(words(self.text[start : claim.end + 20])) & _MADE)

    def dated(self, claim: Claim, found: list[Fact]) -> list[Fact]:
        """Without `created at` and the like, unless the sentence speaks of that."""
        if claim.kind != "date" or self.speaks_of_making(claim):
            return found
        return [f for f in found if not is_bookkeeping(f)] or found

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
        if any(is_bookkeeping(f) for f in found) and self.speaks_of_making(claim):
            return None
        loose = all(is_bookkeeping(f) or f.record.source.kind == "system_prompt" for f in found)
        ours = 0.0 if loose else max(closeness(f, mentions) for f in found[:60])
        best: tuple[float, Fact] | None = None
        for mention in mentions:
            for record in mention.records[:8]:
                for fact in record.below(200):
                    if same_type(fact, claim) and not is_bookkeeping(fact) and (loose or same_key(fact, found)):
                        near = closeness(fact, mentions)
                        if best is None or near > best[0]:
                            best = (near, fact)
        if best is None or best[0] < max(ours + 0.3, 1.5 * ours):
            return None
        return ClaimVerdict(claim=claim, outcome="contradicted", fact=best[1], code="OTHER_RECORD")

    def dated_days(self, days: Sequence[Day]) -> list[Day]:
        """Days with the year of the sources where the answer leaves it out."""
        return [
            known
            for day in days
            for known in (
                [day] if day.year or not day.day else [k for k in self.index.days if k.year and day.agrees(k)]
            )
            if known.day
        ]

    def weekday(self, claim: Claim) -> ClaimVerdict:
        """A weekday must be that of the date beside it, or of some date of the sources."""
        assert claim.moment is not None
        for other in self.claims:
            if other.kind == "date" and other.moment and 0 <= other.start - claim.end <= 4:
                dates = [d for day in self.dated_days(other.moment.days) if (d := day.ordinal()) is not None]
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
