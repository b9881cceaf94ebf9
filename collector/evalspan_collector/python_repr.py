"""Python reprs: read `ChatMessage(role=<MessageRole.USER: 'user'>, ...)` as the data it shows, running nothing."""

import ast
import re
import warnings
from typing import Any

__all__ = ["CLASS", "looks_like_repr", "read_repr"]

#: Key under which a read object keeps the name of its class.
CLASS = "__class__"
#: A repr longer than this is kept as text: `ast` costs about a kilobyte per node.
MAX_CHARS = 262_144
_MAX_DEPTH = 80

_CALL = re.compile(r"^[A-Za-z_][\w.]*\(")
_PAIRS_START = re.compile(r"^[a-z_]\w*=(?:['\"\[{(]|None|True|False|\d)")
#: `name='value' name=value ...`, as pydantic prints a model.
_PAIR = re.compile(r"(\w+)=('(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|.*?)(?= \w+=|$)", re.DOTALL)
#: `<Role.USER: 'user'>` is its value, `<object at 0x...>` nothing.
_ENUM = re.compile(r"<[A-Za-z_][\w.]*: ('(?:[^'\\\n]|\\.)*'|\d+)>")
_OBJECT = re.compile(r"<[A-Za-z_][^<>'\"\n]{0,200}>")
#: Objects printed one after another without a separator (streamed deltas).
_ADJACENT = re.compile(r"\)(?=[A-Z]\w*\([a-z_]+=)")


def looks_like_repr(text: str) -> bool:
    """True for text that starts like the repr of an object."""
    return bool(_CALL.match(text) or _PAIRS_START.match(text))


def read_repr(text: str) -> Any:
    """The data of a repr: objects become dicts with their class name under `__class__`.

    Returns:
        The value; a list when several objects were printed one after another; None when the text is no repr
        (cut off, too long, or not one at all).
    """
    text = text.strip()
    if len(text) > MAX_CHARS or not looks_like_repr(text):
        return None
    if _CALL.match(text):
        plain = _OBJECT.sub("None", _ENUM.sub(r"\1", text))
        found = _parsed(plain)
        if found is None and _ADJACENT.search(plain):
            found = _parsed("[" + _ADJACENT.sub("),", plain) + "]")
        return found
    pairs: dict[str, Any] = {}
    for name, value in _PAIR.findall(text):
        parsed = _parsed(_OBJECT.sub("None", _ENUM.sub(r"\1", value)))
        pairs[name] = parsed if parsed is not None or value == "None" else value
    return pairs or None


def _parsed(source: str) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # invalid escapes in somebody's repr are no news
            tree = ast.parse(source, mode="eval")
        return _value(tree.body, 0)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return None


def _value(node: ast.expr, depth: int) -> Any:
    """The data of one expression; what is no data is its source name."""
    if depth > _MAX_DEPTH:
        raise ValueError("nested too deep")
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str | int | float | bool | None) else str(node.value)
    if isinstance(node, ast.List | ast.Tuple | ast.Set):
        return [_value(e, depth + 1) for e in node.elts]
    if isinstance(node, ast.Dict):
        pairs = zip(node.keys, node.values, strict=True)
        return {str(_value(k, depth + 1)): _value(v, depth + 1) for k, v in pairs if k is not None}
    if isinstance(node, ast.Call):
        return _object(node, depth)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = _value(node.operand, depth + 1)
        return -inner if isinstance(inner, int | float) else None
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return node.attr
    raise ValueError(f"{type(node).__name__} is no data")


def _object(node: ast.Call, depth: int) -> Any:
    func = node.func
    while isinstance(func, ast.Attribute):
        func = func.value
    if not isinstance(func, ast.Name):
        raise ValueError("a call of a call is no data")  # noqa: TRY004 - the caller's one error for "no data"
    name = node.func.attr if isinstance(node.func, ast.Attribute) else func.id
    if not node.keywords and len(node.args) == 1:
        return _value(node.args[0], depth + 1)  # set([...]), UUID('...'), Decimal('1.5')
    fields: dict[str, Any] = {CLASS: name}
    for keyword in node.keywords:
        if keyword.arg is not None:
            fields[keyword.arg] = _value(keyword.value, depth + 1)
    if node.args:
        fields["args"] = [_value(a, depth + 1) for a in node.args]
    return fields
