"""Case: a YAML test case read from its file, with defaults filled in and weights that sum to one."""

import difflib
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from evalspan.errors import ConfigError, InputError
from evalspan_collector.config_file import ConfigDocument, Problem, read_yaml
from evalspan_evaluators.case import Expected
from evalspan_evaluators.evalcases.model import CaseModel, ConfigModel, SuiteModel, VarianceModel, WeightsModel
from evalspan_evaluators.jsonvalue import is_object
from evalspan_evaluators.overall import DEFAULT_WEIGHTS, Weights
from evalspan_evaluators.trajectory.sequence import SequenceMode

__all__ = [
    "AgentSpec",
    "Defaults",
    "EvalCase",
    "StatisticsSpec",
    "find_cases",
    "read_cases",
    "read_defaults",
]

Location = tuple[str | int, ...]

#: Points an overall score needs where a case sets no `min_score`: the global default threshold, 0.7.
DEFAULT_MIN_SCORE = 70.0
_CONFIG = Path(".evalview") / "config.yaml"


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSpec:
    """How the agent is run: by a command, at an address, or from recorded traces; nothing set means unknown.

    Attributes:
        timeout_s: Seconds one run may take.
        protocol: Which OTLP a command is told to send, `grpc` or `http/protobuf`.
        env: Further environment variables of a command.
    """

    command: tuple[str, ...] = ()
    url: str | None = None
    recorded: Path | None = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    timeout_s: float = 120.0
    protocol: str = "grpc"
    env: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True, kw_only=True)
class StatisticsSpec:
    """What several runs of a case must come to.

    Attributes:
        pass_rate: Least share of runs that pass.
        min_mean_score: Least mean of the overall scores, points.
        max_std_dev: Largest standard deviation of the overall scores, points.
    """

    runs: int = 10
    pass_rate: float = 0.8
    min_mean_score: float | None = None
    max_std_dev: float | None = None
    confidence: float = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalCase:
    """One test case.

    Attributes:
        min_score: Points (0 to 100) the overall score needs.
        max_cost_usd: US dollars; None for no limit.
        max_latency_s: Seconds; None for no limit.
        generated: A draft nobody has reviewed: latency does not fail it.
        warnings: Fields that are not read, with their place.
    """

    name: str
    path: Path
    query: str
    context: Mapping[str, Any] | None = None
    description: str | None = None
    expected: Expected = field(default_factory=Expected)
    sequence_mode: SequenceMode = "subsequence"
    forbidden_tools: tuple[str, ...] = ()
    json_schema: Mapping[str, Any] | None = None
    weights: Weights = DEFAULT_WEIGHTS
    min_score: float = DEFAULT_MIN_SCORE
    max_cost_usd: float | None = None
    max_latency_s: float | None = None
    hallucination: bool = False
    pii: bool = False
    generated: bool = False
    agent: AgentSpec = AgentSpec()
    statistics: StatisticsSpec | None = None
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Defaults:
    """What holds for every case that does not say otherwise."""

    weights: Mapping[str, float] | None = None
    endpoint: str | None = None
    timeout_s: float | None = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


def find_cases(paths: Sequence[str | Path]) -> list[Path]:
    """The YAML files these paths name; folders are searched, their hidden files and folders left out.

    Raises:
        InputError: A path does not exist, or a folder holds no YAML file.
    """
    found: list[Path] = []
    for path in map(Path, paths):
        if path.is_file():
            found.append(path)
        elif path.is_dir():
            inside = [
                p
                for p in sorted(path.rglob("*"))
                if p.suffix in {".yaml", ".yml"} and not any(part.startswith(".") for part in p.relative_to(path).parts)
            ]
            if not inside:
                raise InputError(f"folder {str(path)!r} holds no .yaml file: name one with test cases")
            found.extend(inside)
        else:
            raise InputError(f"there is no file or folder {str(path)!r}: name test cases")
    return list(dict.fromkeys(found))


def read_defaults(path: str | Path | None = None, *, beside: Path | None = None) -> Defaults:
    """Defaults from a configuration file; without one, from `.evalview/config.yaml` here or above `beside`.

    Raises:
        ConfigError: The file has a mistake.
    """
    found = Path(path) if path is not None else _nearest(beside)
    if found is None:
        return Defaults()
    document = read_yaml(found)
    model = document.validate(ConfigModel)
    given = _given([(("weights",), model.weights), (("scoring", "weights"), model.scoring.weights)], document)
    if given is not None:
        _weights(given, None, document)
    return Defaults(
        weights=None if given is None else given[1],
        endpoint=model.endpoint,
        timeout_s=model.timeout,
        headers=model.headers,
    )


def _nearest(beside: Path | None) -> Path | None:
    start = (beside or Path.cwd()).resolve()
    for folder in (Path.cwd(), start, *start.parents):
        if (folder / _CONFIG).is_file():
            return folder / _CONFIG
    return None


def read_cases(path: str | Path, defaults: Defaults | None = None) -> list[EvalCase]:
    """The test cases of a file: one, or a list under `tests:`.

    Raises:
        ConfigError: As `file:line: field: message`, one line per mistake.
    """
    document = read_yaml(path)
    data: Any = document.data
    if is_object(data) and "tests" in data:
        models = document.validate(SuiteModel).tests
        places: list[Location] = [("tests", i) for i in range(len(models))]
    elif is_object(data):
        models, places = [document.validate(CaseModel)], [()]
    else:
        raise ConfigError(f"{path}:1: is no test case: write name, input, expected and thresholds")
    return [_Reader(document, place, defaults or Defaults()).case(m) for m, place in zip(models, places, strict=True)]


