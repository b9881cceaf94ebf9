"""Equal texts become one object, and not for ever."""

import gc
import tracemalloc

from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

from evalspan_collector.attributes import read_pair
from evalspan_collector.shared import SharedTexts


def test_equal_texts_become_one_object() -> None:
    shared = SharedTexts()
    first, second = (b"gen_ai.system".decode() for _ in range(2))
    assert first is not second
    assert shared(first) is shared(second) is first


def test_what_is_held_is_bounded() -> None:
    shared = SharedTexts(max_bytes=10_000)
    for number in range(1_000):
        shared(f"{number}" + "k" * 100)
        assert shared.size <= 10_000
        assert shared("x" * 20_000) == "x" * 20_000
    assert shared.size <= 10_000


def test_keys_that_never_come_again_do_not_fill_memory() -> None:
    pairs = [KeyValue(key=f"{n}" + "k" * 50_000, value=AnyValue(int_value=1)).SerializeToString() for n in range(400)]
    tracemalloc.start()
    try:
        for pair in pairs:
            read_pair(pair)
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] < 8 << 20  # of 20 million letters
    finally:
        tracemalloc.stop()
