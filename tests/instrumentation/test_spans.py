"""Decorators: what they write, and that the decorated function behaves as before."""

import asyncio
import contextvars
import functools
import inspect
import json
import logging
from collections.abc import AsyncGenerator, Generator
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.trace import SpanKind, StatusCode

import evalspan
from evalspan import _step
from evalspan.testing import CountedIds, Recorder, StepClock, record


@evalspan.tool
def add(a: int, b: int = 2) -> int:
    """Adds two numbers.

    And more.
    """
    return a + b


def test_a_tool_writes_exactly_the_attributes_of_the_convention(recorder: Recorder) -> None:
    assert add(1, b=4) == 5
    span = recorder.span("execute_tool add")
    assert span.kind is SpanKind.INTERNAL
    assert dict(span.attributes or {}) == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "add",
        "gen_ai.tool.type": "function",
        "gen_ai.tool.description": "Adds two numbers.",
        "gen_ai.tool.call.arguments": '{"a": 1, "b": 4}',
        "gen_ai.tool.call.result": "5",
    }
    assert span.status.status_code is StatusCode.UNSET
    assert span.instrumentation_scope is not None
    assert span.instrumentation_scope.name == "evalspan"


def test_an_agent_writes_its_input_and_output_as_messages(recorder: Recorder) -> None:
    @evalspan.agent("helper", version="3")
    def answer(question: str) -> str:
        return question.upper()

    assert answer("why?") == "WHY?"
    assert recorder.attributes("invoke_agent helper") == {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "helper",
        "gen_ai.agent.version": "3",
        "gen_ai.input.messages": '[{"role": "user", "parts": [{"type": "text", "content": "why?"}]}]',
        "gen_ai.output.messages": '[{"role": "assistant", "parts": [{"type": "text", "content": "WHY?"}], "finish_reason": "stop"}]',
    }


def test_decorators_work_bare_called_empty_and_with_a_name(recorder: Recorder) -> None:
    @evalspan.tool
    def bare() -> None: ...

    @evalspan.tool()
    def called() -> None: ...

    @evalspan.tool("renamed", description="Does nothing.")
    def named() -> None: ...

    @evalspan.agent
    def first() -> None: ...

    @evalspan.agent(description="Second of its kind.")
    def second() -> None: ...

    for function in (bare, called, named, first, second):
        function()
    assert [span.name for span in recorder.spans] == [
        "execute_tool bare",
        "execute_tool called",
        "execute_tool renamed",
        "invoke_agent first",
        "invoke_agent second",
    ]
    assert recorder.attributes("execute_tool renamed")["gen_ai.tool.description"] == "Does nothing."


def test_tools_are_children_of_the_agent_around_them(recorder: Recorder) -> None:
    @evalspan.agent
    def calc() -> int:
        return add(1) + add(2)

    calc()
    agent = recorder.span("invoke_agent calc")
    tools = [span for span in recorder.spans if span is not agent]
    assert len(tools) == 2
    assert all(
        t.parent is not None and agent.context is not None and t.parent.span_id == agent.context.span_id for t in tools
    )


@pytest.mark.parametrize("error", [ValueError("no such order"), KeyboardInterrupt(), KeyError("k")], ids=repr)
def test_an_error_is_recorded_and_the_same_object_is_raised_again(recorder: Recorder, error: BaseException) -> None:
    @evalspan.tool
    def fails() -> None:
        raise error

    with pytest.raises(type(error)) as caught:
        fails()
    assert caught.value is error
    span = recorder.span("execute_tool fails")
    assert span.status.status_code is StatusCode.ERROR
    assert span.status.description == f"{type(error).__name__}: {error}"
    assert (span.attributes or {})["error.type"] == type(error).__name__
    (event,) = span.events
    assert event.name == "exception"
    assert "gen_ai.tool.call.result" not in (span.attributes or {})


