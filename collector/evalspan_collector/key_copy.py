"""KeyCopy: the store's API keys copied into this collector's key file, and their uses reported back."""

import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime

import structlog

from evalspan.errors import EvalspanError
from evalspan_collector.receiver.keys import ApiKey, KeyFile, KeyRing
from evalspan_collector.store.clickhouse import ClickHouseStore
from evalspan_collector.store.contract import Store
from evalspan_collector.store.keys import ApiKeys, StoredKey

__all__ = ["KeyCopy"]

_log = structlog.get_logger(__name__)
_REFRESH_S = 2.0
#: Every report writes a row per used key.
_REPORT_S = 30.0


class KeyCopy:
    """Keeps a key file like the store's table of keys, so that a collector authenticates without a store.

    Args:
        stores: Gives the store, or raises while it does not answer.
        key_file: Gets the copy.
        ring: Reads the file, and knows which keys were used.
        refresh_s: Seconds between two copies; a revoked key is refused within this and a second.
        report_s: Seconds between two reports of uses.
    """

    def __init__(
        self,
        stores: Callable[[], Store],
        key_file: KeyFile,
        ring: KeyRing,
        *,
        refresh_s: float = _REFRESH_S,
        report_s: float = _REPORT_S,
    ) -> None:
        self._stores = stores
        self._file = key_file
        self._ring = ring
        self._refresh_s = refresh_s
        self._report_s = report_s
        self._first = threading.Event()
        self._stopped = threading.Event()
        self._unreported: dict[str, datetime] = {}
        self._problem: str | None = None
        # A store that hangs at the end must not keep the process.
        self._thread = threading.Thread(target=self._work, name="keys", daemon=True)

    def start(self, *, wait_s: float) -> None:
        """Begin; waits up to `wait_s` for the first attempt to end, whether the store answered or not."""
        self._thread.start()
        self._first.wait(wait_s)

    def stop(self) -> None:
        """End; what was used since the last report is kept in the file."""
        self._stopped.set()
        self._ring.flush_used()

    def copy(self) -> None:
        """Copy the keys once.

        Raises:
            EvalspanError: The store does not answer, or the file is no key file.
            OSError: The file cannot be written.
        """
        store = self._stores()
        if isinstance(store, ClickHouseStore) and self._file.mirror(
            [_entry(key) for key in ApiKeys(store.client).listed()]
        ):
            self._ring.reload()

    def report(self) -> None:
        """Report uses once; what does not get through is tried again with the next.

        Raises:
            EvalspanError: The store does not answer.
            OSError: The file cannot be written.
        """
        self._unreported |= self._ring.flush_used()
        store = self._stores()
        if isinstance(store, ClickHouseStore):
            ApiKeys(store.client).note_uses({key: int(at.timestamp() * 1e9) for key, at in self._unreported.items()})
        self._unreported = {}

    def _work(self) -> None:
        due = time.monotonic() + self._report_s
        while not self._stopped.is_set():
            self._attempt(self.copy)
            self._first.set()
            if time.monotonic() >= due:
                self._attempt(self.report)
                due = time.monotonic() + self._report_s
            self._stopped.wait(self._refresh_s)

    def _attempt(self, work: Callable[[], None]) -> None:
        try:
            work()
        except (EvalspanError, OSError) as error:
            if str(error) != self._problem:  # once per problem, not every other second
                _log.warning("keys_not_copied", error=str(error), action="the keys copied before stay in force")
            self._problem = str(error)
        else:
            self._problem = None


def _entry(key: StoredKey) -> ApiKey:
    return ApiKey(
        key_id=key.key_id,
        project=key.project,
        sha256=key.sha256,
        created_at=_time(key.created_ns),
        name=key.name,
        revoked_at=None if key.revoked_ns is None else _time(key.revoked_ns),
    )


def _time(moment_ns: int) -> datetime:
    return datetime.fromtimestamp(moment_ns / 1e9, tz=UTC)
