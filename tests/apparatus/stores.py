"""Stores: a memory store whose calls can fail, wait or be counted."""

import threading
from collections.abc import Callable, Sequence

from evalspan.errors import StoreUnreachableError
from evalspan_collector.span import LogRecord, Span
from evalspan_collector.store.memory import MemoryStore

__all__ = ["FaultyStore"]


class FaultyStore(MemoryStore):
    """A memory store with a switch for each fault.

    Attributes:
        down: Every insert raises StoreUnreachableError.
        refuse: Called with the spans of an insert; what it returns is raised.
        stuck: While cleared, inserts wait; set by default.
        tokens: Of every insert of spans that went through, in order.
        blocks: Spans per insert that went through.
    """

    def __init__(self) -> None:
        super().__init__()
        self.down = False
        self.refuse: Callable[[Sequence[Span]], Exception | None] | None = None
        self.stuck = threading.Event()
        self.stuck.set()
        self.tokens: list[str] = []
        self.blocks: list[int] = []

    def insert_spans(self, spans: Sequence[Span], *, token: str) -> None:
        """Insert, or fail as told."""
        self.stuck.wait(60)
        if self.down:
            raise StoreUnreachableError("the store is down")
        error = self.refuse(spans) if self.refuse is not None else None
        if error is not None:
            raise error
        super().insert_spans(spans, token=token)
        self.tokens.append(token)
        self.blocks.append(len(spans))

    def insert_logs(self, logs: Sequence[LogRecord], *, token: str) -> None:
        """Insert, or fail as told."""
        self.stuck.wait(60)
        if self.down:
            raise StoreUnreachableError("the store is down")
        super().insert_logs(logs, token=token)
