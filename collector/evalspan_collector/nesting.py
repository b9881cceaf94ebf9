"""Nesting: JSON text that is nested deeper than any reader goes, made readable by cutting out what is too deep."""

import re

__all__ = ["MAX_CUT_CHARS", "shallow"]

#: Longer texts are not worth the time while a sender waits.
MAX_CUT_CHARS = 8_388_608
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*+"|[\[\]{}]', re.DOTALL)


def shallow(text: str, levels: int, mark: str) -> str:
    """The text with each list and object below so many levels replaced by a mark; as it is when brackets do not match.

    Args:
        text: JSON.
        levels: How deep a list or an object may lie.
        mark: JSON that stands for what was cut out.
    """
    pieces: list[str] = []
    depth = kept = start = 0
    for token in _TOKEN.finditer(text):
        bracket = token[0]
        if bracket in {"[", "{"}:
            depth += 1
            if depth == levels + 1:
                start = token.start()
        elif bracket in {"]", "}"}:
            if depth == levels + 1:
                pieces += (text[kept:start], mark)
                kept = token.end()
            depth -= 1
    return text if depth else "".join((*pieces, text[kept:]))
