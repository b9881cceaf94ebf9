"""A span read by the form of its layout is the span that the table itself gives, whatever is constant and what varies."""

from dataclasses import replace
from typing import Any

from golden.captures import capture, captures
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span as Proto

from evalspan_collector.conventions import FIELDS
from evalspan_collector.intake import read_traces
from evalspan_collector.layout import layouts
from evalspan_collector.span import Span

_ENDINGS = ("", "0.message.role", "0.message.content", "0.role", "name")
_KEYS = sorted(
    {s.key + e for sources in FIELDS.values() for s in sources for e in _ENDINGS if (e == "") != s.key.endswith(".")}
)
_TEXTS = st.sampled_from(
    [
        "",
        "chat",
        "LLM",
        "tool",
        "null",
        "[REDACTED]",
        "7",
        '"quoted"',
        '{"a": 1}',
        '[{"role": "user", "content": "hi"}]',
        "gpt-4o",
    ]
)
_VALUES = st.one_of(
    st.one_of(_TEXTS, st.text(max_size=20).filter(lambda t: t.isprintable())).map(lambda t: AnyValue(string_value=t)),
    st.integers(-2, 2**40).map(lambda n: AnyValue(int_value=n)),
    st.sampled_from([0.0, 0.25, 3.0]).map(lambda n: AnyValue(double_value=n)),
    st.booleans().map(lambda b: AnyValue(bool_value=b)),
    st.lists(_TEXTS, max_size=2).map(
        lambda texts: AnyValue(array_value=ArrayValue(values=[AnyValue(string_value=t) for t in texts]))
    ),
)
_NAMED = st.sampled_from(
    [("gen_ai.operation.name", w) for w in ("chat", "execute_tool", "invoke_agent", "embeddings")]
    + [("openinference.span.kind", w) for w in ("LLM", "TOOL", "AGENT", "RETRIEVER", "CHAIN")]
    + [("traceloop.span.kind", w) for w in ("tool", "workflow")]
    + [("langfuse.observation.type", "generation"), ("mlflow.spanType", '"LLM"'), ("ai.operationId", "ai.toolCall")]
)  # fmt: skip
_SCOPES = st.sampled_from(["", "openinference.instrumentation.x", "openlit.otel", "strands.telemetry", "litellm"])


def _body(scope: str, spans: list[dict[str, AnyValue]]) -> bytes:
    found = ExportTraceServiceRequest()
    scoped = found.resource_spans.add().scope_spans.add()
    scoped.scope.name = scope
    for number, attributes in enumerate(spans, 1):
        scoped.spans.append(
            Proto(trace_id=bytes(range(16)), span_id=number.to_bytes(8, "big"), name="chat x", start_time_unix_nano=5,
                  end_time_unix_nano=9, attributes=[KeyValue(key=k, value=v) for k, v in attributes.items()])
        )  # fmt: skip
    return found.SerializeToString()


def _read(body: bytes, *, explain: bool) -> list[Span]:
    return [replace(s, sources={}) for s in read_traces(body, project="p", received_ns=1, explain=explain).spans]


@settings(deadline=None)
@given(_NAMED, _SCOPES, st.lists(st.sampled_from(_KEYS), max_size=6, unique=True), st.data())
def test_a_form_gives_what_the_table_gives(
    named: tuple[str, str], scope: str, keys: list[str], data: st.DataObject
) -> None:
    layouts.forget()
    constant = {named[0]: AnyValue(string_value=named[1])}
    values: Any = st.fixed_dictionaries({k: _VALUES for k in keys if k != named[0]})
    spans = [{**constant, **data.draw(values)} for _ in range(3)]
    varying = [{**constant, **{k: AnyValue(int_value=2**41 + n) for k in keys if k != named[0]}} for n in range(20)]
    body = _body(scope, spans)
    expected = _read(body, explain=True)
    assert _read(body, explain=False) == expected  # the first of each layout
    assert _read(body, explain=False) == expected  # by forms in which all is constant
    _read(_body(scope, varying), explain=False)
    layouts.forget()
    _read(_body(scope, varying), explain=False)
    for _ in range(3):
        assert _read(body, explain=False) == expected  # by forms in which much varies


def test_forms_give_what_the_table_gives_for_all_of_the_golden_traffic() -> None:
    for name in captures():
        for body in (body for signal, body in capture(name).requests if signal == "traces"):
            expected = _read(body, explain=True)
            for _ in range(3):
                assert _read(body, explain=False) == expected
    made = [f for alike in layouts._layouts.values() for layout in alike for f in layout.forms.values() if f]
    assert len(made) > 50, "forms were hardly used"
