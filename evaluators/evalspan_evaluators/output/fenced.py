"""Fenced: the code in an answer, with or without markdown fences around it."""

import re
from dataclasses import dataclass

__all__ = ["Block", "blocks", "first_json"]

_FENCE = re.compile(r"^[ \t]*(`{3,}|~{3,})[ \t]*([\w+#.-]{0,30})[^\n]*$", re.MULTILINE)

_LONGEST = 1_000_000
_MOST_BLOCKS = 1_000


@dataclass(frozen=True, slots=True)
class Block:
    """One block of code; offsets into the answer; `language` in lower case, empty when not given."""

    language: str
    text: str
    start: int
    end: int


def blocks(text: str) -> list[Block]:
    """The fenced blocks, an unclosed last one included."""
    found: list[Block] = []
    opening: re.Match[str] | None = None
    for fence in _FENCE.finditer(text[:_LONGEST]):
        if len(found) >= _MOST_BLOCKS:
            return found
        if opening is None:
            opening = fence
        elif fence.group(1)[0] == opening.group(1)[0] and not fence.group(2):
            start = min(opening.end() + 1, fence.start())
            found.append(Block(opening.group(2).lower(), text[start : fence.start()], start, fence.start()))
            opening = None
    if opening is not None:
        start = min(opening.end() + 1, len(text))
        found.append(Block(opening.group(2).lower(), text[start:], start, len(text)))
    return found


def first_json(text: str) -> tuple[str, int]:
    """The text that should be JSON, and where it begins: a fenced block, else everything."""
    for block in blocks(text):
        if block.language in ("json", "jsonc", "json5", "") and block.text.strip():
            return block.text, block.start
    return text, 0
