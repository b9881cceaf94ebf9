"""Attributes read from the bytes of their pairs are those that protobuf itself reads."""

import gc
import sys
import tracemalloc
from collections.abc import Iterable
from typing import Any

import pytest
from google.protobuf.message import DecodeError as ProtobufError
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue, KeyValueList

from evalspan_collector.attributes import plain
from evalspan_collector.layout import Layouts
from evalspan_collector.shared import shared

_TEXTS = st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=300)
#: Few keys, so that spans are alike and keys come twice now and then.
_KEYS = st.one_of(st.sampled_from(["a", "b", "c"]), _TEXTS)
_SCALARS = st.one_of(
    _TEXTS.map(lambda text: AnyValue(string_value=text)),
    st.integers(-(2**63), 2**63 - 1).map(lambda number: AnyValue(int_value=number)),
    st.floats(allow_nan=False).map(lambda number: AnyValue(double_value=number)),
    st.booleans().map(lambda flag: AnyValue(bool_value=flag)),
    st.binary(max_size=40).map(lambda data: AnyValue(bytes_value=data)),
    st.just(AnyValue()),
)
_VALUES = st.recursive(
    _SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda values: AnyValue(array_value=ArrayValue(values=values))),
        st.dictionaries(_TEXTS, inner, max_size=3).map(
            lambda pairs: AnyValue(
                kvlist_value=KeyValueList(values=[KeyValue(key=k, value=v) for k, v in pairs.items()])
            )
        ),
    ),
    max_leaves=6,
)


def _plain(pairs: list[KeyValue]) -> dict[str, Any]:
    return {pair.key: plain(pair.value) for pair in pairs}


def _varying(key: str) -> Layouts:
    """Layouts that know that this key varies."""
    found = Layouts()
    for n in range(40):
        found.read([KeyValue(key=key, value=AnyValue(int_value=2**40 + n)).SerializeToString()])
    return found


@given(st.lists(st.lists(st.builds(KeyValue, key=_KEYS, value=_VALUES), max_size=6), max_size=30))
def test_pairs_read_from_bytes_are_those_of_their_messages(spans: list[list[KeyValue]]) -> None:
    layouts = Layouts()
    for pairs in spans * 2:
        found, layout, damaged, lost = layouts.read([pair.SerializeToString() for pair in pairs])
        assert (found, damaged, lost) == (_plain(pairs), False, 0)
        assert layout is None or [*found] == [*layout.keys] == [pair.key for pair in pairs]


@pytest.mark.parametrize("length", [0, 1, 122, 123, 124, 125, 126, 127, 128, 16_379, 16_383, 16_384, 2_097_152])
def test_a_text_of_any_length_is_read_whole(length: int) -> None:
    pair = KeyValue(key="k", value=AnyValue(string_value="x" * length)).SerializeToString()
    for layouts in (Layouts(), _varying("k")):
        assert layouts.read([pair])[0] == {"k": "x" * length}


@given(st.integers(-(2**63), 2**63 - 1))
def test_a_number_that_varies_is_read_whole(number: int) -> None:
    pair = KeyValue(key="k", value=AnyValue(int_value=number)).SerializeToString()
    assert _NUMBERS.read([pair])[0] == {"k": number}


_NUMBERS = _varying("k")


@given(st.binary(max_size=60))
def test_any_bytes_are_read_as_protobuf_reads_them_or_lost(data: bytes) -> None:
    for layouts in (Layouts(), _NUMBERS):
        found, _, damaged, lost = layouts.read([data])
        try:
            expected = KeyValue.FromString(data)
        except ProtobufError:
            assert damaged or lost
        else:
            assert (found, damaged, lost) == (_plain([expected]), False, 0)


@given(st.sampled_from([b"\x0a\x01k\x12", b"\x0a\x01k\x12\x02\x18", b"\x0a\x01k\x12\x03\x0a"]), st.binary(max_size=8))
def test_bytes_that_begin_like_a_known_pair_are_read_as_protobuf_reads_them(start: bytes, rest: bytes) -> None:
    test_any_bytes_are_read_as_protobuf_reads_them_or_lost.hypothesis.inner_test(start + rest)  # type: ignore[attr-defined]  # hypothesis adds it


def test_a_list_read_twice_is_two_lists() -> None:
    pair = KeyValue(key="k", value=AnyValue(array_value=ArrayValue(values=[AnyValue(int_value=1)])))
    layouts = Layouts()
    for _ in range(3):
        found = layouts.read([pair.SerializeToString()])[0]
        assert found == {"k": [1]}
        found["k"].append(2)


