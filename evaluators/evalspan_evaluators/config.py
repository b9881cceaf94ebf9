"""Config: evalspan.yaml as rules, alerts, channels and a judge, checked to the last field."""

import difflib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, cast

from evalspan.errors import ConfigError
from evalspan_collector.config_file import ConfigDocument, Problem, parse_yaml, read_yaml
from evalspan_evaluators import metric as metrics_registry
from evalspan_evaluators.alert import AlertRule
from evalspan_evaluators.case import Expected
from evalspan_evaluators.channels import AppriseChannel, Channel, WebhookChannel, check_webhook_url
from evalspan_evaluators.config_model import AlertModel, ChannelModel, FileModel, RuleModel
from evalspan_evaluators.metric import JudgeMetric, Metric
from evalspan_evaluators.rule import DEFAULT_BACKFILL_S, Filters, Rule
from evalspan_evaluators.scoring import RECEIVED_RULE

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

Location = tuple[str | int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeSettings:
    """Which model judges, and what all rules together may spend.

    Attributes:
        provider: `anthropic`, `openai` (any compatible API), or `replay` (recorded replies, no call).
        model: None takes the provider's default.
        max_usd_per_day: US dollars per UTC day over all rules; None for no cap.
        api_key_env: Variable with the API key; None takes the provider's usual one.
        replies: File of recorded replies, for `replay`.
    """

    provider: Literal["anthropic", "openai", "replay"] = "anthropic"
    model: str | None = None
    base_url: str | None = None
    api_key_env: str | None = None
    max_usd_per_day: float | None = 5.0
    concurrency: int = 8
    replies: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """How long spans and runs are kept, in days; None for ever."""

    spans_days: int | None = None
    runs_days: int | None = None


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
    path: str | Path | None = None, env: Mapping[str, str] | None = None, *, create: MetricFactory | None = None
) -> Config:
    """The configuration, or the one that stands in when there is no file.

    EVALSPAN_PROJECT, EVALSPAN_JUDGE_PROVIDER, EVALSPAN_JUDGE_MODEL, EVALSPAN_JUDGE_BASE_URL and
    EVALSPAN_JUDGE_MAX_USD_PER_DAY override the file.

    Args:
        path: The file; None looks for one (see `find_config`).
        env: Environment variables; None takes the process's.
        create: Makes metrics; None takes every built-in and installed one.

    Raises:
        ConfigError: Naming file, line, field and the next action, one line per mistake.
    """
    environment = dict(os.environ if env is None else env)
    found = find_config(path, environment)
    document = parse_yaml("", name=CONFIG_FILE) if found is None else read_yaml(found)
    return _Reader(document, found, environment, create or metrics_registry.create).config()


