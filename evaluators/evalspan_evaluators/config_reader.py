"""ConfigReader: turns the YAML of evalspan.yaml into a `Config`, every mistake named before anything is used."""

import difflib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar, cast

from pydantic import BaseModel, ValidationError

from evalspan.errors import ConfigError
from evalspan_collector.config_file import ConfigDocument, Problem
from evalspan_collector.lenient_json import is_list, is_object
from evalspan_evaluators import metric as metrics_registry
from evalspan_evaluators.alert import AlertRule
from evalspan_evaluators.case import Expected
from evalspan_evaluators.channels import check_webhook_url
from evalspan_evaluators.config import (
    DEFAULT_METRICS,
    ChannelSpec,
    Config,
    JudgeSettings,
    MetricFactory,
    Retention,
)
from evalspan_evaluators.config_model import (
    AlertModel,
    ChannelModel,
    FileModel,
    JudgeModel,
    RetentionModel,
    RuleModel,
)
from evalspan_evaluators.metric import JudgeMetric, Metric
from evalspan_evaluators.rule import DEFAULT_BACKFILL_S, Filters, Rule
from evalspan_evaluators.scoring import RECEIVED_RULE

__all__ = ["ConfigReader"]

Location = tuple[str | int, ...]
ModelT = TypeVar("ModelT", bound=BaseModel)


