"""Attributes read from the bytes of their pairs are those that protobuf itself reads."""

import pytest
from google.protobuf.message import DecodeError as ProtobufError
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue, KeyValueList

from evalspan_collector.attributes import attribute_map, read_pairs

_TEXTS = st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=300)
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


@given(st.lists(st.builds(KeyValue, key=_TEXTS, value=_VALUES), max_size=6))
def test_pairs_read_from_bytes_are_those_of_their_messages(pairs: list[KeyValue]) -> None:
    assert read_pairs([pair.SerializeToString() for pair in pairs]) == (attribute_map(pairs), False)


@pytest.mark.parametrize("length", [0, 1, 122, 123, 124, 125, 126, 127, 128, 16_379, 16_383, 16_384, 2_097_152])
def test_a_text_of_any_length_is_read_whole(length: int) -> None:
    pair = KeyValue(key="k", value=AnyValue(string_value="x" * length)).SerializeToString()
    assert read_pairs([pair]) == ({"k": "x" * length}, False)


@given(st.binary(max_size=60))
def test_any_bytes_are_read_as_protobuf_reads_them_or_refused(data: bytes) -> None:
    try:
        expected = KeyValue.FromString(data)
    except ProtobufError:
        try:
            _, repaired = read_pairs([data])
        except ProtobufError:
            return
        assert repaired
        return
    assert read_pairs([data]) == (attribute_map([expected]), False)


def test_a_list_read_twice_is_two_lists() -> None:
    pair = KeyValue(key="k", value=AnyValue(array_value=ArrayValue(values=[AnyValue(int_value=1)])))
    first, _ = read_pairs([pair.SerializeToString()])
    first["k"].append(2)
    assert read_pairs([pair.SerializeToString()]) == ({"k": [1]}, False)


def test_a_text_that_is_no_utf8_is_repaired_and_told() -> None:
    good = KeyValue(key="good", value=AnyValue(string_value="yes")).SerializeToString()
    bad = KeyValue(key="bad", value=AnyValue(string_value="abc")).SerializeToString().replace(b"abc", b"a\xffc")
    assert read_pairs([good, bad]) == ({"good": "yes", "bad": "a\ufffdc"}, True)


def test_more_different_pairs_than_are_remembered_are_all_read() -> None:
    pairs = [KeyValue(key="n", value=AnyValue(int_value=n)).SerializeToString() for n in range(10_000)]
    assert [read_pairs([pair])[0]["n"] for pair in pairs] == list(range(10_000))