def test_values_that_are_equal_in_python_and_not_on_the_wire_stay_apart() -> None:
    values = [AnyValue(int_value=1), AnyValue(bool_value=True), AnyValue(double_value=1.0), AnyValue(string_value="1")]
    layouts = Layouts()
    for _ in range(3):
        found = [layouts.read([KeyValue(key="k", value=v).SerializeToString()])[0]["k"] for v in values]
        assert [repr(v) for v in found] == ["1", "True", "1.0", "'1'"]


def test_a_text_that_is_no_utf8_is_repaired_and_told() -> None:
    good = KeyValue(key="good", value=AnyValue(string_value="yes")).SerializeToString()
    bad = KeyValue(key="bad", value=AnyValue(string_value="abc")).SerializeToString().replace(b"abc", b"a\xffc")
    for layouts in (Layouts(), _varying("bad")):
        assert layouts.read([good, bad]) == ({"good": "yes", "bad": "a\ufffdc"}, None, True, 0)


def test_a_value_that_cannot_be_read_costs_itself_only() -> None:
    good = KeyValue(key="good", value=AnyValue(string_value="yes")).SerializeToString()
    assert Layouts().read([good, b"\x0a\x03bad\x12\x02\x0a\x05"]) == ({"good": "yes", "bad": "..."}, None, False, 1)


def test_the_last_of_equal_keys_wins_and_has_no_layout() -> None:
    pairs = [KeyValue(key="k", value=AnyValue(int_value=n)).SerializeToString() for n in (1, 2)]
    layouts = Layouts()
    for _ in range(3):
        assert layouts.read(pairs) == ({"k": 2}, None, False, 0)


def test_more_values_than_are_held_are_all_read_and_the_room_is_bounded() -> None:
    layouts = Layouts()
    for n in range(10_000):
        pairs = [
            KeyValue(key=f"key {n}", value=AnyValue(int_value=n)).SerializeToString(),
            KeyValue(key="text", value=AnyValue(string_value="x" * n)).SerializeToString(),
        ]
        assert layouts.read(pairs)[0] == {f"key {n}": n, "text": "x" * n}
    assert sys.getsizeof(layouts._layouts) < 1 << 20
    assert layouts._held_bytes < 10 << 20


@pytest.mark.parametrize("length", [2_101_247, 2_101_248, 2_101_249, 2_101_250, 2_097_162, 130, 131, 132, 4])
def test_a_pair_of_zeros_is_lost_whatever_is_known(length: int) -> None:
    layouts = Layouts()
    layouts.read([KeyValue(key="k", value=AnyValue(string_value="x" * 20_000)).SerializeToString()])
    assert layouts.read([bytes(length)]) == ({"": "..."}, None, False, 1)


@pytest.mark.parametrize("length", [1, 200, 50_000])
def test_what_is_held_for_keys_is_bounded_and_forgotten(length: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evalspan_collector.heads._MAX_BYTES", 300_000, raising=False)
    layouts = Layouts()
    layouts._limit = 0  # all vary
    keys = [f"{number}" + "k" * length for number in range(4)]
    tracemalloc.start()
    try:
        for size in range(2_000):
            for key in keys:
                pair = KeyValue(key=key, value=AnyValue(string_value="v" * size)).SerializeToString()
                assert layouts.read([pair])[0] == {key: "v" * size}
        pair = b""
        assert tracemalloc.get_traced_memory()[0] < 1_000_000
        layouts.forget()
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] < 100_000
    finally:
        tracemalloc.stop()


def test_what_is_held_for_layouts_is_bounded_by_their_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evalspan_collector.layout._MAX_PLACES", 10_000, raising=False)
    layouts = Layouts()
    for number in range(100):
        pairs = [KeyValue(key=f"{place}", value=AnyValue(bool_value=True)) for place in range(number, number + 300)]
        layouts.read([pair.SerializeToString() for pair in pairs])
    assert sum(len(one.keys) for alike in layouts._layouts.values() for one in alike) <= 10_300


def _alike(keys: Iterable[str]) -> list[bytes]:
    """Pairs that are never constant."""
    value = AnyValue(kvlist_value=KeyValueList(values=[KeyValue(key="k")]))
    return [KeyValue(key=key, value=value).SerializeToString() for key in keys]


def test_a_span_with_very_many_attributes_has_no_layout() -> None:
    found, layout, damaged, lost = Layouts().read(_alike(map(str, range(20_000))))
    assert (found, damaged, lost) == ({str(n): {"k": None} for n in range(20_000)}, False, 0)
    assert layout is None


def test_nothing_is_held_for_keys_of_spans_without_a_layout() -> None:
    layouts = Layouts()
    spans = [[shared(f"{number} {place}") for place in range(40)] for number in range(200)]
    tracemalloc.start()
    try:
        for keys in spans:
            assert [*layouts.read(_alike(keys))[0]] == keys
        assert tracemalloc.get_traced_memory()[0] < 500_000
    finally:
        tracemalloc.stop()
