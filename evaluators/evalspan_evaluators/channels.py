"""Channel: where a notification goes, a signed webhook or any service apprise knows."""

import base64
import hashlib
import hmac
import http.client
import ipaddress
import json
import math
import re
import socket
import ssl
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast
from urllib.parse import SplitResult, urlsplit

from evalspan.errors import ConfigError, EvalspanError, MissingExtraError
from evalspan_collector.run import iso_time

__all__ = [
    "AppriseChannel",
    "Channel",
    "DeliveryError",
    "Notification",
    "Resolver",
    "WebhookChannel",
    "WorstRun",
    "check_webhook_url",
    "deliver",
    "sign",
    "verify",
]

#: Most bytes of a webhook's answer that are read; none of them is shown or kept.
_MAX_ANSWER = 65_536
_SAFE_TEXT = 300
_LOOPBACK_NAMES = {"localhost", "ip6-localhost"}
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]+")
_NAT64 = ipaddress.ip_network("64:ff9b::/96")

#: Host and port to (family, address) pairs; `socket.getaddrinfo` in disguise, so that tests can rebind names.
Resolver = Callable[[str, int], list[tuple[socket.AddressFamily, str]]]


class DeliveryError(EvalspanError):
    """A channel could not be told; `retry` says whether trying again can help."""

    exit_code = 3

    def __init__(self, message: str, *, retry: bool = True) -> None:
        super().__init__(message)
        self.retry = retry


