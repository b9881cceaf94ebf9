"""Check: every claim of an answer against the sources."""

import json
import re
from collections.abc import Iterable

from evalspan_evaluators.grounding.category import check_categories
from evalspan_evaluators.grounding.claim import Claim
from evalspan_evaluators.grounding.day import Days
from evalspan_evaluators.grounding.index import Index
from evalspan_evaluators.grounding.lookup import find_days, find_times
from evalspan_evaluators.grounding.name import check_names
from evalspan_evaluators.grounding.polarity import check_polarity
from evalspan_evaluators.grounding.source import Source
from evalspan_evaluators.grounding.token import Tokens
from evalspan_evaluators.grounding.verdict import ClaimVerdict

__all__ = ["check"]

_MAX_ANSWER = 30_000
#: Claims beyond these are not looked at.
_MAX_CLAIMS = 300
_TELLING = 4
#: Sources of this size in all are read whole.
_SMALL = 4000
_DIGIT_TOKEN = re.compile(r"[A-Za-z]*\d[\w.:-]*\w")


class _Checker(Days, Tokens):
    """Every check over one answer."""

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


def check(answer: str, sources: Iterable[Source]) -> tuple[ClaimVerdict, ...]:
    """Every claim of the answer with its verdict, in order of appearance.

    Linear in the length of answer and sources; answers beyond 30,000 characters are cut. Sources that share no
    number, date or id with the answer are read only when something is left open without them.
    """
    every = tuple(sources)
    answer = answer[:_MAX_ANSWER]
    likely = _likely(answer, every)
    if sum(len(s.content) if isinstance(s.content, str) else len(str(s.content)) for s in every) <= 2 * _SMALL:
        likely = every
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


def _check_all(answer: str, sources: tuple[Source, ...]) -> tuple[ClaimVerdict, ...]:
    index = Index(sources)
    checker = _Checker(answer, index)
    found = [checker.check(claim) for claim in checker.claims[:_MAX_CLAIMS]]
    found.extend(ClaimVerdict(claim=c, outcome="not_checkable", code="TOO_MANY") for c in checker.claims[_MAX_CLAIMS:])
    found.extend(checker.articles())
    taken = bytearray(len(checker.text))
    for claim in checker.claims:
        taken[claim.start : claim.end] = b"\1" * (claim.end - claim.start)
    found.extend(check_names(checker.text, checker.binder, index, taken))
    found.extend(check_categories(checker.text, checker.binder, index))
    found.extend(check_polarity(checker.text, checker.binder, index))
    found.sort(key=lambda v: (v.claim.start, v.claim.end))
    return tuple(found)
