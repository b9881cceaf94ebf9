"""Content: Python values as text, whatever they are."""

import dataclasses
import enum
import json
import math
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalspan._content import cut, input_messages, output_messages, to_text


@dataclasses.dataclass
class Point:
    x: int
    y: Any


class Color(enum.Enum):
    RED = "red"


class Plain:
    pass


class Hostile:
    def __repr__(self) -> str:
        raise RuntimeError("no")


class Model:
    def model_dump(self, mode: str) -> dict[str, str]:
        return {"mode": mode}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("as is", "as is"),
        ({"a": [1, 2.5, None, True]}, '{"a": [1, 2.5, null, true]}'),
        ({"é": "ü"}, '{"é": "ü"}'),
        (Point(1, Point(2, None)), '{"x": 1, "y": {"x": 2, "y": null}}'),
        (Color.RED, '"red"'),
        (datetime(2026, 1, 2, tzinfo=UTC), '"2026-01-02T00:00:00+00:00"'),
        (Decimal("187.42"), "187.42"),
        (Decimal(3), "3"),
        (Decimal("0.1000000000000000000000001"), '"0.1000000000000000000000001"'),
        (UUID(int=1), '"00000000-0000-0000-0000-000000000001"'),
        (Path("a/b"), '"a/b"'),
        (b"\x00\x01", '"<2 bytes>"'),
        (math.nan, '"nan"'),
        ([math.inf, 1.0], '["inf", 1.0]'),
        ({(1, 2): "tuple key"}, '{"(1, 2)": "tuple key"}'),
        (Model(), '{"mode": "json"}'),
        ((1, {2}), "[1, [2]]"),
    ],
)
def test_values_become_json_text(value: object, text: str) -> None:
    assert to_text(value) == text


def test_objects_without_data_are_shown_without_their_address() -> None:
    assert "0x" not in to_text(Plain())
    assert "Plain" in to_text(Plain())


def test_an_object_whose_repr_raises_is_shown_by_its_type() -> None:
    assert to_text([Hostile()]) == '["<Hostile>"]'


def test_a_cycle_ends() -> None:
    loop: list[object] = []
    loop.append(loop)
    assert to_text(loop).startswith("[[")


def test_frames_and_arrays_become_rows_and_lists() -> None:
    pandas = pytest.importorskip("pandas")
    numpy = pytest.importorskip("numpy")
    assert to_text(pandas.DataFrame({"t": ["A"], "p": [1.5]})) == '[{"t": "A", "p": 1.5}]'
    assert to_text(numpy.array([1, 2])) == "[1, 2]"
    assert to_text({"n": numpy.float64(2.5)}) == '{"n": 2.5}'


@given(st.text(), st.integers(min_value=0, max_value=40))
def test_cut_text_fits_and_is_a_prefix(text: str, limit: int) -> None:
    kept, was_cut = cut(text, limit)
    assert len(kept.encode()) <= limit
    clean = text.encode("utf-8", "replace").decode()
    assert clean.startswith(kept)
    assert was_cut == (len(clean.encode()) > limit)


def test_lone_surrogates_do_not_survive() -> None:
    cut("\ud800 end", 100)[0].encode()


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(alphabet=st.characters(codec="utf-8")),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(alphabet=st.characters(codec="utf-8"), max_size=4), inner, max_size=3)
    ),
    max_leaves=12,
)


@given(JSON)
def test_json_values_come_back_equal(value: Any) -> None:
    if not isinstance(value, str):
        assert json.loads(to_text(value)) == value


def parts(text: str) -> list[tuple[str, str]]:
    return [(message["role"], message["parts"][0]["content"]) for message in json.loads(text)]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({}, []),
        ({"question": "hi"}, [("user", "hi")]),
        pytest.param({"question": "hi", "client": object()}, [("user", "hi")], id="an argument that is no JSON"),
        ({"question": "hi", "history": []}, [("user", "hi")]),
        ({"question": "hi", "limit": None}, [("user", "hi")]),
        ({"a": 1, "b": "x"}, [("user", '{"a": 1, "b": "x"}')]),
        ({"n": 3}, [("user", '{"n": 3}')]),
        (
            {
                "question": "now",
                "history": [
                    {"role": "user", "content": "a"},
                    {"role": "assistant", "content": [{"type": "text", "text": "b"}]},
                ],
            },
            [("user", "a"), ("assistant", "b"), ("user", "now")],
        ),
        ({"messages": [{"role": "user", "content": "only"}]}, [("user", "only")]),
        ({"rows": [{"role": "user"}]}, [("user", '{"rows": [{"role": "user"}]}')]),
    ],
    ids=repr,
)
def test_agent_arguments_become_messages(arguments: dict[str, object], expected: list[tuple[str, str]]) -> None:
    text, was_cut = input_messages(arguments, 1000)
    assert parts(text) == expected
    assert not was_cut


def test_messages_that_are_too_long_stay_valid_json_and_keep_the_newest() -> None:
    history = [{"role": "user", "content": "old" * 100}, {"role": "assistant", "content": "mid"}]
    text, was_cut = input_messages({"history": history, "question": "newest"}, 12)
    assert was_cut
    assert parts(text) == [("user", "old"), ("assistant", "mid"), ("user", "newest")]


def test_a_reply_object_of_a_model_api_is_its_text() -> None:
    class Block:
        def __init__(self, text: str) -> None:
            self.text = text

    class Reply:
        role = "assistant"
        content = [Block("Hello "), Block("there")]  # noqa: RUF012 - a stand-in for an API object

    assert parts(output_messages(Reply(), 100)[0]) == [("assistant", "Hello there")]
    assert parts(output_messages({"total": 3}, 100)[0]) == [("assistant", '{"total": 3}')]
    assert parts(output_messages("text", 2)[0]) == [("assistant", "te")]
