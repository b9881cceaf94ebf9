"""Content: messages, system prompts, tool definitions, documents, inputs and outputs in every dialect."""

from typing import Any

from evalspan_collector.conventions._source import Rows, Source, rows
from evalspan_collector.converters import (
    answered_events,
    asked_events,
    documents,
    flat_messages,
    messages,
    path,
    raw_text,
    system,
    text,
    tools,
)
from evalspan_collector.lenient_json import dump, is_list, is_object, parse_object
from evalspan_collector.span import SpanKind as K

__all__ = ["CONTENT"]

_MODEL = (K.LLM,)
_HOLDERS = (K.LLM, K.AGENT, K.WORKFLOW)
_SEARCH = (K.RETRIEVER, K.RERANKER)
_ASKED = messages("user")
_ANSWERED = messages("assistant")


def _query(value: Any) -> str | None:
    """The query text inside a retriever's input."""
    found = parse_object(value)
    if found is None:
        return raw_text(value)
    for key in (
        "query",
        "query_str",
        "question",
        "query_text",
        "text",
        "input",
        "query_bundle",
        "kwargs",
        "inputs",
        "args",
    ):
        inner = found.get(key)
        if isinstance(inner, str) and inner:
            return inner
        if is_object(inner):
            return _query(inner)
        if is_list(inner) and inner and isinstance(inner[0], str):
            return inner[0]
    return text(dump(found))


INPUT_KEYS = (
    "langfuse.observation.input",
    "input.value",
    "traceloop.entity.input",
    "mlflow.spanInputs",
    "genkit:input",
    "lmnr.span.input",
)
OUTPUT_KEYS = (
    "langfuse.observation.output",
    "output.value",
    "traceloop.entity.output",
    "mlflow.spanOutputs",
    "genkit:output",
    "lmnr.span.output",
)

CONTENT: Rows = {
    "input_messages": (
        Source("gen_ai.input.messages", _ASKED),
        Source("llm.input_messages.", flat_messages("user")),
        Source("gen_ai.prompt.", flat_messages("user")),
        *rows("pydantic_ai.all_messages", "all_messages_events", "ai.prompt.messages", "ai.prompt", convert=_ASKED),
        Source("events", asked_events),
        *rows("gcp.vertex.agent.llm_request", convert=_ASKED),
        *rows("input", "request_data", convert=_ASKED, when=_MODEL),
        *rows("mlflow.spanInputs", "langfuse.observation.input", "genkit:input", convert=_ASKED, when=_MODEL),
        *rows("gen_ai.prompt", "lk.chat_ctx", "new_context", "raw_input", convert=_ASKED, when=_HOLDERS),
        *rows("user_prompt", "prompt", convert=_ASKED, when=(K.AGENT, K.LLM)),
        *rows("lmnr.span.input", convert=_ASKED, when=_MODEL),
        Source("llm.prompts.", flat_messages("user")),
        *rows("input.value", "traceloop.entity.input", convert=_ASKED, when=_MODEL),
    ),
    "output_messages": (
        *rows("gen_ai.output.messages", convert=_ANSWERED, when=tuple(k for k in K if k is not K.TOOL)),
        Source("llm.output_messages.", flat_messages("assistant")),
        Source("gen_ai.completion.", flat_messages("assistant")),
        Source("events", answered_events),
        *rows("gcp.vertex.agent.llm_response", "response_data", convert=_ANSWERED),
        *rows("output", convert=_ANSWERED, when=_MODEL),
        *rows("mlflow.spanOutputs", "langfuse.observation.output", "genkit:output", convert=_ANSWERED, when=_MODEL),
        *rows(
            "gen_ai.completion",
            "lk.response.text",
            "response.model_output",
            "response",
            convert=_ANSWERED,
            when=_HOLDERS,
        ),
        *rows("lmnr.span.output", convert=_ANSWERED, when=_MODEL),
        Source("llm.choices.", flat_messages("assistant")),
        *rows("output.value", "traceloop.entity.output", convert=_ANSWERED, when=_MODEL),
    ),
    "system_prompt": (
        Source("gen_ai.system_instructions", system),
        Source("ai.prompt", path("system", then=system)),
        Source("gcp.vertex.agent.llm_request", path("config", "system_instruction", then=system)),
        *rows("lk.instructions", "gen_ai.agent.instructions", "system_prompt", convert=system),
    ),
    "tool_definitions": (
        Source("gen_ai.tool.definitions", tools),
        *rows("llm.tools.", "llm.request.functions.", convert=tools),
        *rows("ai.prompt.tools", "mlflow.chat.tools", "model_request_parameters", convert=tools),
        Source("gcp.vertex.agent.llm_request", path("config", "tools", then=tools)),
        Source("request_data", path("tools", then=tools)),
        Source("genkit:input", path("tools", then=tools), frozenset(_MODEL)),
        *rows(
            "mlflow.spanInputs",
            "input.value",
            "langfuse.observation.input",
            convert=path("tools", then=tools),
            when=_MODEL,
        ),
        Source("gen_ai.agent.tools", tools),
        Source("smolagents.tools_names", tools),
        Source("sk.available_functions", tools),
    ),
    "run_input": (
        # smolagents.task is the first task of the agent object's life, the input's is this run's.
        Source("input.value", path("task", then=raw_text), frozenset({K.AGENT})),
        *rows(
            "langfuse.trace.input", "mlflow.traceInputs", "gen_ai.workflow.input", "smolagents.task", convert=raw_text
        ),
        Source("crew_tasks", path("0", "description", then=raw_text)),
    ),
    "run_output": rows(
        "langfuse.trace.output",
        "mlflow.traceOutputs",
        "final_result",
        "gen_ai.workflow.output",
        "gen_ai.agent.actual_output",
        "gen_ai.agent.finish.output",
        convert=raw_text,
    ),
    "retrieval_query": (
        *rows("gen_ai.retrieval.query.text", "reranker.query", "gen_ai.retrieval.query", "gen_ai.memory.query.text"),
        *rows(
            "input.value",
            "langfuse.observation.input",
            "mlflow.spanInputs",
            "traceloop.entity.input",
            convert=_query,
            when=_SEARCH,
        ),
        *rows("db.query.text"),
    ),
    "documents": (
        *rows(
            "gen_ai.retrieval.documents",
            "retrieval.documents.",
            "reranker.output_documents.",
            "output.documents.",
            convert=documents,
        ),
        *rows(
            "output.value",
            "langfuse.observation.output",
            "mlflow.spanOutputs",
            "traceloop.entity.output",
            convert=documents,
            when=_SEARCH,
        ),
        *rows("gen_ai.memory.records", "ai.ranking", convert=documents),
    ),
    # Generic fields come last: they take what no field above took.
    "input_value": (
        *rows(*INPUT_KEYS, convert=raw_text),
        *rows(
            "gen_ai.prompt", "gen_ai.task.input", "input", "message", "user_input", "function.kwargs", convert=raw_text
        ),
    ),
    "output_value": (
        *rows(*OUTPUT_KEYS, convert=raw_text),
        *rows("gen_ai.completion", "gen_ai.task.output", "output", "return", convert=raw_text),
    ),
    "input_mime": rows("input.mime_type"),
    "output_mime": rows("output.mime_type"),
}
