"""Current: what every store needs to give a run as it is now: a strict clock, and row and content joined."""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import cast

from evalspan_collector.records import RunSummary
from evalspan_collector.run import Run, RunState
from evalspan_collector.span import LogRecord, Span
from evalspan_collector.store.run_rows import run_from_summary

__all__ = ["Assemble", "Ticker", "current_run"]

#: Spans and logs of some traces to their runs.
Assemble = Callable[[Sequence[Span], Sequence[LogRecord]], Sequence[Run]]


class Ticker:
    """A clock that never gives the same time twice, nor an earlier one."""

    def __init__(self, clock: Callable[[], int] = time.time_ns) -> None:
        self._clock = clock
        self._last = 0
        self._guard = threading.Lock()

    def __call__(self) -> int:
        """The next time, in nanoseconds since the epoch."""
        with self._guard:
            self._last = max(self._clock(), self._last + 1)
            return self._last


def current_run(summary: RunSummary, assembled: Sequence[Run]) -> Run:
    """The run with its content, in the state its row says; the bare row where its spans are gone."""
    found = next((run for run in assembled if run.run_id == summary.run_id), None)
    if found is None:
        return run_from_summary(summary)
    return replace(
        found,
        project=summary.project,
        revision=summary.revision,
        state=cast("RunState", summary.state),
        cost_usd=summary.cost_usd,
        cost_unknown_calls=summary.cost_unknown_calls,
    )
