"""Model: the fields of a YAML test case and what may stand in them."""

from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from evalspan_evaluators.jsonvalue import is_list

__all__ = [
    "AdapterModel",
    "CaseModel",
    "CheckModel",
    "ChecksModel",
    "ConfigModel",
    "ExpectedModel",
    "InputModel",
    "OutputModel",
    "ScoringModel",
    "SuiteModel",
    "ThresholdsModel",
    "VarianceModel",
    "WeightsModel",
]


def _listed(value: object) -> object:
    return [value] if isinstance(value, str) else value


def _query(value: object) -> object:
    return {"query": value} if isinstance(value, str) else value


def _texts(value: object) -> object:
    return {"contains": value} if is_list(value) else value


def _check(value: object) -> object:
    return {"check": value} if isinstance(value, bool) else value


def _said(value: str) -> str:
    if not value.strip():
        raise ValueError(f"{value!r} is empty: write a text")
    return value


def _not_negative(value: float) -> float:
    if not value >= 0:
        raise ValueError(f"{value!r} is less than 0: write a number of 0 or more")
    return value


def _points(value: float) -> float:
    if not 0 <= value <= 100:
        raise ValueError(f"{value!r} is not between 0 and 100: write points, such as 80")
    return value


def _share(value: float) -> float:
    if not 0 <= value <= 1:
        raise ValueError(f"{value!r} is not between 0 and 1: write a share, such as 0.8")
    return value


Said = Annotated[str, AfterValidator(_said)]
Names = Annotated[list[str], BeforeValidator(_listed)]
Amount = Annotated[float, AfterValidator(_not_negative)]
Points = Annotated[float, AfterValidator(_points)]
Share = Annotated[float, AfterValidator(_share)]


class _Model(BaseModel):
    # Fields of EvalView that mean nothing here are let through; the reader warns of them and refuses near misses.
    model_config = ConfigDict(extra="allow", strict=True, frozen=True)


class InputModel(_Model):
    """What the agent is asked."""

    query: Said
    context: dict[str, Any] | None = None


class OutputModel(_Model):
    """What the answer should hold."""

    contains: Names = []
    not_contains: Names = []
    json_schema: dict[str, Any] | None = None
    no_pii: bool = False


class CheckModel(_Model):
    """A check switched on or off."""

    check: bool = False
    allow: bool = False


class ExpectedModel(_Model):
    """What the agent should do."""

    tools: Names | None = None
    tool_sequence: Names | None = None
    sequence: Names | None = None
    categories: Names | None = None
    tool_categories: Names | None = None
    forbidden_tools: Names = []
    output: Annotated[OutputModel, BeforeValidator(_texts)] = OutputModel()
    reference: str | None = None
    hallucination: Annotated[CheckModel, BeforeValidator(_check)] | None = None


class WeightsModel(_Model):
    """How much each part counts; those left out keep their default."""

    tool_accuracy: Share | None = None
    output_quality: Share | None = None
    sequence_correctness: Share | None = None


class ScoringModel(_Model):
    """The `scoring` section."""

    weights: WeightsModel | None = None


class VarianceModel(_Model):
    """Statistical mode: how often to run, and what the runs must come to."""

    runs: Annotated[int, Field(ge=2, le=100)] = 10
    pass_rate: Share = 0.8
    min_mean_score: Points | None = None
    max_std_dev: Amount | None = None
    confidence_level: Annotated[float, Field(gt=0, lt=1)] = 0.95


class ThresholdsModel(_Model):
    """The `thresholds` section; `max_cost` in US dollars, `max_latency` in milliseconds."""

    min_score: Points | None = None
    max_cost: Amount | None = None
    max_latency: Amount | None = None
    weights: WeightsModel | None = None
    variance: VarianceModel | None = None


class ChecksModel(_Model):
    """The `checks` section."""

    hallucination: bool = False
    pii: bool = False


class AdapterModel(_Model):
    """The `adapter_config` section."""

    sequence_mode: Literal["subsequence", "exact", "unordered", "superset", "subset", "multiset"] | None = None
    command: str | list[str] | None = None
    recorded: str | None = None
    headers: dict[str, str] = {}
    timeout: Annotated[float, Field(gt=0)] | None = None
    protocol: Literal["grpc", "http/protobuf"] = "grpc"
    env: dict[str, str] = {}


class CaseModel(_Model):
    """One test case."""

    name: Said
    description: str | None = None
    tags: Names = []
    input: Annotated[InputModel, BeforeValidator(_query)]
    expected: ExpectedModel = ExpectedModel()
    thresholds: ThresholdsModel = ThresholdsModel()
    weights: WeightsModel | None = None
    scoring: ScoringModel = ScoringModel()
    checks: ChecksModel = ChecksModel()
    adapter: str | None = None
    endpoint: str | None = None
    adapter_config: AdapterModel = AdapterModel()
    generated: bool = False

    @model_validator(mode="after")
    def _one_sequence(self) -> Self:
        pairs = (("tool_sequence", "sequence"), ("tool_categories", "categories"))
        for first, second in pairs:
            one, other = getattr(self.expected, first), getattr(self.expected, second)
            if one is not None and other is not None and one != other:
                raise ValueError(f"expected.{first} and expected.{second} differ: keep one of the two")
        return self


class SuiteModel(_Model):
    """A file with several cases."""

    tests: list[CaseModel]


class ConfigModel(_Model):
    """The file with defaults for all cases, `.evalview/config.yaml`."""

    weights: WeightsModel | None = None
    scoring: ScoringModel = ScoringModel()
    adapter: str | None = None
    endpoint: str | None = None
    timeout: Annotated[float, Field(gt=0)] | None = None
    headers: dict[str, str] = {}
