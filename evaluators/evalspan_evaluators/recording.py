"""Recording: the runs an agent does in this process, rebuilt from its spans with no server and no store."""

import os
import threading
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from opentelemetry import trace

from evalspan.errors import EvalspanError, MissingExtraError
from evalspan_collector.run import Run
from evalspan_evaluators.case import Case, Expected, Turn

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor

__all__ = ["Recording", "record_runs"]

#: Read by the anthropic SDK when a client is made: whether messages go on its spans.
_CONTENT_VARIABLE = "ANTHROPIC_OPEN_TELEMETRY_TRACES_CONTENT_MODE"


@runtime_checkable
class _SdkProvider(Protocol):
    def add_span_processor(self, span_processor: "SpanProcessor") -> None: ...


class Recording:
    """What was recorded; complete once its `with` block is left."""

    def __init__(self) -> None:
        self._spans: list[ReadableSpan] = []
        self._lock = threading.Lock()
        self._runs: tuple[Run, ...] | None = None

    def add(self, span: "ReadableSpan") -> None:
        """Keep a finished span."""
        with self._lock:
            self._spans.append(span)

    @property
    def spans(self) -> tuple["ReadableSpan", ...]:
        """Finished spans, in the order they ended."""
        with self._lock:
            return tuple(self._spans)

    def finish(self) -> None:
        """Rebuild the runs from the spans; done at the end of the `with` block."""
        self._runs = _rebuilt(self.spans)

    @property
    def runs(self) -> tuple[Run, ...]:
        """The runs, in order of start.

        Raises:
            EvalspanError: The `with` block is not left yet.
        """
        if self._runs is None:
            raise EvalspanError("the recording is not finished: read its runs behind the `with` block")
        return self._runs

    @property
    def run(self) -> Run:
        """The one run.

        Raises:
            EvalspanError: There is none, or more than one.
        """
        runs = self.runs
        if len(runs) == 1:
            return runs[0]
        if not runs:
            raise EvalspanError(
                f"{len(self.spans)} spans were recorded and no run: decorate the agent with @evalspan.agent, or make "
                "its model client inside the `with` block"
            )
        raise EvalspanError(f"{len(runs)} runs were recorded, of {[r.agent for r in runs]}: read `runs`")

    def case(self, *, expected: Expected | None = None) -> Case:
        """The one run as a case. Of several runs of one session, the last one with the others as its earlier turns.

        Args:
            expected: What it should look like.
        """
        if self._one_session():
            turns = tuple(Turn(input=r.input, output=r.output, tools=r.tools) for r in self.runs[:-1])
            return Case.from_run(self.runs[-1], expected=expected, turns=turns)
        return Case.from_run(self.run, expected=expected)

    def cases(self, *, expected: Expected | None = None) -> tuple[Case, ...]:
        """Like `case`, and where the runs do not belong together one case for each.

        Args:
            expected: What each should look like.

        Raises:
            EvalspanError: There is no run.
        """
        if len(self.runs) <= 1 or self._one_session():
            return (self.case(expected=expected),)
        return tuple(Case.from_run(run, expected=expected) for run in self.runs)

    def _one_session(self) -> bool:
        sessions = {r.session_id for r in self.runs}
        return len(self.runs) > 1 and len(sessions) == 1 and None not in sessions


class _Tap:
    """Hands finished spans of the process's tracer provider to whoever records now."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._provider: object | None = None
        self._listening: list[Recording] = []

    def open(self, recording: Recording) -> None:
        with self._lock:
            self._attach()
            self._listening.append(recording)

    def close(self, recording: Recording) -> None:
        with self._lock:
            self._listening.remove(recording)

    def _attach(self) -> None:
        provider: object = trace.get_tracer_provider()
        if isinstance(provider, trace.ProxyTracerProvider):
            from opentelemetry.sdk.trace import TracerProvider

            provider = TracerProvider(shutdown_on_exit=False)
            trace.set_tracer_provider(provider)
        # A provider takes a processor once and never gives it back, so it stays and is silent between recordings.
        if provider is not self._provider and isinstance(provider, _SdkProvider):
            provider.add_span_processor(_tap_processor(self))
            self._provider = provider

    def ended(self, span: "ReadableSpan") -> None:
        with self._lock:
            listening = tuple(self._listening)
        for recording in listening:
            recording.add(span)


def _tap_processor(tap: _Tap) -> "SpanProcessor":
    from opentelemetry.sdk.trace import SpanProcessor

    class Processor(SpanProcessor):
        def on_start(self, span: "Span", parent_context: "Context | None" = None) -> None:
            pass

        def on_end(self, span: "ReadableSpan") -> None:
            tap.ended(span)

    return Processor()


_tap = _Tap()


@contextmanager
def record_runs() -> Generator[Recording]:
    """Record what agents do inside: evalspan's decorators and every library that uses OpenTelemetry's global provider.

    Content is captured. Nothing is sent anywhere that was not set up to be.

    Raises:
        MissingExtraError: A library that rebuilding runs needs is not installed.
    """
    from opentelemetry.sdk.trace.id_generator import RandomIdGenerator

    from evalspan.testing import record

    recording = Recording()
    before = os.environ.get(_CONTENT_VARIABLE)
    os.environ.setdefault(_CONTENT_VARIABLE, "content")
    _tap.open(recording)
    try:
        with record(clock=time.time_ns, ids=RandomIdGenerator()) as recorder:
            try:
                yield recording
            finally:
                for span in recorder.spans:
                    recording.add(span)
    finally:
        _tap.close(recording)
        if before is None:
            os.environ.pop(_CONTENT_VARIABLE, None)
    recording.finish()


def _rebuilt(spans: Sequence["ReadableSpan"]) -> tuple[Run, ...]:
    try:
        from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans

        from evalspan_collector.assemble import assemble
        from evalspan_collector.intake import read_traces
        from evalspan_collector.prices import Prices
    except ImportError as error:
        raise MissingExtraError(error.name or "a library of the collector", "server") from error

    if not spans:
        return ()
    intake = read_traces(encode_spans(spans).SerializeToString(), project="default", received_ns=time.time_ns())
    prices = Prices() if find_spec("genai_prices") else None
    return assemble(intake.spans, prices=prices)
