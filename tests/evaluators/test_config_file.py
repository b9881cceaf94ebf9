import os
import time
from pathlib import Path
from typing import Annotated

import pytest
from pydantic import AfterValidator, BaseModel, ConfigDict

from evalspan.errors import ConfigError
from evalspan_collector.config_file import MAX_ALIASES, MAX_BYTES, load_model, parse_yaml, read_yaml


def _share(value: float) -> float:
    if not 0 <= value <= 1:
        raise ValueError(f"{value!r} is not between 0 and 1; write the share of runs, such as 0.25")
    return value


class RuleModel(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)
    name: str
    sample: Annotated[float, AfterValidator(_share)] = 1.0
    agents: list[str] = []


class FileModel(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)
    project: str = "default"
    rules: list[RuleModel] = []
    named: dict[str, RuleModel] = {}


def failure(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        parse_yaml(text).validate(FileModel)
    return str(caught.value)


def test_a_wrong_value_is_named_by_file_line_field_value_and_next_action() -> None:
    text = "project: x\nrules:\n  - name: a\n  - name: b\n    sample: 1.5\n"
    assert failure(text) == (
        "evalspan.yaml:5: rules[1].sample: 1.5 is not between 0 and 1; write the share of runs, such as 0.25"
    )


def test_every_mistake_is_reported_in_the_order_of_the_file() -> None:
    lines = failure("rules:\n  - sample: 2.0\nnamed:\n  n: {name: 3}\nprojekt: y\n").splitlines()
    assert lines == [
        "evalspan.yaml:2: rules[0].name: is missing: add it",
        "evalspan.yaml:2: rules[0].sample: 2.0 is not between 0 and 1; write the share of runs, such as 0.25",
        'evalspan.yaml:4: named.n.name: 3 is not a text: put it in quotes ("3")',
        "evalspan.yaml:5: projekt: unknown field 'projekt': did you mean 'project'?",
    ]


def test_an_unknown_field_far_from_any_lists_the_known_ones() -> None:
    assert failure("rules: [{name: a, zzz: 1}]").endswith("unknown field 'zzz': one of agents, name, sample")


def test_a_key_that_yaml_reads_as_a_boolean_is_explained() -> None:
    assert 'rules[0].name: True is not a text: put it in quotes ("True")' in failure("rules:\n - name: on\n")


def test_broken_yaml_names_the_line() -> None:
    assert failure("project: x\nrules: [a, b\nnext: 1\n").startswith("evalspan.yaml:3: is no YAML: ")


def test_a_repeated_key_is_an_error_and_not_the_last_one_wins() -> None:
    assert failure("project: a\nproject: b\n") == "evalspan.yaml:2: project: is there twice: remove one"


def test_python_objects_are_never_built() -> None:
    assert "is no YAML" in failure("project: !!python/object/apply:os.system ['echo hi']\n")


def test_an_alias_bomb_is_refused_quickly() -> None:
    levels = ["l0: &l0 [x, x, x, x, x, x, x, x, x, x]"]
    levels += [f"l{i}: &l{i} [{', '.join([f'*l{i - 1}'] * 10)}]" for i in range(1, 10)]
    started = time.monotonic()
    assert "values: too many aliases" in failure("\n".join(levels))
    assert time.monotonic() - started < 20


def test_a_bomb_of_merged_mappings_is_refused() -> None:
    levels = ["l0: &l0 {a: 1}"] + [f"l{i}: &l{i} {{<<: [*l{i - 1}, *l{i - 1}]}}" for i in range(1, 40)]
    assert "values: too many aliases" in failure("\n".join(levels))


def test_too_many_aliases_are_refused() -> None:
    text = "a: &a x\nb: [" + ", ".join(["*a"] * (MAX_ALIASES + 1)) + "]"
    assert f"more than {MAX_ALIASES} aliases" in failure(text)


def test_a_value_that_holds_itself_is_refused() -> None:
    assert "nested deeper" in failure("a: &a [*a]")


def test_deep_nesting_is_refused_without_a_crash() -> None:
    assert "evalspan.yaml" in failure("a: " + "[" * 5000)
    assert "nested deeper" in failure("a: " + "[" * 100 + "]" * 100)


def test_brackets_without_end_are_refused_quickly() -> None:
    began = time.monotonic()
    with pytest.raises(ConfigError, match="nested deeper than"):
        parse_yaml("[" * 500_000)
    assert time.monotonic() - began < 5


def test_a_file_of_too_many_values_is_refused_before_it_is_built() -> None:
    with pytest.raises(ConfigError, match=r":50000: more than 50000 values: split the file"):
        parse_yaml("- x\n" * 200_000)


def test_a_character_that_has_no_place_in_yaml_is_named_with_its_line() -> None:
    with pytest.raises(ConfigError, match=r"evalspan.yaml:2: character 0x00 has no place"):
        parse_yaml('rules:\n  - name: "\0"\n')


def test_aliases_and_merges_of_reasonable_size_work_and_keep_their_lines() -> None:
    text = "named:\n  a: &base\n    name: a\n    sample: 0.5\n  b:\n    <<: *base\n    name: b\n"
    document = parse_yaml(text)
    model = document.validate(FileModel)
    assert model.named["b"].sample == 0.5
    assert model.named["b"].name == "b"
    assert document.line(("named", "b", "name")) == 7
    assert document.line(("named", "b", "sample")) == 4


def test_an_unreadable_file_says_what_to_check(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot read .*none\.yaml.*No such file.*check --config"):
        read_yaml(tmp_path / "none.yaml")


def test_a_file_that_is_too_large_or_no_utf8_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "evalspan.yaml"
    path.write_bytes(b"#" * (MAX_BYTES + 1))
    with pytest.raises(ConfigError, match="larger than"):
        read_yaml(path)
    path.write_bytes(b"project: x\nname: \xff\n")
    with pytest.raises(ConfigError, match=r"evalspan\.yaml:2: byte 0xff is no UTF-8"):
        read_yaml(path)


def test_an_empty_file_is_the_default_model(tmp_path: Path) -> None:
    path = tmp_path / "evalspan.yaml"
    path.write_text("# nothing yet\n")
    model, document = load_model(path, FileModel)
    assert model == FileModel()
    assert document.data is None


@pytest.mark.parametrize("tag", ["!!bool x", "!!timestamp x", "!!int ''", "!!float {}", "!!set 1", "!!omap 1"])
def test_a_tag_that_does_not_fit_its_value_is_a_mistake_and_no_crash(tag: str) -> None:
    assert failure(f"rules: {tag}\n").startswith("evalspan.yaml")


def test_a_pipe_is_refused_instead_of_waited_for(tmp_path: Path) -> None:
    pipe = tmp_path / "evalspan.yaml"
    os.mkfifo(pipe)
    with pytest.raises(ConfigError, match="is no regular file"):
        read_yaml(pipe)
