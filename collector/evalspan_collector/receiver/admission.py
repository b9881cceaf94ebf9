"""Admission: who may send how much, and what a refusal says on the wire."""

import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum

__all__ = ["Admission", "Reason", "RefusedError"]


class Reason(Enum):
    """Why a request was refused; the value is the label in self-metrics."""

    MALFORMED = "malformed"
    TOO_LARGE = "too_large"
    BAD_KEY = "bad_key"
    BAD_TYPE = "bad_type"
    SPOOL_FULL = "spool_full"
    OVERLOAD = "overload"
    RATE = "rate"
    STOPPING = "stopping"


class RefusedError(Exception):
    """A request was refused; nothing of it was kept.

    Args:
        reason: The kind of refusal.
        message: For the sender: what was wrong and what to do.
        retry_after_s: When to try again; None means never, the same request will be refused again.
    """

    def __init__(self, reason: Reason, message: str, *, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.retry_after_s = retry_after_s


@dataclass(slots=True)
class _Bucket:
    """A token bucket that holds at most one second's worth; one larger request may overdraw it."""

    rate: float
    level: float
    filled_at: float

    def take(self, amount: float, now: float) -> float:
        """0 when taken, else seconds until it could be."""
        self.level = min(self.rate, self.level + (now - self.filled_at) * self.rate)
        self.filled_at = now
        if self.level <= 0:
            return -self.level / self.rate + 0.1
        self.level -= amount
        return 0.0


class Admission:
    """Bounds the bytes under way in total, and requests and bytes per second for each key.

    Args:
        max_inflight_bytes: Bytes of requests accepted and not yet answered, all senders together.
        rate_requests_per_s: Requests per second for one project; None is unlimited.
        rate_bytes_per_s: Bytes per second for one project; None is unlimited.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        *,
        max_inflight_bytes: int,
        rate_requests_per_s: float | None = None,
        rate_bytes_per_s: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._max_inflight = max_inflight_bytes
        self._rates = (rate_requests_per_s, rate_bytes_per_s)
        self._clock = clock
        self._lock = threading.Lock()
        self._inflight = 0
        self._buckets: dict[tuple[str, int], _Bucket] = {}

    @contextmanager
    def admit(self, project: str, size: int) -> Generator[None, None, None]:
        """Hold `size` bytes of the budget while the request is under way.

        Raises:
            RefusedError: Over a limit for now; says when to try again.
        """
        with self._lock:
            self._check_rates(project, size)
            # One request always fits, however large: the size limit is checked elsewhere.
            if self._inflight and self._inflight + size > self._max_inflight:
                raise RefusedError(
                    Reason.OVERLOAD,
                    f"{self._inflight} bytes are under way of {self._max_inflight} allowed: send again later",
                    retry_after_s=1.0,
                )
            self._inflight += size
        try:
            yield
        finally:
            with self._lock:
                self._inflight -= size

    def _check_rates(self, project: str, size: int) -> None:
        now = self._clock()
        for index, (rate, amount, unit) in enumerate(
            zip(self._rates, (1.0, float(size)), ("requests", "bytes"), strict=True)
        ):
            if rate is None:
                continue
            bucket = self._buckets.setdefault((project, index), _Bucket(rate, rate, now))
            wait = bucket.take(amount, now)
            if wait:
                raise RefusedError(
                    Reason.RATE,
                    f"project {project!r} sends more than {rate:g} {unit} per second: send again later",
                    retry_after_s=wait,
                )
