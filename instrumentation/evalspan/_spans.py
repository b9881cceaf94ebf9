"""Decorators: `@agent` and `@tool` put a span around a function, sync or async, plain or generator."""

import functools
import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator
from typing import Any, TypeVar, cast, overload

from evalspan._step import AgentKind, Kind, Parameters, Step, ToolKind, begin

__all__ = ["agent", "tool"]

#: The decorated function keeps its exact type.
F = TypeVar("F", bound=Callable[..., Any])
Stream = Generator[Any, Any, Any]
AsyncStream = AsyncGenerator[Any, Any]


@overload
def tool(function: F, /) -> F: ...
@overload
def tool(
    target: str | None = None, /, *, name: str | None = None, description: str | None = None
) -> Callable[[F], F]: ...
def tool(target: Any = None, /, *, name: str | None = None, description: str | None = None) -> Any:
    """Record every call of a function as a tool call: name, arguments, result or error.

    Use as `@tool`, `@tool()`, `@tool("name")` or `@tool(name=..., description=...)`. The function behaves as
    before: same result, same exception, same kind (coroutine, generator, method).

    Args:
        target: The function, or the tool's name where it differs from the function's.
        name: The tool's name, by keyword.
        description: What the tool does; by default the first line of the docstring.

    Raises:
        TypeError: The target is neither a function nor a name.
    """

    def kind(function: Callable[..., object], name: str) -> Kind:
        return ToolKind(name, Parameters.of(function), description or _summary(function))

    return _decorator(target, name, kind)


@overload
def agent(function: F, /) -> F: ...
@overload
def agent(
    target: str | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    version: str | None = None,
) -> Callable[[F], F]: ...
def agent(
    target: Any = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    version: str | None = None,
) -> Any:
    """Record every call of a function as one invocation of an agent: input, output or error.

    A call with no agent around it is a run; one inside another agent is a sub-agent's step. Use as
    `@agent`, `@agent()`, `@agent("name")` or `@agent(name=..., version=...)`.

    Args:
        target: The function, or the agent's name where it differs from the function's.
        name: The agent's name, by keyword.
        description: What the agent is for; by default the first line of the docstring.
        version: Version of the agent, to compare its runs before and after a change.

    Raises:
        TypeError: The target is neither a function nor a name.
    """

    def kind(function: Callable[..., object], name: str) -> Kind:
        return AgentKind(name, Parameters.of(function), description or _summary(function), version)

    return _decorator(target, name, kind)


def _decorator(target: object, name: str | None, kind: Callable[[Callable[..., object], str], Kind]) -> object:
    if isinstance(target, str):
        target, name = None, name or target

    def decorate(function: object) -> object:
        if isinstance(function, staticmethod | classmethod):  # decorated above @staticmethod or @classmethod
            bound = cast("staticmethod[..., object] | classmethod[object, ..., object]", function)
            return type(bound)(cast("Callable[..., object]", decorate(bound.__func__)))
        if not callable(function) or isinstance(function, type):
            raise TypeError(f"cannot record {function!r}: decorate a function or a method")
        plain = name or getattr(function, "__name__", None) or type(function).__name__
        return _wrap(function, kind(function, plain))

    return decorate if target is None else decorate(target)


def _wrap(function: Callable[..., object], kind: Kind) -> Callable[..., object]:
    if inspect.isasyncgenfunction(function):
        return _wrap_async_stream(function, kind)
    if inspect.iscoroutinefunction(function):
        return _wrap_async(function, kind)
    if inspect.isgeneratorfunction(function):
        return _wrap_stream(function, kind)
    return _wrap_sync(function, kind)


def _wrap_sync(function: Callable[..., object], kind: Kind) -> Callable[..., object]:
    @functools.wraps(function)
    def call(*args: object, **kwargs: object) -> object:
        step = begin(kind, args, kwargs)
        step.enter()
        try:
            result = function(*args, **kwargs)
        except BaseException as error:
            step.leave()
            step.fail(error)
            raise
        step.leave()
        if inspect.iscoroutine(result):  # an object or a lambda whose call is async
            return _finish(step, result)
        step.end(result)
        return result

    return call


def _wrap_async(function: Callable[..., object], kind: Kind) -> Callable[..., object]:
    @functools.wraps(function)
    async def call(*args: object, **kwargs: object) -> object:
        coroutine = cast("Coroutine[Any, Any, object]", function(*args, **kwargs))
        return await _finish(begin(kind, args, kwargs), coroutine)

    return call


async def _finish(step: Step, coroutine: Coroutine[Any, Any, object]) -> object:
    step.enter()
    try:
        result = await coroutine
    except BaseException as error:
        step.leave()
        step.fail(error)
        raise
    step.leave()
    step.end(result)
    return result


def _wrap_stream(function: Callable[..., object], kind: Kind) -> Callable[..., object]:
    """The span is current while the generator's own code runs, not while its consumer's does."""

    @functools.wraps(function)
    def call(*args: object, **kwargs: object) -> Stream:
        inner = cast("Stream", function(*args, **kwargs))
        step = begin(kind, args, kwargs)
        resume: Callable[[], object] = functools.partial(next, inner)
        while True:
            try:
                item = _inside(step, resume)
            except StopIteration as stop:
                step.end_stream()
                return stop.value
            except BaseException as error:
                step.fail(error)
                raise
            step.add(item)
            try:
                sent = yield item
            except GeneratorExit:  # the consumer has enough: an early end, not an error
                _close(step, inner)
                raise
            except BaseException as error:  # noqa: BLE001 - handed to the generator, which decides
                resume = functools.partial(inner.throw, error)
            else:
                resume = functools.partial(inner.send, sent)

    return call


def _inside(step: Step, resume: Callable[[], object]) -> object:
    step.enter()
    try:
        return resume()
    finally:
        step.leave()


def _close(step: Step, inner: Stream) -> None:
    try:
        _inside(step, inner.close)
    except BaseException as error:
        step.fail(error)
        raise
    step.end_stream()


def _wrap_async_stream(function: Callable[..., object], kind: Kind) -> Callable[..., object]:
    @functools.wraps(function)
    async def call(*args: object, **kwargs: object) -> AsyncStream:
        inner = cast("AsyncStream", function(*args, **kwargs))
        step = begin(kind, args, kwargs)
        resume: Callable[[], Awaitable[object]] = inner.__anext__
        while True:
            try:
                item = await _inside_async(step, resume)
            except StopAsyncIteration:
                step.end_stream()
                return
            except BaseException as error:
                step.fail(error)
                raise
            step.add(item)
            try:
                sent = yield item
            except GeneratorExit:  # the consumer has enough: an early end, not an error
                await _close_async(step, inner)
                raise
            except BaseException as error:  # noqa: BLE001 - handed to the generator, which decides
                resume = functools.partial(inner.athrow, error)
            else:
                resume = functools.partial(inner.asend, sent)

    return call


async def _inside_async(step: Step, resume: Callable[[], Awaitable[object]]) -> object:
    step.enter()
    try:
        return await resume()
    finally:
        step.leave()


async def _close_async(step: Step, inner: AsyncStream) -> None:
    try:
        await _inside_async(step, inner.aclose)
    except BaseException as error:
        step.fail(error)
        raise
    step.end_stream()


def _summary(function: Callable[..., object]) -> str | None:
    text = (getattr(function, "__doc__", None) or "").strip()
    return text.splitlines()[0].strip() if text else None
