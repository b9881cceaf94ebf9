"""Names: agents, tools, models and providers in every dialect."""

from evalspan_collector.conventions._source import Rows, Source, rows
from evalspan_collector.converters import (
    choose,
    entity_arguments,
    finish_list,
    integer,
    json_text,
    number,
    path,
    pruned,
    scaled,
    tail,
    text,
)
from evalspan_collector.span import SpanKind as K

__all__ = ["NAMES"]


def _error_text(value: object) -> str | None:
    """The message of an `error` attribute: text, or JSON with a message."""
    if isinstance(value, bool):
        return None
    found = path("message|error|data")(value)
    return found if isinstance(found, str) else text(value)


_AGENTS = (K.AGENT, K.WORKFLOW)
_MODELS = (K.LLM, K.EMBEDDING, K.RERANKER)

_AGENT: Rows = {
    "agent_name": (
        *rows("gen_ai.agent.name", "agent.name", "agent_name"),
        *rows("gen_ai.workflow.name", when=(K.WORKFLOW,)),
        *rows("traceloop.entity.name", when=_AGENTS),
        *rows("graph.node.name", "graph.node.id"),
        *rows(
            "ai.telemetry.functionId",
            "resource.name",
            "lk.agent_name",
            "voltagent.agent.name",
            "entity.name",
            when=_AGENTS,
        ),
        *rows("gen_ai.main_agent.id", "adk.experimental.root_agent.name", "gen_ai.serialized.name", when=_AGENTS),
        *rows("workflow.name", "executor.id", when=_AGENTS),
        *rows("traceloop.association.properties.lc_agent_name", "lc_agent_name"),
        Source("metadata", path("lc_agent_name|agent_name")),
        Source("genkit:name", text, frozenset(_AGENTS)),
        *rows("langsmith.trace.name", "name", when=_AGENTS),
    ),
    "agent_id": rows(
        "gen_ai.agent.id",
        "gen_ai.agent.call.id",
        "gcp.vertex.agent.invocation_id",
        "openlit.agent.version_hash",
        "graph.node.id",
        "traceloop.entity.path",
    ),
    "agent_version": rows("gen_ai.agent.version", "traceloop.entity.version", "langfuse.version"),
    "agent_description": rows("gen_ai.agent.description", "gen_ai.agent.role", "gen_ai.agent.goal"),
    "parent_agent": rows(
        "graph.node.parent_id", "gen_ai.handoff.from_agent", "gen_ai.agent.handoff_parent", "from_agent"
    ),
    "handoff_to": rows("gen_ai.handoff.to_agent", "to_agent"),
}

