"""Session: the conversation and the user that runs belong to, carried from `session(...)` to every span below it."""

from contextvars import ContextVar, Token
from dataclasses import dataclass
from types import TracebackType
from typing import Self, TypeVar

from evalspan.attributes import CONVERSATION_ID, USER_ID

_T = TypeVar("_T")

__all__ = ["call_id", "session", "session_attributes", "tool_call"]


@dataclass(frozen=True, slots=True)
class _Session:
    id: str
    user_id: str | None

    def attributes(self) -> dict[str, str]:
        return {CONVERSATION_ID: self.id} if self.user_id is None else {CONVERSATION_ID: self.id, USER_ID: self.user_id}


_session: ContextVar[_Session | None] = ContextVar("evalspan_session", default=None)
_call_id: ContextVar[str | None] = ContextVar("evalspan_tool_call_id", default=None)


class session:  # noqa: N801 - read as a statement: `with evalspan.session("chat-1"):`
    """Everything that starts inside belongs to one conversation, also spans of other libraries.

    Works with `with` and `async with`. Runs with the same id are shown and scored together, in order.

    Args:
        id: The conversation's id, as your application knows it.
        user_id: Who talks, if that may be recorded.
    """

    __slots__ = ("_session", "_token")

    def __init__(self, id: str, *, user_id: str | None = None) -> None:  # noqa: A002 - the word users think of
        self._session = _Session(str(id), None if user_id is None else str(user_id))
        self._token: Token[_Session | None] | None = None

    def __enter__(self) -> Self:
        self._token = _session.set(self._session)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        _reset(_session, self._token)
        self._token = None

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        self.__exit__(kind, error, tb)


class tool_call:  # noqa: N801 - read as a statement, like `session`
    """Tools called inside carry the model's id of the call: `with evalspan.tool_call(block.id): ...`.

    Optional. Without it calls and results are matched by name, arguments and order; with it the match is
    certain, also for parallel calls of one tool with the same arguments.

    Args:
        id: The id of the model's tool-use block.
    """

    __slots__ = ("_id", "_token")

    def __init__(self, id: str) -> None:  # noqa: A002 - the word users think of
        self._id = str(id)
        self._token: Token[str | None] | None = None

    def __enter__(self) -> Self:
        self._token = _call_id.set(self._id)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        _reset(_call_id, self._token)
        self._token = None


def _reset(variable: ContextVar[_T], token: Token[_T] | None) -> None:
    if token is None:
        return
    try:
        variable.reset(token)
    except ValueError:
        # Left in another context than entered, as happens when a generator is closed by somebody else:
        # the value ends with that context anyway.
        return


def session_attributes() -> dict[str, str]:
    """Attributes of the session around this point; empty outside of one."""
    around = _session.get()
    return {} if around is None else around.attributes()


def call_id() -> str | None:
    """The tool call id set around this point, if any."""
    return _call_id.get()
