"""Gen: deterministic agent traffic of about 2 kB per span, as OTLP requests.

Every trace has 8 to 20 spans: one agent, model calls with 1-4 kB of messages, tools, now and then a retrieval,
with attributes of the GenAI conventions and of OpenInference. Ids are random per seed.

    python bench/gen.py --spans 10000 --out traffic.bin     # frames: u32 little-endian length, request
"""

import argparse
import itertools
import json
import random
import struct
import time
from pathlib import Path

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

__all__ = ["Gen", "requests"]

_COMMON = """
order refund customer ticket policy invoice shipment account agent plan search result tool answer context
summary request confirm update balance flight hotel booking date the of and to in is for with on that this
from by at as it be are was please check status number email address payment total item price quantity
region service latency error retry success failed pending approve reject escalate review draft final
"""
_WORDS = tuple(_COMMON.split())
_TOOLS = (
    "search_kb", "get_order", "refund_payment", "send_email", "lookup_user", "run_sql", "web_search", "book_flight",
    "get_weather", "calc",
)  # fmt: skip
_MODELS = ("claude-sonnet-4-5", "gpt-4o-mini", "gemini-2.5-pro", "claude-haiku-4-5")
_SERVICES = ("support-agent", "travel-agent", "research-agent", "sql-agent")
_VOCABULARY = 6000
_MS = 1_000_000
_SECOND = 1_000_000_000

Value = str | int | float


def _vocabulary() -> list[str]:
    chance = random.Random(7)
    ends = ("a", "e", "i", "o", "u", "an", "er", "in", "or")
    syllables = [a + b for a, b in itertools.product("bcdfghlmnprstvw", ends)]
    words: list[str] = [*_WORDS]
    while len(words) < _VOCABULARY:
        words.append("".join(chance.choice(syllables) for _ in range(chance.choice((1, 2, 2, 3, 3, 4)))))
    return words


def _pairs(**values: Value) -> list[KeyValue]:
    """Attributes; a double underscore in a name stands for a dot."""
    found: list[KeyValue] = []
    for name, value in values.items():
        if isinstance(value, int):
            held = AnyValue(int_value=value)
        elif isinstance(value, float):
            held = AnyValue(double_value=value)
        else:
            held = AnyValue(string_value=value)
        found.append(KeyValue(key=name.replace("__", "."), value=held))
    return found


def _messages(role: str, text: str, **more: str) -> str:
    return json.dumps([{"role": role, "parts": [{"type": "text", "content": text}], **more}])


