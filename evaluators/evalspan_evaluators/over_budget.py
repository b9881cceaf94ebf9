"""Over budget: goes through the runs that a cap has stopped, page by page, so that each gets its turn."""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

from evalspan_collector.records import OutcomeRecord, RunSummary
from evalspan_collector.store.contract import Store
from evalspan_evaluators.rule import Rule

__all__ = ["OverBudget"]

_NS = 1_000_000_000
_PAGE = 200
#: Pages looked through at a time: of many outcomes most may be of revisions that are no more.
_PAGES = 20


class OverBudget:
    """Gives the runs of a rule that are over budget, newest first, and after the oldest the newest again.

    It goes on behind what it gave last, so one run whose questions cost more than the cap holds up no other.

    Args:
        store: Where the outcomes are.
        call: Runs a call of the store away from the event loop.
    """

    def __init__(self, store: Store, call: Callable[[Callable[[], Any]], Awaitable[Any]]) -> None:
        self._store = store
        self._call = call
        self._given: dict[str, tuple[int, str]] = {}
        self._resting: dict[str, int] = {}

    def rests(self, rule: Rule, now_ns: int, pause_s: float) -> bool:
        """Whether it is too early to look again; a clock that was set back looks."""
        since = self._resting.get(rule.name)
        return since is not None and 0 <= now_ns - since < pause_s * _NS

    def rest(self, rule: Rule, now_ns: int) -> None:
        """There was no more to judge, or no more money."""
        self._resting[rule.name] = now_ns

    async def next(self, rule: Rule, wanted: int) -> list[tuple[OutcomeRecord, RunSummary]]:
        """Up to so many outcomes with their runs, whose revision is still the current one."""
        found: list[tuple[OutcomeRecord, RunSummary]] = []
        for _ in range(_PAGES):
            page: list[OutcomeRecord] = await self._call(
                partial(
                    self._store.outcomes,
                    rule.project,
                    rule=rule.name,
                    name="over_budget",
                    before=self._given.get(rule.name),
                    limit=_PAGE,
                )
            )
            found += await self._current([o for o in page if o.rule_version == rule.version])
            if len(found) > wanted:
                found = found[:wanted]
                page = page[: page.index(found[-1][0]) + 1]
            elif len(page) < _PAGE:  # that was the oldest
                self._given.pop(rule.name, None)
                break
            self._given[rule.name] = (page[-1].created_ns, page[-1].run_id)
            if len(found) >= wanted:
                break
        return found

    async def _current(self, outcomes: Sequence[OutcomeRecord]) -> list[tuple[OutcomeRecord, RunSummary]]:
        """Those of the outcomes whose revision is still the current one of its run, with the run."""
        if not outcomes:
            return []
        ids = [outcome.run_id for outcome in outcomes]
        rows: list[RunSummary] = await self._call(partial(self._store.last_revisions, outcomes[0].project, ids))
        now = {(row.run_id, row.revision): row for row in rows if row.state != "withdrawn"}
        return [(o, now[o.run_id, o.run_revision]) for o in outcomes if (o.run_id, o.run_revision) in now]