class ConfigReader:
    """Gathers every mistake before it raises.

    Args:
        document: The parsed file.
        path: Where it lies; None for the configuration that stands in.
        env: Environment variables.
        create: Makes metrics; None leaves the rules without.
        complete: Also look for what only the worker opens.
    """

    def __init__(
        self,
        document: ConfigDocument,
        path: Path | None,
        env: Mapping[str, str],
        create: MetricFactory | None,
        *,
        complete: bool = False,
    ) -> None:
        self._document = document
        self._path = path
        self._env = env
        self._create = create
        self._complete = complete
        self._problems: list[Problem] = []

    def config(self) -> Config:
        """The configuration.

        Raises:
            ConfigError: One line per mistake, in the order of the file.
        """
        model, problems = self._document.examine(FileModel)
        if model is None:
            self._problems += problems
            self._look_at_parts()
            raise self._document.error(self._problems)
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
        prices = self._prices(model.prices)
        if self._problems:
            raise self._document.error(self._problems)
        return Config(
            project=project,
            rules=rules,
            alerts=alerts,
            channels=channels,
            judge=judge,
            retention=_retention(model.retention),
            prices=prices,
            settings=model.settings,
            path=self._path,
        )

    def _look_at_parts(self) -> None:
        """Find the mistakes that only a valid part shows, such as a metric's name, where another part is invalid."""
        sections: Any = self._document.data
        if not is_object(sections):
            return
        channels: Any = sections.get("channels")
        names = [str(name) for name in channels] if is_object(channels) else []
        file = FileModel(channels={name: ChannelModel(apprise=name or "-") for name in names})
        valid = list(self._valid(sections, "rules", RuleModel))
        rules = [self._rule(index, model, file.project) for index, model in valid]
        self._look_at_metrics(sections, {index for index, _ in valid})
        for index, alert in self._valid(sections, "alerts", AlertModel):
            self._alert(index, alert, file.project, tuple(rules), file)
        for name, channel in self._valid(sections, "channels", ChannelModel):
            self._channel(name, channel)
        judge, _ = self._document.examine(JudgeModel, ("judge",)) if "judge" in sections else (None, ())
        self._judge(FileModel(judge=judge))
        settings: Any = sections.get("settings")
        if is_object(settings):
            self._check_settings(settings)

    def _look_at_metrics(self, sections: Mapping[str, Any], valid: set[Any]) -> None:
        """The metrics of rules that are invalid elsewhere."""
        listed: Any = sections.get("rules")
        for index, rule in enumerate(listed if is_list(listed) else ()):
            metrics: Any = rule.get("metrics") if is_object(rule) and index not in valid else None
            for position, given in enumerate(metrics if is_list(metrics) else ()):
                self._metric(("rules", index, "metrics", position), given)

    def _valid(self, sections: Mapping[str, Any], name: str, model: type[ModelT]) -> Iterator[tuple[Any, ModelT]]:
        """The parts of a section that are valid by themselves, with their keys or indexes."""
        section: Any = sections.get(name)
        keys: Iterable[Any] = ()
        if is_list(section):
            keys = range(len(section))
        elif is_object(section):
            keys = section
        for key in keys:
            valid, _ = self._document.examine(model, (name, key))
            if valid is not None:
                yield key, valid

    def _needs_variables(self, section: Location, given: Mapping[str, str | None]) -> None:
        """The variables that hold secrets must be there where the secrets are used."""
        for field_name, variable in given.items():
            if self._complete and variable and not self._env.get(variable):
                self._problem(
                    (*section, field_name), f"environment variable {variable!r} is not set: set it for the worker"
                )

    def _problem(self, location: Location, message: str) -> None:
        self._problems.append(Problem(location, message))

    def _beside(self, name: str | None) -> Path | None:
        """A path of the file is relative to the file, not to the working folder."""
        if name is None:
            return None
        return (self._path.parent if self._path else Path()) / Path(name).expanduser()

    def _prices(self, name: str | None) -> Path | None:
        path = self._beside(name)
        if path is not None and self._complete:
            from evalspan_collector.prices import Prices

            try:
                Prices(path)
            except ConfigError as error:
                self._problem(("prices",), str(error))
        return path

    def _unique(self, section: str, names: list[str]) -> None:
        for index, name in enumerate(names):
            if name in names[:index]:
                self._problem((section, index, "name"), f"{name!r} is there twice: names must differ")

    def _check_settings(self, given: Mapping[str, Any]) -> None:
        from evalspan_collector.settings import Settings

        for name in given:
            if name not in Settings.model_fields:
                self._problem(("settings", name), f"unknown setting {name!r}{_near(name, list(Settings.model_fields))}")
        try:
            Settings.model_validate(given)
        except ValidationError as error:
            for item in error.errors(include_url=False):
                where = tuple(part for part in item["loc"][:1] if part in given)
                self._problem(("settings", *where), f"{item['input']!r}: {item['msg']}")

    # rules

    def _default_rule(self, project: str) -> Rule:
        made: list[Metric | JudgeMetric] = []
        for name in DEFAULT_METRICS if self._create else ():
            try:
                made.append(self._new(name, {}))
            except ConfigError:  # an installation without this metric still scores with the others
                continue
        return Rule(name="default", project=project, metrics=tuple(made))

    def _new(self, name: str, parameters: Mapping[str, Any]) -> Metric | JudgeMetric:
        assert self._create is not None
        return self._create(name, parameters)

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
        if self._create is None:
            return None
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
            return self._new(name, parameters)
        except ConfigError as error:
            message = str(error)
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
        if model.metric is not None and self._create is not None:
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
        secrets = {
            "webhook_env": model.webhook_env,
            "apprise_env": model.apprise_env,
            "secret_env": model.secret_env,
        }
        self._needs_variables(("channels", name), secrets)
        self._needs_variables(("channels", name, "headers_env"), model.headers_env)
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
            replies = given["replies"] = self._beside(given["replies"])
            if self._complete and replies is not None and not replies.is_file():
                self._problem(("judge", "replies"), f"there is no file {str(replies)!r}: name the recording")
        if given.get("provider") == "openai" and not given.get("model"):
            self._problem(("judge", "model"), "is missing: name the model of the OpenAI-compatible API")
        self._needs_variables(("judge",), {"api_key_env": given.get("api_key_env")})
        place = f"{self._document.name}:{self._document.line(('judge',))}: judge"
        return JudgeSettings(**given, place=place)

    def _env_number(self, name: str) -> float | None:
        text = self._env.get(name)
        if not text:
            return None
        try:
            return float(text)
        except ValueError:
            self._problem(("judge", "max_usd_per_day"), f"{name} is {text!r}: a number of US dollars")
            return None


def _retention(model: RetentionModel) -> Retention:
    projects = {
        name: Retention(spans_days=limits.spans_days, runs_days=limits.runs_days)
        for name, limits in model.projects.items()
    }
    return Retention(spans_days=model.spans_days, runs_days=model.runs_days, projects=projects)


def _optional(values: list[str] | None) -> tuple[str, ...] | None:
    return None if values is None else tuple(values)


def _near(name: str, known: list[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    return f": did you mean {near[0]!r}?" if near else f": one of {', '.join(known)}"