@dataclass(frozen=True, slots=True, kw_only=True)
class WorstRun:
    """One run that pulled the value the wrong way; texts are cut and freed of control characters."""

    run_id: str
    agent: str | None = None
    started_ns: int = 0
    status: str | None = None
    score: float | None = None
    reason: str = ""

    def to_json(self) -> dict[str, Any]:
        """An item of `worst_runs` in the payload."""
        return {
            "run_id": self.run_id,
            "agent": _clean(self.agent) if self.agent is not None else None,
            "started_at": iso_time(self.started_ns),
            "status": self.status,
            "score": _finite(self.score),
            "reason": _clean(self.reason),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Notification:
    """What a channel is told.

    Attributes:
        event_id: The same for every try of the same message: receivers drop what they have seen.
        state: `firing` or `resolved`.
        condition: The alert's condition in words.
        reason: The condition with value and sample.
    """

    event_id: str
    project: str
    alert: str
    state: str
    value: float | None
    threshold: float
    sample: int
    condition: str
    reason: str
    at_ns: int
    since_ns: int
    metric: str | None = None
    agent: str | None = None
    worst_runs: tuple[WorstRun, ...] = ()

    @property
    def title(self) -> str:
        """One line without control characters, fit for an e-mail header."""
        word = "FIRING" if self.state == "firing" else "RESOLVED"
        return _clean(f"[{word}] {self.alert} ({self.project})")

    @property
    def body(self) -> str:
        """Plain text for channels made for people."""
        lines = [_clean(self.reason)]
        lines += [f"- run {run.run_id}: {_clean(run.reason) or run.status or ''}" for run in self.worst_runs]
        if self.worst_runs:
            lines.append(f"evalspan runs show {self.worst_runs[0].run_id}")
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        """The webhook's payload, described in docs/rules-and-alerts.md."""
        return {
            "version": 1,
            "event_id": self.event_id,
            "project": self.project,
            "alert": self.alert,
            "state": self.state,
            "metric": self.metric,
            "agent": self.agent,
            "value": _finite(self.value),
            "threshold": _finite(self.threshold),
            "sample": self.sample,
            "condition": self.condition,
            "reason": _clean(self.reason),
            "at": iso_time(self.at_ns),
            "since": iso_time(self.since_ns),
            "worst_runs": [run.to_json() for run in self.worst_runs],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookChannel:
    """A POST of JSON to a URL, signed when there is a secret.

    Attributes:
        url: https, unless it is a loopback address or `allow_private` is set.
        secret: Key of the signature; never shown.
        headers: Further request headers.
        allow_private: The target may be plain http and lie in a private network.
        timeout_s: Seconds one try may take in all.
        attempts: Tries per delivery; the alert loop delivers again later.
        ca_file: PEM file of authorities to trust instead of the system's.
    """

    name: str
    url: str = field(repr=False)
    secret: str | None = field(default=None, repr=False)
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    allow_private: bool = False
    timeout_s: float = 5.0
    attempts: int = 3
    ca_file: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AppriseChannel:
    """Any service apprise has a URL for: mail, Slack, PagerDuty, Teams, ..."""

    name: str
    url: str = field(repr=False)
    attempts: int = 3


Channel = WebhookChannel | AppriseChannel


def check_webhook_url(url: str, *, allow_private: bool = False) -> SplitResult:
    """The parts of a webhook URL that may be used.

    The host's addresses are checked again at each delivery, where the connection goes to the checked address.

    Raises:
        ConfigError: It is no http(s) URL, carries a password, or is http to something that is not loopback.
    """
    try:
        parts = urlsplit(url)
        port_ok = parts.port is None or parts.port > 0
    except ValueError as error:
        raise ConfigError(f"webhook {_shown(url)} is no URL: {error}") from error
    if parts.scheme not in {"http", "https"} or not parts.hostname or not port_ok or _CONTROL.search(url) or " " in url:
        raise ConfigError(f"webhook {_shown(url)} is no URL: write https://host/path")
    if parts.username is not None or parts.password is not None:
        raise ConfigError(f"webhook {_shown(url)} carries a user name: put credentials under headers or secret_env")
    if parts.scheme == "http" and not allow_private and not _is_loopback_literal(parts.hostname):
        raise ConfigError(
            f"webhook {_shown(url)} is not https: use https, or set allow_private: true for a host of your own network"
        )
    return parts


def sign(secret: str, event_id: str, timestamp_s: int, body: bytes) -> str:
    """The `webhook-signature` of a message: HMAC-SHA256 as in the Standard Webhooks specification.

    Signed are the id, the time (seconds) and the body, joined by dots. A secret that starts with `whsec_` is
    base64, any other is taken as it is.
    """
    signed = f"{event_id}.{timestamp_s}.".encode() + body
    return "v1," + base64.b64encode(hmac.new(_key(secret), signed, hashlib.sha256).digest()).decode()


def verify(secret: str, headers: Mapping[str, str], body: bytes, *, now_s: float, tolerance_s: float = 300.0) -> bool:
    """True when a received webhook is ours and fresh; for receivers written in Python.

    Args:
        secret: The secret both sides know.
        headers: The request's headers, names in lower case.
        body: The request's body as received.
        now_s: The receiver's clock, seconds since the epoch.
        tolerance_s: How old or how far ahead a message may be, seconds.
    """
    try:
        timestamp = int(headers["webhook-timestamp"])
        expected = sign(secret, headers["webhook-id"], timestamp, body)
        given = headers["webhook-signature"].split(" ")
    except (KeyError, ValueError):
        return False
    fresh = abs(now_s - timestamp) <= tolerance_s
    return any([hmac.compare_digest(expected.encode(), one.encode()) for one in given]) and fresh  # noqa: C419  all are compared


def deliver(
    channel: Channel, notification: Notification, *, now_ns: int, resolver: Resolver | None = None, pause_s: float = 0.2
) -> None:
    """Tell one channel, with bounded retries.

    Args:
        channel: Where to.
        notification: What.
        now_ns: Goes into the signature's time stamp.
        resolver: Name look-up, for tests.
        pause_s: Pause before the first retry, seconds; doubles, at most 2 s.

    Raises:
        DeliveryError: It was not told; the message names channel and cause, never the URL or the answer's text.
        MissingExtraError: The channel needs apprise and it is not installed.
    """
    from tenacity import Retrying, retry_if_exception, stop_after_attempt, wait_exponential

    def once() -> None:
        if isinstance(channel, WebhookChannel):
            _post(channel, notification, now_ns, resolver or _resolve)
        else:
            _notify(channel, notification)

    retrying = Retrying(
        stop=stop_after_attempt(max(1, channel.attempts)),
        wait=wait_exponential(multiplier=pause_s, max=2.0),
        retry=retry_if_exception(lambda error: isinstance(error, DeliveryError) and error.retry),
        reraise=True,
    )
    retrying(once)


def _post(channel: WebhookChannel, notification: Notification, now_ns: int, resolver: Resolver) -> None:
    try:
        parts = check_webhook_url(channel.url, allow_private=channel.allow_private)
    except ConfigError as error:
        raise DeliveryError(f"channel {channel.name!r}: {error}", retry=False) from error
    body = json.dumps(notification.to_json(), ensure_ascii=True, allow_nan=False).encode()
    headers = {
        **dict(channel.headers),
        "content-type": "application/json",
        "user-agent": "evalspan",
        "webhook-id": notification.event_id,
        "webhook-timestamp": str(now_ns // 1_000_000_000),
    }
    if channel.secret is not None:
        headers["webhook-signature"] = sign(channel.secret, notification.event_id, now_ns // 1_000_000_000, body)
    address = _allowed_address(channel, parts, resolver)
    try:
        status = _request(channel, parts, address, headers=headers, body=body)
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise DeliveryError(f"channel {channel.name!r}: {type(error).__name__}: no answer from the webhook") from error
    if 200 <= status < 300:
        return
    if 300 <= status < 400:
        raise DeliveryError(f"channel {channel.name!r}: HTTP {status}: redirects are not followed", retry=False)
    raise DeliveryError(f"channel {channel.name!r}: HTTP {status}", retry=status >= 500 or status in {408, 425, 429})


def _allowed_address(channel: WebhookChannel, parts: SplitResult, resolver: Resolver) -> tuple[str, int]:
    """An address of the host that may be called; the connection goes there, whatever the name says later."""
    host = parts.hostname or ""
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        addresses = resolver(host, port)
    except OSError as error:
        raise DeliveryError(f"channel {channel.name!r}: cannot resolve the webhook's host") from error
    for _, address in addresses:
        if not (channel.allow_private or _is_loopback_literal(host) or _is_public(address)):
            raise DeliveryError(
                f"channel {channel.name!r}: the webhook's host is at {address}, inside a private network: "
                "set allow_private: true if that is meant",
                retry=False,
            )
    if not addresses:
        raise DeliveryError(f"channel {channel.name!r}: the webhook's host has no address")
    return addresses[0][1], port


def _request(
    channel: WebhookChannel, parts: SplitResult, address: tuple[str, int], *, headers: dict[str, str], body: bytes
) -> int:
    """Send once and give the status; the watchdog ends a server that answers drop by drop."""
    host = parts.hostname or ""
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    raw = socket.create_connection(address, timeout=channel.timeout_s)
    connection = http.client.HTTPConnection(host, address[1], timeout=channel.timeout_s)
    if parts.scheme == "https":
        context = ssl.create_default_context(cafile=channel.ca_file)
        connection = http.client.HTTPSConnection(host, address[1], timeout=channel.timeout_s, context=context)
        raw = context.wrap_socket(raw, server_hostname=host, do_handshake_on_connect=False)
    connection.sock = raw
    # A timeout counts per read; shutting the socket down is what bounds the whole exchange.
    watchdog = threading.Timer(channel.timeout_s, _shut, (raw,))
    watchdog.daemon = True
    watchdog.start()
    try:
        if isinstance(raw, ssl.SSLSocket):
            raw.do_handshake()
        connection.request("POST", path, body=body, headers=headers)
        response = connection.getresponse()
        response.read(_MAX_ANSWER)
        return response.status
    finally:
        watchdog.cancel()
        connection.close()
        raw.close()


def _shut(raw: socket.socket) -> None:
    try:
        # The plain socket's own method: that of a TLS socket would change it under the thread that reads.
        socket.socket.shutdown(raw, socket.SHUT_RDWR)
    except OSError:  # it has ended by itself
        pass


def _notify(channel: AppriseChannel, notification: Notification) -> None:
    try:
        import apprise
    except ImportError as error:
        raise MissingExtraError("apprise", "server") from error
    target = apprise.Apprise()
    add: Callable[[str], bool] = cast("Any", target).add
    notify: Callable[..., object] = cast("Any", target).notify
    if not add(channel.url):
        raise DeliveryError(f"channel {channel.name!r}: apprise does not know this kind of URL", retry=False)
    kind = apprise.NotifyType.FAILURE if notification.state == "firing" else apprise.NotifyType.SUCCESS
    told = notify(
        title=notification.title, body=notification.body, notify_type=kind, body_format=apprise.NotifyFormat.TEXT
    )
    if not told:
        raise DeliveryError(f"channel {channel.name!r}: apprise could not deliver")


def _resolve(host: str, port: int) -> list[tuple[socket.AddressFamily, str]]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [(family, str(address[0])) for family, _, _, _, address in found]


def _is_loopback_literal(host: str) -> bool:
    """Written as loopback in the configuration, so its author meant this machine."""
    if host.lower() in _LOOPBACK_NAMES:
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _is_public(text: str) -> bool:
    """False for every address that leads inside: private, loopback, link-local, or one wrapped in IPv6."""
    try:
        address = ipaddress.ip_address(text.split("%", maxsplit=1)[0])
    except ValueError:
        return False
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour or (address.teredo[1] if address.teredo else None)
        if inner is None and address in _NAT64:
            inner = ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
        if inner is not None:
            return _is_public(str(inner))
        if address.is_site_local:
            return False
    return address.is_global and not address.is_multicast


def _key(secret: str) -> bytes:
    if secret.startswith("whsec_"):
        return base64.b64decode(secret.removeprefix("whsec_"))
    return secret.encode()


def _clean(text: str) -> str:
    """Text from traces made safe for headers and terminals: no control characters, cut to a length."""
    flat = _CONTROL.sub(" ", text).encode("utf-8", "replace").decode()
    return flat if len(flat) <= _SAFE_TEXT else flat[: _SAFE_TEXT - 1] + "…"


def _finite(value: float | None) -> float | None:
    """JSON knows no NaN and no infinity."""
    return value if value is not None and math.isfinite(value) else None


def _shown(url: str) -> str:
    """The URL without what may be secret in it: user, path and query."""
    rest = url.split("://", 1)
    host = re.split(r"[/?#]", rest[-1], maxsplit=1)[0].rsplit("@", 1)[-1]
    return repr(f"{rest[0]}://{host}/..." if len(rest) == 2 else host)
