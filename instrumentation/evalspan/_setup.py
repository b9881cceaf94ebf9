"""Setup: one call, or one import, turns tracing on; what is there already is added to, never replaced."""

import atexit
import logging
import os
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast, runtime_checkable

from opentelemetry import trace

from evalspan import _writer
from evalspan import attributes as names
from evalspan._guard import Guard
from evalspan.errors import ConfigError, MissingExtraError

if TYPE_CHECKING:
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import SpanProcessor
    from opentelemetry.sdk.trace.export import SpanExporter

    from evalspan._export import BoundedProcessor, SplittingExporter

__all__ = ["DEFAULT_ENDPOINT", "Options", "flush", "init"]

_log = logging.getLogger("evalspan")

DEFAULT_ENDPOINT = "http://127.0.0.1:4317"
_DEFAULT_HTTP_ENDPOINT = "http://127.0.0.1:4318"
_FALSE = {"0", "false", "no", "off"}
_ANTHROPIC_CONTENT = "ANTHROPIC_OPEN_TELEMETRY_TRACES_CONTENT_MODE"
_GENAI_CONTENT = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What `init` was told; None leaves a value to the environment and then to the default."""

    service_name: str | None = None
    endpoint: str | None = None
    api_key: str | None = None
    headers: Mapping[str, str] | None = None
    environment: str | None = None
    protocol: str | None = None
    capture_content: bool | None = None


@runtime_checkable
class _SdkProvider(Protocol):
    def add_span_processor(self, span_processor: "SpanProcessor") -> None: ...


class _State:
    """What is set up in this process."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.options: Options | None = None
        self.processors: list[BoundedProcessor] = []


_state = _State()


def init(
    service_name: str | None = None,
    endpoint: str | None = None,
    *,
    api_key: str | None = None,
    headers: Mapping[str, str] | None = None,
    environment: str | None = None,
    protocol: str | None = None,
    capture_content: bool | None = None,
) -> None:
    """Turn tracing on for this process. `import evalspan.auto` does the same with the defaults.

    Call it before you make model clients. An OpenTelemetry provider that exists already gets one more span
    processor and is otherwise left alone; a second call changes nothing. The standard `OTEL_*` variables hold
    where an argument is not given. Nothing here raises into the agent: what goes wrong is logged once.

    Args:
        service_name: Name of this service; else `OTEL_SERVICE_NAME`, else the script's name.
        endpoint: Address of the collector; else `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT`,
            `OTEL_EXPORTER_OTLP_ENDPOINT`, else `http://127.0.0.1:4317`. Without a scheme it is plain `http`.
        api_key: Sent as `authorization: Bearer ...`; else `EVALSPAN_API_KEY`.
        headers: More headers of every export; else `OTEL_EXPORTER_OTLP_HEADERS`.
        environment: `deployment.environment.name` of this process, such as `production`.
        protocol: `grpc` or `http/protobuf`; else `OTEL_EXPORTER_OTLP_TRACES_PROTOCOL`,
            `OTEL_EXPORTER_OTLP_PROTOCOL`, else `grpc`.
        capture_content: Whether messages, arguments and results go on spans; else `EVALSPAN_CAPTURE_CONTENT`,
            else `OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT`, else yes. Without content a run can be
            timed and priced, but most metrics have nothing to judge.
    """
    with Guard("set up tracing"):
        options = Options(
            service_name=service_name,
            endpoint=endpoint,
            api_key=api_key,
            headers=headers,
            environment=environment,
            protocol=protocol,
            capture_content=capture_content,
        )
        with _state.lock:
            if _state.options is None:
                _set_up(options)
                _state.options = options
            elif options not in (Options(), _state.options):
                _log.warning("evalspan is set up already; this second init() changes nothing. Keep only the first.")


def flush(timeout_seconds: float = 5.0) -> bool:
    """Send the finished spans now, for processes that end without notice; never raises.

    Args:
        timeout_seconds: How long to wait.

    Returns:
        True when everything was handed over in time.
    """
    with Guard("flush spans"):
        in_time = [processor.force_flush(int(timeout_seconds * 1000)) for processor in _state.processors]
        return all(in_time)
    return False


def _set_up(options: Options) -> None:
    if os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return
    _choose_content(options)
    exporters = _exporters(options)
    if not exporters:
        return
    from evalspan._export import BoundedProcessor
    from evalspan._stamp import SessionStamp

    provider = _provider(options)
    if provider is None:
        return
    provider.add_span_processor(SessionStamp())
    for exporter in exporters:
        processor = BoundedProcessor(exporter)
        provider.add_span_processor(processor)
        _state.processors.append(processor)
    _shut_down_at_exit()


def _choose_content(options: Options) -> None:
    captured = options.capture_content
    for variable in ("EVALSPAN_CAPTURE_CONTENT", _GENAI_CONTENT):
        said = os.environ.get(variable, "").strip().lower()
        if captured is None and said:
            captured = said not in {*_FALSE, "no_content"}
    captured = captured is not False
    _writer.exchange(replace(_writer.current(), capture_content=captured))
    if captured:  # read by the anthropic SDK when a client is made; what the user set stays
        os.environ.setdefault(_ANTHROPIC_CONTENT, "content")


