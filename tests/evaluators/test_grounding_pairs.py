"""Numbers that come in pairs: with a unit, behind a name, of a counted part of something."""

from typing import Any

import pytest

from evalspan_evaluators.grounding import Source, check

LINES = [
    {"line": "Harbor", "shift": "early", "QAP": 18, "QAT": 20, "RWP": 3, "RWT": 4, "staff": 11, "stops": 2},
    {"line": "Summit", "shift": "late", "QAP": 15, "QAT": 19, "RWP": 5, "RWT": 9, "staff": 12, "stops": 6},
]
DESKS = [
    {"desk": "North", "calls_q1": 31, "calls_q2": 44, "calls_q3": 18, "closed": 80},
    {"desk": "South", "calls_q1": 22, "calls_q2": 39, "calls_q3": 25, "closed": 71},
]


def flags(answer: str, rows: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """The numbers that are held against an answer."""
    found = check(answer, [Source("tool_result", rows, "report", call=0)])
    return [(v.claim.text, v.outcome) for v in found if v.flagged and v.claim.quantity is not None]


@pytest.mark.parametrize(
    "answer",
    [
        "Harbor had a good day ( 18 - 20 QA , 3 - 4 RW ) with 11 people.",
        "Harbor passed 18 - of - 20 checks and Summit 15 - of - 19.",
        "Harbor ( 18 - 20 ) was ahead of Summit ( 15 - 19 ).",
        "Harbor passed 18/20 QA checks.",
    ],
)
def test_pairs_that_stand_in_the_record_of_their_subject_are_supported(answer: str) -> None:
    assert flags(answer, LINES) == []


def test_a_pair_with_the_unit_of_other_fields_is_contradicted() -> None:
    assert flags("Harbor had a good day ( 3 - 4 QA ) with 11 people.", LINES) == [
        ("3", "contradicted"),
        ("4", "contradicted"),
    ]


def test_a_pair_in_brackets_belongs_to_the_name_before_it() -> None:
    assert flags("Harbor ( 15 - 19 ) was ahead of Summit ( 15 - 19 ).", LINES) == [
        ("15", "contradicted"),
        ("19", "contradicted"),
    ]


def test_so_many_of_so_many_belong_to_their_subject() -> None:
    assert [text for text, _ in flags("Harbor passed 15 - of - 19 checks.", LINES)] == ["15", "19"]


def test_halves_from_fields_that_are_no_pair_are_not_supported() -> None:
    assert flags("Harbor had a slow day ( 4 - 11 XR ).", LINES) == [("4", "unsupported"), ("11", "unsupported")]


def test_a_pair_of_a_counted_part_is_compared_with_that_parts_fields() -> None:
    assert flags("North and South took 18 - 25 calls in the third quarter.", DESKS) == []
    assert flags("North and South took 31 - 22 calls in the first quarter.", DESKS) == []
    assert [text for text, _ in flags("North and South took 31 - 22 calls in the third quarter.", DESKS)] == [
        "31",
        "22",
    ]


def test_a_part_no_field_counts_says_nothing_of_its_numbers() -> None:
    assert flags("North and South took 31 - 22 calls in the third week.", DESKS) == []
    assert flags("North and South took 31 - 22 calls, in the first and in the third quarter.", DESKS) == []


def test_a_pair_of_numbers_that_nothing_gives_is_unsupported() -> None:
    assert [text for text, _ in flags("North finished ahead of South, 97 - 58.", DESKS)] == ["97", "58"]
