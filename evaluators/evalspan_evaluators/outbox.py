"""Outbox: rows on their way to the store, kept while the store is away."""

import asyncio
import hashlib
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

import structlog

from evalspan.errors import StoreError, StoreUnreachableError

__all__ = ["Outbox", "WriteRows", "token_of"]

_log = structlog.get_logger(__name__)
#: Tries of rows that the store refuses; after that they are given up, so that others get through.
_REFUSALS = 3

#: A write method of the store and the rows for it.
WriteRows = tuple[Callable[..., None], Sequence[object]]


@dataclass(slots=True)
class _Parcel:
    """Writes that belong together, in order: given up together too."""

    writes: list[WriteRows]
    refusals: int = 0


class Outbox:
    """Writes rows in the order they were added.

    Args:
        call: Runs a store call and waits for it.
    """

    def __init__(self, call: Callable[[Callable[[], None]], Awaitable[None]]) -> None:
        self._call = call
        self._parcels: deque[_Parcel] = deque()
        self._lock = asyncio.Lock()

    def __len__(self) -> int:
        return len(self._parcels)

    def add(self, *writes: WriteRows) -> None:
        """Keep these for the next flush; empty ones are left out."""
        full = [(write, rows) for write, rows in writes if rows]
        if full:
            self._parcels.append(_Parcel(full))

    async def flush(self) -> None:
        """Write everything.

        Raises:
            StoreError: The store is away or refuses rows; what is not written stays. Rows refused three times
                are dropped with a log line: their runs have no outcome and are evaluated again, a bounded
                number of times.
        """
        async with self._lock:
            while self._parcels:
                parcel = self._parcels[0]
                try:
                    await self._send(parcel)
                except StoreUnreachableError:
                    raise
                except StoreError as error:
                    parcel.refusals += 1
                    if parcel.refusals < _REFUSALS:
                        raise
                    _log.error("rows given up", rows=sum(len(rows) for _, rows in parcel.writes), error=str(error))
                self._parcels.popleft()

    async def _send(self, parcel: _Parcel) -> None:
        while parcel.writes:
            write, rows = parcel.writes[0]
            token = token_of(rows)
            await self._call(lambda: write(rows, token=token))  # noqa: B023  awaited before the next turn
            parcel.writes.pop(0)


def token_of(rows: Sequence[object]) -> str:
    """The same for the same rows, so that sending them again adds nothing."""
    return hashlib.sha256(repr(rows).encode("utf-8", "replace")).hexdigest()[:32]