class _Reader:
    """Turns one validated model into an `EvalCase`."""

    def __init__(self, document: ConfigDocument, place: Location, defaults: Defaults) -> None:
        self._document = document
        self._place = place
        self._defaults = defaults
        self._path = Path(document.name)

    def case(self, model: CaseModel) -> EvalCase:
        warnings = tuple(self._unread(model, self._place))
        expected, output, thresholds = model.expected, model.expected.output, model.thresholds
        checks = expected.hallucination
        return EvalCase(
            name=model.name,
            path=self._path,
            query=model.input.query,
            context=model.input.context,
            description=model.description,
            expected=Expected(
                output=expected.reference,
                tools=_names(expected.tools),
                sequence=_names(expected.tool_sequence if expected.tool_sequence is not None else expected.sequence),
                categories=_names(
                    expected.tool_categories if expected.tool_categories is not None else expected.categories
                ),
                contains=tuple(output.contains) or None,
                not_contains=tuple(output.not_contains) or None,
            ),
            sequence_mode=model.adapter_config.sequence_mode or "subsequence",
            forbidden_tools=tuple(expected.forbidden_tools),
            json_schema=output.json_schema,
            weights=self._case_weights(model),
            min_score=DEFAULT_MIN_SCORE if thresholds.min_score is None else thresholds.min_score,
            max_cost_usd=thresholds.max_cost,
            max_latency_s=None if thresholds.max_latency is None else thresholds.max_latency / 1000,
            hallucination=model.checks.hallucination or (checks is not None and checks.check and not checks.allow),
            pii=model.checks.pii or output.no_pii,
            generated=model.generated,
            agent=self._agent(model),
            statistics=_statistics(thresholds.variance),
            warnings=warnings,
        )

    def _case_weights(self, model: CaseModel) -> Weights:
        given = _given(
            [
                ((*self._place, "weights"), model.weights),
                ((*self._place, "scoring", "weights"), model.scoring.weights),
                ((*self._place, "thresholds", "weights"), model.thresholds.weights),
            ],
            self._document,
        )
        return _weights(given, self._defaults.weights, self._document)

    def _agent(self, model: CaseModel) -> AgentSpec:
        adapter = model.adapter_config
        command = adapter.command or ()
        if isinstance(command, str):
            try:
                command = shlex.split(command)
            except ValueError as error:
                place = (*self._place, "adapter_config", "command")
                raise self._document.error([Problem(place, f"{command!r} is no command: {error}")]) from error
        return AgentSpec(
            command=tuple(command),
            url=model.endpoint or (None if command or adapter.recorded else self._defaults.endpoint),
            recorded=None if adapter.recorded is None else self._path.parent / adapter.recorded,
            headers={**self._defaults.headers, **adapter.headers},
            timeout_s=adapter.timeout or self._defaults.timeout_s or 120.0,
            protocol=adapter.protocol,
            env=adapter.env,
        )

    def _unread(self, model: BaseModel, place: Location) -> Iterator[str]:
        """Warnings of fields that are not read; one that looks like a typing mistake is an error."""
        known = list(type(model).model_fields)
        for key in model.model_extra or {}:
            near = difflib.get_close_matches(key, known, 1, cutoff=0.8)
            if near and near[0] not in model.model_fields_set:
                raise self._document.error(
                    [Problem((*place, key), f"unknown field {key!r}: did you mean {near[0]!r}?")]
                )
            yield self._document.describe(Problem((*place, key), "is not read by evalspan"))
        for name in known:
            value = getattr(model, name)
            if isinstance(value, BaseModel) and name in model.model_fields_set:
                yield from self._unread(value, (*place, name))


def _names(value: list[str] | None) -> tuple[str, ...] | None:
    return None if value is None else tuple(value)


def _statistics(model: VarianceModel | None) -> StatisticsSpec | None:
    if model is None:
        return None
    return StatisticsSpec(
        runs=model.runs,
        pass_rate=model.pass_rate,
        min_mean_score=model.min_mean_score,
        max_std_dev=model.max_std_dev,
        confidence=model.confidence_level,
    )


_Given = tuple[Location, Mapping[str, float]]


def _given(places: Sequence[tuple[Location, WeightsModel | None]], document: ConfigDocument) -> _Given | None:
    """The weights of the one place that has some; several places must agree."""
    found: list[_Given] = []
    for place, model in places:
        if model is not None:
            here: dict[str, float | None] = model.model_dump(include=set(WeightsModel.model_fields))
            found.append((place, {name: value for name, value in here.items() if value is not None}))
    for place, values in found[1:]:
        if values != found[0][1]:
            raise document.error([Problem(place, "differs from the weights above: keep one of the two")])
    return found[0] if found else None


def _weights(given: _Given | None, fallback: Mapping[str, float] | None, document: ConfigDocument) -> Weights:
    try:
        return Weights.read({**(fallback or {}), **(given[1] if given else {})})
    except ConfigError as error:
        raise document.error([Problem(given[0] if given else (), str(error))]) from error
