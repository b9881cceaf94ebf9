from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest

from evalspan.errors import ConfigError
from evalspan_evaluators.alert import AlertRule
from evalspan_evaluators.case import Case, Expected
from evalspan_evaluators.channels import AppriseChannel, WebhookChannel
from evalspan_evaluators.config import Config, JudgeSettings, Retention, find_config, load_config, open_channels
from evalspan_evaluators.config_model import seconds_of
from evalspan_evaluators.metric import JudgeMetric, Metric, MetricBase
from evalspan_evaluators.rule import Filters
from evalspan_evaluators.score import Score

EXAMPLE = Path(__file__).parents[2] / "evalspan.example.yaml"


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "evalspan.yaml"
    path.write_text(text)
    return path


def loaded(tmp_path: Path, text: str, env: Mapping[str, str] | None = None) -> Config:
    return load_config(written(tmp_path, text), env or {})


def failure(tmp_path: Path, text: str) -> str:
    path = written(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        load_config(path, {})
    return str(caught.value).replace(f"{path}:", "evalspan.yaml:")


def test_without_a_file_every_run_is_scored_by_metrics_that_need_no_expectations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    config = load_config(None, {})
    assert [rule.name for rule in config.rules] == ["default"]
    assert "grounding" in [metric.name for metric in config.rules[0].metrics]
    assert (config.alerts, config.channels, config.judge, config.path) == ((), (), None, None)


def test_a_file_without_rules_keeps_the_default_rule_and_an_empty_list_means_none(tmp_path: Path) -> None:
    assert [rule.name for rule in loaded(tmp_path, "project: shop\n").rules] == ["default"]
    assert loaded(tmp_path, "project: shop\n").rules[0].project == "shop"
    assert loaded(tmp_path, "rules: []\n").rules == ()


def test_the_shipped_example_is_valid() -> None:
    config = load_config(EXAMPLE, {})
    assert [rule.name for rule in config.rules] == ["everything", "stock-analyst", "correctness-sample"]
    assert config.judge == JudgeSettings(model="claude-haiku-4-5", max_usd_per_day=5.0)
    assert config.retention == Retention(spans_days=30, runs_days=365)


def test_a_rule_is_read_with_filters_expectations_and_metrics(tmp_path: Path) -> None:
    text = """
rules:
  - name: stock
    agents: stock_analyst
    status: ok
    flags: [stitched]
    without_flags: incomplete
    sample: 0.5
    backfill: 2h
    expect:
      sequence: [a, b]
      tools: [a]
      contains: x
      output: "42"
      calls: [{name: a, arguments: {ticker: AAPL}}]
    metrics:
      - sequence: {mode: exact, threshold: 0.8}
      - contains
"""
    (rule,) = loaded(tmp_path, text).rules
    assert rule.filters == Filters(
        agents=("stock_analyst",), status="ok", flags=("stitched",), without_flags=("incomplete",)
    )
    assert rule.expected == Expected(
        sequence=("a", "b"),
        tools=("a",),
        contains=("x",),
        output="42",
        calls=({"name": "a", "arguments": {"ticker": "AAPL"}},),
    )
    assert (rule.sample, rule.backfill_s) == (0.5, 7200.0)
    assert [(m.name, m.threshold) for m in rule.metrics] == [("sequence", 0.8), ("contains", None)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "rules:\n  - name: a\n    sample: 1.5\n    metrics: [contains]\n",
            "evalspan.yaml:3: rules[0].sample: 1.5 is not between 0 and 1; write the share of runs to score, such as 0.25",
        ),
        (
            "rules:\n  - name: a\n    metrics:\n      - containz\n",
            "evalspan.yaml:4: rules[0].metrics[0]: unknown metric 'containz': did you mean 'contains'?",
        ),
        ("rules:\n  - name: a\n", "evalspan.yaml:2: rules[0].metrics: rule 'a' has no metrics: name at least one"),
        (
            "rules:\n  - name: a\n    metrics:\n      - sequence:\n          mode: exact\n          treshold: 1\n",
            "evalspan.yaml:6: rules[0].metrics[0].sequence.treshold: metric 'sequence' has no parameter 'treshold'",
        ),
        (
            "rules:\n  - name: a\n    metrics:\n      - contains: {threshold: 7}\n",
            "evalspan.yaml:4: rules[0].metrics[0].contains: threshold of metric 'contains' is 7",
        ),
        ("rules:\n  - name: a\n    metrics: [5]\n", "evalspan.yaml:3: rules[0].metrics[0]: 5 is no metric"),
        (
            "rules:\n  - name: a\n    metrics: [{contains: {}, grounding: {}}]\n",
            "evalspan.yaml:3: rules[0].metrics[0]: ['contains', 'grounding'] is no metric: one per list item",
        ),
        (
            "rules:\n  - name: a\n    metrics: [contains, contains]\n",
            "evalspan.yaml:3: rules[0].metrics: metric 'contains' is there twice",
        ),
        (
            "rules:\n  - {name: a, metrics: [contains]}\n  - {name: a, metrics: [contains]}\n",
            "evalspan.yaml:3: rules[1].name: 'a' is there twice: names must differ",
        ),
        (
            "rules:\n  - {name: received, metrics: [contains]}\n",
            "evalspan.yaml:2: rules[0].name: 'received' is kept for evaluations that arrive with the runs",
        ),
        (
            "rules:\n  - name: a\n    agnets: [x]\n    metrics: [contains]\n",
            "evalspan.yaml:3: rules[0].agnets: unknown field 'agnets': did you mean 'agents'?",
        ),
        (
            "alerts:\n  - {name: a, of: pass_rate, below: 1}\n",
            "evalspan.yaml:2: alerts[0]: alert 'a' of pass_rate needs a metric",
        ),
        (
            "alerts:\n  - {name: a, of: cost}\n",
            "evalspan.yaml:2: alerts[0]: alert 'a' needs exactly one of below and above",
        ),
        (
            "alerts:\n  - {name: a, of: cost, above: 1, metric: grounding}\n",
            "evalspan.yaml:2: alerts[0]: alert 'a' of cost takes no metric",
        ),
        (
            "alerts:\n  - name: a\n    of: pass_rate\n    metric: groundin\n    below: 1\n",
            "evalspan.yaml:4: alerts[0].metric: unknown metric 'groundin': did you mean 'grounding'?",
        ),
        (
            "alerts:\n  - name: a\n    of: cost\n    above: 1\n    window: 1 hour\n",
            "evalspan.yaml:5: alerts[0].window: '1 hour' is no duration: write it like 30s, 5m, 1h30m or 7d",
        ),
        (
            "alerts:\n  - name: a\n    of: cost\n    above: 1\n    channels: [ops]\n",
            "evalspan.yaml:5: alerts[0].channels[0]: unknown channel 'ops': one of none; add a channels section",
        ),
        ("channels:\n  ops: {}\n", "evalspan.yaml:2: channels.ops: a channel needs exactly one of webhook"),
        (
            "channels:\n  ops:\n    webhook: http://example.com/hook?key=secret\n",
            "evalspan.yaml:3: channels.ops.webhook: webhook 'http://example.com/...' is not https",
        ),
        ("judge: {provider: gemini}\n", "evalspan.yaml:1: judge.provider: 'gemini' "),
        (
            "settings: {grpc_prot: 1}\n",
            "evalspan.yaml:1: settings.grpc_prot: unknown setting 'grpc_prot': did you mean",
        ),
        ("project: 7\n", 'evalspan.yaml:1: project: 7 is not a text: put it in quotes ("7")'),
    ],
)
def test_a_mistake_is_named_by_file_line_field_and_next_action(tmp_path: Path, text: str, message: str) -> None:
    assert failure(tmp_path, text).startswith(message)


