"""evalspan in your agent: one import turns tracing on, two decorators name agents and tools.

    import evalspan.auto  # or evalspan.init(service_name=..., endpoint=...)
    import evalspan

    @evalspan.tool
    def search(query: str) -> list[str]: ...

    @evalspan.agent
    def assistant(question: str) -> str: ...

    with evalspan.session("chat-1", user_id="u-7"):
        assistant("Where is my order?")

Only OpenTelemetry is imported. Nothing here raises into the agent.
"""

from evalspan._session import session, tool_call
from evalspan._setup import flush, init
from evalspan._spans import agent, tool
from evalspan._writer import VERSION

__version__ = VERSION

__all__ = ["__version__", "agent", "flush", "init", "session", "tool", "tool_call"]
