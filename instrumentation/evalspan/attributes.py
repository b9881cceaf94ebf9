"""Attribute names: what evalspan writes on spans and what its collector reads back.

Names follow the OpenTelemetry GenAI conventions (2026 generation); the few of our own start with
`evalspan.`. They are kept here, not taken from `opentelemetry.semconv`, because the GenAI names left
that package and it lacks the newer ones.
"""

from typing import Final

__all__ = [
    "AGENT_DESCRIPTION",
    "AGENT_NAME",
    "AGENT_VERSION",
    "CHAT",
    "CONTENT_TRUNCATED",
    "CONVERSATION_ID",
    "COST_USD",
    "DEPLOYMENT_ENVIRONMENT",
    "ERROR_TYPE",
    "EXECUTE_TOOL",
    "INPUT_MESSAGES",
    "INVOKE_AGENT",
    "MODEL_OPERATIONS",
    "OPERATION_NAME",
    "OUTPUT_MESSAGES",
    "PROVIDER_NAME",
    "REQUEST_MODEL",
    "RESPONSE_MODEL",
    "SCOPE_NAME",
    "SERVICE_NAME",
    "SYSTEM",
    "TOOL_ARGUMENTS",
    "TOOL_CALL_ID",
    "TOOL_DESCRIPTION",
    "TOOL_NAME",
    "TOOL_RESULT",
    "TOOL_TYPE",
    "USAGE_CACHE_CREATION",
    "USAGE_CACHE_READ",
    "USAGE_CACHE_WRITE",
    "USAGE_CACHE_WRITE_1H",
    "USAGE_INPUT",
    "USAGE_OUTPUT",
    "USER_ID",
]

#: Instrumentation scope of the spans evalspan itself writes.
SCOPE_NAME: Final = "evalspan"

OPERATION_NAME: Final = "gen_ai.operation.name"
INVOKE_AGENT: Final = "invoke_agent"
EXECUTE_TOOL: Final = "execute_tool"
CHAT: Final = "chat"
#: Values of OPERATION_NAME that stand for one call of a model and carry its own usage.
MODEL_OPERATIONS: Final = frozenset({CHAT, "text_completion", "generate_content", "embeddings"})

AGENT_NAME: Final = "gen_ai.agent.name"
AGENT_DESCRIPTION: Final = "gen_ai.agent.description"
AGENT_VERSION: Final = "gen_ai.agent.version"
CONVERSATION_ID: Final = "gen_ai.conversation.id"
USER_ID: Final = "user.id"

#: JSON text: list of {role, parts: [{type, content}]}.
INPUT_MESSAGES: Final = "gen_ai.input.messages"
OUTPUT_MESSAGES: Final = "gen_ai.output.messages"

TOOL_NAME: Final = "gen_ai.tool.name"
TOOL_DESCRIPTION: Final = "gen_ai.tool.description"
TOOL_TYPE: Final = "gen_ai.tool.type"
TOOL_CALL_ID: Final = "gen_ai.tool.call.id"
#: JSON text: an object of parameter name to value.
TOOL_ARGUMENTS: Final = "gen_ai.tool.call.arguments"
#: Text as returned, or JSON text of what was returned.
TOOL_RESULT: Final = "gen_ai.tool.call.result"

PROVIDER_NAME: Final = "gen_ai.provider.name"
SYSTEM: Final = "gen_ai.system"  # name of PROVIDER_NAME before 1.37
REQUEST_MODEL: Final = "gen_ai.request.model"
RESPONSE_MODEL: Final = "gen_ai.response.model"
#: Tokens, cache reads and writes included.
USAGE_INPUT: Final = "gen_ai.usage.input_tokens"
USAGE_OUTPUT: Final = "gen_ai.usage.output_tokens"
USAGE_CACHE_READ: Final = "gen_ai.usage.cache_read.input_tokens"
USAGE_CACHE_WRITE: Final = "gen_ai.usage.cache_write.input_tokens"
USAGE_CACHE_CREATION: Final = "gen_ai.usage.cache_creation.input_tokens"  # name of USAGE_CACHE_WRITE before 2026
USAGE_CACHE_WRITE_1H: Final = "anthropic.usage.cache_creation.ephemeral_1h_input_tokens"
#: US dollars of one model call, a double. No convention names it yet; several libraries write this one.
COST_USD: Final = "gen_ai.usage.cost"

ERROR_TYPE: Final = "error.type"
#: True when evalspan cut a content attribute at its byte limit.
CONTENT_TRUNCATED: Final = "evalspan.content.truncated"

SERVICE_NAME: Final = "service.name"
DEPLOYMENT_ENVIRONMENT: Final = "deployment.environment.name"
