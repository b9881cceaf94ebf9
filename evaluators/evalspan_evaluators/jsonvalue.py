"""JSON values: telling objects from lists, walking them, and paths into them."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeGuard

__all__ = ["is_list", "is_object", "leaves", "loaded", "member_path", "short"]

#: Deepest nesting that is walked; deeper parts are left out rather than raising RecursionError.
_DEEPEST = 60
#: Kinds of the values that JSON gives, objects apart.
_PLAIN = frozenset({str, int, float, bool, type(None), list})


def is_object(value: object) -> TypeGuard[Mapping[str, Any]]:
    """Whether the value is a JSON object."""
    # The plain kinds first: asking an abstract class costs ten times as much.
    return type(value) is dict or (type(value) not in _PLAIN and isinstance(value, Mapping))


def is_list(value: object) -> TypeGuard[Sequence[Any]]:
    """Whether the value is a JSON array."""
    return isinstance(value, (list, tuple))


def loaded(value: Any) -> Any:
    """The value; a text that holds a JSON object or array is parsed, every other text stays as it is."""
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value
    return value


def member_path(path: str, key: str) -> str:
    """The JSON path of a member: `$.total`, or `$['order id']` where the key is no identifier."""
    return f"{path}.{key}" if key.isidentifier() else f"{path}[{key!r}]"


def leaves(value: Any, path: str = "$", *, limit: int = 200_000) -> Iterator[tuple[str, Any]]:
    """Every scalar with its JSON path, in document order, at most `limit` of them."""
    stack: list[tuple[str, Any, int]] = [(path, value, 0)]
    while stack and limit > 0:
        where, node, depth = stack.pop()
        if is_object(node) or is_list(node):
            if depth >= _DEEPEST:
                continue
            pairs = (
                [(member_path(where, str(key)), item) for key, item in node.items()]
                if is_object(node)
                else [(f"{where}[{index}]", item) for index, item in enumerate(node)]
            )
            stack.extend((name, item, depth + 1) for name, item in reversed(pairs))
        else:
            limit -= 1
            yield where, node


def short(value: Any, longest: int = 120) -> str:
    """The value as one line of text for a reason or evidence."""
    try:
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    except (ValueError, RecursionError):
        text = str(type(value).__name__)
    return text if len(text) <= longest else text[:longest] + "…"
