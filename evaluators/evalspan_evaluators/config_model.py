"""Config model: the fields of evalspan.yaml and what may stand in them."""

import math
import re
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

__all__ = [
    "AlertModel",
    "CallModel",
    "ChannelModel",
    "ExpectModel",
    "FileModel",
    "JudgeModel",
    "ProjectRetentionModel",
    "RetentionModel",
    "RuleModel",
    "seconds_of",
]

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d|w)")


def seconds_of(value: object) -> float:
    """Seconds of a duration such as `90s`, `5m`, `1h30m` or `7d`; a plain number is seconds.

    Raises:
        ValueError: It is none.
    """
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value >= 0:
        return float(value)
    if isinstance(value, str):
        text = value.replace(" ", "")
        parts = _DURATION.findall(text)
        if parts and "".join(number + unit for number, unit in parts) == text:
            return sum(float(number) * _UNITS[unit] for number, unit in parts)
    raise ValueError(f"{value!r} is no duration: write it like 30s, 5m, 1h30m or 7d")


def _listed(value: object) -> object:
    """One text stands for a list of one."""
    return [value] if isinstance(value, str) else value


def _between(low: float, high: float, hint: str) -> AfterValidator:
    def check(value: float) -> float:
        if not low <= value <= high:
            raise ValueError(f"{value!r} is not between {low:g} and {high:g}; {hint}")
        return value

    return AfterValidator(check)


def _at_least(low: float, hint: str) -> AfterValidator:
    def check(value: float) -> float:
        if not (math.isfinite(value) and value >= low):
            raise ValueError(f"{value!r} is less than {low:g}; {hint}")
        return value

    return AfterValidator(check)


def _positive(value: float) -> float:
    if value <= 0:
        raise ValueError(f"{value!r} is not longer than nothing; write it like 30s, 5m or 1h")
    return value


def _named(value: str) -> str:
    if not value.strip():
        raise ValueError(f"{value!r} is empty; give it a name")
    return value


Name = Annotated[str, AfterValidator(_named)]
Names = Annotated[list[str], BeforeValidator(_listed)]
Duration = Annotated[float, BeforeValidator(seconds_of)]
Dollars = Annotated[float, _at_least(0, "write US dollars, such as 5.0")]
Count = Annotated[int, _at_least(1, "write a whole number from 1 on")]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class CallModel(_Model):
    """One expected tool call."""

    name: Name
    arguments: dict[str, Any] = {}


class ExpectModel(_Model):
    """What every run of a rule should look like."""

    output: str | None = None
    tools: Names | None = None
    sequence: Names | None = None
    calls: list[CallModel] | None = None
    categories: Names | None = None
    contains: Names | None = None
    not_contains: Names | None = None


class RuleModel(_Model):
    """One item of `rules`."""

    name: Name
    project: Name | None = None
    agents: Names = []
    services: Names = []
    environments: Names = []
    status: Literal["ok", "error"] | None = None
    tags: Names = []
    flags: Names = []
    without_flags: Names = []
    sample: Annotated[float, _between(0, 1, "write the share of runs to score, such as 0.25")] = 1.0
    expect: ExpectModel = ExpectModel()
    metrics: Annotated[list[Any], BeforeValidator(_listed)] = []
    max_usd_per_day: Dollars | None = None
    backfill: Duration | None = None


class AlertModel(_Model):
    """One item of `alerts`."""

    name: Name
    of: Literal["score", "pass_rate", "cost", "latency", "error_rate", "tokens", "runs"]
    project: Name | None = None
    metric: Name | None = None
    aggregate: Literal["avg", "min", "max", "sum", "p50", "p90", "p95", "p99"] = "avg"
    agent: str | None = None
    environment: str | None = None
    window: Annotated[Duration, AfterValidator(_positive)] = 3600.0
    below: float | None = None
    above: float | None = None
    min_sample: Count = 1
    windows: Annotated[int, _between(1, 24, "write how many windows to look at")] = 1
    breaches: Count | None = None
    for_: Annotated[Duration, Field(alias="for")] = 0.0
    confidence: Annotated[float, _between(0.5, 0.9999, "write it like 0.95")] | None = None
    renotify: Annotated[Duration, AfterValidator(_positive)] | None = None
    no_data: Literal["keep", "resolve", "fire"] = "keep"
    channels: Names = []

    @model_validator(mode="after")
    def _makes_sense(self) -> Self:
        if (self.below is None) == (self.above is None):
            raise ValueError(f"alert {self.name!r} needs exactly one of below and above: write the limit under one")
        needs_metric = self.of in {"score", "pass_rate"}
        if needs_metric and self.metric is None:
            raise ValueError(f"alert {self.name!r} of {self.of} needs a metric: write metric: NAME")
        if not needs_metric and self.metric is not None:
            raise ValueError(f"alert {self.name!r} of {self.of} takes no metric: remove {self.metric!r}")
        if self.breaches is not None and self.breaches > self.windows:
            raise ValueError(f"breaches {self.breaches!r} are more than windows {self.windows!r}: raise windows")
        if self.confidence is not None and self.of not in {"pass_rate", "error_rate"}:
            raise ValueError(f"confidence is for pass_rate and error_rate, not for {self.of}: remove it")
        return self


class ChannelModel(_Model):
    """One value of `channels`."""

    webhook: str | None = None
    webhook_env: str | None = None
    apprise: str | None = None
    apprise_env: str | None = None
    secret_env: str | None = None
    headers: dict[str, str] = {}
    headers_env: dict[str, str] = {}
    allow_private: bool = False
    timeout: Annotated[Duration, AfterValidator(_positive)] = 5.0
    attempts: Annotated[int, _between(1, 10, "write how often to try")] = 3
    ca_file: str | None = None

    @model_validator(mode="after")
    def _goes_to_one_place(self) -> Self:
        targets = (self.webhook, self.webhook_env, self.apprise, self.apprise_env)
        if sum(target is not None for target in targets) != 1:
            raise ValueError("a channel needs exactly one of webhook, webhook_env, apprise and apprise_env")
        for name, value in (*self.headers.items(), *self.headers_env.items()):
            if not re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", name) or re.search(r"[^\x20-\x7e]", value):
                raise ValueError(f"header {name!r} cannot be sent: letters, digits and dashes; values in plain ASCII")
        return self


class JudgeModel(_Model):
    """The `judge` section."""

    provider: Literal["anthropic", "openai", "replay"] = "anthropic"
    model: Name | None = None
    base_url: str | None = None
    api_key_env: Name | None = None
    max_usd_per_day: Dollars | None = 5.0
    concurrency: Annotated[int, _between(1, 256, "write how many calls may run at once")] = 8
    replies: str | None = None

    @model_validator(mode="after")
    def _replay_has_replies(self) -> Self:
        if (self.provider == "replay") != (self.replies is not None):
            raise ValueError("provider replay and replies belong together: name the file with recorded replies")
        return self


class ProjectRetentionModel(_Model):
    """One value of `retention.projects`."""

    spans_days: Count | None = None
    runs_days: Count | None = None


class RetentionModel(ProjectRetentionModel):
    """The `retention` section."""

    projects: dict[str, ProjectRetentionModel] = {}


class FileModel(_Model):
    """The whole file; `rules` left out means the default rule, an empty list means none."""

    project: Name = "default"
    judge: JudgeModel | None = None
    rules: list[RuleModel] | None = None
    alerts: list[AlertModel] = []
    channels: dict[str, ChannelModel] = {}
    retention: RetentionModel = RetentionModel()
    prices: str | None = None
    settings: dict[str, Any] = {}
