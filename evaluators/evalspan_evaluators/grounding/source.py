"""Source: a text or a JSON value that counts as true, and where it came from."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from evalspan_collector.run import ToolCall
from evalspan_evaluators.case import Case
from evalspan_evaluators.grounding.text import fold

__all__ = ["Source", "SourceKind", "Texts", "has_evidence", "sources_of"]

SourceKind = Literal["tool_result", "tool_arguments", "user", "system_prompt", "document", "context", "earlier_turn"]


@dataclass(frozen=True, slots=True)
class Source:
    """One thing an answer may rest on.

    Attributes:
        content: Parsed JSON, or text (which may itself be JSON, a table or prose).
        tool: Name of the tool of a result or of arguments.
        span_id: Span of that call.
        failed: The tool said it failed.
        call: Position of the tool call in the run, below -1 in earlier turns, -1 for anything else.
    """

    kind: SourceKind
    content: Any
    tool: str | None = None
    span_id: str | None = None
    failed: bool = False
    call: int = -1


#: Letters of all sources that are searched.
_MAX_LETTERS = 1_000_000
_ENCODER = json.JSONEncoder(ensure_ascii=False, default=str)


class Texts:
    """Sources with the text of each, made once."""

    def __init__(self, sources: Iterable[Source]) -> None:
        self.sources = tuple(sources)
        self._texts: dict[int, str] = {}
        #: Letters of each text that are searched for ids and names.
        self.room = _MAX_LETTERS // max(1, len(self.sources))
        #: Some text is longer than that.
        self.cut = any(isinstance(s.content, str) and len(s.content) > self.room for s in self.sources) and (
            sum(len(s.content) for s in self.sources if isinstance(s.content, str)) > _MAX_LETTERS
        )

    def of(self, source: Source) -> str:
        """The text of a source; JSON for a parsed value."""
        content = source.content
        if isinstance(content, str):
            return content
        text = self._texts.get(id(source))
        if text is None:
            text = self._texts[id(source)] = _ENCODER.encode(content)
        return text

    @cached_property
    def blob(self) -> str:
        """All sources as lower-case text, for ids, quotes and names."""
        texts = (self.of(source) for source in self.sources)
        return "\n".join(fold(text[: self.room] if self.cut else text) for text in texts).lower()


def _of_tools(tools: Iterable[ToolCall], first: int = 0) -> Iterator[Source]:
    for position, call in enumerate(tools, first):
        if call.arguments not in (None, "", {}):
            yield Source("tool_arguments", call.arguments, call.name, call.span_id, call.failed, position)
        if call.result is not None:
            yield Source("tool_result", call.result, call.name, call.span_id, call.failed, position)
        elif call.error:
            yield Source("tool_result", call.error, call.name, call.span_id, True, position)


def _of_conversation(case: Case) -> Iterator[Source]:
    """User turns, and tool results that only messages show."""
    seen_spans = bool(case.tools)
    for message in case.conversation:
        if message.role == "user" and message.text:
            yield Source("user", message.text)
        if not seen_spans:
            for part in message.tool_responses:
                if part.response is not None:
                    yield Source("tool_result", part.response, part.name, failed=bool(part.is_error))


def sources_of(case: Case) -> tuple[Source, ...]:
    """Everything the answer of this case may rest on, oldest first."""
    found: list[Source] = []
    earlier = -1 - sum(len(turn.tools) for turn in case.turns)
    if case.system_prompt:
        found.append(Source("system_prompt", case.system_prompt))
    for turn in case.turns:
        if turn.input:
            found.append(Source("user", turn.input))
        if turn.output:
            found.append(Source("earlier_turn", turn.output))
        found.extend(_of_tools(turn.tools, earlier))
        earlier += len(turn.tools)
    if case.input:
        found.append(Source("user", case.input))
    found.extend(s for s in _of_conversation(case) if s.content != case.input)
    found.extend(_of_tools(case.tools or ()))
    found.extend(Source("document", d.content) for d in case.documents if d.content)
    found.extend(Source("context", text) for text in case.context if text)
    return tuple(found)


def has_evidence(sources: Iterable[Source]) -> bool:
    """Whether anything but the prompt and the user's own words is there."""
    return any(
        s.kind in ("tool_result", "document", "context", "earlier_turn") and s.content not in (None, "")
        for s in sources
    )
