"""Quarantine: what could not be read or stored, kept aside in a bounded folder for a human to look at."""

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path

from evalspan_collector.data_dir import write_private
from evalspan_collector.selfmetrics import SelfMetrics

__all__ = ["Quarantine"]

_SUFFIX = ".bin"
_NOTE = ".json"


class Quarantine:
    """A folder of items, each its bytes and a note that says why; the oldest go when it is full.

    Args:
        folder: Made when missing.
        max_bytes: Size cap; an item larger than all of it is cut.
        clock_ns: Nanoseconds since the epoch, part of the file names.
    """

    def __init__(
        self, folder: Path, *, max_bytes: int, metrics: SelfMetrics, clock_ns: Callable[[], int] = time.time_ns
    ) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._folder = folder
        self._max_bytes = max_bytes
        self._metrics = metrics
        self._clock_ns = clock_ns
        self._lock = threading.Lock()

    def put(self, reason: str, data: bytes, *, error: str, project: str | None = None, origin: str = "") -> None:
        """Keep an item; never raises, since quarantine must not stop what goes on beside it.

        Args:
            reason: One word, the label in self-metrics.
            data: The item itself.
            error: What was wrong, for the reader.
            project: Whose it is, where that is known.
            origin: Where it lay in the spool.
        """
        self._metrics.quarantined.labels(reason).inc()
        if not self._max_bytes:
            return
        note = {"reason": reason, "error": error, "project": project, "origin": origin, "bytes": len(data)}
        with self._lock:
            stem = self._folder / f"{self._clock_ns():020d}-{reason}"
            try:
                kept = data[: self._max_bytes]
                self._make_room(len(kept))
                write_private(stem.with_suffix(_SUFFIX), kept)
                write_private(stem.with_suffix(_NOTE), json.dumps(note, ensure_ascii=True).encode())
            except OSError:
                return  # a full disk: the count above still tells

    def _make_room(self, size: int) -> None:
        items = sorted(self._folder.glob(f"*{_SUFFIX}"))
        sizes = [item.stat().st_size for item in items]
        total = sum(sizes)
        for item, used in zip(items, sizes, strict=True):
            if total + size <= self._max_bytes:
                return
            item.unlink(missing_ok=True)
            item.with_suffix(_NOTE).unlink(missing_ok=True)
            total -= used
