"""Converters: one attribute value to one field's value, None where the attribute says nothing of it."""

import math
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from evalspan_collector.lenient_json import as_text, dump, is_list, is_object, parse, parse_object, unwrap
from evalspan_collector.message import Role
from evalspan_collector.messages import dumps, from_flat, from_value, system_text, unflatten
from evalspan_collector.python_repr import looks_like_repr, read_repr

__all__ = [
    "REDACTED",
    "Convert",
    "answered_events",
    "asked_events",
    "choose",
    "documents",
    "entity_arguments",
    "finish_list",
    "flat_messages",
    "integer",
    "json_text",
    "messages",
    "number",
    "path",
    "pruned",
    "raw_text",
    "redacted",
    "scaled",
    "strings",
    "system",
    "tail",
    "text",
    "tools",
]

Convert = Callable[[Any], Any]

#: Marks that stand where content was hidden.
REDACTED = frozenset({"__REDACTED__", "[REDACTED]", "<REDACTED>"})
#: Strings that say that there is nothing. The length is asked first: to hash a long text costs more than all else.
_NOTHING = frozenset({"", "null", "None", "undefined", "N/A", *REDACTED})


#: First letters of what may be no name: quotes, redaction marks, words for nothing.
_SUSPECT = frozenset('"_[<nuN')


def redacted(value: Any) -> bool:
    """True when the value is a redaction mark."""
    return isinstance(value, str) and ((len(value) < 13 and value in REDACTED) or value.startswith("[Scrubbed due to "))


def text(value: Any) -> str | None:
    """A name or an id: non-empty text, JSON quotes taken off."""
    if isinstance(value, str):
        if value[:1] not in _SUSPECT and value:
            return value
        if value[:1] == '"':
            value = unwrap(value)
        if (len(value) < 13 and value in _NOTHING) or value.startswith("[Scrubbed due to "):
            return None
        return str(value)
    return None if value is None or isinstance(value, list | dict) else as_text(value)


def raw_text(value: Any) -> str | None:
    """Content: text as it is, anything else as JSON text; absent when hidden or empty."""
    if isinstance(value, str):
        return None if (len(value) < 13 and value in _NOTHING) else value
    return None if value is None else as_text(value)


#: Beginnings that a Python repr or plain text does not have.
_SURELY_JSON = frozenset({'{"', "{}", '["', "[]"})


def json_text(value: Any) -> str | None:
    """Content that is JSON where it can be: JSON in JSON and Python reprs undone."""
    if isinstance(value, str):
        if value[:2] in _SURELY_JSON:
            return value
        if len(value) < 13 and value in _NOTHING:
            return None
        if value[0] not in '{["':
            return value
        if value[0] != '"' and not isinstance(parse(value), str):
            return value
        inner = unwrap(value, python=True)
        return inner if isinstance(inner, str) else dump(inner)
    return None if value is None else dump(value)


def integer(value: Any) -> int | None:
    """A count: whole numbers, also as text; nothing negative, nothing over 2**53."""
    if type(value) is int:
        return value if 0 <= value <= 2**53 else None
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        try:
            value = float(value) if value.strip() else None
        except ValueError:
            return None
    if isinstance(value, float):
        if not math.isfinite(value) or not value.is_integer():
            return None
        value = int(value)
    return value if isinstance(value, int) and 0 <= value <= 2**53 else None


def number(value: Any) -> float | None:
    """A finite number, also as text."""
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return None
    return float(value) if isinstance(value, int | float) and -1e300 < value < 1e300 else None


def scaled(factor: float) -> Convert:
    """A number times a factor (milliseconds to seconds)."""

    def convert(value: Any) -> float | None:
        found = number(value)
        return None if found is None else found * factor

    return convert


def strings(value: Any) -> tuple[str, ...] | None:
    """A list of texts: a list, JSON of one, or comma-separated text."""
    if isinstance(value, str):
        inner = unwrap(value, python=True)
        value = inner if is_list(inner) else [s.strip() for s in str(inner).split(",")]
    if not is_list(value):
        return None
    return tuple(s for s in (text(v) for v in value) if s) or None


def choose(words: Mapping[str, Any]) -> Convert:
    """The meaning of a word, whatever its case and quoting; None for a word the table does not hold."""

    def convert(value: Any) -> Any:
        if not isinstance(value, str):
            return None
        found = words.get(value) or words.get(value.lower())
        if found is None and value[:1] == '"':
            word = unwrap(value)
            found = words.get(word.lower()) if isinstance(word, str) else None
        return found

    return convert


@lru_cache(maxsize=16)
def _opened_text(value: str) -> Any:
    """A text read as JSON or repr; several fields ask the same attribute in a row."""
    found = unwrap(value, python=True)
    if isinstance(found, str) and looks_like_repr(found):
        return read_repr(found) or found
    return found


