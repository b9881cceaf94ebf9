"""Reply: what an agent said about its own run, as a case."""

import json
import math
from collections.abc import Mapping
from typing import Any

from evalspan_collector.run import ToolCall
from evalspan_collector.span import Usage
from evalspan_evaluators.case import Case
from evalspan_evaluators.jsonvalue import is_list, is_object

__all__ = ["case_of_reply"]

_OUTPUTS = ("output", "final_output", "response", "answer", "result", "message", "text", "content")
_STEPS = ("steps", "tool_calls", "tools", "trace")
_COSTS = ("cost", "total_cost", "cost_usd")
_LATENCIES_MS = ("latency", "total_latency", "latency_ms", "duration_ms")
_TOKENS = ("tokens", "total_tokens", "usage", "token_usage")


def case_of_reply(text: str, took_s: float) -> Case:
    """The case of a reply: JSON with output, steps, cost and latency where it is some, else a plain answer.

    Args:
        text: What the agent printed or answered.
        took_s: Seconds it took, where the reply does not say.
    """
    data = _parsed(text)
    if not is_object(data):
        return Case(output=data if isinstance(data, str) else text.strip(), duration_s=took_s)
    metrics = data.get("metrics")
    told: list[Mapping[str, Any]] = [data, *([metrics] if is_object(metrics) else [])]
    latency = _number(told, _LATENCIES_MS)
    return Case(
        output=_output(data),
        tools=_tools(data),
        cost_usd=_number(told, _COSTS),
        duration_s=took_s if latency is None else latency / 1000,
        usage=_usage(told),
    )


def _parsed(text: str) -> Any:
    """The JSON of the reply, or of its last line: agents print other things before it."""
    for candidate in (text, text.strip().rpartition("\n")[2]):
        try:
            return json.loads(candidate)
        except (ValueError, RecursionError):
            continue
    return None


def _output(data: Mapping[str, Any]) -> str | None:
    for key in _OUTPUTS:
        value = data.get(key)
        if isinstance(value, str):
            return value
        if is_object(value) and (inner := _output(value)) is not None:
            return inner
        if is_object(value) or is_list(value):
            return json.dumps(value, ensure_ascii=False)
    return None


def _tools(data: Mapping[str, Any]) -> tuple[ToolCall, ...] | None:
    for key in _STEPS:
        steps = data.get(key)
        if is_list(steps):
            return tuple(call for step in steps if (call := _tool(step)) is not None)
    return None


def _tool(step: Any) -> ToolCall | None:
    if isinstance(step, str):
        return ToolCall(name=step)
    if not is_object(step):
        return None
    function = step.get("function")
    inner = function if is_object(function) else step
    name = next((inner[k] for k in ("tool", "tool_name", "name") if isinstance(inner.get(k), str)), None)
    if name is None:
        return None
    arguments = next((inner[k] for k in ("arguments", "parameters", "args", "input") if k in inner), None)
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except (ValueError, RecursionError):
            pass
    error = step.get("error")
    return ToolCall(
        name=name,
        arguments=arguments,
        result=next((step[k] for k in ("output", "result", "response") if k in step), None),
        failed=step.get("success") is False or bool(error),
        error=str(error) if error else None,
    )


def _number(told: list[Mapping[str, Any]], names: tuple[str, ...]) -> float | None:
    for source in told:
        for name in names:
            value = source.get(name)
            if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value >= 0:
                return float(value)
    return None


def _usage(told: list[Mapping[str, Any]]) -> Usage:
    for source in told:
        for name in _TOKENS:
            value = source.get(name)
            if is_object(value):
                found = {key: n for key in ("input_tokens", "output_tokens") if isinstance(n := value.get(key), int)}
                if found:
                    return Usage(**found)
    return Usage()