class _Reader:
    """Turns the validated document into a `Config`, gathering every mistake before it raises."""

    def __init__(
        self, document: ConfigDocument, path: Path | None, env: Mapping[str, str], create: MetricFactory
    ) -> None:
        self._document = document
        self._path = path
        self._env = env
        self._create = create
        self._problems: list[Problem] = []

    def config(self) -> Config:
        model = self._document.validate(FileModel)
        project = self._env.get("EVALSPAN_PROJECT") or model.project
        judge = self._judge(model)
        channels = tuple(self._channel(name, spec) for name, spec in model.channels.items())
        if model.rules is None:
            rules: tuple[Rule, ...] = (self._default_rule(project),)
        else:
            rules = tuple(self._rule(index, rule, project) for index, rule in enumerate(model.rules))
        alerts = tuple(self._alert(index, alert, project, rules, model) for index, alert in enumerate(model.alerts))
        self._unique("rules", [rule.name for rule in rules])
        self._unique("alerts", [alert.name for alert in alerts])
        self._check_settings(model.settings)
        if self._problems:
            raise self._document.error(self._problems)
        retention = Retention(spans_days=model.retention.spans_days, runs_days=model.retention.runs_days)
        return Config(
            project=project,
            rules=rules,
            alerts=alerts,
            channels=channels,
            judge=judge,
            retention=retention,
            prices=self._beside(model.prices),
            settings=model.settings,
            path=self._path,
        )

    def _problem(self, location: Location, message: str) -> None:
        self._problems.append(Problem(location, message))

    def _beside(self, name: str | None) -> Path | None:
        """A path of the file is relative to the file, not to the working folder."""
        if name is None:
            return None
        return (self._path.parent if self._path else Path()) / Path(name).expanduser()

    def _unique(self, section: str, names: list[str]) -> None:
        for index, name in enumerate(names):
            if name in names[:index]:
                self._problem((section, index, "name"), f"{name!r} is there twice: names must differ")

    def _check_settings(self, given: Mapping[str, Any]) -> None:
        from evalspan_collector.settings import Settings

        for name in given:
            if name not in Settings.model_fields:
                self._problem(("settings", name), f"unknown setting {name!r}{_near(name, list(Settings.model_fields))}")

    # rules

    def _default_rule(self, project: str) -> Rule:
        made: list[Metric | JudgeMetric] = []
        for name in DEFAULT_METRICS:
            try:
                made.append(self._create(name, {}))
            except ConfigError:  # an installation without this metric still scores with the others
                continue
        return Rule(name="default", project=project, metrics=tuple(made))

    def _rule(self, index: int, model: RuleModel, project: str) -> Rule:
        where = ("rules", index)
        if model.name == RECEIVED_RULE:
            message = f"{model.name!r} is kept for evaluations that arrive with the runs: choose another name"
            self._problem((*where, "name"), message)
        if not model.metrics:
            self._problem(
                (*where, "metrics"), f"rule {model.name!r} has no metrics: name at least one, such as grounding"
            )
        metrics = [m for i, given in enumerate(model.metrics) if (m := self._metric((*where, "metrics", i), given))]
        names = [m.name for m in metrics]
        for name in sorted({n for n in names if names.count(n) > 1}):
            self._problem(
                (*where, "metrics"), f"metric {name!r} is there twice: put the second one in a rule of its own"
            )
        expect = model.expect
        return Rule(
            name=model.name,
            project=model.project or project,
            metrics=tuple(metrics),
            filters=Filters(
                agents=tuple(model.agents),
                services=tuple(model.services),
                environments=tuple(model.environments),
                status=model.status,
                tags=tuple(model.tags),
                flags=tuple(model.flags),
                without_flags=tuple(model.without_flags),
            ),
            sample=model.sample,
            expected=Expected(
                output=expect.output,
                tools=_optional(expect.tools),
                sequence=_optional(expect.sequence),
                calls=None if expect.calls is None else tuple(c.model_dump() for c in expect.calls),
                categories=_optional(expect.categories),
                contains=_optional(expect.contains),
                not_contains=_optional(expect.not_contains),
            ),
            max_usd_per_day=model.max_usd_per_day,
            backfill_s=DEFAULT_BACKFILL_S if model.backfill is None else model.backfill,
        )

    def _metric(self, where: Location, given: object) -> Metric | JudgeMetric | None:
        hint = "write a metric's name, or name: {parameter: value}"
        name: object = given
        written: object = None
        if isinstance(given, dict):
            pairs = list(cast("dict[object, object]", given).items())
            if len(pairs) != 1:
                self._problem(where, f"{[key for key, _ in pairs]!r} is no metric: one per list item; {hint}")
                return None
            name, written = pairs[0]
        if not isinstance(name, str):
            self._problem(where, f"{name!r} is no metric: {hint}")
            return None
        if isinstance(given, dict):
            where = (*where, name)
        if written is not None and not isinstance(written, dict):
            self._problem(where, f"{written!r} are no parameters of {name!r}: {hint}")
            return None
        parameters = {str(key): value for key, value in cast("dict[object, Any]", written or {}).items()}
        return self._made(where, name, parameters)

    def _made(self, where: Location, name: str, parameters: dict[str, Any]) -> Metric | JudgeMetric | None:
        try:
            return self._create(name, parameters)
        except ConfigError as error:
            message = str(error)
            near = difflib.get_close_matches(name, sorted(metrics_registry.available()), n=1)
            if message.startswith("unknown metric") and near:
                message = f"unknown metric {name!r}: did you mean {near[0]!r}?"
            blamed = [key for key in parameters if repr(key) in message]
            self._problem((*where, blamed[0]) if blamed else where, message)
            return None

    # alerts and channels

    def _alert(
        self, index: int, model: AlertModel, project: str, rules: tuple[Rule, ...], file: FileModel
    ) -> AlertRule:
        where = ("alerts", index)
        for position, channel in enumerate(model.channels):
            if channel not in file.channels:
                known = ", ".join(sorted(file.channels)) or "none; add a channels section"
                self._problem((*where, "channels", position), f"unknown channel {channel!r}: one of {known}")
        if model.metric is not None:
            known_metrics = {m.name for rule in rules for m in rule.metrics} | set(metrics_registry.available())
            near = difflib.get_close_matches(model.metric, sorted(known_metrics), n=1, cutoff=0.75)
            # Names that are like none of ours may be those of evaluations that arrive with the runs.
            if model.metric not in known_metrics and near:
                self._problem((*where, "metric"), f"unknown metric {model.metric!r}: did you mean {near[0]!r}?")
        return AlertRule(
            name=model.name,
            project=model.project or project,
            of=model.of,
            metric=model.metric,
            aggregate=model.aggregate,
            agent=model.agent,
            environment=model.environment,
            window_s=model.window,
            below=model.below,
            above=model.above,
            min_sample=model.min_sample,
            windows=model.windows,
            breaches=model.windows if model.breaches is None else model.breaches,
            for_s=model.for_,
            confidence=model.confidence,
            renotify_s=model.renotify,
            no_data=model.no_data,
            channels=tuple(model.channels),
        )

    def _channel(self, name: str, model: ChannelModel) -> ChannelSpec:
        if model.webhook is not None:
            try:
                check_webhook_url(model.webhook, allow_private=model.allow_private)
            except ConfigError as error:
                self._problem(("channels", name, "webhook"), str(error))
        ca_file = self._beside(model.ca_file)
        return ChannelSpec(
            name=name,
            place=f"{self._document.name}:{self._document.line(('channels', name))}: channels.{name}",
            webhook=model.webhook,
            webhook_env=model.webhook_env,
            apprise=model.apprise,
            apprise_env=model.apprise_env,
            secret_env=model.secret_env,
            headers=tuple(model.headers.items()),
            headers_env=tuple(model.headers_env.items()),
            allow_private=model.allow_private,
            timeout_s=model.timeout,
            attempts=model.attempts,
            ca_file=None if ca_file is None else str(ca_file),
        )

    # judge

    def _judge(self, model: FileModel) -> JudgeSettings | None:
        given = {} if model.judge is None else model.judge.model_dump(exclude_unset=True)
        overrides = {
            "provider": self._env.get("EVALSPAN_JUDGE_PROVIDER"),
            "model": self._env.get("EVALSPAN_JUDGE_MODEL"),
            "base_url": self._env.get("EVALSPAN_JUDGE_BASE_URL"),
            "max_usd_per_day": self._env_number("EVALSPAN_JUDGE_MAX_USD_PER_DAY"),
        }
        given.update({name: value for name, value in overrides.items() if value not in {None, ""}})
        if given.get("provider", "anthropic") not in {"anthropic", "openai", "replay"}:
            self._problem(("judge", "provider"), f"{given['provider']!r} is not anthropic, openai or replay")
            return None
        if not given and not self._env.get("ANTHROPIC_API_KEY"):
            return None
        if "replies" in given:
            given["replies"] = self._beside(given["replies"])
        return JudgeSettings(**given)

    def _env_number(self, name: str) -> float | None:
        text = self._env.get(name)
        if not text:
            return None
        try:
            return float(text)
        except ValueError:
            raise ConfigError(f"{name} is {text!r}: a number of US dollars") from None


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


def _optional(values: list[str] | None) -> tuple[str, ...] | None:
    return None if values is None else tuple(values)


def _near(name: str, known: list[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    return f": did you mean {near[0]!r}?" if near else f": one of {', '.join(known)}"
