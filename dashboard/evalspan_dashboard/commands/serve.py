"""Services: start everything, or one process of it."""

import fcntl
import os
import signal
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Annotated, Any

import typer

from evalspan.errors import ConfigError
from evalspan_collector.settings import Settings, is_loopback
from evalspan_dashboard.commands.options import Config, Data, StoreUrl, read_settings, store_token
from evalspan_dashboard.output import clean, console, errors
from evalspan_dashboard.supervisor import ServiceEvent, Supervisor, watch_parent

__all__ = ["collector", "dashboard", "register", "start_all", "store", "up", "worker"]

Host = Annotated[str | None, typer.Option("--host", help="Address to listen on.", show_default="127.0.0.1")]
GrpcPort = Annotated[
    int | None, typer.Option("--grpc-port", help="OTLP/gRPC port (EVALSPAN_GRPC_PORT).", show_default="4317")
]
HttpPort = Annotated[
    int | None, typer.Option("--http-port", help="OTLP/HTTP port (EVALSPAN_HTTP_PORT).", show_default="4318")
]
StorePort = Annotated[
    int | None,
    typer.Option("--store-port", help="Port of the embedded store (EVALSPAN_STORE_PORT).", show_default="8123"),
]
DashboardPort = Annotated[
    int | None, typer.Option("--dashboard-port", help="Dashboard port (EVALSPAN_DASHBOARD_PORT).", show_default="8501")
]
MetricsPort = Annotated[
    int | None, typer.Option("--metrics-port", help="Self-metrics port (EVALSPAN_METRICS_PORT).", show_default="9464")
]
Insecure = Annotated[
    bool | None,
    typer.Option("--insecure", help="Allow an address that others can reach without TLS and keys.", show_default="no"),
]


@contextmanager
def _owned(settings: Settings) -> Generator[None]:
    """Hold the data folder for one `up`.

    Raises:
        ConfigError: Another `up` owns it; the message says which process.
    """
    path = settings.data_dir.create().run / "up.lock"
    with path.open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.seek(0)
            owner = file.read().strip() or "another process"
            raise ConfigError(
                f"the data folder {str(settings.data_dir.root)!r} is in use by `evalspan up`, {owner}: "
                "stop that one, or choose another folder with --data"
            ) from None
        file.truncate(0)
        file.write(f"pid {os.getpid()}, started {time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())}")
        file.flush()
        yield


def _last_line(log: Path) -> str:
    """What a process said last, empty where it said nothing."""
    try:
        lines = log.read_text(errors="replace").split("\n")
    except OSError:
        return ""
    return next((clean(line, limit=300) for line in reversed(lines) if line.strip()), "")


def _tell(event: ServiceEvent) -> None:
    if event.state in ("unresponsive", "backing_off"):
        errors.print(f"{event.name}: {event.state.replace('_', ' ')}, {clean(event.detail)}")
    elif event.state == "failed":
        errors.print(f"{event.name}: {clean(event.detail, lines=True)}")


@contextmanager
def start_all(settings: Settings, *, without_dashboard: bool = False) -> Generator[Supervisor]:
    """Run the embedded store, collector, worker and dashboard as supervised processes while the block lasts.

    Raises:
        ConfigError: A port is busy, strangers could reach it, the folder is owned by another `up`, or a process never
            came up.
    """
    from evalspan_dashboard.services import check_ports, service_specs

    if not (is_loopback(settings.host) or settings.insecure or settings.uses_tls):
        raise ConfigError(
            f"--host {settings.host!r} can be reached from other machines: listen on 127.0.0.1, pass --insecure,"
            " or start the collector alone with TLS and keys (docs/deploy.md)"
        )
    with _owned(settings):
        check_ports(settings, without_dashboard=without_dashboard)
        supervisor = Supervisor(service_specs(settings, without_dashboard=without_dashboard), on_event=_tell)

        def stop(_number: int, _frame: FrameType | None) -> None:
            supervisor.request_stop()

        def reload(_number: int, _frame: FrameType | None) -> None:
            supervisor.request_reload()

        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, stop)
        # A terminal that is closed sends SIGHUP too: there it means the end.
        signal.signal(signal.SIGHUP, stop if sys.stdin.isatty() else reload)
        try:
            if not errors.is_terminal:  # where no spinner turns
                errors.print("starting ...")
            with errors.status("starting ..."):
                started = supervisor.start()
            if not started:
                down = [name for name, state in supervisor.states.items() if state not in ("ready", "stopped")]
                if "failed" in supervisor.states.values():
                    raise ConfigError("one part cannot be started: see above, mend it and start again")
                if down:
                    last = _last_line(settings.data_dir.logs / f"{down[0]}.log")
                    raise ConfigError(
                        f"{', '.join(down)} did not start{': ' + last if last else ''};"
                        f" see the logs in {str(settings.data_dir.logs)!r}"
                    )
            yield supervisor
        finally:
            supervisor.stop()


def _addresses(settings: Settings) -> None:
    host = settings.host
    rows = (
        ("OTLP/gRPC", f"{host}:{settings.grpc_port}"),
        ("OTLP/HTTP", f"http://{host}:{settings.http_port}/v1/traces"),
        (
            "store",
            settings.store_url
            or f"{settings.embedded_store_url} (ClickHouse HTTP, token in {settings.data_dir.store_token})",
        ),
        ("self-metrics", f"http://{host}:{settings.metrics_port}/metrics"),
        ("dashboard", f"http://{host}:{settings.dashboard_port}"),
        ("data folder", str(settings.data_dir.root)),
    )
    for name, address in rows:
        console.print(f"  {name:<13} {address}")


