"""RawSpan: one OTLP span taken out of its encoding, before anybody says what it means."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from evalspan_collector.layout import Layout

__all__ = ["Origin", "RawEvent", "RawLink", "RawSpan"]

#: An attribute map: plain Python values, nested maps and lists as dict and list.
Attributes = dict[str, Any]


@dataclass(frozen=True, slots=True)
class RawEvent:
    """A span event or a log record: a name, a time, attributes and (logs only) a body.

    Attributes:
        sequence: Order of arrival among events of the same time.
    """

    name: str
    time_ns: int
    attributes: Attributes
    body: Any = None
    sequence: int = 0


@dataclass(frozen=True, slots=True)
class RawLink:
    """A link to another span, ids in lower-case hex."""

    trace_id: str
    span_id: str
    attributes: Attributes


@dataclass(slots=True)
class RawSpan:
    """One span as it travelled; ids are lower-case hex, `parent_id` empty for a root.

    Attributes:
        dropped: Values that the sender left out, or that cannot be read.
        damaged: A text had to be repaired.
        layout: What its attributes have in common with those of other spans, where that is known.
    """

    trace_id: str
    span_id: str
    parent_id: str
    name: str
    otel_kind: int
    flags: int
    start_ns: int
    end_ns: int
    status_code: int
    status_message: str
    attributes: Attributes
    events: Sequence[RawEvent]
    links: Sequence[RawLink]
    dropped: int = 0
    damaged: bool = False
    layout: Layout | None = None


@dataclass(frozen=True, slots=True)
class Origin:
    """What the spans of one scope in one resource share.

    Attributes:
        fields: Span fields that all of them have (`service_name`, `scope_name`, `project`, ...), and the defaults of
            those that any of them may have.
        dialect: The dialect that the scope tells, None when it tells none.
    """

    fields: dict[str, Any]
    dialect: str | None = None
