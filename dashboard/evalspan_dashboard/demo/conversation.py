"""Conversation: the plain tool-use loop both sample agents run on the anthropic SDK."""

import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, cast

import anthropic
from anthropic.types import MessageParam, ToolParam, ToolResultBlockParam, ToolUseBlock

__all__ = ["MODEL", "converse"]

MODEL = "claude-sonnet-4-6"
_MAX_TURNS = 12


@cache
def _client() -> anthropic.Anthropic:
    return anthropic.Anthropic()  # its address and key come from ANTHROPIC_BASE_URL and ANTHROPIC_API_KEY


def converse(
    system: str,
    messages: Sequence[Mapping[str, Any]],
    tools: Sequence[ToolParam],
    functions: Mapping[str, Callable[..., object]],
) -> str:
    """Let the model call tools until it answers.

    Args:
        system: The agent's instructions.
        messages: The chat so far, the user's question last.
        tools: What the model may call.
        functions: What runs when it does, by tool name.

    Returns:
        The text of the answer.

    Raises:
        RuntimeError: The model asks for tools without end.
    """
    chat = [cast("MessageParam", dict(message)) for message in messages]
    for _ in range(_MAX_TURNS):
        reply = _client().messages.create(
            model=MODEL,
            max_tokens=1024,
            system=[{"type": "text", "text": system, "cache_control": {"type": "ephemeral"}}],
            messages=chat,
            tools=list(tools),
        )
        if reply.stop_reason != "tool_use":
            return "".join(block.text for block in reply.content if block.type == "text")
        chat.append({"role": "assistant", "content": reply.content})
        calls = [block for block in reply.content if block.type == "tool_use"]
        chat.append({"role": "user", "content": [_run(call, functions) for call in calls]})
    raise RuntimeError(f"no answer after {_MAX_TURNS} model calls: the model asks for tools without end")


def _run(call: ToolUseBlock, functions: Mapping[str, Callable[..., object]]) -> ToolResultBlockParam:
    """Run one tool; an error is told to the model, which may try again."""
    try:
        result = functions[call.name](**cast("dict[str, Any]", call.input))
    except Exception as error:  # noqa: BLE001 - whatever a tool raises, the model should hear about it
        return {"type": "tool_result", "tool_use_id": call.id, "content": str(error), "is_error": True}
    return {"type": "tool_result", "tool_use_id": call.id, "content": json.dumps(result)}
