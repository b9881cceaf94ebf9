"""Ledger: what every judge call used, and the cap that is reserved before it is made."""

import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from evalspan.errors import BudgetError

__all__ = ["Announce", "Budget", "Ledger", "LedgerEntry", "Reservation", "SpendCap"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerEntry:
    """One attempt at a judge call, failed ones included; unknown is None.

    Attributes:
        purpose: Metric and step that asked, such as `correctness/score`.
        cost_usd: US dollars by list price at the time of the call.
        reserved_usd: What is set aside for it while its cost is unknown, by the size of the question; None once the
            cost is known, and for a model without a price.
        stop_reason: Why the model stopped, as its API says.
        error: Why there is no usable reply; None when there is one.
        attempt: 1 for the first try of a question.
    """

    call_id: str
    created_ns: int
    purpose: str
    model: str
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None
    reserved_usd: float | None = None
    stop_reason: str | None = None
    error: str | None = None
    attempt: int = 1
    duration_s: float = 0.0


#: Told of every attempt, before its reply is validated.
Ledger = Callable[[LedgerEntry], None]

#: Writes down that an attempt is about to be made, and returns once that is durable; what it raises stops the attempt.
#: The ledger gets an entry of the same `call_id` afterwards, unless the process dies first.
Announce = Callable[[LedgerEntry], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Reservation:
    """Money set aside for one attempt, in US dollars."""

    usd: float


class Budget(Protocol):
    """Decides whether a call may be made."""

    def reserve(self, estimate_usd: float | None) -> Reservation:
        """Set money aside; the estimate is None when the model has no known price.

        Raises:
            BudgetError: The cap would be passed, or the price is unknown.
        """
        ...

    def settle(self, reservation: Reservation, cost_usd: float | None) -> None:
        """Replace the reservation by what the call cost; None keeps the reservation as spent."""
        ...


class SpendCap:
    """A hard cap in memory, safe across threads.

    Args:
        limit_usd: Most US dollars that may be spent.
        spent_usd: What was spent already, such as today's total of the ledger.
    """

    def __init__(self, limit_usd: float, *, spent_usd: float = 0.0) -> None:
        self._limit = limit_usd
        self._spent = spent_usd
        self._lock = threading.Lock()

    @property
    def spent_usd(self) -> float:
        """Spent and reserved so far."""
        return self._spent

    def reserve(self, estimate_usd: float | None) -> Reservation:
        """Set the estimate aside.

        Raises:
            BudgetError: The cap would be passed, or the model's price is unknown.
        """
        if estimate_usd is None:
            raise BudgetError("the judge model has no known price, so no cap can hold: add it to the price overrides")
        with self._lock:
            if self._spent + estimate_usd > self._limit:
                raise BudgetError(
                    f"judging would pass the cap: ${self._spent:.4f} spent of ${self._limit:.2f}, "
                    f"the call may cost ${estimate_usd:.4f}"
                )
            self._spent += estimate_usd
        return Reservation(estimate_usd)

    def settle(self, reservation: Reservation, cost_usd: float | None) -> None:
        """Replace the reservation by the real cost."""
        if cost_usd is None:
            return
        with self._lock:
            self._spent += cost_usd - reservation.usd