def test_all_mistakes_are_told_at_once(tmp_path: Path) -> None:
    text = (
        "rules:\n  - name: a\n    metrics: [nope_metric]\nalerts:\n  - {name: x, of: cost, above: 1, channels: [ops]}\n"
    )
    assert len(failure(tmp_path, text).splitlines()) == 2


def test_a_wrong_field_does_not_hide_what_is_wrong_elsewhere(tmp_path: Path) -> None:
    text = """
        project: [no]
        rules:
          - {name: a, metrics: [groundin], sampel: 1}
          - {name: b, metrics: [groundin]}
          - {name: c, metrics: [loops: {limit: 3}]}
        alerts: [{name: x, of: cost, above: 1, channels: [opps]}]
        channels: {ops: {webhook: "http://example.com/hook"}}
        settings: {grpc_port: many, spol: 1}
        judge: {provider: openai}
    """
    with pytest.raises(ConfigError) as caught:
        load_config(written(tmp_path, text), {})
    fields = [line.split(": ")[1] for line in str(caught.value).splitlines()]
    assert fields == [
        "project",
        "rules[0].sampel",
        "rules[0].metrics[0]",
        "rules[1].metrics[0]",
        "rules[2].metrics[0].loops.limit",
        "alerts[0].channels[0]",
        "channels.ops.webhook",
        "settings.spol",
        "settings.grpc_port",
        "judge.model",
    ]


