"""Acceptance: what happens to one request between its bytes and its answer, whatever transport brought it."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from evalspan.errors import DecodeError
from evalspan_collector.receiver.admission import Admission, Reason, RefusedError
from evalspan_collector.receiver.check import Check, check_logs, check_traces
from evalspan_collector.receiver.keys import KeyRing, presented_key
from evalspan_collector.selfmetrics import SelfMetrics
from evalspan_collector.spool import Signal, Spool, SpoolFullError

__all__ = ["Acceptance", "Accepted", "Credentials"]

_SPOOL_RETRY_S = 2.0


@dataclass(frozen=True, slots=True)
class Credentials:
    """What the sender presented: header values, None where absent."""

    authorization: str | None = None
    api_key: str | None = None


@dataclass(frozen=True, slots=True)
class Accepted:
    """A request is durable; `rejected` of its spans or records are not in it, and `message` says why."""

    rejected: int
    message: str


class Acceptance:
    """Key, limits, a look at the ids, the spool; then the answer.

    Args:
        spool: Where accepted requests become durable.
        max_request_bytes: Size limit of one request after decompression.
        clock_ns: Nanoseconds since the epoch, the `received_ns` of spans.
    """

    def __init__(
        self,
        *,
        spool: Spool,
        keys: KeyRing,
        admission: Admission,
        metrics: SelfMetrics,
        max_request_bytes: int,
        clock_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._spool = spool
        self._keys = keys
        self._admission = admission
        self._metrics = metrics
        self._clock_ns = clock_ns
        self._stopping = threading.Event()
        self.max_request_bytes = max_request_bytes

    @property
    def stopping(self) -> bool:
        """True once new requests are refused."""
        return self._stopping.is_set()

    def stop(self) -> None:
        """Refuse every request from now on; those under way are finished."""
        self._stopping.set()

    def project_of(self, credentials: Credentials) -> str:
        """The project the sender's key belongs to; asked before a body is read or decoded.

        Raises:
            RefusedError: No key, or none that is known.
        """
        project = self._keys.project_of(presented_key(credentials.authorization, credentials.api_key))
        if project is None:
            raise RefusedError(Reason.BAD_KEY, "no valid API key: send `authorization: Bearer KEY` or `x-api-key: KEY`")
        return project

    def accept(self, signal: Signal, project: str, body: bytes, *, transport: str, json: bool = False) -> Accepted:
        """Keep one request of traces or logs; when this returns, it is durable.

        Raises:
            RefusedError: Nothing was kept.
        """
        began = time.perf_counter()
        if self.stopping:
            raise RefusedError(Reason.STOPPING, "the collector is stopping: send again", retry_after_s=1.0)
        self.check_size(len(body))
        with self._admission.admit(project, len(body)):
            check = _check(signal, body, json=json)
            if check.accepted:
                try:
                    self._spool.append(signal, project, body, received_ns=self._clock_ns(), json=json)
                except SpoolFullError as error:
                    raise RefusedError(Reason.SPOOL_FULL, str(error), retry_after_s=_SPOOL_RETRY_S) from error
        self._count(signal, check, transport)
        self._metrics.ack_seconds.labels(transport).observe(time.perf_counter() - began)
        return Accepted(check.rejected, check.message)

    def check_size(self, size: int) -> None:
        """Refuse what is larger than the limit.

        Raises:
            RefusedError: Too large; sending it again will not help.
        """
        if size > self.max_request_bytes:
            raise RefusedError(
                Reason.TOO_LARGE,
                f"the request has {size} bytes or more after decompression, the limit is {self.max_request_bytes}:"
                " send smaller batches (OTEL_BSP_MAX_EXPORT_BATCH_SIZE), or raise EVALSPAN_MAX_REQUEST_BYTES",
            )

    def drop_metrics(self, transport: str) -> Accepted:
        """Metrics are accepted, so that exporters stay quiet, and dropped."""
        self._metrics.dropped_metric_requests.labels(transport).inc()
        return Accepted(0, "")

    def count_refused(self, transport: str, reason: Reason) -> None:
        """Count a refusal."""
        self._metrics.refused_requests.labels(transport, reason.value).inc()

    def _count(self, signal: Signal, check: Check, transport: str) -> None:
        metrics = self._metrics
        name = signal.name.lower()
        metrics.accepted_requests.labels(transport, name).inc()
        if signal is Signal.TRACES:
            metrics.accepted_spans.labels(transport).inc(check.accepted)
            metrics.refused_spans.labels(transport).inc(check.rejected)
        else:
            metrics.accepted_logs.labels(transport).inc(check.accepted)
        if check.rejected:
            metrics.rejected_items.labels(name).inc(check.rejected)


def _check(signal: Signal, body: bytes, *, json: bool) -> Check:
    try:
        if signal is Signal.TRACES:
            return check_traces(body, json=json)
        return check_logs(body, json=json)
    except DecodeError as error:
        raise RefusedError(Reason.MALFORMED, str(error)) from error
    except RecursionError as error:
        raise RefusedError(Reason.MALFORMED, "the request is nested too deeply") from error
