"""Grouping: sessions, users, tags, environments, metadata and evaluations in every dialect."""

from typing import Any

from evalspan_collector.conventions._source import Rows, Source, rows
from evalspan_collector.converters import json_text, path, strings, text
from evalspan_collector.lenient_json import dump, is_object

__all__ = ["GROUPING", "RESOURCE"]


def _family(value: Any) -> str | None:
    """A family of keys as one JSON object."""
    return dump(value) if value else None


_SESSION = "session_id|thread_id|conversation_id|sessionId|threadId|conversationId"


def _thread(value: Any) -> str | None:
    """The thread of a LangGraph config."""
    return path(_SESSION)(value) if is_object(value) else text(value)


GROUPING: Rows = {
    "session_id": (
        *rows("gen_ai.conversation.id", "session.id", "langfuse.session.id"),
        *rows("traceloop.association.properties.session_id", "traceloop.association.properties.conversation_id"),
        *rows("traceloop.association.properties.thread_id", "traceloop.association.properties.chat_id"),
        *rows("gcp.vertex.agent.session_id", "ai.telemetry.metadata.sessionId", "ai.telemetry.metadata.session_id"),
        *rows(
            "mlflow.trace.session",
            "langsmith.metadata.thread_id",
            "langsmith.metadata.session_id",
            "langsmith.metadata.conversation_id",
        ),
        Source("metadata", path(_SESSION)),
        *rows(
            "gen_ai.session.id", "gen_ai.agent.session_id", "gen_ai.openai.conversation.id", "voltagent.conversation_id"
        ),
        *rows(
            "session_id",
            "conversation_id",
            "thread_id",
            "group_id",
            "agent_session_id",
            "ai.telemetry.metadata.threadId",
        ),
        *rows(
            "metadata.session_id",
            "metadata.thread_id",
            "litellm.metadata.session_id",
            "logfire.session_id",
            "genkit:sessionId",
            "genkit:metadata:sessionId",
        ),
        Source("metadata.requester_metadata", path(_SESSION)),
        *rows("kwargs", "mlflow.spanInputs", convert=path("run_config", "group_id")),
        *rows("kwargs", "mlflow.spanInputs", convert=path(_SESSION)),
        *rows(
            "kwargs",
            "mlflow.spanInputs",
            "config",
            convert=path("config|configurable", "configurable|thread_id|session_id", then=_thread),
        ),
        *rows("langfuse.trace.metadata.session_id", "copilot_chat.session_id", "conversation.id"),
    ),
    "user_id": rows(
        "user.id",
        "langfuse.user.id",
        "enduser.id",
        "enduser.pseudo.id",
        "traceloop.association.properties.user_id",
        "ai.telemetry.metadata.userId",
        "ai.telemetry.metadata.user_id",
        "mlflow.trace.user",
        "gen_ai.user",
        "llm.user",
        "gen_ai.request.user",
        "gen_ai.user.id",
        "litellm.end_user.id",
        "user_id",
    ),
    "tags": rows(
        "langfuse.trace.tags",
        "tag.tags",
        "logfire.tags",
        "ai.telemetry.metadata.tags",
        "langsmith.span.tags",
        "gen_ai.framework.tags",
        "tags",
        convert=strings,
    ),
    "metadata": (
        Source("metadata", json_text),
        *rows("langfuse.trace.metadata", "langfuse.observation.metadata", convert=json_text),
        *rows(
            "langfuse.trace.metadata.",
            "langfuse.observation.metadata.",
            "traceloop.association.properties.",
            convert=_family,
        ),
        *rows(
            "ai.telemetry.metadata.",
            "langsmith.metadata.",
            "litellm.metadata.",
            "gen_ai.prompt.variable.",
            convert=_family,
        ),
    ),
    "environment": rows(
        "langfuse.environment", "deployment.environment.name", "deployment.environment", "gen_ai.environment"
    ),
    "evaluation_list": (
        Source("evaluations.", _family),
        Source("annotations.", _family),
        Source("trace.evaluations.", _family),
        Source("trace.annotations.", _family),
        Source("session.evaluations.", _family),
        Source("session.annotations.", _family),
        Source("eval.", _family),
    ),
    "guard_verdict": rows("guard.verdict", "guard.classification"),
    "span_service_name": rows("service.name"),
    "completion_start": (Source("langfuse.observation.completion_start_time", text),),
}

#: What a resource says of all its spans; a span's own word wins.
RESOURCE: Rows = {
    "service_name": (Source("service.name", lambda v: None if str(v).startswith("unknown_service") else text(v)),),
    "service_version": rows("service.version"),
    "service_instance_id": rows("service.instance.id"),
    "environment": rows(
        "langfuse.environment", "deployment.environment.name", "deployment.environment", "service.namespace"
    ),
    "session_id": rows("session.id"),
    "user_id": rows("user.id"),
    "agent_version": rows("gen_ai.agent.version", "langfuse.release"),
}