@pytest.mark.parametrize(
    "text", ["channels: 42\nrules: x", "rules: {a: 1}", "- 1", "rules: [1, null, {}]\nalerts: 3", "judge: 3"]
)
def test_a_section_of_another_kind_is_a_mistake_and_no_crash(tmp_path: Path, text: str) -> None:
    assert "evalspan.yaml:1:" in failure(tmp_path, text)


def test_what_only_the_worker_opens_is_missed_before_anything_starts(tmp_path: Path) -> None:
    (tmp_path / "prices.yaml").write_text("models: [{model: m, input_per_million: -1, output_per_million: 1}]")
    text = """
        judge: {provider: replay, replies: none.jsonl}
        channels:
          ops: {webhook_env: HOOK, secret_env: SECRET, headers_env: {X-Team: TEAM}}
          mail: {apprise_env: MAIL}
        prices: prices.yaml
    """
    path = written(tmp_path, text)
    assert load_config(path, {}).channels
    with pytest.raises(ConfigError) as caught:
        load_config(path, {"SECRET": "s"}, complete=True)
    lines = str(caught.value).splitlines()
    assert [line.split(": ")[1] for line in lines] == [
        "judge.replies",
        "channels.ops.webhook_env",
        "channels.ops.headers_env.X-Team",
        "channels.mail.apprise_env",
        "prices",
    ]
    assert "'HOOK' is not set" in lines[1]
    assert "prices.yaml:1: models[0].input_per_million" in lines[4]


def test_environment_variables_override_the_file(tmp_path: Path) -> None:
    env = {
        "EVALSPAN_PROJECT": "other",
        "EVALSPAN_JUDGE_MODEL": "m2",
        "EVALSPAN_JUDGE_BASE_URL": "http://127.0.0.1:1/",
        "EVALSPAN_JUDGE_MAX_USD_PER_DAY": "0.5",
    }
    config = loaded(tmp_path, "project: p\njudge: {model: m1}\n", env)
    assert config.project == "other"
    assert config.judge == JudgeSettings(model="m2", base_url="http://127.0.0.1:1/", max_usd_per_day=0.5)
    with pytest.raises(ConfigError, match="EVALSPAN_JUDGE_MAX_USD_PER_DAY is 'much'"):
        loaded(tmp_path, "", {"EVALSPAN_JUDGE_MAX_USD_PER_DAY": "much"})


def test_a_cap_of_zero_dollars_from_the_environment_is_a_cap(tmp_path: Path) -> None:
    config = loaded(tmp_path, "judge: {model: m}\n", {"EVALSPAN_JUDGE_MAX_USD_PER_DAY": "0"})
    assert config.judge is not None
    assert config.judge.max_usd_per_day == 0.0


def test_an_api_key_alone_gives_the_usual_judge_with_its_cap(tmp_path: Path) -> None:
    config = loaded(tmp_path, "", {"ANTHROPIC_API_KEY": "k"})
    assert config.judge == JudgeSettings(provider="anthropic", max_usd_per_day=5.0)


def test_the_file_is_found_by_argument_then_variable_then_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert find_config(None, {}) is None
    written(tmp_path, "")
    assert find_config(None, {}) == Path("evalspan.yaml")
    assert find_config(None, {"EVALSPAN_CONFIG": "b.yaml"}) == Path("b.yaml")
    assert find_config("a.yaml", {"EVALSPAN_CONFIG": "b.yaml"}) == Path("a.yaml")
    with pytest.raises(ConfigError, match=r"cannot read 'b\.yaml'"):
        load_config(None, {"EVALSPAN_CONFIG": "b.yaml"})


