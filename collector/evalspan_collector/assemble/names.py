"""Names: what a tool or an agent is called by its author, without the wrappers of libraries."""

import re

__all__ = ["agent_name", "bare_name", "is_pseudo_tool", "same_tool", "tool_name"]

_TOOL_PREFIX = re.compile(
    r"^(?:execute_tool|running tool:?|tool:?|MCP (?:send|receive) tools/call|tools/call|"
    r"anthropic\.(?:custom_)?tool_use|anthropic\.custom_tool_use|Function:)\s+"
)
_TOOL_SUFFIX = re.compile(r"\.(?:tool|run|arun|_run|__call__|acall|call|invoke|ainvoke|execute)$")
_MCP_PREFIX = re.compile(r"^mcp__(?:[^_]|_(?!_))+__(?=.)")
_PSEUDO = re.compile(
    r"^(?:final_answer|final_result|finish|FinalAnswerTool|StructuredOutput|structured_output|"
    r"set_model_response|attempt_completion|transfer_to_\w+|transfer_back_to_\w+|handoff|handoff_to_\w+|"
    r"hand_off_to_\w+|delegate_handoff|handoff to .+|Handoff.*)$"
)
#: What libraries call the whole of a run, whichever agent it is.
_MACHINERY = frozenset({"AgentRunner.run", "Agent workflow", "Agent Workflow", "agent run", "invoke_agent"})
_SEPARATOR = re.compile(r"[-./:]|__")
_AGENT_PREFIX = re.compile(r"^(?:invoke_agent|agent_run|invoke_workflow|Agent run:|agent run)\s+")
_AGENT_SUFFIX = re.compile(r"(?:\.(?:agent|workflow|run|arun|_execute_core|kickoff|kickoff_async|forward)| run)$")


def tool_name(name: str, *, dialect: str = "") -> str:
    """The name its author gave a tool: `running tool: search` and `search.tool` are `search`.

    Args:
        name: The tool name or span name as it travelled.
        dialect: Convention of the span; Semantic Kernel writes `plugin-function`.
    """
    bare = _TOOL_SUFFIX.sub("", _TOOL_PREFIX.sub("", name.strip())) or name
    bare = _MCP_PREFIX.sub("", bare)
    if dialect == "sk" and "-" in bare:
        bare = bare.split("-", 1)[1] or bare
    return bare


def is_pseudo_tool(name: str) -> bool:
    """True for a framework's own device: an answer or a hand-off dressed as a tool."""
    return bool(_PSEUDO.match(name))


def same_tool(one: str, other: str) -> bool:
    """True when both names mean one tool, be it with a server's or a plugin's prefix."""
    if one == other:
        return True
    return bare_name(one) == bare_name(other) and one.endswith(other) | other.endswith(one)


def bare_name(name: str) -> str:
    """The last part of a name behind a server's or a plugin's prefix: `mcp__desk__search` is `search`."""
    return _SEPARATOR.split(name)[-1] or name


def agent_name(span_name: str) -> str | None:
    """The agent a span name speaks of, without the words of the library around it."""
    if span_name.startswith(("anthropic.", "ClaudeAgentSDK.")) or span_name.strip() in _MACHINERY:
        return None  # the library's own words
    bare = _AGENT_SUFFIX.sub("", _AGENT_PREFIX.sub("", span_name.strip())).strip("[]'\" ")
    if not bare or "{" in bare:
        return None
    return bare
