"""Indexed attributes: `llm.input_messages.0.message.role` and its kin back to the lists they were."""

from collections.abc import Mapping
from typing import Any

from evalspan_collector.lenient_json import is_object

__all__ = ["unflatten"]

#: Path segments beyond this are left in one key.
MAX_SEGMENTS = 16


def unflatten(flat: Mapping[str, Any]) -> Any:
    """Undo the flattening of a list of objects into dotted keys.

    Numbers among the segments become list positions (gaps are closed), other segments keys. Where a key is
    both a value and a branch, the branch wins and keeps the value under the empty key.
    """
    root: dict[str, Any] = {}
    for key, value in flat.items():
        segments = key.split(".", MAX_SEGMENTS)
        node = root
        for segment in segments[:-1]:
            child = node.get(segment)
            if not is_object(child):
                child = {} if child is None else {"": child}
                node[segment] = child
            node = child
        last = segments[-1]
        if is_object(node.get(last)):
            node[last][""] = value
        else:
            node[last] = value
    return _listed(root)


def _listed(node: Any) -> Any:
    """Objects whose keys are all numbers become lists, by number."""
    if not is_object(node):
        return node
    if node and all(k.isdecimal() and k.isascii() for k in node):
        return [_listed(node[k]) for k in sorted(node, key=lambda k: (len(k.lstrip("0")), k.lstrip("0"), k))]
    return {k: _listed(v) for k, v in node.items()}
