"""Anthropic judge: verdicts of a Claude model through the anthropic SDK."""

import asyncio
import json
import weakref
from typing import TYPE_CHECKING, Any

from evalspan.errors import MissingExtraError
from evalspan_evaluators.judges.model_judge import ModelJudge
from evalspan_evaluators.judges.transport import Prompt, RawReply, TransportError, may_be_billed, was_sent

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic
    from anthropic.types import Message

__all__ = ["DEFAULT_MODEL", "AnthropicJudge", "AnthropicTransport"]

#: A small model: rubrics with explicit steps need no large one.
DEFAULT_MODEL = "claude-haiku-4-5"

_PASSING_STATUS = frozenset({408, 409, 429})


class AnthropicTransport:
    """The Messages API, one client per event loop, never traced: judging must not be judged.

    Args:
        api_key: None takes ANTHROPIC_API_KEY.
        base_url: None takes the API's own address.
    """

    provider = "anthropic"

    def __init__(self, *, api_key: str | None = None, base_url: str | None = None) -> None:
        self._api_key = api_key
        self._base_url = base_url
        self._clients: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, AsyncAnthropic] = (
            weakref.WeakKeyDictionary()
        )

    def _client(self) -> "AsyncAnthropic":
        loop = asyncio.get_running_loop()
        client = self._clients.get(loop)
        if client is None:
            try:
                from anthropic import AsyncAnthropic
            except ImportError as error:
                raise MissingExtraError("anthropic", "server") from error
            # Retries are ours: the SDK's honour any retry-after without a cap and hide the attempts from the ledger.
            client = AsyncAnthropic(api_key=self._api_key, base_url=self._base_url, max_retries=0, open_telemetry=False)
            self._clients[loop] = client
        return client

    async def aclose(self) -> None:
        """Close the running loop's client."""
        client = self._clients.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.close()

    async def send(self, prompt: Prompt) -> RawReply:
        """Send once.

        Raises:
            TransportError: No reply came, or its body is no message.
        """
        client = self._client()
        import anthropic

        try:
            message = await client.messages.create(
                model=prompt.model,
                max_tokens=prompt.max_tokens,
                system=[{"type": "text", "text": prompt.instructions, "cache_control": {"type": "ephemeral"}}],
                messages=[{"role": "user", "content": prompt.message}],
                output_config={"format": {"type": "json_schema", "schema": dict(prompt.schema)}},
                timeout=prompt.timeout_s,
            )
        except anthropic.APIStatusError as error:
            status = error.status_code
            passing = status in _PASSING_STATUS or status >= 500
            raise TransportError(
                f"the API answered {status}: {error.message}",
                passing=passing,
                billed=may_be_billed(status),
                retry_after_s=_retry_after(error),
            ) from error
        except anthropic.APIConnectionError as error:
            sent = was_sent(error.__cause__)
            problem = "no answer from" if sent else "no connection to"
            raise TransportError(f"{problem} the API: {error}", passing=True, billed=sent) from error
        except (anthropic.AnthropicError, json.JSONDecodeError, ValueError, TypeError) as error:
            # A cut-off or foreign body reaches us as JSONDecodeError or worse; its usage is lost.
            raise TransportError(f"the API's body is no message: {error}", passing=False, billed=True) from error
        return _raw(message, prompt.model)


def _retry_after(error: Any) -> float | None:
    try:
        return max(0.0, float(error.response.headers.get("retry-after", "")))
    except ValueError:
        return None


def _raw(message: "Message", asked: str) -> RawReply:
    """The reply; the SDK does not validate bodies, so every field may be missing."""
    usage = getattr(message, "usage", None)
    read = _count(usage, "cache_read_input_tokens") or 0
    write = _count(usage, "cache_creation_input_tokens") or 0
    fresh = _count(usage, "input_tokens")
    stop = getattr(message, "stop_reason", None)
    texts = [b.text for b in getattr(message, "content", None) or () if getattr(b, "type", None) == "text"]
    return RawReply(
        text="".join(texts) if texts else None,
        model=getattr(message, "model", None) or asked,
        input_tokens=None if fresh is None else fresh + read + write,
        output_tokens=_count(usage, "output_tokens"),
        cache_read_tokens=read,
        cache_write_tokens=write,
        stop_reason=stop,
        finished=stop in ("end_turn", "stop_sequence"),
        refused=stop == "refusal",
    )


def _count(usage: object, name: str) -> int | None:
    value = getattr(usage, name, None)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


class AnthropicJudge(ModelJudge):
    """A judge on the anthropic SDK.

    Args:
        model: Default model.
        api_key: None takes ANTHROPIC_API_KEY.
        base_url: None takes the API's own address.
        **others: As of `ModelJudge`: limits, ledger, budget, pricer, clock and ids.
    """

    def __init__(
        self, model: str = DEFAULT_MODEL, *, api_key: str | None = None, base_url: str | None = None, **others: Any
    ) -> None:
        super().__init__(AnthropicTransport(api_key=api_key, base_url=base_url), model=model, **others)