def _opened(value: Any) -> Any:
    return _opened_text(value) if isinstance(value, str) else value


def path(*keys: str, then: Convert = text) -> Convert:
    """A value inside JSON; `a|b` in a key tries a, then b."""
    alternatives = [k.split("|") for k in keys]

    def convert(value: Any) -> Any:
        node: Any = _opened(value)
        for names in alternatives:
            if is_list(node) and names[0].isdecimal():
                node = node[int(names[0])] if int(names[0]) < len(node) else None
            elif is_object(node):
                node = next((node[n] for n in names if node.get(n) is not None), None)
            else:
                return None
            if isinstance(node, str):
                node = _opened(node)
        return None if node is None else then(node)

    return convert


def tail(separator: str, then: Convert = text) -> Convert:
    """What follows the last separator (`openai/gpt-4o-mini` is model `gpt-4o-mini` of openai)."""

    def convert(value: Any) -> Any:
        found = text(value)
        return None if found is None else then(found.rpartition(separator)[2])

    return convert


def pruned(**wanted: str) -> Convert:
    """Chosen keys of a JSON object under our names, as JSON text."""

    def convert(value: Any) -> str | None:
        found = parse_object(value)
        if found is None:
            return None
        kept = {ours: found[theirs] for ours, theirs in wanted.items() if found.get(theirs) is not None}
        return dump(kept) if kept else None

    return convert


#: An output without any part is this short; a longer one has some.
_MAYBE_EMPTY_CHARS = 300


def _normal(value: str) -> bool:
    """True for JSON text that is in the normal form already and needs no second writing."""
    if not value.startswith(('[{"role": "', '[{"role":"', '[{"parts":')) or value.find('"parts"', 0, 200) < 0:
        return False
    if len(value) < _MAYBE_EMPTY_CHARS and ('"parts": []' in value or '"parts":[]' in value):
        return False
    return "REDACTED" not in value


def messages(role: Role) -> Convert:
    """Messages as JSON text in the normal form; text that is in it already passes as it is."""

    def convert(value: Any) -> str | None:
        if isinstance(value, str):
            if len(value) < 13 and value in _NOTHING:
                return None
            if _normal(value):
                return value
        found = from_value(value, role)
        return dumps(found) if any(m.parts for m in found) else None

    return convert


def flat_messages(role: Role) -> Convert:
    """Messages from indexed attributes, given as {rest of key: value}."""

    def convert(value: Any) -> str | None:
        found = from_flat(value, role)
        return dumps(found) if any(m.parts for m in found) else None

    return convert


def asked_events(value: Any) -> str | None:
    """The input in a JSON list of message events; the choices among them are the output."""
    return _of_events(value, "user", choices=False)


def answered_events(value: Any) -> str | None:
    """The output in a JSON list of message events."""
    return _of_events(value, "assistant", choices=True)


def _of_events(value: Any, role: Role, *, choices: bool) -> str | None:
    listed = unwrap(value, python=True)
    if not is_list(listed):
        return None
    wanted = [e for e in listed if is_object(e) and (e.get("event.name") == "gen_ai.choice") is choices]
    found = from_value(wanted, role)
    return dumps(found) if any(m.parts for m in found) else None


def system(value: Any) -> str | None:
    """System instructions as text."""
    if isinstance(value, str) and (len(value) < 13 and value in _NOTHING):
        return None
    found = system_text(value)
    return None if found is None or found in REDACTED else found


def finish_list(value: Any) -> tuple[str, ...] | None:
    """Finish reasons: a list, JSON of a list, or one word; enum prefixes taken off."""
    found = strings(value)
    return None if found is None else tuple(f.rpartition("FinishReason.")[2] for f in found)


def entity_arguments(value: Any) -> str | None:
    """Arguments wrapped as {args, kwargs} or {inputs, input_str, tool_name, arguments} to the arguments alone."""
    if isinstance(value, str) and value[:2] == '{"' and value[2 : value.find('"', 2)] not in _ENVELOPE_KEYS:
        return value  # every key of a wrapper is one of ours, so the first key tells
    found = unwrap(value, python=True)
    if isinstance(found, str):
        return found or None
    if not is_object(found):
        return None if found is None else dump(found)
    return dump(_inner_arguments(found))


_ENVELOPES = ("inputs", "input_str", "arguments", "tool_args", "tool_input", "kwargs", "input")
_ENVELOPE_SIGNS = frozenset(
    {"args", "kwargs", "sanitize_inputs_outputs", "input_str", "tags", "metadata", "tool_name", "inputs"}
)


