"""RetentionLoop: drops what is older than `retention:` allows, once a day."""

import time
from collections.abc import Callable, Sequence

import structlog

from evalspan.errors import StoreError, StoreUnreachableError
from evalspan_collector.store.admin import DroppedPartition, apply_retention
from evalspan_collector.store.admin import Retention as Limits
from evalspan_collector.store.client import Client
from evalspan_collector.store.contract import Store
from evalspan_evaluators.config import Retention

__all__ = ["RetentionLoop", "dropper_of", "limits_of"]

_log = structlog.get_logger(__name__)
_DAY_NS = 86_400_000_000_000

#: Drops what lies before the limits, as of a time in nanoseconds since the epoch.
Drop = Callable[[Retention, int], Sequence[DroppedPartition]]


def limits_of(retention: Retention) -> tuple[dict[str, Limits], Limits]:
    """The store's form of the limits: those of single projects, and those of all others."""

    def limits(given: Retention) -> Limits:
        return Limits(spans_days=given.spans_days, runs_days=given.runs_days)

    return {name: limits(given) for name, given in retention.projects.items()}, limits(retention)


def dropper_of(store: Store) -> Drop | None:
    """What drops old data of this store; None for one that keeps nothing on a disk."""
    from evalspan_collector.store.clickhouse import ClickHouseStore

    if not isinstance(store, ClickHouseStore):
        return None
    client = store.client

    def drop(retention: Retention, now_ns: int) -> Sequence[DroppedPartition]:
        projects, others = limits_of(retention)
        # A clock that is wrong must not delete: of the worker's and the store's the earlier one counts.
        now_ns = min(now_ns, _store_time_ns(client))
        return apply_retention(client, projects, default=others, clock=lambda: now_ns)

    return drop


def _store_time_ns(client: Client) -> int:
    return int(client.rows("SELECT toUnixTimestamp64Nano(now64(9))")[0][0])


class RetentionLoop:
    """Applies the limits at the first call and then once per UTC day.

    Args:
        drop: Drops; see `dropper_of`.
        retention: The limits.
        clock: Nanoseconds since the epoch.
    """

    def __init__(self, drop: Drop, retention: Retention, *, clock: Callable[[], int] = time.time_ns) -> None:
        self._drop = drop
        self._retention = retention
        self._clock = clock
        self._day: int | None = None

    def configure(self, retention: Retention) -> None:
        """Use other limits, from the next call on."""
        if retention != self._retention:
            self._retention = retention
            self._day = None

    def is_due(self) -> bool:
        """True when nothing was dropped yet today."""
        return self._clock() // _DAY_NS != self._day

    def tick(self) -> Sequence[DroppedPartition]:
        """Drop what is due today, if that was not done yet.

        Raises:
            StoreUnreachableError: The store is away; tried again at the next call.
        """
        if not self.is_due():
            return ()
        now = self._clock()
        try:
            dropped = self._drop(self._retention, now)
        except StoreUnreachableError:
            raise
        except StoreError as error:  # such as a right that is missing: tomorrow again, scoring must go on
            _log.error("retention could not be applied, tried again tomorrow", error=str(error))
            dropped = ()
        self._day = now // _DAY_NS
        if dropped:
            _log.info(
                "retention applied",
                partitions=len(dropped),
                rows=sum(found.rows for found in dropped),
                bytes=sum(found.bytes_on_disk for found in dropped),
                spans_days=self._retention.spans_days,
                runs_days=self._retention.runs_days,
            )
        return dropped