def up(
    data: Data = None,
    config: Config = None,
    host: Host = None,
    grpc_port: GrpcPort = None,
    http_port: HttpPort = None,
    store_port: StorePort = None,
    dashboard_port: DashboardPort = None,
    metrics_port: MetricsPort = None,
    store_url: StoreUrl = None,
    insecure: Insecure = None,
    without_dashboard: Annotated[bool, typer.Option("--without-dashboard", help="No screens.")] = False,
) -> None:
    """Start the embedded store, collector, worker and dashboard, and keep them alive until Ctrl-C.

    Example: evalspan up --data ./evalspan-data --grpc-port 14317
    """
    settings = read_settings(
        config=config, data=data, host=host, grpc_port=grpc_port, http_port=http_port, store_port=store_port,
        dashboard_port=dashboard_port, metrics_port=metrics_port, store_url=store_url, insecure=insecure, complete=True,
    )  # fmt: skip
    with start_all(settings, without_dashboard=without_dashboard) as supervisor:
        console.print("evalspan is up:")
        _addresses(settings)
        console.print("Send spans with OTEL_EXPORTER_OTLP_ENDPOINT or `import evalspan.auto`. Stop with Ctrl-C.")
        sys.stdout.flush()
        supervisor.run()
        console.print("stopping ...")
    console.print("stopped.")


def store(
    data: Data = None,
    config: Config = None,
    store_port: Annotated[
        int | None, typer.Option("--port", "--store-port", help="Port to serve on.", show_default="8123")
    ] = None,
) -> None:
    """Start only the embedded store: ClickHouse's HTTP interface on loopback.

    Example: evalspan store --data ./evalspan-data --port 18123
    """
    from evalspan_collector.store.front import serve

    watch_parent()
    settings = read_settings(config=config, data=data, store_port=store_port, metrics=False)
    folder = settings.data_dir.create()
    serve(
        folder.store,
        host="127.0.0.1",
        port=settings.store_port,
        token_file=folder.store_token,
        pid_file=folder.run / "store.pid",
    )


def collector(
    data: Data = None,
    config: Config = None,
    host: Host = None,
    grpc_port: GrpcPort = None,
    http_port: HttpPort = None,
    metrics_port: MetricsPort = None,
    store_port: StorePort = None,
    store_url: StoreUrl = None,
    insecure: Insecure = None,
    tls_cert: Annotated[Path | None, typer.Option("--tls-cert", help="Certificate chain (PEM).")] = None,
    tls_key: Annotated[Path | None, typer.Option("--tls-key", help="Its private key (PEM).")] = None,
    tls_client_ca: Annotated[
        Path | None, typer.Option("--tls-client-ca", help="Demand client certificates of this CA (PEM).")
    ] = None,
    shard: Annotated[
        str | None, typer.Option("--shard", help="Which traces to assemble, i/n.", show_default="0/1")
    ] = None,
) -> None:
    """Start only the collector: OTLP in, runs out.

    Example: evalspan collector --store-url http://user:pass@clickhouse:8123/evalspan --shard 0/3
    """
    from evalspan_collector.collector import run_collector

    watch_parent()
    settings = read_settings(
        config=config, data=data, host=host, grpc_port=grpc_port, http_port=http_port, metrics_port=metrics_port,
        store_port=store_port, store_url=store_url, insecure=insecure, tls_cert=tls_cert, tls_key=tls_key,
        tls_client_ca=tls_client_ca, shard=shard, metrics=False,
    )  # fmt: skip
    settings.data_dir.create()
    run_collector(
        settings, store_url=settings.store_url or settings.embedded_store_url, store_token=store_token(settings)
    )


def worker(
    data: Data = None,
    config: Config = None,
    store_port: StorePort = None,
    store_url: StoreUrl = None,
    once: Annotated[bool, typer.Option("--once", help="Score what is closed now, then end.")] = False,
) -> None:
    """Start only the worker: scores closed runs by the rules of evalspan.yaml and watches the alerts.

    Example: evalspan worker --config evalspan.yaml --once
    """
    from evalspan_evaluators.service import run_worker

    watch_parent()
    settings = read_settings(config=config, data=data, store_port=store_port, store_url=store_url)
    settings.data_dir.create()
    run_worker(
        settings,
        store_url=settings.store_url or settings.embedded_store_url,
        store_token=store_token(settings),
        once=once,
    )


def dashboard(
    data: Data = None,
    config: Config = None,
    host: Host = None,
    dashboard_port: Annotated[
        int | None, typer.Option("--port", "--dashboard-port", help="Port to serve on.", show_default="8501")
    ] = None,
    store_port: StorePort = None,
    store_url: StoreUrl = None,
    insecure: Insecure = None,
) -> None:
    """Start only the dashboard.

    Example: evalspan dashboard --port 18501
    """
    from evalspan_dashboard.services import dashboard_command, dashboard_environment

    settings = read_settings(
        config=config, data=data, host=host, dashboard_port=dashboard_port, store_port=store_port,
        store_url=store_url, insecure=insecure, metrics=False,
    )  # fmt: skip
    command = dashboard_command(settings)
    environment = {**os.environ, **dashboard_environment(settings)}
    os.execve(command[0], command, environment)  # noqa: S606  our own command line, no shell


def register(app: typer.Typer) -> None:
    """Add these commands."""
    commands: dict[str, Any] = {
        "up": up,
        "store": store,
        "collector": collector,
        "worker": worker,
        "dashboard": dashboard,
    }
    for name, command in commands.items():
        app.command(name)(command)
