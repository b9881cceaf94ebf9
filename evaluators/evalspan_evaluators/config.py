"""Config: what evalspan.yaml says, as rules, alerts, channels and a judge."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from evalspan.errors import ConfigError
from evalspan_collector.config_file import parse_yaml, read_yaml
from evalspan_evaluators import metric as metrics_registry
from evalspan_evaluators.alert import AlertRule
from evalspan_evaluators.channels import AppriseChannel, Channel, WebhookChannel, check_webhook_url
from evalspan_evaluators.metric import JudgeMetric, Metric
from evalspan_evaluators.rule import Rule

__all__ = [
    "CONFIG_FILE",
    "DEFAULT_METRICS",
    "ChannelSpec",
    "Config",
    "JudgeSettings",
    "MetricFactory",
    "Retention",
    "find_config",
    "load_config",
    "open_channels",
]

#: Looked for in the working folder when neither --config nor EVALSPAN_CONFIG names a file.
CONFIG_FILE = "evalspan.yaml"
#: Metrics of the rule that stands in when there is no file: they need no expectations and no judge.
DEFAULT_METRICS = ("grounding", "tool_errors", "tool_schema", "loops")

#: Makes a metric from its name and parameters, or raises ConfigError.
MetricFactory = Callable[[str, Mapping[str, Any]], Metric | JudgeMetric]


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeSettings:
    """Which model judges, and what all rules together may spend.

    Attributes:
        provider: `anthropic`, `openai` (any compatible API), or `replay` (recorded replies, no call).
        model: None takes the provider's default.
        max_usd_per_day: US dollars per UTC day over all rules; None for no cap.
        api_key_env: Variable with the API key; None takes the provider's usual one.
        replies: File of recorded replies, for `replay`.
        place: File and line, for messages.
    """

    provider: Literal["anthropic", "openai", "replay"] = "anthropic"
    model: str | None = None
    base_url: str | None = None
    api_key_env: str | None = None
    max_usd_per_day: float | None = 5.0
    concurrency: int = 8
    replies: Path | None = None
    place: str = field(default="judge", compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """How long spans and runs are kept, in days; None for ever.

    Attributes:
        projects: Limits of single projects, which take the place of these.
    """

    spans_days: int | None = None
    runs_days: int | None = None
    projects: Mapping[str, "Retention"] = field(default_factory=dict[str, "Retention"])


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelSpec:
    """A channel as written: secrets are names of variables until the worker opens it.

    Attributes:
        place: File and line, for messages.
        headers: Header names and values; `headers_env` likewise with names of variables.
    """

    name: str
    place: str
    webhook: str | None = None
    webhook_env: str | None = None
    apprise: str | None = None
    apprise_env: str | None = None
    secret_env: str | None = None
    headers: tuple[tuple[str, str], ...] = ()
    headers_env: tuple[tuple[str, str], ...] = ()
    allow_private: bool = False
    timeout_s: float = 5.0
    attempts: int = 3
    ca_file: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Everything evalspan.yaml says.

    Attributes:
        path: The file; None for the configuration that stands in when there is none.
        settings: The `settings:` section, for `evalspan_collector.settings.load_settings`.
        prices: File of price overrides.
    """

    project: str = "default"
    rules: tuple[Rule, ...] = ()
    alerts: tuple[AlertRule, ...] = ()
    channels: tuple[ChannelSpec, ...] = ()
    judge: JudgeSettings | None = None
    retention: Retention = Retention()
    prices: Path | None = None
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    path: Path | None = None

    @property
    def projects(self) -> tuple[str, ...]:
        """Every project a rule or an alert is for, the main one first."""
        named = [self.project, *(r.project for r in self.rules), *(a.project for a in self.alerts)]
        return tuple(dict.fromkeys(named))


def find_config(path: str | Path | None = None, env: Mapping[str, str] | None = None) -> Path | None:
    """The file to read: the given one, EVALSPAN_CONFIG's, `evalspan.yaml` in the working folder, or none."""
    environment = os.environ if env is None else env
    # An empty variable means none; as a path it would be the working folder itself.
    named = path if path is not None and str(path) not in {"", "."} else environment.get("EVALSPAN_CONFIG")
    if named:
        return Path(named)
    return Path(CONFIG_FILE) if Path(CONFIG_FILE).is_file() else None


def load_config(
    path: str | Path | None = None,
    env: Mapping[str, str] | None = None,
    *,
    create: MetricFactory | None = None,
    complete: bool = False,
    metrics: bool = True,
) -> Config:
    """The configuration, or the one that stands in when there is no file.

    EVALSPAN_PROJECT, EVALSPAN_JUDGE_PROVIDER, EVALSPAN_JUDGE_MODEL, EVALSPAN_JUDGE_BASE_URL and
    EVALSPAN_JUDGE_MAX_USD_PER_DAY override the file.

    Args:
        path: The file; None looks for one (see `find_config`).
        env: Environment variables; None takes the process's.
        create: Makes metrics; None takes every built-in and installed one.
        complete: Also look for what only the worker opens: variables with secrets, recorded replies, prices.
        metrics: Make the rules' metrics; processes that score nothing start faster without.

    Raises:
        ConfigError: Naming file, line, field and the next action, one line per mistake.
    """
    from evalspan_evaluators.config_reader import ConfigReader

    environment = dict(os.environ if env is None else env)
    found = find_config(path, environment)
    document = parse_yaml("", name=CONFIG_FILE) if found is None else read_yaml(found)
    make = (create or metrics_registry.create) if metrics else None
    return ConfigReader(document, found, environment, make, complete=complete).config()


def open_channels(config: Config, env: Mapping[str, str] | None = None) -> dict[str, Channel]:
    """The channels with their secrets, by name; done where they are used, so that only the worker needs secrets.

    Raises:
        ConfigError: A variable with a secret or a URL is not set, or the URL cannot be used.
    """
    environment = os.environ if env is None else env

    def value(spec: ChannelSpec, variable: str) -> str:
        found = environment.get(variable)
        if not found:
            raise ConfigError(f"{spec.place}: environment variable {variable!r} is not set: set it for the worker")
        return found

    channels: dict[str, Channel] = {}
    for spec in config.channels:
        if spec.apprise or spec.apprise_env:
            url = spec.apprise or value(spec, spec.apprise_env or "")
            channels[spec.name] = AppriseChannel(name=spec.name, url=url, attempts=spec.attempts)
            continue
        url = spec.webhook or value(spec, spec.webhook_env or "")
        try:
            check_webhook_url(url, allow_private=spec.allow_private)
        except ConfigError as error:
            raise ConfigError(f"{spec.place}: {error}") from error
        channels[spec.name] = WebhookChannel(
            name=spec.name,
            url=url,
            secret=value(spec, spec.secret_env) if spec.secret_env else None,
            headers=(*spec.headers, *((name, value(spec, variable)) for name, variable in spec.headers_env)),
            allow_private=spec.allow_private,
            timeout_s=spec.timeout_s,
            attempts=spec.attempts,
            ca_file=spec.ca_file,
        )
    return channels