def test_an_exception_whose_text_raises_is_still_recorded_and_raised(recorder: Recorder) -> None:
    class Broken(Exception):  # noqa: N818 - named for what it is
        def __str__(self) -> str:
            raise RuntimeError("no text")

    @evalspan.tool
    def fails() -> None:
        raise Broken

    with pytest.raises(Broken):
        fails()
    (event,) = recorder.span("execute_tool fails").events
    assert str((event.attributes or {})["exception.type"]).endswith("Broken")


async def test_async_tools_and_agents_nest_across_tasks(recorder: Recorder) -> None:
    @evalspan.tool
    async def fetch(n: int) -> int:
        await asyncio.sleep(0)
        return n

    @evalspan.agent
    async def gather() -> list[int]:
        return list(await asyncio.gather(fetch(1), fetch(2), fetch(3)))

    assert inspect.iscoroutinefunction(fetch)
    assert await gather() == [1, 2, 3]
    agent = recorder.span("invoke_agent gather")
    parents = {span.parent.span_id for span in recorder.spans if span.parent is not None}
    assert agent.context is not None
    assert parents == {agent.context.span_id}
    assert sorted(
        str((s.attributes or {}).get("gen_ai.tool.call.result")) for s in recorder.spans if s is not agent
    ) == ["1", "2", "3"]


async def test_a_cancelled_agent_ends_as_an_error(recorder: Recorder) -> None:
    @evalspan.agent
    async def slow() -> None:
        await asyncio.sleep(60)

    task = asyncio.create_task(slow())
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert recorder.attributes("invoke_agent slow")["error.type"] == "asyncio.exceptions.CancelledError"


def test_a_generator_keeps_its_protocol_and_its_span_is_not_current_outside(recorder: Recorder) -> None:
    @evalspan.agent
    def stream(question: str) -> Generator[str, str | None, int]:
        got = yield f"{question}-"
        try:
            yield f"{got}-"
        except KeyError:
            yield str(add(1))
        return 7

    assert inspect.isgeneratorfunction(stream)
    running = stream("q")
    assert next(running) == "q-"
    assert not trace.get_current_span().get_span_context().is_valid
    assert running.send("sent") == "sent-"
    assert running.throw(KeyError("x")) == "3"
    with pytest.raises(StopIteration) as stop:
        next(running)
    assert stop.value.value == 7
    agent = recorder.span("invoke_agent stream")
    assert json.loads(str((agent.attributes or {})["gen_ai.output.messages"]))[0]["parts"][0]["content"] == "q-sent-3"
    tool = recorder.span("execute_tool add")
    assert tool.parent is not None
    assert agent.context is not None
    assert tool.parent.span_id == agent.context.span_id


def test_a_generator_left_early_ends_its_span_without_an_error(recorder: Recorder) -> None:
    cleaned: list[bool] = []

    @evalspan.tool
    def rows() -> Generator[dict[str, int]]:
        try:
            for n in range(10):
                yield {"row": n}
        finally:
            cleaned.append(True)

    running = rows()
    next(running)
    next(running)
    running.close()
    span = recorder.span("execute_tool rows")
    assert cleaned == [True]
    assert span.status.status_code is StatusCode.UNSET
    assert (span.attributes or {})["gen_ai.tool.call.result"] == '[{"row": 0}, {"row": 1}]'


def test_a_generator_that_raises_ends_as_an_error(recorder: Recorder) -> None:
    @evalspan.tool
    def rows() -> Generator[int]:
        yield 1
        raise OSError("disk")

    with pytest.raises(OSError, match="disk"):
        list(rows())
    assert recorder.attributes("execute_tool rows")["error.type"] == "OSError"


async def test_an_async_generator_keeps_its_protocol(recorder: Recorder) -> None:
    @evalspan.agent
    async def stream() -> AsyncGenerator[str, str | None]:
        got = yield "a"
        try:
            yield str(got)
        except KeyError:
            yield "caught"

    assert inspect.isasyncgenfunction(stream)
    running = stream()
    assert await anext(running) == "a"
    assert await running.asend("b") == "b"
    assert await running.athrow(KeyError("x")) == "caught"
    assert [item async for item in running] == []
    output = json.loads(recorder.attributes("invoke_agent stream")["gen_ai.output.messages"])
    assert output[0]["parts"][0]["content"] == "abcaught"