class Gen:
    """Makes traces; the same seed makes the same ones.

    Args:
        seed: Of everything random.
        base_ns: Earliest start of a trace; ten minutes ago when None.
    """

    def __init__(self, seed: int, base_ns: int | None = None) -> None:
        self._random = random.Random(seed)
        self._base = base_ns if base_ns is not None else time.time_ns() - 600 * _SECOND
        # A pool of Zipf-distributed words; messages are random windows of it, so that text compresses as prose does.
        weights = list(itertools.accumulate(1.0 / (i + 5) for i in range(_VOCABULARY)))
        self._pool = " ".join(self._random.choices(_vocabulary(), cum_weights=weights, k=300_000))

    def _text(self, length: int) -> str:
        at = self._random.randrange(len(self._pool) - length)
        return self._pool[at : at + length]

    def trace(self, spans: int | None = None) -> list[Span]:
        """The spans of one trace, children first as exporters send them."""
        chance = self._random
        trace_id, root_id = chance.randbytes(16), chance.randbytes(8)
        start = at = self._base + chance.randrange(500 * _SECOND)
        model = chance.choice(_MODELS)
        session = f"sess-{chance.randrange(100_000):06d}"
        goal = self._text(chance.randint(80, 400))
        found: list[Span] = []
        for index in range((spans or chance.randint(8, 20)) - 1):
            took = chance.randrange(20, 3000) * _MS
            span = self._child(index, model, session)
            span.trace_id, span.span_id, span.parent_span_id = trace_id, chance.randbytes(8), root_id
            span.start_time_unix_nano, span.end_time_unix_nano = at, at + took
            if chance.random() < 0.03:
                self._fail(span, at + took)
            found.append(span)
            at += took
        root = Span(name="invoke_agent", kind=Span.SPAN_KIND_INTERNAL, trace_id=trace_id, span_id=root_id,
                    start_time_unix_nano=start, end_time_unix_nano=at)  # fmt: skip
        root.attributes.extend(
            _pairs(
                gen_ai__operation__name="invoke_agent", gen_ai__agent__name=f"agent-{chance.randrange(20)}",
                gen_ai__agent__id=f"agent-{chance.randrange(20)}", gen_ai__conversation__id=session,
                openinference__span__kind="AGENT", input__value=goal,
                output__value=self._text(chance.randint(80, 600)), session__id=session,
                user__id=f"u{chance.randrange(2000):04d}",
            )
        )  # fmt: skip
        found.append(root)
        return found

    def _child(self, index: int, model: str, session: str) -> Span:
        if index % 2 == 0:
            return self._call(model, session)
        return self._search(session) if self._random.random() < 0.1 else self._tool(session)

    def _call(self, model: str, session: str) -> Span:
        length = self._random.randint(1000, 4000)
        asked, said = length // 4, self._random.randint(20, 600)
        span = Span(name=f"chat {model}", kind=Span.SPAN_KIND_CLIENT)
        span.attributes.extend(
            _pairs(
                gen_ai__operation__name="chat", gen_ai__system="anthropic", gen_ai__provider__name="anthropic",
                gen_ai__request__model=model, gen_ai__response__model=model, gen_ai__request__temperature=0.2,
                gen_ai__request__max_tokens=1024, gen_ai__response__id=f"msg_{self._random.getrandbits(64):016x}",
                gen_ai__usage__input_tokens=asked, gen_ai__usage__output_tokens=said,
                gen_ai__input__messages=_messages("user", self._text(int(length * 0.7))),
                gen_ai__output__messages=_messages(
                    "assistant", self._text(int(length * 0.3)), finish_reason="tool_call"
                ),
                gen_ai__conversation__id=session, openinference__span__kind="LLM", llm__model_name=model,
                llm__token_count__prompt=asked, llm__token_count__completion=said, session__id=session,
            )
        )  # fmt: skip
        return span

    def _search(self, session: str) -> Span:
        span = Span(name="retrieve", kind=Span.SPAN_KIND_INTERNAL)
        asked, found = self._text(60), self._text(300)
        span.attributes.extend(
            _pairs(openinference__span__kind="RETRIEVER", input__value=asked, output__value=found, session__id=session)
        )
        return span

    def _tool(self, session: str) -> Span:
        tool = self._random.choice(_TOOLS)
        span = Span(name=f"execute_tool {tool}", kind=Span.SPAN_KIND_INTERNAL)
        span.attributes.extend(
            _pairs(
                gen_ai__operation__name="execute_tool", gen_ai__tool__name=tool,
                gen_ai__tool__call__id=f"call_{self._random.getrandbits(48):012x}", gen_ai__tool__type="function",
                gen_ai__tool__call__arguments=json.dumps(
                    {"query": self._text(40), "limit": self._random.randrange(50)}
                ),
                gen_ai__tool__call__result=self._text(self._random.randint(50, 500)),
                openinference__span__kind="TOOL", tool__name=tool, session__id=session,
            )
        )  # fmt: skip
        return span

    def _fail(self, span: Span, at_ns: int) -> None:
        span.status.code = Status.STATUS_CODE_ERROR
        span.status.message = "tool timed out"
        event = span.events.add(name="exception", time_unix_nano=at_ns)
        event.attributes.extend(_pairs(exception__type="TimeoutError", exception__message="tool timed out"))

    def request(self, spans: int, *, one_trace: bool = False) -> ExportTraceServiceRequest:
        """One request of exactly so many spans; the last trace may be cut."""
        request = ExportTraceServiceRequest()
        resource = request.resource_spans.add()
        resource.resource.attributes.extend(
            _pairs(
                service__name=self._random.choice(_SERVICES), service__version="1.4.2",
                telemetry__sdk__language="python",
                telemetry__sdk__name="opentelemetry", telemetry__sdk__version="1.45.0",
                openinference__project__name="bench",
            )
        )  # fmt: skip
        scope = resource.scope_spans.add()
        scope.scope.name, scope.scope.version = "bench.agent", "0.1"
        left = spans
        while left:
            trace = self.trace(left if one_trace else None)[-left:]
            scope.spans.extend(trace)
            left -= len(trace)
        return request


def requests(seed: int, spans: int, per_request: int) -> list[tuple[bytes, int]]:
    """Serialised requests, each with its number of spans."""
    gen = Gen(seed)
    count = max(1, spans // per_request)
    return [(gen.request(per_request).SerializeToString(), per_request) for _ in range(count)]


def main() -> None:
    """Write frames to a file and print what they are."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--spans", type=int, default=10_000)
    parser.add_argument("--per-request", type=int, default=200)
    parser.add_argument("--out", type=Path, help="frames: u32 little-endian length, request")
    given = parser.parse_args()
    made = requests(given.seed, given.spans, given.per_request)
    size = sum(len(body) for body, _ in made)
    spans = sum(count for _, count in made)
    print(json.dumps({"requests": len(made), "spans": spans, "bytes": size, "bytes_per_span": round(size / spans, 1)}))
    if given.out:
        with given.out.open("wb") as file:
            for body, _ in made:
                file.write(struct.pack("<I", len(body)) + body)


if __name__ == "__main__":
    main()
