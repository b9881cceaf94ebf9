"""Stamp: puts the session on the spans other libraries start inside of it."""

from opentelemetry.context import Context
from opentelemetry.sdk.trace import Span, SpanProcessor

from evalspan._guard import Guard
from evalspan._session import session_attributes

__all__ = ["SessionStamp"]


class SessionStamp(SpanProcessor):
    """Span processor that adds conversation and user to spans that do not say their own."""

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:  # noqa: ARG002 - the SDK's signature
        """Add what is missing."""
        with Guard("put the session on a span"):
            around = session_attributes()
            if around:
                said = span.attributes or {}
                for name, value in around.items():
                    if name not in said:
                        span.set_attribute(name, value)
