"""Settings: where processes listen, where data lies and how much is allowed.

Precedence: command line flag, then EVALSPAN_* variable, then the `settings:` section of evalspan.yaml, then
the default.
"""

import ipaddress
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from platformdirs import user_data_path
from pydantic import Field, ValidationError, field_validator
from pydantic_settings import BaseSettings, EnvSettingsSource, NoDecode, SettingsConfigDict

from evalspan.errors import ConfigError
from evalspan_collector.data_dir import DataDir

__all__ = ["Durability", "Settings", "is_loopback", "load_settings"]

#: What an acknowledged span survives: the end of any process, or power loss too (fsync before the answer).
Durability = Literal["process", "power"]

Port = Annotated[int, Field(ge=0, le=65535)]
MIB = 1 << 20


class Settings(BaseSettings):
    """Everything a process of evalspan needs to know before it starts; port 0 means any free port."""

    model_config = SettingsConfigDict(env_prefix="EVALSPAN_", extra="ignore", frozen=True)

    host: str = "127.0.0.1"
    grpc_port: Port = 4317
    http_port: Port = 4318
    store_port: Port = 8123
    dashboard_port: Port = 8501
    metrics_port: Port = 9464
    data: Path = Field(default_factory=lambda: user_data_path("evalspan", appauthor=False))
    config: Path | None = None
    store_url: str | None = None
    project: str = "default"
    prices: Path | None = None
    insecure: bool = False

    # keys and TLS
    keys_file: Path | None = None
    tls_cert: Path | None = None
    tls_key: Path | None = None
    tls_client_ca: Path | None = None

    # intake
    durability: Durability = "power"
    max_request_bytes: int = Field(default=64 * MIB, ge=1024)
    max_inflight_bytes: int = Field(default=192 * MIB, ge=1024)
    spool_max_bytes: int = Field(default=1024 * MIB, ge=1024)
    spool_segment_bytes: int = Field(default=32 * MIB, ge=1024)
    quarantine_max_bytes: int = Field(default=64 * MIB, ge=0)
    rate_requests_per_s: float | None = Field(default=None, gt=0)
    rate_bytes_per_s: float | None = Field(default=None, gt=0)
    grpc_threads: int = Field(default=16, ge=1)

    # drain
    block_spans: int = Field(default=10_000, ge=1)
    block_bytes: int = Field(default=24 * MIB, ge=1024)
    block_wait_s: float = Field(default=0.3, ge=0)
    insert_timeout_s: float = Field(default=30.0, gt=0)

    # assembly
    shard: Annotated[tuple[int, int], NoDecode] = (0, 1)
    grace_s: float = Field(default=10.0, ge=0)
    grace_complete_s: float = Field(default=2.0, ge=0)
    idle_s: float = Field(default=60.0, ge=0)
    max_open_s: float = Field(default=3600.0, ge=0)

    stop_grace_s: float = Field(default=10.0, ge=0)

    @field_validator("shard", mode="before")
    @classmethod
    def _read_shard(cls, value: object) -> object:
        """`0/3` is the first of three; a StatefulSet's ordinal gives the first number."""
        if isinstance(value, str):
            index, _, count = value.partition("/")
            return (int(index), int(count))
        return value

    @field_validator("shard")
    @classmethod
    def _check_shard(cls, value: tuple[int, int]) -> tuple[int, int]:
        index, count = value
        if not 0 <= index < count:
            raise ValueError(f"{index}/{count} is no shard: write i/n with 0 <= i < n")
        return value

    @property
    def data_dir(self) -> DataDir:
        """Layout of the data folder."""
        return DataDir(self.data.expanduser())

    @property
    def key_path(self) -> Path:
        """The file with the hashed API keys."""
        return self.keys_file or self.data_dir.key_file

    @property
    def embedded_store_url(self) -> str:
        """Address of the store process that `evalspan up` starts."""
        return f"http://127.0.0.1:{self.store_port}/evalspan"

    @property
    def uses_tls(self) -> bool:
        """True when the receivers serve TLS."""
        return self.tls_cert is not None


def is_loopback(host: str) -> bool:
    """True when only this machine can reach a socket bound to `host`."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def load_settings(flags: Mapping[str, Any] | None = None, file_values: Mapping[str, Any] | None = None) -> Settings:
    """Settings from flags, environment, file and defaults, in that order of precedence.

    Args:
        flags: Values given on the command line by field name; None means not given.
        file_values: The `settings:` section of evalspan.yaml by field name.

    Raises:
        ConfigError: A value cannot be used; the message names it and where it came from.
    """
    given = {name: value for name, value in (flags or {}).items() if value is not None}
    environment = EnvSettingsSource(Settings)()
    merged = {**(file_values or {}), **environment, **given}
    try:
        settings = Settings.model_validate(merged)
    except ValidationError as error:
        raise ConfigError(_describe(error, given, environment)) from error
    if (settings.tls_cert is None) != (settings.tls_key is None):
        raise ConfigError("TLS needs both a certificate and its key: pass --tls-cert and --tls-key together")
    if settings.tls_client_ca is not None and settings.tls_cert is None:
        raise ConfigError("client certificates need TLS: pass --tls-cert and --tls-key beside --tls-client-ca")
    return settings


def _describe(error: ValidationError, flags: Mapping[str, Any], environment: Mapping[str, Any]) -> str:
    problems: list[str] = []
    for item in error.errors(include_url=False):
        name = str(item["loc"][0]) if item["loc"] else "settings"
        field = name.removeprefix("EVALSPAN_").lower()
        if field in flags:
            source = "--" + field.replace("_", "-")
        elif name in environment or field in environment:
            source = f"EVALSPAN_{field.upper()}"
        else:
            source = f"settings.{field} of evalspan.yaml"
        problems.append(f"{source}: {item['msg']} (got {item.get('input')!r})")
    return "; ".join(problems)