_TOOL: Rows = {
    "tool_name": (
        *rows("gen_ai.tool.name", "tool.name", "ai.toolCall.name", "mcp.tool.name"),
        *rows("traceloop.entity.name", "tool_name", when=(K.TOOL,)),
        *rows(
            "lk.function_tool.name",
            "mlflow.spanFunctionName",
            "genkit:name",
            "serialized.name",
            "entity.name",
            when=(K.TOOL,),
        ),
        Source("mcp.request.argument", path("name"), frozenset({K.TOOL})),
        *rows("name", when=(K.TOOL,)),
    ),
    "tool_call_id": (
        *rows(
            "gen_ai.tool.call.id", "tool_call.id", "tool.id", "ai.toolCall.id", "lk.function_tool.id", "tool_call_id"
        ),
        *rows("tool_use_id", when=(K.TOOL,)),
        *rows("output.value", "traceloop.entity.output", convert=path("tool_call_id"), when=(K.TOOL,)),
        *rows(
            "output.value",
            "traceloop.entity.output",
            convert=path("kwargs|data|output", "tool_call_id"),
            when=(K.TOOL,),
        ),
        *rows(
            "output.value", "traceloop.entity.output", convert=path("output", "kwargs", "tool_call_id"), when=(K.TOOL,)
        ),
        *rows(
            "gen_ai.tool.call.arguments",
            "traceloop.entity.input",
            convert=path("kwargs", "tool_call_id"),
            when=(K.TOOL,),
        ),
        Source("gen_ai.tool.call.result", path("output", "kwargs", "tool_call_id"), frozenset({K.TOOL})),
    ),
    "tool_type": (
        *rows("gen_ai.tool.type"),
        Source("mcp.method.name", lambda v: "mcp" if v == "tools/call" else None),
        Source("gcp.mcp.server.destination.id", lambda v: "mcp" if v else None),
    ),
    "tool_description": rows("gen_ai.tool.description", "tool.description"),
    "tool_arguments": (
        *rows("gen_ai.tool.call.arguments", "tool_arguments", convert=entity_arguments),
        *rows("ai.toolCall.args", "gcp.vertex.agent.tool_call_args", convert=json_text),
        *rows(
            "langfuse.observation.input",
            "input.value",
            "traceloop.entity.input",
            "mlflow.spanInputs",
            convert=entity_arguments,
            when=(K.TOOL,),
        ),
        *rows(
            "gen_ai.tool.args", "gen_ai.tool.input", "gen_ai.tool.parameters", convert=entity_arguments, when=(K.TOOL,)
        ),
        *rows(
            "tool_input",
            "lk.function_tool.arguments",
            "gen_ai.prompt",
            "genkit:input",
            "lmnr.span.input",
            convert=entity_arguments,
            when=(K.TOOL,),
        ),
        *rows("mcp.request.argument", "full_command", "file_path", "input", convert=entity_arguments, when=(K.TOOL,)),
    ),
    "tool_result": (
        *rows(
            "gen_ai.tool.call.result",
            "tool_response",
            "anthropic.tool_result.content",
            "ai.toolCall.result",
            convert=json_text,
        ),
        *rows("gcp.vertex.agent.tool_response", convert=json_text),
        *rows(
            "langfuse.observation.output",
            "output.value",
            "traceloop.entity.output",
            "mcp.response.value",
            "mlflow.spanOutputs",
            convert=json_text,
            when=(K.TOOL,),
        ),
        *rows(
            "gen_ai.tool.output",
            "gen_ai.tool.result",
            "lk.function_tool.output",
            "gen_ai.completion",
            convert=json_text,
            when=(K.TOOL,),
        ),
        *rows(
            "genkit:output",
            "lmnr.span.output",
            "new_context",
            "return",
            "output",
            "gen_ai.output.messages",
            convert=json_text,
            when=(K.TOOL,),
        ),
    ),
}

