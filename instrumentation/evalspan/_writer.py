"""Writer: what the decorators write spans with; `init` and the test kit exchange it, nothing else does."""

from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version

from opentelemetry import trace

from evalspan.attributes import SCOPE_NAME

__all__ = ["MAX_CONTENT_BYTES", "VERSION", "Writer", "current", "exchange"]

#: Bytes kept of one content attribute; the anthropic SDK's own limit.
MAX_CONTENT_BYTES = 750_000


def _version() -> str:
    try:
        return version("evalspan")
    except PackageNotFoundError:  # run from a source folder that was never installed
        return "0"


VERSION = _version()


def _global_tracer() -> trace.Tracer:
    # The API's proxy: it finds the provider whenever one is set, also after this import.
    return trace.get_tracer(SCOPE_NAME, VERSION)


@dataclass(frozen=True, slots=True)
class Writer:
    """How spans are written.

    Attributes:
        tracer: Starts the spans.
        clock: Nanoseconds since the epoch for span times; None leaves them to the SDK.
        capture_content: Whether inputs, outputs, arguments and results go on spans.
        max_content_bytes: UTF-8 bytes kept of one content attribute.
    """

    tracer: trace.Tracer = field(default_factory=_global_tracer)
    clock: Callable[[], int] | None = None
    capture_content: bool = True
    max_content_bytes: int = MAX_CONTENT_BYTES

    def now(self) -> int | None:
        """The time to give to a span, None for "let the SDK look"."""
        return None if self.clock is None else self.clock()


_current = Writer()


def current() -> Writer:
    """The writer in use."""
    return _current


def exchange(writer: Writer) -> Writer:
    """Put another writer in use and return the one before."""
    global _current
    before, _current = _current, writer
    return before