async def test_an_async_generator_left_early_is_closed_and_ended(recorder: Recorder) -> None:
    cleaned: list[bool] = []

    @evalspan.agent
    async def stream() -> AsyncGenerator[str]:
        try:
            yield "a"
            yield "b"
        finally:
            cleaned.append(True)

    running = stream()
    assert await anext(running) == "a"
    await running.aclose()
    assert cleaned == [True]
    assert recorder.span("invoke_agent stream").status.status_code is StatusCode.UNSET


def test_methods_leave_self_out_and_static_and_class_methods_work_in_both_orders(recorder: Recorder) -> None:
    class Shop:
        @evalspan.tool
        def find(self, sku: str) -> str:
            return sku

        @evalspan.tool("below")
        @staticmethod
        def below(sku: str) -> str:
            return sku

        @staticmethod
        @evalspan.tool("above")
        def above(sku: str) -> str:
            return sku

        @classmethod
        @evalspan.tool("made")
        def make(cls, sku: str) -> str:
            return cls.__name__ + sku

    shop = Shop()
    assert [shop.find("1"), shop.below("2"), Shop.above("3"), Shop.make("4")] == ["1", "2", "3", "Shop4"]
    arguments = [json.loads(str((span.attributes or {})["gen_ai.tool.call.arguments"])) for span in recorder.spans]
    assert arguments == [{"sku": "1"}, {"sku": "2"}, {"sku": "3"}, {"sku": "4"}]


async def test_an_object_with_an_async_call_is_awaited_inside_its_span(recorder: Recorder) -> None:
    class Search:
        async def __call__(self, query: str) -> str:
            await asyncio.sleep(0)
            return query * 2

    search: Any = evalspan.tool("search")(Search())
    assert await search("ab") == "abab"
    assert recorder.attributes("execute_tool search")["gen_ai.tool.call.result"] == "abab"


def test_star_arguments_and_partials_are_named(recorder: Recorder) -> None:
    @evalspan.tool
    def many(first: int, *rest: int, **options: str) -> None: ...

    many(1, 2, 3, unit="kg")
    partial: Any = evalspan.tool("part")(functools.partial(many, 9))
    partial(8)
    assert json.loads(recorder.span("execute_tool part").attributes["gen_ai.tool.call.arguments"]) is not None  # type: ignore[index, arg-type]  # pyright: ignore[reportOptionalSubscript, reportArgumentType]
    first = recorder.spans[0].attributes or {}
    assert json.loads(str(first["gen_ai.tool.call.arguments"])) == {"first": 1, "rest": [2, 3], "unit": "kg"}


def test_arguments_are_recorded_before_the_tool_changes_them(recorder: Recorder) -> None:
    @evalspan.tool
    def drain(queue: list[int]) -> int:
        queue.clear()
        return len(queue)

    drain([1, 2])
    assert recorder.attributes("execute_tool drain")["gen_ai.tool.call.arguments"] == '{"queue": [1, 2]}'


def test_the_function_keeps_its_name_doc_and_signature() -> None:
    assert add.__name__ == "add"
    assert add.__doc__ is not None
    assert str(inspect.signature(add)) == "(a: int, b: int = 2) -> int"


def test_a_class_or_a_value_cannot_be_decorated() -> None:
    with pytest.raises(TypeError, match="decorate a function"):
        evalspan.tool(int)
    with pytest.raises(TypeError, match="decorate a function"):
        evalspan.agent(3)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]


