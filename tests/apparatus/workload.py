"""Workload: agent-like OTLP requests, the same for the same seed, with a note of what each holds."""

import json
import random
from dataclasses import dataclass
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

__all__ = ["SentRequest", "SentSpan", "Workload", "attributes"]

_TOOLS = ("search_kb", "get_order", "refund_payment", "send_email", "lookup_user", "run_sql", "get_weather", "calc")
_MODELS = ("claude-sonnet-4-5", "gpt-4o-mini", "claude-haiku-4-5")
_SERVICES = ("support-agent", "travel-agent", "research-agent")
_SYLLABLES = [a + b for a in "bcdfghlmnprstvw" for b in ("a", "e", "i", "o", "u", "an", "er", "in", "or")]
_START_NS = 1_700_000_000_000_000_000


@dataclass(frozen=True, slots=True)
class SentSpan:
    """What a span carries, for comparing with what the store says."""

    trace_id: str
    span_id: str
    input_tokens: int = 0
    output_tokens: int = 0


@dataclass(frozen=True, slots=True)
class SentRequest:
    """A serialized request and the spans in it."""

    body: bytes
    spans: tuple[SentSpan, ...]


def attributes(values: dict[str, Any]) -> list[KeyValue]:
    """OTLP attributes of plain values."""
    return [KeyValue(key=key, value=_any_value(value)) for key, value in values.items()]


def _any_value(value: Any) -> AnyValue:
    match value:
        case bool():
            return AnyValue(bool_value=value)
        case int():
            return AnyValue(int_value=value)
        case float():
            return AnyValue(double_value=value)
        case _:
            return AnyValue(string_value=str(value))


