"""Values that a source lists by day: told with a date or a weekday, as a day's high or low."""

import pytest

from evalspan_evaluators.grounding import Source, check

#: Wednesday 3 to Friday 5 January 2024.
_VALUES = [
    (3, 9, 1.1, 3.3),
    (3, 15, 4.2, 2.1),
    (4, 9, 5.5, 1.2),
    (4, 15, 7.7, 4.1),
    (5, 9, 2.2, 5.5),
    (5, 15, 3.3, 6.6),
]
ROWS = [
    {"at": f"2024-01-{day:02d} {hour:02d}:00:00", "main": {"temp": temp}, "wind": {"speed": speed}}
    for day, hour, temp, speed in _VALUES
]


def flags(answer: str) -> list[tuple[str, str | None, str]]:
    """The numbers that are held against an answer, why, and the true value."""
    found = check(answer, [Source("tool_result", {"list": ROWS}, "forecast", call=0)])
    return [
        (v.claim.text, v.code, v.fact.text if v.fact else "")
        for v in found
        if v.flagged and v.claim.quantity is not None
    ]


@pytest.mark.parametrize(
    "answer",
    [
        "Thursday will be cloudy with a high of 7.7°C and a low of 5.5°C.",
        "On January 4th, the high will be 7.7°C.",
        "On Thursday, January 4, it is 5.5°C at first.",
        "Friday brings winds of 6.6 m/s.",
        "The low on the way there was 1.1°C.",
        "Thursday and Friday bring winds of 6.6 m/s.",
        "Sunday will see a high of 7.7°C.",
        "It is at least 2.2°C warm from Thursday on.",
        "At least one of them is a windy day.",
    ],
)
def test_what_the_rows_of_the_day_hold_is_supported(answer: str) -> None:
    assert flags(answer) == []


@pytest.mark.parametrize(
    ("answer", "flag"),
    [
        ("Thursday will be cloudy with a high of 5.5°C.", ("5.5", "NOT_EXTREME", "7.7")),
        ("On January 4th, the low will be 7.7°C.", ("7.7", "NOT_EXTREME", "5.5")),
        ("Thursday will be cold, 2.2°C.", ("2.2", "OTHER_DATE", "5.5")),
        ("Friday brings winds of 4.1 m/s.", ("4.1", "OTHER_DATE", "5.5")),
    ],
)
def test_a_value_of_another_day_or_hour_is_contradicted(answer: str, flag: tuple[str, str, str]) -> None:
    assert flags(answer) == [flag]


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("Temperatures range from -1.2 to 9.1 °C, with the lowest expected on March 2.", []),
        ("Temperatures range from -1.2 to 9.1 °C, with the highest on March 3.", []),
        ("Temperatures range from -1.2 to 9.1 °C, with the lowest expected on March 3.", ["March 3"]),
        ("Temperatures range from -1.2 to 9.1 °C, with the highest reached on March 4 at 14:00.", ["March 4", "14:00"]),
        ("Temperatures range from -1.2 to 9.1 °C, with the highest reached on March 3 at 14:00.", []),
        ("Temperatures range from -1.2 to 9.1 °C, with the highest reached on March 3 at 09:00.", ["09:00"]),
    ],
)
def test_the_day_of_an_extreme_is_that_of_its_row(text: str, wrong: list[str]) -> None:
    days = [
        {"time": "2026-03-02 05:00", "temp_c": -1.2},
        {"time": "2026-03-03 14:00", "temp_c": 9.1},
        {"time": "2026-03-04 09:00", "temp_c": 5.0},
        {"time": "2026-03-04 14:00", "temp_c": 4.4},
    ]
    verdicts = check(text, [Source("tool_result", {"days": days}, "forecast")])
    assert [v.claim.text for v in verdicts if v.outcome == "contradicted"] == wrong
