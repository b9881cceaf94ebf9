"""Spending: daily caps on the judge, per rule and over all, reserved before each call."""

from collections.abc import Callable
from dataclasses import dataclass, field

from evalspan.errors import BudgetError
from evalspan_collector.store.contract import Store
from evalspan_evaluators.judges.ledger import Reservation, SpendCap
from evalspan_evaluators.rule import Rule

__all__ = ["CallBudget", "DailyCaps", "day_start_ns"]

_DAY_NS = 86_400_000_000_000


def day_start_ns(now_ns: int) -> int:
    """Midnight UTC before `now_ns`."""
    return now_ns - now_ns % _DAY_NS


@dataclass(slots=True)
class CallBudget:
    """The caps one metric of one run must keep; remembers when one stopped it.

    Attributes:
        blocked: Why no call was made; None while nothing was refused.
    """

    caps: tuple[SpendCap, ...]
    blocked: str | None = None
    _held: dict[int, list[tuple[SpendCap, Reservation]]] = field(
        default_factory=dict[int, list[tuple[SpendCap, Reservation]]]
    )

    def reserve(self, estimate_usd: float | None) -> Reservation:
        """Set the estimate aside under every cap, or under none.

        Raises:
            BudgetError: One of the caps would be passed.
        """
        held: list[tuple[SpendCap, Reservation]] = []
        try:
            for cap in self.caps:
                held.append((cap, cap.reserve(estimate_usd)))  # noqa: PERF401  what is held when one refuses is given back
        except BudgetError as error:
            for cap, reservation in held:
                cap.settle(reservation, 0.0)
            self.blocked = str(error)
            raise
        whole = Reservation(estimate_usd or 0.0)
        self._held[id(whole)] = held
        return whole

    def settle(self, reservation: Reservation, cost_usd: float | None) -> None:
        """Replace the reservation by what the call cost, under every cap."""
        for cap, part in self._held.pop(id(reservation), ()):
            cap.settle(part, cost_usd)


class DailyCaps:
    """Caps of the current UTC day, filled from the ledger when the day or the worker starts.

    Several workers on one store each read the ledger at their own start, so together they may pass a cap by
    what they have spent since: give each worker its share, or run one.

    Args:
        store: Keeps the ledger.
        total_usd: Cap over all rules of a project; None for none.
        clock: Nanoseconds since the epoch.
    """

    def __init__(self, store: Store, *, total_usd: float | None, clock: Callable[[], int]) -> None:
        self._store = store
        self._total_usd = total_usd
        self._clock = clock
        self._caps: dict[tuple[str, str | None, int], SpendCap] = {}

    def budget(self, rule: Rule) -> CallBudget | None:
        """The budget of one metric of one run under this rule; None when nothing caps it."""
        limits = (("", self._total_usd), (rule.name, rule.max_usd_per_day))
        caps = tuple(self._cap(rule.project, name or None, limit) for name, limit in limits if limit is not None)
        return CallBudget(caps) if caps else None

    def _cap(self, project: str, rule: str | None, limit_usd: float) -> SpendCap:
        day = day_start_ns(self._clock())
        key = (project, rule, day)
        if key not in self._caps:
            self._caps = {known: cap for known, cap in self._caps.items() if known[2] == day}
            spent = self._store.judge_spend(project, rule=rule, since_ns=day)
            self._caps[key] = SpendCap(limit_usd, spent_usd=spent)
        return self._caps[key]
