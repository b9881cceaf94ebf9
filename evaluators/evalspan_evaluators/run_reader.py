"""Run reader: the content of runs for a worker, remembered, and read many at a time."""

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import structlog

from evalspan.errors import StoreUnreachableError
from evalspan_collector.records import RunSummary
from evalspan_collector.run import Run
from evalspan_collector.store.contract import RunQuery, Store

__all__ = ["RunReader"]

_log = structlog.get_logger(__name__)
#: Earlier runs of a session that become the turns of a case.
_TURNS = 10
_RUNS_KEPT = 256
#: Runs read together: a read costs the store much the same for one as for twenty. Steps bound what is in memory.
_TOGETHER = 20
_STEPS_TOGETHER = 1_000


class RunReader:
    """Gives runs with their content, each revision read once as long as it is remembered.

    Args:
        store: Where they are.
        call: Runs a call of the store away from the event loop.
        stopping: True once nothing further is to be read ahead.
    """

    def __init__(
        self, store: Store, call: Callable[[Callable[[], Any]], Awaitable[Any]], *, stopping: Callable[[], bool]
    ) -> None:
        self._store = store
        self._call = call
        self._stopping = stopping
        self._runs: OrderedDict[tuple[str, str, int], Run] = OrderedDict()

    async def read_ahead(self, summaries: Sequence[RunSummary]) -> None:
        """Read the content of many runs in few reads; what cannot be read so is left to `read`, run by run."""
        wanted = [summary for summary in summaries if _key(summary) not in self._runs]
        for few in _portions(wanted):
            if self._stopping():
                return
            try:
                found: list[Run] = await self._call(partial(self._store.runs_content, few))
            except StoreUnreachableError:
                raise
            except Exception as error:  # noqa: BLE001  one broken run among them: each gets its own try later
                _log.warning("runs could not be read together", runs=len(few), error=repr(error))
                continue
            by_id = {(run.project, run.run_id): run for run in found}
            for summary in few:
                run = by_id.get((summary.project, summary.run_id))
                if run is not None:
                    self._keep(summary, run)

    async def read(self, summary: RunSummary) -> Run | None:
        """One run with its content; None when there is none."""
        key = _key(summary)
        if key in self._runs:
            self._runs.move_to_end(key)
            return self._runs[key]
        run: Run | None = await self._call(partial(self._store.run, summary.project, summary.run_id))
        return None if run is None else self._keep(summary, run)

    async def turns(self, summary: RunSummary) -> list[Run]:
        """The runs of the session before this one, oldest first."""
        if summary.session_id is None:
            return []
        query = RunQuery(
            project=summary.project, session_id=summary.session_id, until_ns=summary.started_ns, limit=_TURNS
        )
        before: list[RunSummary] = await self._call(partial(self._store.runs, query))
        earlier = [turn for turn in reversed(before) if turn.run_id != summary.run_id]
        await self.read_ahead(earlier)
        loaded = [await self.read(turn) for turn in earlier]
        return [run for run in loaded if run is not None]

    def _keep(self, summary: RunSummary, run: Run) -> Run:
        # The revision asked for is the one the outcome is about, even if newer spans are in the content already.
        kept = self._runs[_key(summary)] = replace(run, revision=summary.revision)
        while len(self._runs) > _RUNS_KEPT:
            self._runs.popitem(last=False)
        return kept


def _key(summary: RunSummary) -> tuple[str, str, int]:
    return summary.project, summary.run_id, summary.revision


def _portions(summaries: Sequence[RunSummary]) -> Iterator[list[RunSummary]]:
    """Several at a time, few where they are large; a run too large to share a read, and a lone one, are left out."""
    few: list[RunSummary] = []
    steps = 0
    for summary in summaries:
        if summary.steps > _STEPS_TOGETHER:
            continue
        if len(few) == _TOGETHER or steps + summary.steps > _STEPS_TOGETHER:
            if len(few) > 1:
                yield few
            few, steps = [], 0
        few.append(summary)
        steps += summary.steps
    if len(few) > 1:
        yield few
