"""Receiving: an acceptance with a spool and no store, for tests of what happens before the answer."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from evalspan_collector.receiver.acceptance import Acceptance
from evalspan_collector.receiver.admission import Admission
from evalspan_collector.receiver.keys import KeyFile, KeyRing
from evalspan_collector.selfmetrics import SelfMetrics
from evalspan_collector.spool import Position, Spool, SpoolRecord

__all__ = ["Intake", "make_intake"]


@dataclass(frozen=True, slots=True)
class Intake:
    """What a receiver needs, and what it did."""

    acceptance: Acceptance
    spool: Spool
    metrics: SelfMetrics
    keys: KeyFile

    def records(self) -> list[SpoolRecord]:
        """Everything that became durable."""
        return [item for item in self.spool.read(Position(0, 0)) if isinstance(item, SpoolRecord)]

    def count(self, name: str, **labels: str) -> float:
        """A self-metric; 0 when never counted."""
        return self.metrics.registry.get_sample_value(name, labels) or 0.0


def make_intake(
    folder: Path,
    *,
    max_request_bytes: int = 4 << 20,
    max_inflight_bytes: int = 64 << 20,
    spool_bytes: int = 64 << 20,
    rate_requests_per_s: float | None = None,
    rate_bytes_per_s: float | None = None,
    clock: Callable[[], float] | None = None,
) -> Intake:
    """An acceptance over a spool in `folder`; keys are read from `folder`/keys.json."""
    metrics = SelfMetrics()
    spool = Spool(folder / "spool", max_bytes=spool_bytes, segment_bytes=1 << 20, power_safe=True)
    keys = KeyFile(folder / "keys.json")
    timing = {} if clock is None else {"clock": clock}
    acceptance = Acceptance(
        spool=spool,
        keys=KeyRing(keys, open_project="default"),
        admission=Admission(
            max_inflight_bytes=max_inflight_bytes,
            rate_requests_per_s=rate_requests_per_s,
            rate_bytes_per_s=rate_bytes_per_s,
            **timing,
        ),
        metrics=metrics,
        max_request_bytes=max_request_bytes,
    )
    return Intake(acceptance, spool, metrics, keys)