class Workload:
    """Traces of 8 to 20 spans: one agent, model calls with 1 to 4 kB of messages, tool calls, retrievals.

    Args:
        seed: Ids differ from seed to seed; texts come from one pool of words that compresses as prose does.
        start_ns: Start of the first trace.
        content: Factor on the length of message texts; 1 gives about 2 kB on the wire per span.
    """

    def __init__(self, seed: int, *, start_ns: int = _START_NS, content: float = 1.0) -> None:
        self._rng = random.Random(seed)
        self._start_ns = start_ns
        self._content = content
        words = random.Random(7)
        vocabulary = [
            "".join(words.choice(_SYLLABLES) for _ in range(words.choice((1, 2, 2, 3, 3, 4)))) for _ in range(6000)
        ]
        weights = [1.0 / (rank + 5) for rank in range(len(vocabulary))]
        self._pool = " ".join(self._rng.choices(vocabulary, weights, k=200_000))

    def requests(self, spans: int, *, per_request: int = 100, length: int | None = None) -> list[SentRequest]:
        """About `spans` spans in requests of `per_request`; traces may be cut at a request's end and go on.

        `length` is that of each trace; None makes them of 8 to 20 spans.
        """
        made: list[SentRequest] = []
        waiting: list[tuple[Span, SentSpan]] = []
        while len(made) * per_request < spans:
            while len(waiting) < per_request:
                waiting.extend(self.trace(length))
            made.append(self._pack(waiting[:per_request]))
            del waiting[:per_request]
        return made

    def one(self, spans: int | None = None) -> SentRequest:
        """One request with one whole trace."""
        return self._pack(self.trace(spans))

    def _pack(self, spans: list[tuple[Span, SentSpan]]) -> SentRequest:
        request = ExportTraceServiceRequest()
        resource = request.resource_spans.add()
        resource.resource.attributes.extend(
            attributes({
                "service.name": self._rng.choice(_SERVICES),
                "service.version": "1.4.2",
                "telemetry.sdk.language": "python",
            })
        )  # fmt: skip
        scope = resource.scope_spans.add()
        scope.scope.name, scope.scope.version = "load.agent", "0.1"
        scope.spans.extend(span for span, _ in spans)
        return SentRequest(request.SerializeToString(), tuple(sent for _, sent in spans))

    def trace(self, length: int | None = None) -> list[tuple[Span, SentSpan]]:
        """Spans of one agent run, children first, the root last."""
        rng = self._rng
        trace_id, root_id = rng.randbytes(16), rng.randbytes(8)
        session = f"session-{rng.randrange(100_000)}"
        model = rng.choice(_MODELS)
        begin = now = self._start_ns + rng.randrange(500 * 10**9)
        made: list[tuple[Span, SentSpan]] = []
        for number in range((length or rng.randint(8, 20)) - 1):
            duration = rng.randrange(20, 3000) * 10**6
            sent = SentSpan(trace_id.hex(), rng.randbytes(8).hex())
            if number % 2 == 0:
                span, sent = self._model_call(model, session, sent)
            elif rng.random() < 0.1:
                span = Span(name="retrieve", kind=Span.SPAN_KIND_INTERNAL)
                span.attributes.extend(
                    attributes({
                        "openinference.span.kind": "RETRIEVER",
                        "input.value": self._text(60),
                        "output.value": self._text(300),
                    })
                )  # fmt: skip
            else:
                span = self._tool_call()
            span.trace_id, span.parent_span_id = trace_id, root_id
            span.span_id = bytes.fromhex(sent.span_id)
            span.start_time_unix_nano, span.end_time_unix_nano = now, now + duration
            if rng.random() < 0.03:
                span.status.code = Status.STATUS_CODE_ERROR
                span.status.message = "tool timed out"
            made.append((span, sent))
            now += duration
        root = Span(name="invoke_agent", trace_id=trace_id, span_id=root_id, kind=Span.SPAN_KIND_INTERNAL)
        root.start_time_unix_nano, root.end_time_unix_nano = begin, now
        root.attributes.extend(
            attributes({
                "gen_ai.operation.name": "invoke_agent",
                "gen_ai.agent.name": f"agent-{rng.randrange(20)}",
                "gen_ai.conversation.id": session,
                "input.value": self._text(rng.randint(80, 400)),
                "output.value": self._text(rng.randint(80, 600)),
                "user.id": f"user-{rng.randrange(2000)}",
            })
        )  # fmt: skip
        made.append((root, SentSpan(trace_id.hex(), root_id.hex())))
        return made

    def _model_call(self, model: str, session: str, sent: SentSpan) -> tuple[Span, SentSpan]:
        rng = self._rng
        length = int(rng.randint(1000, 4000) * self._content) + 20
        question, answer = self._text(int(length * 0.7)), self._text(int(length * 0.3))
        tokens_in, tokens_out = length // 4 + 1, rng.randint(20, 600)
        span = Span(name=f"chat {model}", kind=Span.SPAN_KIND_CLIENT)
        span.attributes.extend(
            attributes({
                "gen_ai.operation.name": "chat",
                "gen_ai.provider.name": "anthropic",
                "gen_ai.request.model": model,
                "gen_ai.response.model": model,
                "gen_ai.request.temperature": 0.2,
                "gen_ai.request.max_tokens": 1024,
                "gen_ai.response.id": f"msg_{rng.getrandbits(64):016x}",
                "gen_ai.usage.input_tokens": tokens_in,
                "gen_ai.usage.output_tokens": tokens_out,
                "gen_ai.input.messages": json.dumps([
                    {"role": "user", "parts": [{"type": "text", "content": question}]}
                ]),
                "gen_ai.output.messages": json.dumps([
                    {"role": "assistant", "parts": [{"type": "text", "content": answer}], "finish_reason": "stop"}
                ]),
                "gen_ai.conversation.id": session,
            })
        )  # fmt: skip
        return span, SentSpan(sent.trace_id, sent.span_id, tokens_in, tokens_out)

    def _tool_call(self) -> Span:
        rng = self._rng
        tool = rng.choice(_TOOLS)
        span = Span(name=f"execute_tool {tool}", kind=Span.SPAN_KIND_INTERNAL)
        span.attributes.extend(
            attributes({
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": tool,
                "gen_ai.tool.call.id": f"call_{rng.getrandbits(48):012x}",
                "gen_ai.tool.type": "function",
                "gen_ai.tool.call.arguments": json.dumps({"query": self._text(40), "limit": rng.randrange(50)}),
                "gen_ai.tool.call.result": self._text(rng.randint(50, 500)),
            })
        )  # fmt: skip
        return span

    def _text(self, length: int) -> str:
        begin = self._rng.randrange(len(self._pool) - length)
        return self._pool[begin : begin + length]
