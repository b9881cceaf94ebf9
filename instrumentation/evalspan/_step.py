"""Step: one span around one call of a decorated function, from its arguments to its result or its error."""

import inspect
from collections.abc import Callable, Mapping
from contextvars import Token
from dataclasses import dataclass
from typing import Protocol

from opentelemetry import context, trace
from opentelemetry.trace import Span, StatusCode

from evalspan import attributes as names
from evalspan._content import cut, input_messages, output_messages, to_text
from evalspan._guard import Guard
from evalspan._session import call_id, session_attributes
from evalspan._writer import Writer, current

__all__ = ["AgentKind", "Kind", "Parameters", "Step", "ToolKind", "begin"]

#: Attribute name, text, and whether the text was cut.
Content = tuple[str, str, bool]


@dataclass(frozen=True, slots=True)
class Parameters:
    """Names of a function's parameters, to tell which argument is which without binding a signature per call.

    Attributes:
        positional: Names of positional parameters in order, a method's `self` or `cls` included.
        rest: Name of the `*args` parameter.
        skip: How many leading arguments are no input: 1 for a method's `self` or `cls`.
    """

    positional: tuple[str, ...]
    rest: str | None = None
    skip: int = 0

    @classmethod
    def of(cls, function: Callable[..., object]) -> "Parameters":
        """Read the signature; a function without one has only positions."""
        try:
            found = inspect.signature(function).parameters.values()
        except (TypeError, ValueError):
            return cls(())
        positional = tuple(p.name for p in found if p.kind in {p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD})
        rest = next((p.name for p in found if p.kind is p.VAR_POSITIONAL), None)
        return cls(positional, rest, 1 if positional[:1] in {("self",), ("cls",)} else 0)

    def arguments(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> dict[str, object]:
        """Arguments by name, as passed: defaults that were not passed are not in it."""
        named = dict(zip(self.positional[self.skip :], args[self.skip :], strict=False))
        extra = args[len(self.positional) :]
        if extra and self.rest is not None:
            named[self.rest] = list(extra)
        named.update(kwargs)
        return named


class Kind(Protocol):
    """What the spans of one decorated function say."""

    @property
    def span_name(self) -> str:
        """Name of the span."""
        ...

    def facts(self) -> dict[str, str]:
        """Attributes known before the call that are no content."""
        ...

    def given(self, args: tuple[object, ...], kwargs: Mapping[str, object], limit: int) -> Content:
        """What the call was given."""
        ...

    def gave(self, result: object, limit: int) -> Content:
        """What the call gave back."""
        ...


@dataclass(frozen=True, slots=True)
class ToolKind:
    """A tool: `execute_tool NAME`."""

    name: str
    parameters: Parameters
    description: str | None = None

    @property
    def span_name(self) -> str:
        """Name of the span, as the convention wants it."""
        return f"{names.EXECUTE_TOOL} {self.name}"

    def facts(self) -> dict[str, str]:
        """Operation, tool, and the model's call id where it is known."""
        found = {
            names.OPERATION_NAME: names.EXECUTE_TOOL,
            names.TOOL_NAME: self.name,
            names.TOOL_TYPE: "function",
        }
        if self.description:
            found[names.TOOL_DESCRIPTION] = self.description
        known = call_id()
        if known is not None:
            found[names.TOOL_CALL_ID] = known
        return found

    def given(self, args: tuple[object, ...], kwargs: Mapping[str, object], limit: int) -> Content:
        """Arguments as a JSON object."""
        text = to_text(self.parameters.arguments(args, kwargs))
        return (names.TOOL_ARGUMENTS, *cut(text, limit))

    def gave(self, result: object, limit: int) -> Content:
        """The result, text as it is, other values as JSON."""
        return (names.TOOL_RESULT, *cut(to_text(result), limit))


@dataclass(frozen=True, slots=True)
class AgentKind:
    """An agent: `invoke_agent NAME`."""

    name: str
    parameters: Parameters
    description: str | None = None
    version: str | None = None

    @property
    def span_name(self) -> str:
        """Name of the span, as the convention wants it."""
        return f"{names.INVOKE_AGENT} {self.name}"

    def facts(self) -> dict[str, str]:
        """Operation and agent."""
        found = {names.OPERATION_NAME: names.INVOKE_AGENT, names.AGENT_NAME: self.name}
        if self.description:
            found[names.AGENT_DESCRIPTION] = self.description
        if self.version:
            found[names.AGENT_VERSION] = self.version
        return found

    def given(self, args: tuple[object, ...], kwargs: Mapping[str, object], limit: int) -> Content:
        """The user's message, or the chat so far."""
        return (names.INPUT_MESSAGES, *input_messages(self.parameters.arguments(args, kwargs), limit))

    def gave(self, result: object, limit: int) -> Content:
        """The answer as one assistant message."""
        return (names.OUTPUT_MESSAGES, *output_messages(result, limit))


class Step:
    """One span, current while the function's own code runs, ended once by `end` or `fail`.

    No method raises. Without a span (it could not be started) every method does nothing.
    """

    __slots__ = ("_items", "_kept", "_kind", "_span", "_token", "_writer")

    def __init__(self, kind: Kind, writer: Writer, span: Span | None) -> None:
        self._kind = kind
        self._writer = writer
        self._span = span
        self._token: Token[context.Context] | None = None
        self._items: list[object] = []
        self._kept = 0

    def enter(self) -> None:
        """Make the span current."""
        if self._span is not None:
            with Guard("make a span current"):
                self._token = context.attach(trace.set_span_in_context(self._span))

    def leave(self) -> None:
        """Undo `enter`."""
        token, self._token = self._token, None
        if token is not None:
            with Guard("leave a span"):
                context.detach(token)

    def receive(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> None:
        """Put the arguments on the span, before the function can change them."""
        if self._records:
            with Guard("record arguments"):
                self._write(self._kind.given(args, kwargs, self._writer.max_content_bytes))

    def add(self, item: object) -> None:
        """Remember one item a generator yielded, as far as the content limit goes."""
        if self._records and self._kept < self._writer.max_content_bytes:
            with Guard("remember a streamed item"):
                self._items.append(item)
                self._kept += len(item) if isinstance(item, str) else len(to_text(item))

    def end_stream(self) -> None:
        """The generator is done: its result is what it yielded, text joined."""
        text = [item for item in self._items if isinstance(item, str)]
        self.end("".join(text) if len(text) == len(self._items) else self._items)

    def end(self, result: object) -> None:
        """The function returned."""
        if self._records:
            with Guard("record a result"):
                self._write(self._kind.gave(result, self._writer.max_content_bytes))
        self._finish()

    def fail(self, error: BaseException) -> None:
        """The function raised; the caller re-raises, unchanged."""
        span = self._span
        if span is not None and span.is_recording():
            with Guard("record an error"):
                span.set_attribute(names.ERROR_TYPE, _type_name(error))
                span.set_status(StatusCode.ERROR, f"{type(error).__name__}: {_message(error)}")
                _record(span, error, self._writer.now())
        self._finish()

    @property
    def _records(self) -> bool:
        return self._span is not None and self._writer.capture_content and self._span.is_recording()

    def _write(self, content: Content) -> None:
        name, text, truncated = content
        if self._span is not None:
            self._span.set_attribute(name, text)
            if truncated:
                self._span.set_attribute(names.CONTENT_TRUNCATED, value=True)

    def _finish(self) -> None:
        if self._span is not None:
            with Guard("end a span"):
                self._span.end(self._writer.now())


def begin(kind: Kind, args: tuple[object, ...], kwargs: Mapping[str, object]) -> Step:
    """Start the span of one call; when that fails, the call goes on with a step that records nothing."""
    writer = current()
    step = Step(kind, writer, None)
    with Guard("start a span"):
        facts = {**kind.facts(), **session_attributes()}
        span = writer.tracer.start_span(kind.span_name, attributes=facts, start_time=writer.now())
        step = Step(kind, writer, span)
        step.receive(args, kwargs)
    return step


def _record(span: Span, error: BaseException, at: int | None) -> None:
    try:
        span.record_exception(error, timestamp=at)
    except Exception:  # noqa: BLE001 - the SDK reads the exception's text, which may itself raise
        facts = {"exception.type": _type_name(error), "exception.message": _message(error)}
        span.add_event("exception", facts, timestamp=at)


def _message(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - an exception whose own text raises still has a type
        return "(its message could not be read)"


def _type_name(error: BaseException) -> str:
    kind = type(error)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
