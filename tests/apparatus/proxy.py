"""FaultProxy: a TCP hop on loopback that can be slow, cut, stuck or gone."""

import contextlib
import socket
import struct
import threading
import time
from dataclasses import dataclass

__all__ = ["FaultProxy", "Faults"]


@dataclass(slots=True)
class Faults:
    """What goes wrong now; change the fields while the proxy runs.

    Attributes:
        latency_s: Added to every piece in the direction of the target.
        refuse: New connections are reset, open ones too.
        stuck: Bytes are taken and go nowhere.
        bytes_per_s: Throttle in the direction of the target; 0 is none.
        reset_after: Reset a connection once this many bytes went to the target; 0 is never.
    """

    latency_s: float = 0.0
    refuse: bool = False
    stuck: bool = False
    bytes_per_s: float = 0.0
    reset_after: int = 0


class FaultProxy:
    """Listens on a free port of 127.0.0.1 and passes connections to a target port."""

    def __init__(self, target_port: int) -> None:
        self.target_port = target_port
        self.faults = Faults()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=512)
        self.port: int = self._listener.getsockname()[1]
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._closed = False
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while not self._closed:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            if self.faults.refuse:
                _reset(near)
                continue
            try:
                far = socket.create_connection(("127.0.0.1", self.target_port), timeout=5)
            except OSError:
                _reset(near)
                continue
            far.settimeout(None)
            with self._lock:
                self._open |= {near, far}
            threading.Thread(target=self._pump, args=(near, far, True), daemon=True).start()
            threading.Thread(target=self._pump, args=(far, near, False), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket, towards_target: bool) -> None:
        passed = 0
        try:
            while data := source.recv(65536):
                self._suffer(len(data), towards_target)
                passed += len(data)
                limit = self.faults.reset_after
                if self.faults.refuse or (towards_target and limit and passed > limit):
                    _reset(source)
                    _reset(sink)
                    break
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            with contextlib.suppress(OSError):
                sink.shutdown(socket.SHUT_RDWR)

    def _suffer(self, size: int, towards_target: bool) -> None:
        while self.faults.stuck and not self._closed:
            time.sleep(0.02)
        if towards_target:
            if self.faults.latency_s:
                time.sleep(self.faults.latency_s)
            if self.faults.bytes_per_s:
                time.sleep(size / self.faults.bytes_per_s)

    def cut(self) -> None:
        """Reset every open connection."""
        with self._lock:
            connections, self._open = self._open, set()
        for connection in connections:
            # Closing alone would not wake the thread that reads from it, and nobody would learn of the end.
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            _reset(connection)

    def close(self) -> None:
        """Stop listening and cut what is open."""
        self._closed = True
        self._listener.close()
        self.cut()


def _reset(connection: socket.socket) -> None:
    """Close with RST rather than FIN."""
    with contextlib.suppress(OSError):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()
