"""Transport: how one question reaches a model's API and comes back, before anybody judges the reply."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from evalspan.errors import JudgeError

__all__ = ["Prompt", "RawReply", "Transport", "TransportError", "may_be_billed", "was_sent"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """What is sent: trusted instructions (the same for every case), fenced data, the form of the reply."""

    model: str
    instructions: str
    message: str
    schema: Mapping[str, Any]
    max_tokens: int
    timeout_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RawReply:
    """What came back, unvalidated.

    Attributes:
        text: None when the model sent none.
        input_tokens: Cached ones included; None when the API did not say.
        stop_reason: The API's own word.
        finished: The model came to its own end.
        refused: The model refused.
    """

    text: str | None
    model: str
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    stop_reason: str | None = None
    finished: bool = True
    refused: bool = False


class TransportError(JudgeError):
    """No reply came.

    Attributes:
        passing: The same question may succeed a little later (overload, rate limit, connection).
        billed: The API may charge for it: the question was sent, and what came back got lost or made no sense.
        retry_after_s: When the API asks to try again, in seconds; None when it does not say.
    """

    def __init__(
        self, message: str, *, passing: bool, billed: bool = False, retry_after_s: float | None = None
    ) -> None:
        super().__init__(message)
        self.passing = passing
        self.billed = billed
        self.retry_after_s = retry_after_s


#: Errors of an HTTP client that came before a question was on its way, by name: the SDKs bring clients of their own.
_NOT_SENT = frozenset(
    ("ConnectError", "ConnectTimeout", "PoolTimeout", "ProxyError", "UnsupportedProtocol", "InvalidURL")
)
#: A gateway gave up waiting; what stands behind it may go on.
_GIVEN_UP = frozenset((504, 524))


def was_sent(error: BaseException | None) -> bool:
    """Whether a client's error leaves open that the question arrived: a lost answer, and not a failed connection."""
    return error is not None and _NOT_SENT.isdisjoint(kind.__name__ for kind in type(error).__mro__)


def may_be_billed(status: int) -> bool:
    """Whether an API may charge for a question that it answered with this status of 400 or more."""
    return status in _GIVEN_UP


class Transport(Protocol):
    """One model API."""

    #: Provider id of the price list.
    provider: str

    async def send(self, prompt: Prompt) -> RawReply:
        """Send once, without retries.

        Raises:
            TransportError: No reply came.
        """
        ...

    async def aclose(self) -> None:
        """Close the connections of the running event loop."""
        ...