def _provider(options: Options) -> _SdkProvider | None:
    """The SDK provider in use, made and set when there is none."""
    existing = trace.get_tracer_provider()
    if isinstance(existing, _SdkProvider):
        if options.service_name or options.environment:
            _log.warning(
                "evalspan joined the tracer provider that exists already: it keeps its own resource, so "
                "service_name and environment are ignored. Set OTEL_SERVICE_NAME, or init() before other set-ups."
            )
        return existing
    if not isinstance(existing, trace.ProxyTracerProvider):
        raise ConfigError(
            f"the tracer provider in use, {type(existing).__qualname__!r}, takes no span processors: "
            "set an OpenTelemetry SDK TracerProvider, or none"
        )
    from opentelemetry.sdk.trace import TracerProvider

    provider = TracerProvider(resource=_resource(options))
    trace.set_tracer_provider(provider)
    return provider


def _resource(options: Options) -> "Resource":
    from opentelemetry.sdk.resources import Resource

    found = Resource.create()
    added: dict[str, str] = {}
    if options.service_name:
        added[names.SERVICE_NAME] = options.service_name
    elif str(found.attributes.get(names.SERVICE_NAME, "")).startswith("unknown_service"):
        script = Path(sys.argv[0]).stem if sys.argv and sys.argv[0] else ""
        if script and script not in {"-c", "-m", "__main__"}:
            added[names.SERVICE_NAME] = script
    if options.environment:
        added[names.DEPLOYMENT_ENVIRONMENT] = options.environment
    return found.merge(Resource(added))


def _exporters(options: Options) -> "list[SplittingExporter]":
    from evalspan._cost import Pricer
    from evalspan._export import SplittingExporter

    pricer = Pricer()
    found: list[SplittingExporter] = []
    for name in os.environ.get("OTEL_TRACES_EXPORTER", "otlp").split(","):
        wanted = name.strip().lower()
        if wanted in {"none", ""}:
            continue
        make, where = _otlp(options) if wanted == "otlp" else (_plugin(wanted), wanted)
        found.append(SplittingExporter(make, where=where, pricer=pricer))
    return found


def _otlp(options: Options) -> "tuple[Callable[[], SpanExporter], str]":
    protocol = options.protocol or _first("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL") or "grpc"
    named = _first("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
    headers = _headers(options)
    endpoint = _with_scheme(options.endpoint) if options.endpoint else None
    if protocol == "grpc":
        # A gRPC endpoint given by variable is left to the exporter, with its variables about TLS.
        return _grpc(endpoint or (None if named else DEFAULT_ENDPOINT), headers), endpoint or named or DEFAULT_ENDPOINT
    if protocol == "http/protobuf":
        if endpoint is not None and not endpoint.rstrip("/").endswith("/v1/traces"):
            endpoint = endpoint.rstrip("/") + "/v1/traces"
        where = endpoint or named or _DEFAULT_HTTP_ENDPOINT
        return _http(endpoint or (None if named else _DEFAULT_HTTP_ENDPOINT + "/v1/traces"), headers), where
    raise ConfigError(f"unknown OTLP protocol {protocol!r}: use 'grpc' or 'http/protobuf'")


def _grpc(endpoint: str | None, headers: dict[str, str] | None) -> "Callable[[], SpanExporter]":
    from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter

    return lambda: OTLPSpanExporter(endpoint=endpoint, headers=headers)


def _http(endpoint: str | None, headers: dict[str, str] | None) -> "Callable[[], SpanExporter]":
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    except ImportError as error:
        raise MissingExtraError("opentelemetry-exporter-otlp-proto-http", "server") from error
    return lambda: OTLPSpanExporter(endpoint=endpoint, headers=headers)


def _plugin(name: str) -> "Callable[[], SpanExporter]":
    for entry in entry_points(group="opentelemetry_traces_exporter", name=name):
        return cast("Callable[[], SpanExporter]", entry.load())
    raise ConfigError(f"OTEL_TRACES_EXPORTER names {name!r}, which is not installed: use 'otlp', 'console' or 'none'")


def _headers(options: Options) -> dict[str, str] | None:
    """Headers of every export; None leaves them to the exporter and its variables."""
    key = options.api_key or os.environ.get("EVALSPAN_API_KEY")
    if options.headers is None and not key:
        return None
    found = {name.lower(): value for name, value in (options.headers or {}).items()}
    if options.headers is None:
        from opentelemetry.util.re import parse_env_headers

        said = _first("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS")
        found = dict(parse_env_headers(said, liberal=True)) if said else {}
    if key:
        found.setdefault("authorization", f"Bearer {key}")
    return found


def _first(*variables: str) -> str | None:
    return next((value for name in variables if (value := os.environ.get(name, "").strip())), None)


def _with_scheme(endpoint: str) -> str:
    return endpoint if "://" in endpoint else f"http://{endpoint}"


def _shut_down_at_exit() -> None:
    """Also when the provider in use was told not to: finished spans should not be lost with the process."""
    for processor in _state.processors:
        atexit.register(processor.shutdown)
