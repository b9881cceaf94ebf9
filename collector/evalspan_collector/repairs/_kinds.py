"""Kinds: what a span is where its attributes do not say, or say wrong."""

import re
from functools import lru_cache
from typing import Any

from evalspan_collector.conventions import NAME_PATTERNS
from evalspan_collector.repairs._draft import Draft
from evalspan_collector.span import SpanKind

__all__ = [
    "agent_that_looks_like_a_call",
    "kind_from_fields",
    "kind_from_name",
    "merged_tools_of_adk",
    "pending_spans_of_logfire",
    "preparation_is_no_call",
]

_NAMED_KINDS = tuple((re.compile(pattern), kind) for pattern, kind in NAME_PATTERNS)


_MODEL_KEYS = ("model_request", "model_response")


def kind_from_name(draft: Draft) -> bool:
    """No attribute told the kind: the span's name may."""
    if draft.kind is not SpanKind.UNKNOWN:
        return False
    for name in (draft.raw.name, draft.raw.attributes.get("logfire.msg")):
        kind = _named_kind(name) if isinstance(name, str) else None
        if kind is not None:
            draft.kind = kind
            return True
    return False


@lru_cache(maxsize=2_048)
def _named_kind(name: str) -> SpanKind | None:
    """The kind that a name tells; the same few names come again and again."""
    return next((kind for pattern, kind in _NAMED_KINDS if pattern.search(name)), None)


def kind_from_fields(draft: Draft) -> bool:
    """Neither attribute nor name told the kind: a tool's name, a query or a model may."""
    if draft.kind is not SpanKind.UNKNOWN:
        return False
    fields, attributes = draft.fields, draft.raw.attributes
    has_model = any(k in fields for k in _MODEL_KEYS)
    if ("tool_name" in fields or "tool_call_id" in fields) and not has_model and "input_messages" not in fields:
        draft.kind = SpanKind.TOOL
    elif "litellm.guardrail.name" in attributes or "guard.name" in attributes:
        draft.kind = SpanKind.GUARDRAIL
    elif "documents" in fields or _searches_vectors(attributes):
        draft.kind = SpanKind.RETRIEVER
    elif has_model and ("input_tokens" in fields or "output_tokens" in fields or "output_messages" in fields):
        draft.kind = SpanKind.LLM
    else:
        return False
    return True


_VECTOR_STORES = frozenset(
    {"chroma", "pinecone", "qdrant", "weaviate", "milvus", "lancedb", "marqo", "astra", "opensearch_vector", "pgvector"}
)
_SEARCHES = frozenset(
    {"query", "search", "similarity_search", "get", "peek", "hybrid_search", "query_points", "select"}
)


def _searches_vectors(attributes: dict[str, Any]) -> bool:
    """True for a search in a store of vectors; writing to one is none."""
    if "gen_ai.retrieval.query.text" in attributes or "db.vector.query.top_k" in attributes:
        return True
    store = attributes.get("db.system", attributes.get("db.system.name"))
    if not isinstance(store, str) or store.lower() not in _VECTOR_STORES:
        return False
    action = attributes.get("db.operation.name", attributes.get("db.operation"))
    return isinstance(action, str) and action.lower() in _SEARCHES


def pending_spans_of_logfire(draft: Draft) -> bool:
    """Logfire announces a span by a placeholder with an id of its own; the span itself comes later."""
    if draft.raw.attributes.get("logfire.span_type") != "pending_span":
        return False
    draft.flags.append("placeholder")
    return True


def merged_tools_of_adk(draft: Draft) -> bool:
    """ADK repeats the results of parallel tools in one more span."""
    if (
        draft.raw.name != "execute_tool (merged tools)"
        and draft.raw.attributes.get("gen_ai.tool.name") != "(merged tools)"
    ):
        return False
    draft.flags.append("duplicate")
    return True


def agent_that_looks_like_a_call(draft: Draft) -> bool:
    """ADK under OpenInference: the model calls of an agent overwrite each other on the agent's own span."""
    if draft.kind is not SpanKind.LLM or not draft.raw.name.startswith("invoke_agent"):
        return False
    draft.kind = SpanKind.AGENT
    draft.fields["operation"] = "invoke_agent"
    return True


def preparation_is_no_call(draft: Draft) -> bool:
    """llama-index marks the preparation of a request as a model call; nothing was asked of a model."""
    if "._prepare_" not in draft.raw.name:
        return False
    draft.kind = SpanKind.CHAIN
    return True
