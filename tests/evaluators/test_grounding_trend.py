"""Rises and falls told the wrong way round, and the month of a peak."""

import pytest

from evalspan_evaluators.grounding import Source, check

_SERIES = {
    "series": [
        {"month": "2020-03", "rate": 5.0},
        {"month": "2020-04", "rate": 7.0},
        {"month": "2020-05", "rate": 9.0},
        {"month": "2020-08", "rate": 2.0},
    ]
}
_TWO = {"revenue": 1_250_000, "prev_revenue": 1_000_000, "open": 7, "closed": 12}


def wrong(text: str, result: object) -> list[tuple[str, str | None]]:
    verdicts = check(text, [Source("tool_result", result, "lookup")])
    return [(v.claim.text, v.code) for v in verdicts if v.flagged]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Revenue grew from $1.0M to $1.25M.", []),
        ("Revenue grew from $1.25M to $1.0M.", [("grew", "OTHER_SIGN")]),
        ("The queue dropped from 12 to 7.", []),
        ("The queue dropped from 7 to 12.", [("dropped", "OTHER_SIGN")]),
        ("Der Umsatz ist von 1,25 Mio. $ auf 1,0 Mio. $ gestiegen.", []),  # the word stands behind: not looked at
    ],
)
def test_a_rise_goes_to_the_larger_number(text: str, expected: list[tuple[str, str]]) -> None:
    assert wrong(text, _TWO) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The rate increased from March 2020 to May 2020.", []),
        ("The rate decreased from March 2020 to May 2020.", [("decreased", "OTHER_SIGN")]),
        ("It fell from May 2020 to August 2020.", []),
        ("It rose from May 2020 to August 2020.", [("rose", "OTHER_SIGN")]),
        ("The peak was in May 2020.", []),
        ("The rate peaked in April 2020.", [("April 2020", "OTHER_DATE")]),
        ("There was a peak in April 2020.", []),  # one of several, as far as the words go
        ("In June 2020 it was 7.0.", [("June 2020", None)]),
    ],
)
def test_a_rise_over_time_is_one_in_the_only_list(text: str, expected: list[tuple[str, str | None]]) -> None:
    assert wrong(text, _SERIES) == expected