def test_a_session_reaches_every_span_below_it_and_ends_with_its_block(recorder: Recorder) -> None:
    @evalspan.agent
    def talk() -> None:
        add(1)
        with recorder.provider.get_tracer("other.library").start_as_current_span("other"):
            pass

    with evalspan.session("chat-1", user_id="u-7"):
        talk()
    talk()
    found = [
        (span.name, (span.attributes or {}).get("gen_ai.conversation.id"), (span.attributes or {}).get("user.id"))
        for span in recorder.spans
    ]
    names = ["execute_tool add", "other", "invoke_agent talk"]
    assert found == [(name, "chat-1", "u-7") for name in names] + [(name, None, None) for name in names]


async def test_sessions_of_concurrent_tasks_do_not_mix(recorder: Recorder) -> None:
    @evalspan.agent
    async def talk() -> None:
        await asyncio.sleep(0)

    async def one(name: str) -> None:
        async with evalspan.session(name):
            await asyncio.sleep(0)
            await talk()

    await asyncio.gather(*(one(f"s{n}") for n in range(5)))
    assert sorted(str((s.attributes or {})["gen_ai.conversation.id"]) for s in recorder.spans) == [
        "s0",
        "s1",
        "s2",
        "s3",
        "s4",
    ]


def test_a_span_that_names_its_own_conversation_keeps_it(recorder: Recorder) -> None:
    with evalspan.session("ours"):
        recorder.provider.get_tracer("x").start_span("x", attributes={"gen_ai.conversation.id": "theirs"}).end()
    assert recorder.attributes("x")["gen_ai.conversation.id"] == "theirs"


def test_leaving_a_session_in_another_context_does_not_raise() -> None:
    around = evalspan.session("s")
    contextvars.copy_context().run(around.__enter__)
    around.__exit__(None, None, None)


def test_a_tool_call_id_is_recorded(recorder: Recorder) -> None:
    with evalspan.tool_call("toolu_1"):
        add(1)
    add(2)
    ids = [(span.attributes or {}).get("gen_ai.tool.call.id") for span in recorder.spans]
    assert ids == ["toolu_1", None]


def test_without_content_nothing_of_the_conversation_is_on_a_span() -> None:
    @evalspan.agent
    def secretive(question: str) -> str:
        return str(add(41)) + question

    with record(capture_content=False) as found:
        secretive("secret-question")
    text = repr([(span.name, dict(span.attributes or {})) for span in found.spans])
    assert "secret" not in text.replace("secretive", "")
    assert "41" not in text
    assert len(found.spans) == 2


def test_two_recordings_of_the_same_agent_are_identical() -> None:
    def once() -> list[Any]:
        with record(clock=StepClock(start_ns=1000, step_ns=10)) as found:
            add(1)
        return [
            (s.name, s.context and s.context.trace_id, s.start_time, s.end_time, dict(s.attributes or {}))
            for s in found.spans
        ]

    first = once()
    assert first == once()
    assert first[0][1:4] == (1, 1000, 1010)


def test_counted_ids_count() -> None:
    ids = CountedIds()
    assert [ids.generate_trace_id(), ids.generate_trace_id(), ids.generate_span_id()] == [1, 2, 1]


def test_looking_for_a_span_that_is_not_there_names_those_that_are(recorder: Recorder) -> None:
    add(1)
    with pytest.raises(LookupError, match="execute_tool add"):
        recorder.span("execute_tool sub")


def test_an_internal_error_is_logged_once_and_the_agent_goes_on(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> tuple[str, bool]:
        raise ZeroDivisionError("ours")

    monkeypatch.setattr(_step, "cut", broken)
    monkeypatch.setenv("EVALSPAN_STRICT", "0")
    with caplog.at_level(logging.WARNING, logger="evalspan"):
        assert [add(1), add(2), add(3)] == [3, 4, 5]
    assert len([r for r in caplog.records if "record arguments" in r.message]) == 1
    assert len(recorder.spans) == 3
    monkeypatch.setenv("EVALSPAN_STRICT", "1")
    with pytest.raises(ZeroDivisionError, match="ours"):
        add(1)


def test_without_a_provider_the_decorators_do_nothing_visible() -> None:
    @evalspan.agent
    def alone(question: str) -> str:
        return question

    assert alone("x") == "x"