def _inner_arguments(found: dict[str, Any]) -> Any:
    """The arguments inside a wrapper that a library put around them; the object itself when there is none."""
    if not found or not found.keys() & _ENVELOPE_SIGNS or not found.keys() <= _ENVELOPE_KEYS:
        return found
    for key in _ENVELOPES:
        inner = found.get(key)
        if key == "input_str" or isinstance(inner, str):
            inner = unwrap(inner, python=True)
        if is_object(inner) and inner:
            return _inner_arguments(inner)
    positional = unwrap(found.get("args"), python=True)
    if is_list(positional) and positional:
        return positional[0] if len(positional) == 1 and is_object(positional[0]) else positional
    if isinstance(found.get("inputs"), str) and found["inputs"]:
        return found["inputs"]
    if isinstance(found.get("input_str"), str) and found["input_str"]:
        return found["input_str"]
    return {}


_ENVELOPE_KEYS = frozenset(
    {
        *_ENVELOPES,
        *_ENVELOPE_SIGNS,
        "run_id",
        "name",
        "config",
        "color",
        "server_name",
        "session_id",
        "tool_call_id",
        "ctx",
    }
)


def tools(value: Any) -> str | None:
    """Tool definitions of any vendor as JSON list of {type, name, description, parameters}."""
    if is_object(value) and all("." in k or k.isdecimal() for k in value):
        value = unflatten(value)
    value = unwrap(value, python=True)
    if is_object(value):
        held = [value.get(k) for k in ("function_tools", "output_tools", "tools")]
        value = [v for listed in held if is_list(listed) for v in listed] or [value]
    if not is_list(value):
        return None
    found = [d for v in value for d in _definitions(v)]
    return dump(found) if found else None


_DECLARATIONS = ("function_declarations", "functionDeclarations")
_WRAPPED = ("tool", "json_schema", "function", "toolSpec")
_SCHEMAS = ("parameters", "input_schema", "inputSchema", "parameters_json_schema", "args_schema", "schema")


def _definitions(value: Any) -> list[dict[str, Any]]:
    """One entry of a tool list; Gemini nests function declarations, OpenInference a JSON schema text."""
    value = unwrap(value, python=True)
    if isinstance(value, str):
        return [{"type": "function", "name": value}]
    if not is_object(value):
        return []
    for key in _DECLARATIONS:
        inner = value.get(key)
        if is_list(inner):
            return [d for v in inner for d in _definitions(v)]
    for key in _WRAPPED:
        inner = unwrap(value.get(key))
        if is_object(inner):
            return _definitions(inner)
    name = value.get("name", value.get("type"))
    return [_definition(value, name)] if isinstance(name, str) else []


def _definition(value: dict[str, Any], name: str) -> dict[str, Any]:
    kind = value.get("type", "function")
    out: dict[str, Any] = {"type": "function" if kind == "object" else kind, "name": name}
    description = value.get("description")
    if isinstance(description, str) and description:
        out["description"] = description
    for key in _SCHEMAS:
        schema = unwrap(value.get(key), python=True)
        if is_object(schema):
            out["parameters"] = schema.get("jsonSchema", schema.get("json", schema)) if len(schema) == 1 else schema
            break
    return out


def documents(value: Any) -> str | None:
    """Retrieved documents of any library as JSON list of {id, content, score, metadata}."""
    if is_object(value) and any(k[:1].isdecimal() for k in value):
        value = unflatten(value)
    value = unwrap(value, python=True)
    if is_object(value):
        value = next(
            (
                value[k]
                for k in ("documents", "matches", "results", "nodes", "source_nodes", "passages")
                if is_list(value.get(k))
            ),
            None,
        )
    if not is_list(value):
        return None
    found = [d for d in (_document(v) for v in value) if d is not None]
    return dump(found) if found else None


def _document(value: Any) -> dict[str, Any] | None:
    value = unwrap(value, python=True)
    if isinstance(value, str):
        return {"content": value}
    if not is_object(value):
        return None
    inner = value.get(
        "document", value.get("node", value.get("kwargs") if value.get("type") == "constructor" else None)
    )
    body = {**value, **inner} if is_object(inner) else value
    metadata = unwrap(body.get("metadata", body.get("meta")))
    content = next(
        (
            body[k]
            for k in ("content", "page_content", "text", "long_text", "pageContent", "document", "body")
            if isinstance(body.get(k), str)
        ),
        None,
    )
    doc_id = next(
        (
            body[k]
            for k in ("id", "id_", "node_id", "doc_id", "document_id", "_id")
            if isinstance(body.get(k), str | int)
        ),
        None,
    )
    score = next(
        (
            s
            for s in (number(body.get(k)) for k in ("score", "relevance_score", "relevanceScore", "similarity"))
            if s is not None
        ),
        None,
    )
    if content is None and doc_id is None and score is None:
        return None
    out: dict[str, Any] = {"id": None if doc_id is None else str(doc_id), "content": content, "score": score}
    if metadata:
        out["metadata"] = metadata
    return out