_MODEL: Rows = {
    "model_request": (
        *rows("gen_ai.request.model", "llm.request.model_name", "ai.model.id"),
        Source("llm.invocation_parameters", path("model|model_name|model_id"), frozenset(_MODELS)),
        *rows("llm.model_name", "embedding.model_name", "reranker.model_name", "langfuse.observation.model.name"),
        Source("mlflow.llm.model", text),
        *rows("litellm.provider.model"),
        *rows("model", "model_name", when=_MODELS),
        Source("genkit:name", tail("/"), frozenset({K.LLM, K.EMBEDDING})),
        *rows(
            "mlflow.spanInputs",
            "input.value",
            "langfuse.observation.input",
            "request_data",
            convert=path("model|model_name"),
            when=_MODELS,
        ),
        Source("gcp.vertex.agent.llm_request", path("model")),
    ),
    "model_response": (
        *rows(
            "gen_ai.response.model",
            "llm.response.model_name",
            "ai.response.model",
        ),
        Source("output.value", path("raw", "model"), frozenset(_MODELS)),
        Source("output.value", path("result", "raw", "model"), frozenset({K.CHAIN, K.AGENT, K.WORKFLOW})),
        *rows("llm.model_name", "langfuse.observation.model.name"),
        Source("gcp.vertex.agent.llm_response", path("model_version|modelVersion")),
        Source("genkit:output", path("custom|raw", "model|modelVersion"), frozenset(_MODELS)),
        *rows(
            "mlflow.spanOutputs",
            "output.value",
            "genkit:output",
            "response_data",
            convert=path("model|model_name|modelVersion"),
            when=_MODELS,
        ),
    ),
    "provider": (
        *rows("gen_ai.provider.name", "gen_ai.system", "llm.provider", "llm.system", "ai.model.provider"),
        *rows(
            "mlflow.llm.provider",
            "langsmith.metadata.ls_provider",
            "gen_ai.request.provider",
            "traceloop.association.properties.ls_provider",
        ),
        Source("metadata", path("ls_provider")),
    ),
    "response_id": (
        *rows("gen_ai.response.id", "ai.response.id", "llm.response.id"),
        *rows("output.value", "mlflow.spanOutputs", "response_data", convert=path("id|response_id"), when=(K.LLM,)),
        Source("request_id", text, frozenset({K.LLM})),
    ),
    "service_tier": (
        *rows("openai.response.service_tier", "gen_ai.openai.response.service_tier", "anthropic.response.service_tier"),
        *rows(
            "gen_ai.response.service_tier",
            "openai.request.service_tier",
            "gen_ai.openai.request.service_tier",
            "gen_ai.request.service_tier",
        ),
        Source("gen_ai.usage.raw", path("service_tier")),
    ),
    "finish_reasons": (
        *rows(
            "gen_ai.response.finish_reasons", "llm.finish_reason", "gen_ai.response.finish_reason", convert=finish_list
        ),
        *rows(
            "gen_ai.response.stop_reason", "llm.response.finish_reason", "llm.response.stop_reason", convert=finish_list
        ),
        *rows("anthropic.message.stop_reason", "ai.response.finishReason", "ai.finishReason", convert=finish_list),
        Source("gcp.vertex.agent.llm_response", path("finish_reason|finishReason", then=finish_list)),
    ),
    "time_to_first_token_s": (
        *rows("gen_ai.response.time_to_first_chunk", "gen_ai.client.operation.time_to_first_chunk", convert=number),
        *rows("gen_ai.server.time_to_first_token", "lk.response.ttft", convert=number),
        *rows("ai.response.msToFirstChunk", "ai.stream.msToFirstChunk", "ttft_ms", convert=scaled(0.001)),
    ),
    "request_params": (
        *rows(
            "llm.invocation_parameters",
            "embedding.invocation_parameters",
            "langfuse.observation.model.parameters",
            convert=json_text,
        ),
        Source("gcp.vertex.agent.llm_request", path("config", then=json_text)),
        Source("genkit:input", path("config", then=json_text), frozenset({K.LLM})),
        Source("request_data", pruned(temperature="temperature", max_tokens="max_tokens", top_p="top_p")),
    ),
}

_ERROR: Rows = {
    "error_type": (
        *rows(
            "error.type",
            "gen_ai.framework.error.type",
            "adk.fn.exc_type",
            "litellm.provider.error.type",
            "pydantic_ai.tool.retry.cause",
        ),
    ),
    "error_message": (
        *rows("error.message", "langfuse.observation.status_message", "gen_ai.framework.error.message"),
        *rows("gen_ai.tool.error", "litellm.provider.error.message", "adk.fn.exc_repr"),
        *rows("error", convert=_error_text),
    ),
    "failed": (
        Source("gen_ai.tool.status", choose({"error": True, "failure": True, "failed": True, "success": False})),
        Source("lk.function_tool.is_error", lambda v: v if isinstance(v, bool) else None),
        Source("gen_ai.tool.execution.success", lambda v: not v if isinstance(v, bool) else None),
        Source("gen_ai.task.status", choose({"failure": True, "error": True})),
        Source("langfuse.observation.level", choose({"error": True})),
        Source("success", lambda v: True if v in (False, "false", "False") else None),
        Source("error.type", lambda v: True if text(v) else None),
        Source("pydantic_ai.tool.retry.cause", lambda v: True if v else None),
        Source("pydantic_ai.tool.failure_stage", lambda v: True if v else None),
        Source("genkit:state", choose({"error": True})),
        Source(
            "rpc.response.status_code",
            lambda v: None if text(v) in {None, "OK", "ok", "0"} else True,
            frozenset({K.TOOL, K.MCP}),
        ),
        Source("adk.fn.exc_type", lambda v: True if text(v) else None),
        Source("logfire.level_num", lambda v: True if (integer(v) or 0) >= 17 else None),
    ),
}


NAMES: Rows = {**_AGENT, **_TOOL, **_MODEL, **_ERROR}