def test_an_alert_is_read_whole(tmp_path: Path) -> None:
    text = """
alerts:
  - name: drop
    of: pass_rate
    metric: grounding
    agent: stock_analyst
    window: 30m
    below: 0.8
    min_sample: 5
    windows: 3
    breaches: 2
    for: 10m
    confidence: 0.95
    renotify: 4h
    no_data: resolve
    channels: [ops]
channels:
  ops: {webhook: "http://127.0.0.1:9000/hook"}
"""
    assert loaded(tmp_path, text).alerts == (
        AlertRule(
            name="drop",
            of="pass_rate",
            metric="grounding",
            agent="stock_analyst",
            window_s=1800.0,
            below=0.8,
            min_sample=5,
            windows=3,
            breaches=2,
            for_s=600.0,
            confidence=0.95,
            renotify_s=14400.0,
            no_data="resolve",
            channels=("ops",),
        ),
    )


def test_secrets_are_read_only_where_channels_are_opened(tmp_path: Path) -> None:
    text = """
channels:
  ops: {webhook: "https://example.com/h", secret_env: OPS_SECRET, headers_env: {authorization: OPS_AUTH}, timeout: 2s}
  mail: {apprise_env: MAIL_URL}
"""
    config = loaded(tmp_path, text)
    with pytest.raises(
        ConfigError, match=r"evalspan\.yaml:3: channels\.ops: environment variable 'OPS_SECRET' is not set"
    ):
        open_channels(config, {})
    channels = open_channels(config, {"OPS_SECRET": "s3cret", "OPS_AUTH": "Bearer t", "MAIL_URL": "mailto://x"})
    assert channels == {
        "ops": WebhookChannel(
            name="ops",
            url="https://example.com/h",
            secret="s3cret",
            headers=(("authorization", "Bearer t"),),
            timeout_s=2.0,
        ),
        "mail": AppriseChannel(name="mail", url="mailto://x"),
    }
    assert "s3cret" not in repr(channels)


def test_a_webhook_from_a_variable_is_checked_like_one_in_the_file(tmp_path: Path) -> None:
    config = loaded(tmp_path, "channels:\n  ops: {webhook_env: HOOK}\n")
    with pytest.raises(
        ConfigError, match=r"evalspan\.yaml:2: channels\.ops: webhook 'http://example\.com/\.\.\.' is not https"
    ):
        open_channels(config, {"HOOK": "http://example.com/secret"})


def test_paths_are_relative_to_the_file(tmp_path: Path) -> None:
    config = loaded(tmp_path, "prices: my/prices.yaml\njudge: {provider: replay, replies: r.jsonl}\n")
    assert config.prices == tmp_path / "my/prices.yaml"
    assert config.judge is not None
    assert config.judge.replies == tmp_path / "r.jsonl"


@dataclass(frozen=True, slots=True, kw_only=True)
class Polite(MetricBase):
    name: ClassVar[str] = "polite"

    def evaluate(self, case: Case) -> Score:
        return self.score(float("please" in (case.output or "")), "looked for please")


def test_metrics_come_from_the_given_factory(tmp_path: Path) -> None:
    def create(name: str, parameters: Mapping[str, Any]) -> Metric | JudgeMetric:
        if name != "polite":
            raise ConfigError(f"unknown metric {name!r}: one of polite")
        return Polite(**parameters)

    path = written(tmp_path, "rules:\n  - {name: a, metrics: [polite: {threshold: 1.0}]}\n")
    assert load_config(path, {}, create=create).rules[0].metrics == (Polite(threshold=1.0),)


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90.0), ("5m", 300.0), ("1h30m", 5400.0), ("7d", 604800.0), (2, 2.0), ("500ms", 0.5)]
)
def test_durations_are_read_with_their_unit(text: object, seconds: float) -> None:
    assert seconds_of(text) == seconds


@pytest.mark.parametrize("text", ["", "5", "h", "-1s", "5 hours", True, -3, float("nan")])
def test_what_is_no_duration_is_refused(text: object) -> None:
    with pytest.raises(ValueError, match="is no duration"):
        seconds_of(text)
