"""OpenAI-compatible judge: verdicts of any model behind a `/chat/completions` address."""

import asyncio
import os
import weakref
from typing import TYPE_CHECKING, Any

from evalspan.errors import ConfigError, MissingExtraError
from evalspan_evaluators.judges.model_judge import ModelJudge
from evalspan_evaluators.judges.transport import Prompt, RawReply, TransportError, may_be_billed, was_sent

if TYPE_CHECKING:
    import httpx2

__all__ = ["OpenAIJudge", "OpenAITransport"]

_PASSING_STATUS = frozenset({408, 409, 429})
_DEFAULT_URL = "https://api.openai.com/v1"


class OpenAITransport:
    """Chat completions with a JSON schema as response format; also local servers that speak it.

    Args:
        base_url: Address up to `/v1`; None takes OPENAI_BASE_URL, else OpenAI's own.
        api_key: None takes OPENAI_API_KEY; local servers need none.
        provider: Provider id of the price list.
    """

    def __init__(self, *, base_url: str | None = None, api_key: str | None = None, provider: str = "openai") -> None:
        self.provider = provider
        self._url = (base_url or os.environ.get("OPENAI_BASE_URL") or _DEFAULT_URL).rstrip("/")
        self._key = api_key or os.environ.get("OPENAI_API_KEY")
        if self._key is None and self._url == _DEFAULT_URL:
            raise ConfigError("no key for the judge: set OPENAI_API_KEY, or base_url of a local server")
        self._clients: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, httpx2.AsyncClient] = (
            weakref.WeakKeyDictionary()
        )

    def _client(self) -> "httpx2.AsyncClient":
        loop = asyncio.get_running_loop()
        client = self._clients.get(loop)
        if client is None:
            try:
                import httpx2
            except ImportError as error:
                raise MissingExtraError("httpx2", "server") from error
            headers = {"authorization": f"Bearer {self._key}"} if self._key else {}
            client = httpx2.AsyncClient(headers=headers)
            self._clients[loop] = client
        return client

    async def aclose(self) -> None:
        """Close the running loop's client."""
        client = self._clients.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.aclose()

    async def send(self, prompt: Prompt) -> RawReply:
        """Send once.

        Raises:
            TransportError: No reply came, or its body is no completion.
        """
        client = self._client()
        import httpx2

        body = {
            "model": prompt.model,
            "max_tokens": prompt.max_tokens,
            "messages": [
                {"role": "system", "content": prompt.instructions},
                {"role": "user", "content": prompt.message},
            ],
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "verdict", "strict": True, "schema": dict(prompt.schema)},
            },
        }
        try:
            response = await client.post(f"{self._url}/chat/completions", json=body, timeout=prompt.timeout_s)
        except httpx2.HTTPError as error:
            sent = was_sent(error)
            problem = "no answer from" if sent else "no connection to"
            message = f"{problem} {self._url}: {str(error) or type(error).__name__}"
            raise TransportError(message, passing=True, billed=sent) from error
        status = response.status_code
        if status >= 400:
            passing = status in _PASSING_STATUS or status >= 500
            after = response.headers.get("retry-after", "")
            wait = float(after) if after.replace(".", "", 1).isdigit() else None
            raise TransportError(
                f"the API answered {status}: {response.text[:200]}",
                passing=passing,
                billed=may_be_billed(status),
                retry_after_s=wait,
            )
        try:
            return _raw(response.json(), prompt.model)
        except (ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
            raise TransportError(f"the API's body is no completion: {error!r}", passing=False, billed=True) from error


def _raw(body: Any, asked: str) -> RawReply:
    choice: Any = body["choices"][0]
    message: Any = choice["message"]
    usage: Any = body.get("usage") or {}
    stop: Any = choice.get("finish_reason")
    details: Any = usage.get("prompt_tokens_details") or {}
    return RawReply(
        text=message.get("content"),
        model=body.get("model") or asked,
        input_tokens=usage.get("prompt_tokens"),
        output_tokens=usage.get("completion_tokens"),
        cache_read_tokens=details.get("cached_tokens") or 0,
        stop_reason=stop,
        finished=stop in ("stop", None),
        refused=bool(message.get("refusal")) or stop == "content_filter",
    )


class OpenAIJudge(ModelJudge):
    """A judge on an OpenAI-compatible address.

    Args:
        model: Default model.
        base_url: Address up to `/v1`.
        api_key: None takes OPENAI_API_KEY.
        provider: Provider id of the price list.
        **others: As of `ModelJudge`: limits, ledger, budget, pricer, clock and ids.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        provider: str = "openai",
        **others: Any,
    ) -> None:
        super().__init__(OpenAITransport(base_url=base_url, api_key=api_key, provider=provider), model=model, **others)
