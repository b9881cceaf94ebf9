"""Lenient JSON: what instrumentations call JSON."""

import json
import math

import pytest

from evalspan_collector.lenient_json import as_text, dump, parse, parse_object, unwrap


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": 1}', {"a": 1}),
        ("plain", "plain"),
        ("{'a': None}", "{'a': None}"),
        ("NaN is not a number", "NaN is not a number"),
        ("", ""),
        ('{"a": ', '{"a": '),
    ],
)
def test_json_is_read_and_anything_else_stays_text(text: str, value: object) -> None:
    assert parse(text) == value


def test_a_python_repr_is_read_where_asked() -> None:
    assert parse("{'a': None, 'b': (1, 2)}", python=True) == {"a": None, "b": (1, 2)}
    assert parse("(1, 2)", python=True) == [1, 2]


def test_json_in_json_is_undone_at_every_level() -> None:
    value = {"ticker": "ACMX"}
    text = json.dumps(json.dumps(json.dumps(value)))
    assert unwrap(text) == value


def test_numbers_and_words_in_strings_stay_text() -> None:
    assert unwrap("42") == "42"
    assert unwrap("null") == "null"


def test_a_repr_that_would_exhaust_the_parser_stays_text() -> None:
    bomb = "[" + "-" * 60_000 + "1]"
    assert parse(bomb, python=True) == bomb
    nested = "[" * 5_000 + "]" * 5_000
    assert parse(nested, python=True) == nested


def test_an_object_is_found_inside_text() -> None:
    assert parse_object("\"{'a': 1}\"") == {"a": 1}
    assert parse_object("[1]") is None


def test_what_json_cannot_say_is_written_all_the_same() -> None:
    assert json.loads(dump({1: math.nan, "b": 2**80, "c": b"\x01"})) == {"1": None, "b": 2**80, "c": "01"}
    assert json.loads(dump("lone \ud800 surrogate")) == "lone \ud800 surrogate"


def test_lone_surrogates_in_json_text_are_replaced() -> None:
    assert parse('{"a": "\\ud800"}') == {"a": "?"}


def test_values_become_text_the_way_people_read_them() -> None:
    assert [as_text(v) for v in ("x", 1, True, 0.5, math.inf, ["a"])] == ["x", "1", "true", "0.5", "inf", '["a"]']
