"""TlsFiles: certificate, key and client authority on disk, read again when they are renewed."""

from dataclasses import dataclass
from pathlib import Path

from evalspan_collector.settings import Settings

__all__ = ["TlsFiles"]


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """PEM files of a listener.

    Attributes:
        client_ca: When given, clients must present a certificate it signed.
    """

    cert: Path
    key: Path
    client_ca: Path | None = None

    @classmethod
    def from_settings(cls, settings: Settings) -> "TlsFiles | None":
        """The files the settings name, or None without TLS."""
        if settings.tls_cert is None or settings.tls_key is None:
            return None
        return cls(settings.tls_cert, settings.tls_key, settings.tls_client_ca)

    def stamp(self) -> tuple[int, ...]:
        """Changes when a file does; a missing one counts as 0."""
        return tuple(_modified(path) for path in (self.cert, self.key, self.client_ca) if path is not None)


def _modified(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0
