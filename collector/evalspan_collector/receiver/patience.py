"""Patience: how long, and for how many at once, the HTTP listener waits for requests that do not come to an end."""

import asyncio
from typing import Any, Final

from uvicorn.protocols.http.h11_impl import H11Protocol

__all__ = ["HEAD_S", "MOST_CONNECTIONS", "PatientProtocol"]

#: Seconds from a connection's opening, or the first byte after an answer, to the end of a request's head.
HEAD_S: Final = 15.0
#: Open connections; one more is closed at once, so that descriptors are left for everything else.
MOST_CONNECTIONS: Final = 2_000


class PatientProtocol(H11Protocol):
    """Closes connections that send no whole request head in time, and those that are too many."""

    _head_timer: asyncio.TimerHandle | None = None
    _turned_away = False

    def connection_made(self, transport: Any) -> None:
        """Take a connection, if there are not too many."""
        if len(self.connections) >= MOST_CONNECTIONS:
            self._turned_away = True
            transport.abort()
            return
        super().connection_made(transport)
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection has ended."""
        if not self._turned_away:
            self._stop_waiting()
            super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Bytes came: part of a head, or of the body of a request that is under way."""
        if self._turned_away:
            return
        super().data_received(data)
        if self._is_idle():
            self._await_head()
        else:
            self._stop_waiting()

    def _is_idle(self) -> bool:
        """Whether no request is under way."""
        cycle: Any = self.cycle
        return cycle is None or bool(cycle.response_complete)

    def _await_head(self) -> None:
        if self._head_timer is None:
            self._head_timer = asyncio.get_running_loop().call_later(HEAD_S, self._give_up)

    def _stop_waiting(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _give_up(self) -> None:
        self._head_timer = None
        if self._is_idle() and not self.transport.is_closing():
            self.transport.close()
