"""Line: a value of another line of a listing than the one the words of an answer speak of."""

import re
from collections.abc import Sequence

from evalspan_evaluators.grounding.claim import Claim
from evalspan_evaluators.grounding.context import stems_of
from evalspan_evaluators.grounding.fact import Fact, Record
from evalspan_evaluators.grounding.fitness import same_type
from evalspan_evaluators.grounding.unit import dimension
from evalspan_evaluators.grounding.zone import minutes_of

__all__ = ["of_other_line"]

#: Such a sentence may speak of one thing by way of another.
_BESIDES = re.compile(
    r"\b(?:after|before|next|following|then|until|free|than|while|instead|not|no|except|unlike|followed|nach|vor|bis|après|avant"
    r"|después|antes|depois)\b",
    re.IGNORECASE,
)
_LONGEST = 200
_MOST_LINES = 400
_MOST_FOUND = 6
#: Words that the sentence must share with the line it speaks of.
_SHARED = 2


def of_other_line(claim: Claim, sentence: str, found: Sequence[Fact]) -> Fact | None:
    """The value of the line a sentence speaks of, where the claimed one stands in lines it shares no word with.

    Args:
        claim: A number, date or time.
        sentence: Its sentence, the claim included.
        found: The values that say the same.
    """
    if not 0 < len(found) <= _MOST_FOUND or _BESIDES.search(sentence):
        return None
    said = frozenset(stem for stem in stems_of(sentence) if not dimension(stem))
    lines = [fact.record for fact in found]
    if len(said) < _SHARED or any(not _is_line(line) or said & _words(line) for line in lines):
        return None
    parent = lines[0].parent
    if parent is None or any(line.parent is not parent for line in lines):
        return None
    best = sorted(
        ((len(said & _words(line)), line) for line in parent.children[:_MOST_LINES] if _is_line(line)),
        key=lambda pair: -pair[0],
    )
    if not best or best[0][0] < _SHARED or (len(best) > 1 and best[1][0] == best[0][0]):
        return None
    return next((fact for fact in best[0][1].facts if _is_alike(fact, claim)), None)


def _is_line(record: Record) -> bool:
    return record.prose is not None and len(record.prose) <= _LONGEST and record.source.kind == "tool_result"


def _words(line: Record) -> frozenset[str]:
    return frozenset(stems_of(line.prose or ""))


def _is_alike(fact: Fact, claim: Claim) -> bool:
    """Whether a value of the line could be what is claimed."""
    if claim.kind == "time":
        return bool(minutes_of(fact))
    if claim.quantity is not None and fact.quantity is not None:
        return (claim.quantity.unit, claim.quantity.percent) == (fact.quantity.unit, fact.quantity.percent)
    return same_type(fact, claim)
