"""Check: every claim of an answer against the sources."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from evalspan_evaluators.grounding.category import check_categories
from evalspan_evaluators.grounding.claim import Claim, extract
from evalspan_evaluators.grounding.day import Days
from evalspan_evaluators.grounding.index import Index
from evalspan_evaluators.grounding.lookup import find_days, find_times
from evalspan_evaluators.grounding.name import check_names
from evalspan_evaluators.grounding.polarity import check_polarity
from evalspan_evaluators.grounding.relevance import Relevance
from evalspan_evaluators.grounding.source import Source, Texts
from evalspan_evaluators.grounding.text import fold
from evalspan_evaluators.grounding.token import Tokens
from evalspan_evaluators.grounding.trend import check_trends
from evalspan_evaluators.grounding.verdict import ClaimVerdict

__all__ = ["Findings", "check", "examine"]

_MAX_ANSWER = 20_000
#: Claims beyond these are not looked at.
_MAX_CLAIMS = 200
#: Fewer claims are looked at where the sources hold very many values: claims times values.
_MAX_WORK = 250_000
_FEW_CLAIMS = 30
#: Verdicts that rest on what the claim's own record says, whatever else was not read.
_OF_OWN_RECORD = frozenset(
    ("OTHER_VALUE", "NO_VALUE", "SUCCESS_DENIED", "FAILURE_HIDDEN", "SAME_NAME_TWICE", "OTHER_RECORD")
)
#: Words that tell something of a whole list: of its ends, its sum or its number.
_SPEAKS_OF_ALL = re.compile(
    r"\b(?=[phmlgscefaotribdn])(?:peak\w*|highest|maximum|max|largest|greatest|most|lowest|minimum|min|smallest|least|cheapest|fastest|latest"
    r"|earliest|average\w*|total of all|in total|overall|altogether|combined|range\w*|trend\w*|between|throughout"
    r"|from \S+ to|insgesamt|höchste\w*|niedrigste\w*|durchschnitt\w*|maximal|minimal|moyenne|promedio|média)\b"
    r"|平均|合計|最高|最低|最大|最小",
    re.IGNORECASE,
)


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


@dataclass(frozen=True, slots=True)
class Findings:
    """Every claim of an answer with its verdict.

    Attributes:
        truncated: The sources were too long to be read whole; what was not found in them is not checkable.
    """

    verdicts: tuple[ClaimVerdict, ...]
    truncated: bool = False


def check(answer: str, sources: Iterable[Source]) -> tuple[ClaimVerdict, ...]:
    """Every claim of the answer with its verdict, in order of appearance."""
    return examine(answer, sources).verdicts


def examine(answer: str, sources: Iterable[Source]) -> Findings:
    """Check every claim of an answer.

    Linear in the length of answer and sources, and bounded: answers beyond 30,000 characters are cut, and of sources
    a few hundred thousand are read. Of long lists only the records that name something of the answer are read,
    unless that leaves something open or the answer speaks of a whole list (`the lowest`, `in all`).
    """
    texts = Texts(sources)
    answer = answer[:_MAX_ANSWER]
    claims = extract(answer)
    index: Index | None = None
    # A day without its year is compared with every row of a list.
    vague = any(c.kind == "date" and c.moment is not None and not c.moment.days[0].year for c in claims)
    if not vague and not _SPEAKS_OF_ALL.search(answer):
        index = Index(texts, Relevance(fold(answer), claims))
        if index.cut or not index.pruned:
            first = _check_all(answer, claims, index)
            return _settled(first) if first.truncated else first
        if (clean := _check_hastily(answer, claims, index)) is not None:
            return clean
    whole = Index(texts)
    if not whole.cut:
        return _check_all(answer, claims, whole)
    # What the answer names is read in either case; the rest of very long sources was not.
    return _settled(_check_all(answer, claims, whole if index is None else index))


def _settled(found: Findings) -> Findings:
    """Nothing is held against a claim for what was not read."""
    return Findings(
        tuple(
            replace(v, outcome="not_checkable", fact=None, code="TRUNCATED")
            if v.flagged and v.code not in _OF_OWN_RECORD and v.note is None
            else v
            for v in found.verdicts
        ),
        truncated=True,
    )


def _is_open(verdict: ClaimVerdict) -> bool:
    """A number, date or id that nothing was found about."""
    return verdict.outcome == "not_checkable" and verdict.claim.kind not in ("name", "category", "polarity")


def _check_all(answer: str, claims: list[Claim], index: Index) -> Findings:
    """Every verdict."""
    return _findings(_verdicts(_Checker(answer, index, claims), claims, index), index)


def _check_hastily(answer: str, claims: list[Claim], index: Index) -> Findings | None:
    """Every verdict; None as soon as one holds something against a claim or leaves it open."""
    found: list[ClaimVerdict] = []
    for verdict in _verdicts(_Checker(answer, index, claims, hasty=True), claims, index):
        if verdict.flagged or _is_open(verdict):
            return None
        found.append(verdict)
    return _findings(found, index)


def _findings(verdicts: Iterable[ClaimVerdict], index: Index) -> Findings:
    return Findings(tuple(sorted(verdicts, key=lambda v: (v.claim.start, v.claim.end))), truncated=index.cut)


def _verdicts(checker: _Checker, claims: list[Claim], index: Index) -> Iterator[ClaimVerdict]:
    most = min(_MAX_CLAIMS, max(_FEW_CLAIMS, _MAX_WORK // (index.size + 1)))
    for claim in claims[:most]:
        yield checker.check(claim)
    for claim in claims[most:]:
        yield ClaimVerdict(claim=claim, outcome="not_checkable", code="TOO_MANY")
    yield from checker.articles()
    yield from checker.nothing()
    yield from check_trends(checker.text, claims[:most], index)
    taken = bytearray(len(checker.text))
    for claim in checker.claims:
        taken[claim.start : claim.end] = b"\1" * (claim.end - claim.start)
    yield from check_names(checker.text, checker.binder, index, taken)
    yield from check_categories(checker.text, checker.binder, index)
    yield from check_polarity(checker.text, checker.binder, index)
