"""Bill: the usage of all judge calls behind one score, added up."""

from dataclasses import dataclass, field, replace
from typing import TypeVar

from evalspan.errors import JudgeError
from evalspan_evaluators.score import JudgeUsage

N = TypeVar("N", int, float)

__all__ = ["Bill"]


@dataclass(slots=True)
class Bill:
    """The usage of each call so far, failed ones among them."""

    usages: list[JudgeUsage] = field(default_factory=list[JudgeUsage])

    def add(self, usage: JudgeUsage) -> None:
        """Put one call on the bill."""
        self.usages.append(usage)

    def with_failed(self, error: JudgeError) -> JudgeUsage | None:
        """The total with the call that ended in this error."""
        if isinstance(error.usage, JudgeUsage):
            self.usages.append(error.usage)
        return self.total()

    def total(self, *, raw: float | None = None) -> JudgeUsage | None:
        """All calls together; None when there was none. Unknown tokens and cost stay unknown."""
        if not self.usages:
            return None
        return replace(
            self.usages[-1],
            calls=sum(u.calls for u in self.usages),
            input_tokens=_sum([u.input_tokens for u in self.usages]),
            output_tokens=_sum([u.output_tokens for u in self.usages]),
            cost_usd=_sum([u.cost_usd for u in self.usages]),
            raw=raw,
        )


def _sum(numbers: list[N | None]) -> N | None:
    known = [n for n in numbers if n is not None]
    return sum(known[1:], known[0]) if known else None
