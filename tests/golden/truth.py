"""Truth: reconstructed runs compared with what really happened, fact by fact.

A fact counts only where it is present in the captured bytes, so every fact can be met.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from google.protobuf.message import Message
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from evalspan_collector.assemble.failure import as_list, as_object
from golden.captures import Capture

__all__ = ["Fact", "facts"]

#: Set-ups that record model calls and nothing around them: runs, input and output are not told.
_BARE = re.compile(
    r"-bare$|^openai-v2|^genai-openai__(default|event|span)$|^openai__(openinference|openllmetry|openlit)$|^litellm"
)
#: Scenarios in which tools run at once: their order is not a fact.
_AT_ONCE = ("parallel", "concurrent", "team", "graph", "handoff", "agent_as_tool", "managed_agent", "workflow")
_USAGE = re.compile(r"token|usage", re.IGNORECASE)
_PARTS = {
    "cache_read_tokens": re.compile(r"cache_read|cached_?(?:input)?_?[tT]okens|cached_content"),
    "reasoning_tokens": re.compile(
        r"reasoning(?:_tokens|_output|\.output)|completion_details\.reasoning|thoughts_token"
    ),
}


@dataclass(frozen=True)
class Fact:
    """One fact of a capture and whether the runs have it right."""

    field: str
    right: bool
    detail: str


class _Sent:
    """Every string and number that travelled in a capture."""

    def __init__(self, capture: Capture) -> None:
        self.texts: list[str] = []
        self.keys: set[str] = set()
        self.counts: set[int] = set()
        for signal, body in capture.requests:
            kind = ExportLogsServiceRequest if signal == "logs" else ExportTraceServiceRequest
            self._walk(kind.FromString(body), usage=False)
        self.texts = [_unescaped(t) for t in self.texts]
        self.text = "\n".join(self.texts)

    def _walk(self, message: Message, *, usage: bool) -> None:
        fields: Any = message
        if message.DESCRIPTOR.name == "KeyValue":
            self.keys.add(fields.key.rsplit(".", 1)[-1])
            usage = usage or bool(_USAGE.search(fields.key))
        elif message.DESCRIPTOR.name == "AnyValue" and usage and fields.WhichOneof("value") == "int_value":
            self.counts.add(fields.int_value)
        for _, value in message.ListFields():
            items: list[Any] = [value] if isinstance(value, str | bytes | int | float | Message) else list(value)
            for item in items:
                if isinstance(item, Message):
                    self._walk(item, usage=usage)
                elif isinstance(item, str):
                    self.texts.append(item)
                    if usage or _USAGE.search(item):
                        self.counts |= {int(x) for x in re.findall(r"(?<![\d.])\d{1,9}(?![\d.])", item)}

    def has(self, value: Any) -> bool:
        return all(str(leaf) in self.text for leaf in _leaves(value))

    def has_object(self, value: Any) -> bool:
        """Its keys and values travelled together, as JSON and not as prose."""
        fields = as_object(_parsed(value))
        if fields is None:
            return any(all(str(leaf) in t for leaf in _leaves(value)) for t in self.texts)
        words = [f'"{k}": {json.dumps(v)}' for k, v in fields.items()]
        tight = [w.replace('": ', '":', 1) for w in words]
        reprs = [f"'{k}': {v!r}" for k, v in fields.items()]
        together = any(all(w in t for w in form) for t in self.texts for form in (words, tight, reprs))
        return together or (all(k in self.keys for k in fields) and self.has(value))


def _unescaped(text: str) -> str:
    """The text with its JSON escapes undone up to three levels deep, each level kept."""
    levels = [text]
    for _ in range(3):
        if "\\" not in levels[-1]:
            break
        flat = levels[-1].replace('\\"', '"').replace("\\\\", "\\").replace("\\n", "\n")
        levels.append(re.sub(r"\\u([0-9a-fA-F]{4})", lambda m: chr(int(m[1], 16)), flat))
    return "\n".join(levels)


def _parsed(value: Any) -> Any:
    for _ in range(3):
        if not isinstance(value, str):
            break
        try:
            value = json.loads(value)
        except ValueError:
            break
    return value


def _leaves(value: Any) -> list[Any]:
    value = _parsed(value)
    fields, items = as_object(value), as_list(value)
    if fields is not None or items:
        return [x for v in (items or (fields or {}).values()) for x in _leaves(v)]
    return [] if isinstance(value, bool | list) or value is None or value == "" else [value]


def _equal(one: Any, other: Any) -> bool:
    one, other = _parsed(one), _parsed(other)
    a, b = as_object(one), as_object(other)
    if a is not None and b is not None:
        return a.keys() == b.keys() and all(_equal(a[k], b[k]) for k in a)
    if as_list(one) and as_list(other):
        return len(as_list(one)) == len(as_list(other)) and all(map(_equal, as_list(one), as_list(other)))
    if isinstance(one, int | float) and isinstance(other, int | float):
        return abs(one - other) <= 1e-9 * max(1, abs(one))
    return str(one).strip() == str(other).strip()


def _named(got: str, want: str) -> bool:
    return got == want or any(got.endswith(sep + want) for sep in ("-", ".", "__", "/", ":"))


def _asked(got: dict[str, Any], want: dict[str, Any]) -> bool:
    return _equal(got.get("arguments"), want["arguments"]) or _equal(got.get("arguments"), want["requested"])


def facts(capture: Capture, runs: list[dict[str, Any]]) -> Iterator[Fact]:
    """Every fact of a capture that its bytes hold.

    Args:
        capture: The capture with its truth.
        runs: The runs as `Run.to_json` gives them.
    """
    sent = _Sent(capture)
    wanted: list[dict[str, Any]] = capture.truth["runs"]
    bare = bool(_BARE.search(capture.truth["library"]))
    runs = sorted(runs, key=lambda r: r["started_at"])
    if not bare:
        yield Fact("runs", len(runs) == len(wanted), f"{len(runs)} for {len(wanted)}")
        yield from _run_facts(runs, wanted, sent)
    yield from _tool_facts(capture, runs, wanted, sent)
    yield from _usage_facts(runs, wanted, sent)
    models = {m for w in wanted for m in w["models"] if m}
    if models and sent.has(sorted(models)):
        got = {m for r in runs for m in r["models"]}
        yield Fact("models", models <= got, f"{sorted(got)} for {sorted(models)}")


def _run_facts(runs: list[dict[str, Any]], wanted: list[dict[str, Any]], sent: _Sent) -> Iterator[Fact]:
    none: dict[str, Any] = {}
    matched = runs if len(runs) == len(wanted) else [none] * len(wanted)
    for run, want in zip(matched, wanted, strict=True):
        for text in ("input", "output"):
            if want[text] and want[text][:60] in sent.text:
                got = run.get(text)
                same = got is not None and " ".join(got.split()) == " ".join(want[text].split())
                yield Fact(text, same, f"{str(got)[:120]!r} for {want[text][:120]!r}")
        if want["session_id"] and want["session_id"] in sent.text:
            yield Fact("session", run.get("session_id") == want["session_id"], f"{run.get('session_id')!r}")
        yield Fact("error", (run.get("status") == "error") == bool(want["error"]), f"{run.get('status')}")
    agents = {a for w in wanted for a in w["agents"]}
    if agents and sent.has(sorted(agents)):
        got = {a for r in runs for a in r["agents"]}
        yield Fact("agents", agents <= got, f"{sorted(got)} for {sorted(agents)}")


def _tool_facts(
    capture: Capture, runs: list[dict[str, Any]], wanted: list[dict[str, Any]], sent: _Sent
) -> Iterator[Fact]:
    delegates = [w["delegation_tool"] for w in wanted if w.get("delegation_tool")]
    got = sorted((t for r in runs for t in r["tools"]), key=lambda t: str(t["started_at"]))
    got = [t for t in got if not any(_named(t["name"], d) for d in delegates)]
    want = [t for w in wanted for t in w["tools"]]
    if want and sent.has([t["name"] for t in want]):
        names, right = [str(t["name"]) for t in got], [str(t["name"]) for t in want]
        if any(s in capture.truth["scenario"] for s in _AT_ONCE):
            names, right = sorted(names), sorted(right)
        same = len(names) == len(right) and all(map(_named, names, right))
        yield Fact("tool_names", same, f"{names} for {right}")
    for tool in want:
        alike = [g for g in got if _named(g["name"], tool["name"])]
        found = next((g for g in alike if _asked(g, tool)), alike[0] if alike else None)
        if found is not None:
            got.remove(found)
        yield from _one_tool(tool, found, sent)


def _one_tool(tool: dict[str, Any], found: dict[str, Any] | None, sent: _Sent) -> Iterator[Fact]:
    if tool["arguments"] and sent.has_object(tool["requested"]):
        right = found is not None and _asked(found, tool)
        yield Fact(
            "tool_arguments", right, f"{tool['name']}: {found and found['arguments']!r} for {tool['requested']!r}"
        )
    told = tool["result"] is not None and bool(_leaves(tool["result"])) and sent.has(tool["result"])
    if told and not tool["failed"]:
        text = json.dumps(found["result"], ensure_ascii=False) if found else ""
        held = all(str(x) in text.replace('\\"', '"') for x in _leaves(tool["result"]))
        short = len(text) < 2 * len(str(tool["result"])) + 400
        right = found is not None and (_equal(found["result"], tool["result"]) or (held and short))
        yield Fact("tool_results", right, f"{tool['name']}: {text[:160]!r} for {str(tool['result'])[:160]!r}")
    if found is not None:
        yield Fact("tool_failed", found["failed"] == tool["failed"], f"{tool['name']}: {found['failed']}")


def _usage_facts(runs: list[dict[str, Any]], wanted: list[dict[str, Any]], sent: _Sent) -> Iterator[Fact]:
    calls = [c for w in wanted for c in w["calls"]]
    if not calls or not all({c["input"], c["output"]} <= sent.counts for c in calls if c["input"]):
        return
    for key in ("input_tokens", "output_tokens", "cache_read_tokens", "reasoning_tokens"):
        want = sum(w["usage"].get(key) or 0 for w in wanted)
        got = sum(r["usage"].get(key) or 0 for r in runs)
        told = _PARTS[key].search(sent.text) is not None and want > 0 if key in _PARTS else True
        if told:
            yield Fact(key, got == want, f"{got} for {want}")
    ok = sum(w["model_calls_ok"] for w in wanted)
    made = sum(1 for r in runs for c in r["model_calls"] if not c["failed"])
    yield Fact("model_calls", made == ok, f"{made} for {ok}")
