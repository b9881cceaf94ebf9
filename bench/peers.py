"""Peers: systems and libraries we measure against, each installed in its own environment under .peers/."""

import contextlib
import os
import shutil
import socket
import sqlite3
import subprocess
import sys
import time
import venv
from collections.abc import Callable, Collection, Generator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["EVALUATORS", "PEERS", "Library", "Peer", "Served", "install", "installed_peers"]

_ROOT = Path(__file__).resolve().parent.parent / ".peers"
_START_S = 180.0

#: Phoenix binds its gRPC port to every interface; this keeps it on loopback.
_PHOENIX = (
    "import sys, grpc.aio as g\n"
    "bind = g.Server.add_insecure_port\n"
    "g.Server.add_insecure_port = lambda self, a: bind(self, a.replace('[::]', '127.0.0.1'))\n"
    "sys.argv = ['phoenix', 'serve']\n"
    "from phoenix.server.main import main\n"
    "main()\n"
)


def free_port() -> int:
    """A port nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass(frozen=True, slots=True)
class Served:
    """A running peer: gRPC at `address`, or HTTP at `url` where that is set."""

    pid: int
    address: str
    database: Path
    url: str = ""
    headers: dict[str, str] = field(default_factory=dict[str, str])

    def count(self) -> int:
        """Spans a query finds."""
        if not self.database.exists():
            return 0
        with contextlib.closing(sqlite3.connect(f"file:{self.database}?mode=ro", uri=True, timeout=60)) as connection:
            try:
                return int(connection.execute("select count(*) from spans").fetchone()[0])
            except sqlite3.OperationalError:
                return 0  # tables are still being made

    def disk(self) -> int:
        """Bytes of its database, write-ahead log included."""
        return sum(path.stat().st_size for path in self.database.parent.glob(self.database.name + "*"))


@dataclass(frozen=True, slots=True)
class Library:
    """A package in an environment of its own."""

    name: str
    requirement: str

    @property
    def python(self) -> Path:
        """Interpreter of its environment."""
        return _ROOT / self.name / "bin" / "python"

    @property
    def installed(self) -> bool:
        """True when it was installed."""
        return (_ROOT / self.name / "installed").exists()

    def install(self) -> None:
        """Make the environment and install the package into it."""
        folder = _ROOT / self.name
        print(f"installing {self.requirement} into {folder} ...", flush=True)
        uv = shutil.which("uv")  # resolves in seconds what takes stock pip many minutes for some of them
        venv.create(folder, with_pip=uv is None)
        pip = [uv, "pip", "install", "--python", str(self.python)] if uv else [str(self.python), "-m", "pip", "install"]
        subprocess.run([*pip, "--quiet", self.requirement], check=True)
        (folder / "installed").touch()


@dataclass(frozen=True, slots=True)
class Peer(Library):
    """A system that is started and receives spans."""

    start: Callable[["Peer", Path, int, int], tuple[list[str], Mapping[str, str], Served]]

    @contextlib.contextmanager
    def running(self, folder: Path, *, start_s: float = _START_S) -> Generator[Served, None, None]:
        """Start it with its data in `folder`, stop it afterwards.

        Raises:
            RuntimeError: It ended, or did not answer within `start_s` seconds.
        """
        port, other = free_port(), free_port()
        command, env, served = self.start(self, folder, port, other)
        with (folder / "log").open("wb") as log:
            child = subprocess.Popen(
                command, stdout=log, stderr=log, cwd=folder, env={**os.environ, "HOME": str(folder), **env}
            )
        try:
            _wait_port(port, child, folder / "log", start_s)
            yield Served(child.pid, served.address, served.database, served.url, served.headers)
        finally:
            child.terminate()
            try:
                child.wait(15)
            except subprocess.TimeoutExpired:
                child.kill()


def _wait_port(port: int, child: "subprocess.Popen[bytes]", log: Path, start_s: float) -> None:
    deadline = time.monotonic() + start_s
    while time.monotonic() < deadline:
        if child.poll() is not None:
            raise RuntimeError(f"the peer ended with {child.returncode}: {log.read_text(errors='replace')[-600:]}")
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        time.sleep(0.2)
    raise RuntimeError(f"the peer did not answer within {start_s:.0f} s: {log.read_text(errors='replace')[-600:]}")


def _phoenix(peer: Peer, folder: Path, port: int, other: int) -> tuple[list[str], Mapping[str, str], Served]:
    env = {
        "PHOENIX_WORKING_DIR": str(folder),
        "PHOENIX_PORT": str(other),
        "PHOENIX_GRPC_PORT": str(port),
        "PHOENIX_HOST": "127.0.0.1",
        "PHOENIX_TELEMETRY_ENABLED": "false",
    }
    return [str(peer.python), "-c", _PHOENIX], env, Served(0, f"127.0.0.1:{port}", folder / "phoenix.db")


def _mlflow(peer: Peer, folder: Path, port: int, _other: int) -> tuple[list[str], Mapping[str, str], Served]:
    command = [
        str(peer.python.with_name("mlflow")), "server", "--backend-store-uri", f"sqlite:///{folder}/mlflow.db",
        "--default-artifact-root", f"{folder}/artifacts", "--host", "127.0.0.1", "--port", str(port), "--workers", "1",
    ]  # fmt: skip
    env = {
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "PATH": f"{peer.python.parent}{os.pathsep}{os.environ.get('PATH', '')}",
    }
    headers = {"x-mlflow-experiment-id": "0"}
    return command, env, Served(0, "", folder / "mlflow.db", f"http://127.0.0.1:{port}/v1/traces", headers)


#: Systems that receive spans.
PEERS = (Peer("phoenix", "arize-phoenix", _phoenix), Peer("mlflow", "mlflow", _mlflow))
#: Libraries that evaluate trajectories.
EVALUATORS = (
    Library("pydantic-evals", "pydantic-evals"),
    Library("agentevals", "agentevals"),
    Library("agentevals-cli", "agentevals-cli"),
    Library("deepeval", "deepeval"),
    Library("evalview", "evalview"),
)


def installed_peers() -> tuple[Peer, ...]:
    """Those systems that `install` has brought."""
    return tuple(peer for peer in PEERS if peer.installed)


def install(names: Collection[str] = ()) -> None:
    """Install the named ones, or all, each in an environment of its own; those that are there stay as they are.

    `evaluators` stands for the libraries that evaluate, `collectors` for the systems that receive spans.
    """
    everything: tuple[Library, ...] = (*PEERS, *EVALUATORS)
    groups = {"collectors": {p.name for p in PEERS}, "evaluators": {p.name for p in EVALUATORS}}
    wanted = {name for given in names for name in groups.get(given, {given})}
    unknown = wanted - {peer.name for peer in everything}
    if unknown:
        known = ", ".join((*groups, *(peer.name for peer in everything)))
        sys.exit(f"unknown peer {min(unknown)!r}: one of {known}")
    for peer in everything:
        if (not wanted or peer.name in wanted) and not peer.installed:
            peer.install()


if __name__ == "__main__":
    if sys.argv[1:2] != ["install"]:
        sys.exit("usage: python bench/peers.py install [collectors | evaluators | NAME ...]")
    install(sys.argv[2:])
