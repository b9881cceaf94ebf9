"""Resends: spans that come again, told apart by whether they say the same as before.

A client that got no answer sends its request again, so copies are usual and harmless: one is kept. A copy with other
content is not: of two truths the one received last is kept, here and in the store, and that is counted and logged.
A flag on the run would depend on whether the store has merged the copies already, and a run must be the same whoever
assembles it. What is compared is bounded by memory: a copy that comes later, after a restart or through another
collector replaces the older one all the same, uncounted.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import replace

import structlog

from evalspan_collector.selfmetrics import SelfMetrics
from evalspan_collector.span import Span

__all__ = ["Resends"]

_log = structlog.get_logger(__name__)
_MAX_BYTES = 32 << 20

_Key = tuple[str, str, str]


class Resends:
    """Compares spans with those of the newest blocks.

    Args:
        max_bytes: Bytes on the wire of the blocks that are remembered.
    """

    def __init__(self, metrics: SelfMetrics, *, max_bytes: int = _MAX_BYTES) -> None:
        self._metrics = metrics
        self._max_bytes = max_bytes
        self._seen: dict[_Key, tuple[int, Span]] = {}
        self._blocks: deque[tuple[int, list[_Key]]] = deque()
        self._first = 0
        self._bytes = 0

    def __len__(self) -> int:
        """How many spans are remembered."""
        return len(self._seen)

    def note(self, spans: Sequence[Span], *, size_bytes: int) -> None:
        """A block that the store has confirmed; `size_bytes` is what it took on the wire."""
        number = self._first + len(self._blocks)
        keys: list[_Key] = []
        other: list[Span] = []
        for span in spans:
            key = (span.project, span.trace_id, span.span_id)
            known = self._seen.get(key)
            if known is not None and not self._is_same(known[1], span):
                other.append(span)
            if known is None or span.received_ns >= known[1].received_ns:
                self._seen[key] = (number, span)
            keys.append(key)
        self._blocks.append((size_bytes, keys))
        self._bytes += size_bytes
        if other:
            self._tell(other)
        self._forget()

    def _is_same(self, known: Span, span: Span) -> bool:
        if _announces(known) or _announces(span):
            return True
        same = replace(known, received_ns=span.received_ns) == span
        self._metrics.resent_spans.labels("same" if same else "other").inc()
        return same

    def _tell(self, other: Sequence[Span]) -> None:
        _log.warning(
            "span_came_again_with_other_content",
            spans=len(other),
            project=other[0].project,
            trace_id=other[0].trace_id,
            span_id=other[0].span_id,
            kept="the one received last",
            action="find out which two senders or exporters use one span id",
        )

    def _forget(self) -> None:
        while self._bytes > self._max_bytes and self._blocks:
            size, keys = self._blocks.popleft()
            for key in keys:
                known = self._seen.get(key)
                if known is not None and known[0] == self._first:
                    del self._seen[key]
            self._first += 1
            self._bytes -= size


def _announces(span: Span) -> bool:
    """A copy that was sent while the span ran, to be replaced by the finished one: two contents are no conflict."""
    return "placeholder" in span.flags or span.attributes.get("logfire.span_type") == "pending_span"
