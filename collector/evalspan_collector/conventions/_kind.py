"""Kinds: the words of every dialect for what a span stands for."""

from evalspan_collector.conventions._source import Rows, Source, rows
from evalspan_collector.converters import choose, text
from evalspan_collector.span import SpanKind as K

__all__ = ["KIND", "NAME_PATTERNS"]


def _words(**groups: str) -> dict[str, K]:
    return {word: K(kind) for kind, words in groups.items() for word in words.split()}


_OPERATIONS = _words(
    llm="chat text_completion text_completions generate_content fetch_response completion acompletion "
    "responses aresponses anthropic_messages generate model_request llm_request llm_call response",
    embedding="embeddings embedding embed",
    retriever="retrieval vector_db_retrieve vectordb retrieve search",
    reranker="rerank",
    tool="execute_tool tool_call tool",
    agent="invoke_agent agent_call agent create_agent",
    workflow="invoke_workflow workflow invoke_swarm invoke_graph swarm graph",
    plan="plan",
    memory="search_memory create_memory update_memory upsert_memory delete_memory create_memory_store "
    "delete_memory_store memory",
    evaluator="evaluation evaluate",
    guardrail="apply_guardrail guardrail",
    chain="agent_step execute_event_loop_cycle execute_task task invoke_node schedule_tool_calls compact_events "
    "user_prompt_processing conversation framework execute_node",
)
_OPENINFERENCE = _words(
    llm="llm decision",
    tool="tool",
    agent="agent",
    chain="chain",
    retriever="retriever",
    embedding="embedding",
    reranker="reranker",
    guardrail="guardrail",
    evaluator="evaluator",
    prompt="prompt",
)
_LANGFUSE = _words(
    llm="generation",
    agent="agent",
    tool="tool",
    chain="chain event",
    retriever="retriever",
    embedding="embedding",
    evaluator="evaluator",
    guardrail="guardrail",
)
_TRACELOOP = _words(workflow="workflow", chain="task", agent="agent", tool="tool")
_MLFLOW = _words(
    llm="llm chat_model",
    agent="agent",
    tool="tool",
    retriever="retriever",
    embedding="embedding",
    reranker="reranker",
    workflow="workflow",
    chain="task chain parser",
    memory="memory",
    guardrail="guardrail",
    evaluator="evaluator",
)
_LANGSMITH = _words(
    llm="llm", tool="tool", retriever="retriever", embedding="embedding", chain="chain parser", prompt="prompt"
)
_TYPES = _words(
    agent="claude_code.interaction interaction agent",
    llm="claude_code.llm_request llm_request llm model generation",
    tool="claude_code.tool tool function tools",
    workflow="workflow executor",
    evaluator="evaluator human_evaluator",
    retriever="retriever",
    embedding="embedding embedder",
    memory="memory",
    guardrail="guardrail",
)
_GENKIT = _words(
    llm="model background-model",
    tool="tool tool.v2",
    embedding="embedder",
    retriever="retriever indexer",
    reranker="reranker",
    evaluator="evaluator",
    prompt="prompt executable-prompt",
    workflow="flow",
    agent="agent",
    chain="util utility helper flowstep",
)
_VERCEL_OUTER = ("generatetext", "streamtext", "generateobject", "streamobject")
_VERCEL: dict[str, K] = {
    **{f"ai.{name}": K.AGENT for name in _VERCEL_OUTER},
    **{f"ai.{name}.{call}": K.LLM for name in _VERCEL_OUTER for call in ("dogenerate", "dostream")},
    "ai.toolcall": K.TOOL,
    "ai.embed": K.CHAIN,
    "ai.embedmany": K.CHAIN,
    "ai.embed.doembed": K.EMBEDDING,
    "ai.embedmany.doembed": K.EMBEDDING,
    "ai.rerank": K.CHAIN,
    "ai.rerank.dorerank": K.RERANKER,
}


def _mcp(value: object) -> K | None:
    method = text(value)
    return None if method is None else K.TOOL if method == "tools/call" else K.MCP


KIND: Rows = {
    "kind": (
        Source("langfuse.observation.type", choose(_LANGFUSE)),
        Source("openinference.span.kind", choose(_OPENINFERENCE)),
        Source("gen_ai.operation.name", choose(_OPERATIONS)),
        Source("traceloop.span.kind", choose(_TRACELOOP)),
        Source(
            "llm.request.type",
            choose(
                _words(
                    llm="chat completion acompletion responses aresponses anthropic_messages text_completion",
                    reranker="rerank",
                    embedding="embedding",
                )
            ),
        ),
        Source("ai.operationId", choose(_VERCEL)),
        Source("mlflow.spanType", choose(_MLFLOW)),
        Source("langsmith.span.kind", choose(_LANGSMITH)),
        *rows("span.type", "entity.type", "lmnr.span.type", convert=choose(_TYPES)),
        *rows("genkit:metadata:subtype", "genkit:type", convert=choose(_GENKIT)),
        Source("mcp.method.name", _mcp),
        Source("ag2.span.type", choose({**_OPERATIONS, **_TYPES})),
    ),
    "operation": (
        *rows("gen_ai.operation.name", "ai.operationId", "traceloop.span.kind", "llm.request.type", "mcp.method.name"),
        *rows(
            "langfuse.observation.type",
            "mlflow.spanType",
            "langsmith.span.kind",
            "span.type",
            "genkit:metadata:subtype",
        ),
        *rows("openinference.span.kind"),
    ),
}

#: Span names that tell the kind where no attribute does, tried in order.
NAME_PATTERNS: tuple[tuple[str, K], ...] = (
    (r"^invoke_agent(?: |$)", K.AGENT),
    (r"^create_agent(?: |$)", K.AGENT),
    (r"^(?:agent run|agent_run \[.*\])$", K.AGENT),
    (r"^(?:agent_turn|start_agent_activity)$", K.AGENT),
    (r"^invoke_workflow(?: |$)", K.WORKFLOW),
    (r"^execute_tool(?: |$)", K.TOOL),
    (r"^running tool(?:: .*)?$", K.TOOL),
    (r"^running (?:tools|\d+ tools?)(?:: .*)?$", K.CHAIN),
    (r"^running output function$", K.TOOL),
    (r"^(?:function_tool|claude_code\.tool)$", K.TOOL),
    (r"^(?:chat|text_completion|generate_content|claude_code\.llm_request|call_llm)(?: |$)", K.LLM),
    (r"^embeddings(?: |$)", K.EMBEDDING),
    (r"^retrieval(?: |$)", K.RETRIEVER),
    (r"^claude_code\.interaction$", K.AGENT),
    (r"^(?:workflow\.run|invocation)$", K.WORKFLOW),
    (r"^(?:tools/call)(?: |$)", K.TOOL),
    (r"^MCP send tools/call(?: |$)", K.TOOL),
    (r"^(?:MCP send |(?:tools|prompts|resources)/|initialize$|ping$|notifications/)", K.MCP),
    # Logfire's templates for the OpenAI Agents SDK and for model clients.
    (r"^OpenAI Agents trace: ", K.WORKFLOW),
    (r"^Agent run: ", K.AGENT),
    (r"^Function: ", K.TOOL),
    (r"^(?:Task: |Turn |Handoff: |Guardrail )", K.CHAIN),
    (r"^Embedding Creation with ", K.EMBEDDING),
    (r"^(?:Responses API|Chat [Cc]ompletion|Completion|Message|Generate Content) with ", K.LLM),
    (r".\.workflow$", K.WORKFLOW),
    (r".\.task$", K.CHAIN),
    (r".\.agent$", K.AGENT),
    (r".\.tool$", K.TOOL),
)
