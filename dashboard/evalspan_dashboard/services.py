"""Services: the processes `evalspan up` supervises, their commands, ports and probes."""

import socket
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

from evalspan.errors import ConfigError
from evalspan_collector.settings import Settings, is_loopback
from evalspan_dashboard.supervisor import ServiceSpec

__all__ = ["check_ports", "dashboard_command", "dashboard_environment", "heartbeat_path", "service_specs"]

#: Seconds a probe waits for an answer.
PROBE_TIMEOUT_S = 2.0
#: Seconds after which a worker that wrote no heartbeat counts as hanging.
HEARTBEAT_S = 30.0


def heartbeat_path(settings: Settings) -> Path:
    """File whose age tells that the worker is alive."""
    return settings.data_dir.run / "worker.heartbeat"


def _ports(settings: Settings, *, without_dashboard: bool) -> list[tuple[str, int, str, str]]:
    ports = [
        (settings.host, settings.grpc_port, "--grpc-port", "EVALSPAN_GRPC_PORT"),
        (settings.host, settings.http_port, "--http-port", "EVALSPAN_HTTP_PORT"),
        (settings.host, settings.metrics_port, "--metrics-port", "EVALSPAN_METRICS_PORT"),
    ]
    if settings.store_url is None:
        ports.insert(0, ("127.0.0.1", settings.store_port, "--store-port", "EVALSPAN_STORE_PORT"))
    if not without_dashboard:
        ports.append((settings.host, settings.dashboard_port, "--dashboard-port", "EVALSPAN_DASHBOARD_PORT"))
    return ports


def check_ports(settings: Settings, *, without_dashboard: bool = False) -> None:
    """See that every port is free before anything starts.

    Raises:
        ConfigError: One is busy or named twice; the message names it, its flag and its variable.
    """
    seen: dict[int, str] = {}
    for host, port, flag, variable in _ports(settings, without_dashboard=without_dashboard):
        if port and port in seen:
            raise ConfigError(f"{flag} and {seen[port]} are both {port}: give each its own port")
        seen[port] = flag
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, port))
            except OSError as error:
                raise ConfigError(
                    f"port {port} on {host} is busy ({error.strerror}): choose another with {flag} or {variable}"
                ) from error


def _answers(url: str) -> Callable[[], bool]:
    def probe() -> bool:
        with urllib.request.urlopen(url, timeout=PROBE_TIMEOUT_S) as reply:  # noqa: S310  our own loopback address
            return bool(reply.status == 200)

    return probe


def _beats(path: Path, started: float) -> Callable[[], bool]:
    def probe() -> bool:
        beat = path.stat().st_mtime
        return beat >= started and time.time() - beat < HEARTBEAT_S

    return probe


def dashboard_command(settings: Settings) -> list[str]:
    """The Streamlit process: loopback by default, no usage statistics, no file watcher, no error details."""
    app = Path(__file__).with_name("app.py")
    options = {
        "server.address": settings.host,
        "server.port": str(settings.dashboard_port),
        "server.headless": "true",
        "server.fileWatcherType": "none",
        "browser.gatherUsageStats": "false",
        "client.showErrorDetails": "none",
        "client.toolbarMode": "minimal",
    }
    if not is_loopback(settings.host) and not settings.insecure:
        raise ConfigError(
            f"the dashboard has no login of its own and {settings.host!r} can be reached by others: "
            "put a proxy with authentication in front of a loopback address, or pass --insecure"
        )
    arguments = [part for name, value in options.items() for part in (f"--{name}", value)]
    return [sys.executable, "-m", "streamlit", "run", str(app), *arguments]


def dashboard_environment(settings: Settings) -> dict[str, str]:
    """What the dashboard process reads to find its store and its configuration."""
    environment = {
        "EVALSPAN_DATA": str(settings.data_dir.root),
        "EVALSPAN_STORE_PORT": str(settings.store_port),
        "STREAMLIT_BROWSER_GATHER_USAGE_STATS": "false",
    }
    if settings.store_url is not None:
        environment["EVALSPAN_STORE_URL"] = settings.store_url
    if settings.config is not None:
        environment["EVALSPAN_CONFIG"] = str(settings.config)
    return environment


def service_specs(settings: Settings, *, without_dashboard: bool = False) -> list[ServiceSpec]:
    """The processes of `evalspan up`, in order of start."""
    folder = settings.data_dir
    common = ["--data", str(folder.root)]
    if settings.config is not None:
        common += ["--config", str(settings.config)]
    environment = {"EVALSPAN_STORE_PORT": str(settings.store_port)}
    if settings.store_url is not None:
        environment["EVALSPAN_STORE_URL"] = settings.store_url
    host = "127.0.0.1" if settings.host in ("0.0.0.0", "::") else settings.host  # noqa: S104  compared, not bound

    def spec(name: str, arguments: list[str], probe: Callable[[], bool], *, reloads: bool = False) -> ServiceSpec:
        return ServiceSpec(
            reloads=reloads,
            name=name,
            command=(sys.executable, "-m", "evalspan_dashboard", name, *common, *arguments),
            probe=probe,
            log_path=folder.logs / f"{name}.log",
            environment=environment,
        )

    collector_flags = [
        "--host", settings.host, "--grpc-port", str(settings.grpc_port), "--http-port", str(settings.http_port),
        "--metrics-port", str(settings.metrics_port), *(["--insecure"] if settings.insecure else []),
    ]  # fmt: skip
    specs: list[ServiceSpec] = []
    if settings.store_url is None:
        ping = _answers(f"http://127.0.0.1:{settings.store_port}/ping")
        specs.append(spec("store", ["--port", str(settings.store_port)], ping))
    specs.append(spec("collector", collector_flags, _answers(f"http://{host}:{settings.http_port}/healthz")))
    specs.append(spec("worker", [], _beats(heartbeat_path(settings), time.time()), reloads=True))
    if not without_dashboard:
        flags = ["--host", settings.host, "--port", str(settings.dashboard_port)]
        flags += ["--insecure"] if settings.insecure else []
        specs.append(spec("dashboard", flags, _answers(f"http://{host}:{settings.dashboard_port}/_stcore/health")))
    return specs
