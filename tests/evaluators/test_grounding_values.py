"""Numbers, dates and ids of an answer in many written forms, found in or derived from tool results."""

import json
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evalspan_collector.run import ToolCall
from evalspan_evaluators.case import Case, Turn
from evalspan_evaluators.grounding import ClaimVerdict, Grounding, Source, check
from evalspan_evaluators.grounding import moment as moments
from evalspan_evaluators.grounding import quantity as quantities
from evalspan_evaluators.metric import evaluate_metric

DATA = Path(__file__).parent.parent / "data" / "grounding"


def verdicts(answer: str, *results: Any, question: str = "") -> tuple[ClaimVerdict, ...]:
    sources = [Source("user", question)] if question else []
    sources += [Source("tool_result", r, f"tool{i}", call=i) for i, r in enumerate(results)]
    return check(answer, sources)


def flags(answer: str, *results: Any, question: str = "") -> list[tuple[str, str]]:
    return [(v.claim.text, v.outcome) for v in verdicts(answer, *results, question=question) if v.flagged]


@pytest.mark.parametrize(
    "answer",
    [
        "The total is 1,234.56 USD.",
        "The total is $1,234.56.",
        "Der Betrag ist 1.234,56 €.",
        "Le total est de 1 234,56 €.",
        "El total es 1.234,56 euros.",
        "O total é R$ 1.234,56.",
        "合計は1,234.56円です。",
        "总计为1234.56元。",
        "The total is about 1,235.",
    ],
)
def test_one_amount_in_many_locales(answer: str) -> None:
    assert flags(answer, {"total": 1234.56}) == []


@pytest.mark.parametrize(
    "answer",
    [
        "The total is 1,243.56.",
        "Der Betrag ist 1.243,56.",
        "Le total est de 1 243,56.",
        "合計は1,243.56です。",
    ],
)
def test_changed_digits_in_many_locales(answer: str) -> None:
    assert [outcome for _, outcome in flags(answer, {"total": 1234.56})] == ["contradicted"]


@pytest.mark.parametrize(
    "answer",
    [
        "It ships on 2025-03-09.",
        "It ships on March 9, 2025.",
        "It ships on 9 March 2025.",
        "It ships on March 9th.",
        "Versand am 9. März 2025.",
        "Versand am 09.03.2025.",
        "Expédition le 9 mars 2025.",
        "Se envía el 9 de marzo de 2025.",
        "Envio em 9 de março de 2025.",
        "2025年3月9日に発送します。",
        "2025年3月9日发货。",
        "It ships on 3/9/2025.",
    ],
)
def test_one_date_in_many_locales(answer: str) -> None:
    assert flags(answer, {"ships": "2025-03-09"}) == []
    assert len(flags(answer, {"ships": "2025-04-17"})) == 1


def test_a_twelve_hour_clock_is_read() -> None:
    assert flags("It leaves at 5:30 PM.", {"departure": "17:30"}) == []
    assert flags("It leaves at 5:30 AM.", {"departure": "17:30"}) == [("5:30 AM", "unsupported")]


def test_a_weekday_must_fit_its_date() -> None:
    assert flags("It ships on Sunday, March 9, 2025.", {"ships": "2025-03-09"}) == []
    assert flags("It ships on Tuesday, March 9, 2025.", {"ships": "2025-03-09"}) == [("Tuesday", "contradicted")]


@pytest.mark.parametrize(
    ("answer", "formula"),
    [
        ("Together they cost $65.", "25 + 40"),
        ("The second one is $15 more.", "40 - 25"),
        ("On average they cost $32.50.", "(25 + 40) / 2"),
        ("The price rose by 60%.", "(40 - 25) / 25"),
    ],
)
def test_small_derivations_are_supported_with_their_formula(answer: str, formula: str) -> None:
    result = verdicts(
        answer, {"items": [{"name": "price of first", "price": 25}, {"name": "price of second", "price": 40}]}
    )
    assert [(v.outcome, v.formula) for v in result if v.claim.kind in ("money", "percent")] == [("supported", formula)]


def test_the_answers_own_arithmetic_is_followed() -> None:
    assert flags("The difference is 725 - 503 = 222.", {"new": 725, "old": 503}) == []
    assert flags("The difference is 725 - 503 = 272.", {"new": 725, "old": 503}) == [("272", "unsupported")]


def test_scale_words_must_agree_with_what_the_source_declares() -> None:
    table = "(in thousands) | 2023 | 2024\nRevenue | 1,234 | 2,345"
    assert flags("Revenue was 2,345 thousand.", table) == []
    assert [o for _, o in flags("Revenue was 2,345 million.", table)] in (["unsupported"], ["contradicted"])


def test_a_percent_may_stand_as_a_fraction() -> None:
    assert flags("Growth was 12.4%.", {"growth": 0.124}) == []


def test_units_convert() -> None:
    assert flags("The parcel weighs 1.5 kg.", "The parcel weighs 1500 g.") == []


ORDERS = [
    {"order_id": "ORD-1001", "total": 250.0, "ship_date": "2025-05-02", "status": "shipped"},
    {"order_id": "ORD-1002", "total": 480.0, "ship_date": "2025-06-11", "status": "open"},
]


def test_a_value_of_another_record_is_contradicted_with_the_true_one() -> None:
    answer = "Order ORD-1001 has a total of 480.00 and ships on 2025-06-11."
    found = [v for v in verdicts(answer, {"orders": ORDERS}) if v.flagged]
    assert [(v.claim.text, v.fact.path if v.fact else None) for v in found] == [
        ("480.00", "$.orders[0].total"),
        ("2025-06-11", "$.orders[0].ship_date"),
    ]


def test_values_of_several_records_in_one_list_are_supported() -> None:
    assert flags("ORD-1001 costs 250 and ORD-1002 costs 480.", {"orders": ORDERS}) == []


def test_an_id_with_one_wrong_character_is_flagged() -> None:
    assert flags("Order ORD-1007 is open.", {"orders": ORDERS}) == [("ORD-1007", "unsupported")]


def test_a_category_of_another_record_is_a_minor_contradiction() -> None:
    found = [v for v in verdicts("Order ORD-1002 is shipped.", {"orders": ORDERS}) if v.flagged]
    assert [(v.claim.kind, v.severity) for v in found] == [("category", "minor")]


def test_denied_success_is_a_minor_contradiction() -> None:
    ok = {"order_id": "ORD-1001", "status": "cancelled"}
    assert [v.code for v in verdicts("Your order has not been successfully cancelled.", ok) if v.flagged] == [
        "SUCCESS_DENIED"
    ]
    assert flags("Your order has been successfully cancelled.", ok) == []


def test_a_told_success_after_a_failed_call_is_flagged() -> None:
    found = check(
        "Your order has been successfully cancelled.",
        [Source("tool_result", "Error: order is already shipped", "cancel_order", failed=True, call=0)],
    )
    assert [v.code for v in found if v.flagged] == ["FAILURE_HIDDEN"]


def test_the_peak_of_a_series_is_its_maximum() -> None:
    rows = "date,value\n2021-01-01,3.5\n2021-02-01,7.25\n2021-03-01,9.75\n2021-04-01,4.5\n2021-05-01,2.5"
    assert flags("The rate peaked at 9.75.", rows) == []
    assert [v.code for v in verdicts("The rate peaked at 7.25.", rows) if v.flagged] == ["NOT_EXTREME"]
    assert [v.code for v in verdicts("It was 7.25 in March 2021.", rows) if v.flagged] == ["OTHER_DATE"]


FORECAST = {
    "city": "Graz",
    "list": [
        {
            "main": {"temp": 1.25 * hour + 3.5 * day, "pressure": 1000 + hour + 20 * day},
            "dt": f"2025-01-0{day} {hour:02d}:00",
        }
        for day in (3, 4, 5)
        for hour in (1, 7, 13, 19)
    ],
}


def test_a_value_told_for_a_day_must_be_of_a_row_of_that_day() -> None:
    assert flags("On January 4th, it is 15.25 °C. The pressure is 1087 hPa.", FORECAST) == []
    answer = "On January 4th, it is 11.75 °C. The pressure is 1067 hPa."
    found = [v for v in verdicts(answer, FORECAST) if v.flagged]
    assert [(v.claim.text, v.code) for v in found] == [("11.75", "OTHER_DATE"), ("1067", "OTHER_DATE")]
    assert found[0].fact is not None
    assert found[0].fact.path == "$.list[4].main.temp"
    assert flags("On January 4th and January 5th, it is up to 11.75 °C.", FORECAST) == []


def test_the_ends_of_a_range_are_the_least_and_the_greatest_value() -> None:
    assert flags("The temperature ranges from 11.75 to 41.25 °C.", FORECAST) == []
    wrong = [v for v in verdicts("The temperature ranges from 15.25 to 41.25 °C.", FORECAST) if v.flagged]
    assert [(v.claim.text, v.code) for v in wrong] == [("15.25", "NOT_EXTREME")]


def test_the_true_value_is_pointed_at_where_the_tool_told_it_not_where_an_earlier_answer_repeated_it() -> None:
    case = Case(
        input="What is the weather in Paris?",
        output="In Paris it is 25.5 C with wind of 14 km/h.",
        tools=(ToolCall(name="get_weather", result={"city": "Paris", "temp_c": 21.5, "wind_kmh": 14}),),
        turns=(Turn(input="What is the weather in Berlin?", output="In Berlin it is 21.5 C and clear."),),
    )
    (wrong,) = [e for e in evaluate_metric(Grounding(), case).evidence if e.verdict == "contradicted"]
    assert (wrong.tool, wrong.path, wrong.expected) == ("get_weather", "$.temp_c", "21.5")


def test_earlier_turns_and_the_users_words_are_sources() -> None:
    tool = ToolCall(name="rate", result={"rate": 4.75})
    case = Case(
        input="I pay 1,900 a month.",
        output="With 1,900 a month at 4.75% you are done in 2031.",
        tools=(tool,),
        turns=(Turn(input="When am I done?", output="In 2031."),),
    )
    assert evaluate_metric(Grounding(), case).value == 1.0


@pytest.mark.parametrize(
    "row", [json.loads(line) for line in (DATA / "airline_replies.jsonl").open(encoding="utf-8")], ids=lambda r: r["id"]
)
def test_planted_mistakes_are_found_and_true_replies_are_not_flagged(row: dict[str, Any]) -> None:
    sources = [Source("system_prompt", (DATA / "airline_policy.txt").read_text(encoding="utf-8"))]
    sources += [Source("user", text) for text in row["user_turns"]]
    sources += [Source("tool_result", text, "lookup", call=i) for i, text in enumerate(row["contexts"])]
    found = [v for v in check(row["answer"], sources) if v.flagged]
    if row["label"] == 0:
        assert found == []
    else:
        span = row["label_detail"]["spans"][0]
        assert any(v.claim.start < span["end"] and span["start"] < v.claim.end for v in found)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    answer=st.text(max_size=300),
    result=st.text(max_size=300),
    data=st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(max_size=20),
        lambda c: st.lists(c, max_size=4) | st.dictionaries(st.text(max_size=8), c, max_size=4),
        max_leaves=12,
    ),
)
def test_no_input_raises_and_scores_stay_in_bounds(answer: str, result: str, data: Any) -> None:
    case = Case(
        output=answer, tools=(ToolCall(name="t", arguments=data, result=result), ToolCall(name="u", result=data))
    )
    score = evaluate_metric(Grounding(), case)
    assert score.error is None
    assert score.value is None or 0.0 <= score.value <= 1.0


@settings(max_examples=200, deadline=None)
@given(number=st.integers(100, 10**9))
def test_a_number_supports_itself_with_separators(number: int) -> None:
    assert flags(f"The total is {number:,}.", {"total": number}) == []


@settings(max_examples=100, deadline=None)
@given(text=st.text(max_size=500))
def test_offsets_of_scanners_point_at_their_text(text: str) -> None:
    spans = [(q.start, q.end) for q in quantities.scan(text)] + [(m.start, m.end) for m in moments.scan(text)]
    assert all(0 <= start < end <= len(text) for start, end in spans)


NOISE = {
    "digits": "9" * 10**6,
    "numbers": "1 " * 500_000,
    "brackets": "[" * 10**6,
    "sentences": "A b. " * 200_000,
    "pairs": "a: 1\n" * 200_000,
    "dates": "2024-01-01 " * 90_000,
    "words": "one two three four five " * 40_000,
    "rows": "a | 1 | 2\n" * 100_000,
    "records": json.dumps([{"id": i, "name": f"N{i}", "v": i * 1.5, "d": "2024-01-02"} for i in range(16_000)]),
    "wide": "日本語の文章です。価格は100円。" * 58_000,
}


@pytest.mark.parametrize("noise", NOISE)
@pytest.mark.parametrize("where", ["answer", "result", "every result", "everywhere"])
def test_a_megabyte_of_noise_takes_bounded_time(noise: str, where: str) -> None:
    output = NOISE[noise] if where in ("answer", "everywhere") else "Order ORD-1 costs 12.50 EUR, the highest of 7."
    results: list[Any] = [{"total": 12.5}]
    if where != "answer":
        results = [NOISE[noise]] * (1 if where == "result" else 10)
    tools = tuple(ToolCall(name=f"t{at}", result=result) for at, result in enumerate(results))
    started = time.process_time()
    score = evaluate_metric(Grounding(), Case(output=output, tools=tools))
    assert score.error is None
    assert time.process_time() - started < 5.0  # one second on an idle core; shared machines are slower


def test_what_was_not_read_of_long_sources_is_not_held_against_an_answer() -> None:
    noise = "Nothing of interest happened here 3 times. " * 20_000
    tool = ToolCall(name="read", result=noise)
    record = ToolCall(name="price", result={"ticker": "ACMX", "price": 187.42})
    answer = "ACMX trades at 197.42 USD after 8,441 deals."
    score = evaluate_metric(Grounding(), Case(output=answer, tools=(tool, record)))
    by_claim = {e.claim: (e.verdict, e.code) for e in score.evidence}
    assert by_claim["8,441"] == ("not_checkable", "TRUNCATED")
    assert dict(score.extra)["sources_truncated"] == 1.0
    assert "too long" in score.reason


def test_records_a_long_list_holds_are_found_and_bound() -> None:
    rows = [{"order_id": f"ORD-{i}", "customer": f"Client {i}", "total": 100.25 + 3 * i} for i in range(1000, 1400)]
    tools = (ToolCall(name="list_orders", result={"orders": rows}), ToolCall(name="ping", result={"ok": True}))
    good = evaluate_metric(Grounding(), Case(output="Order ORD-1203 comes to 3709.25.", tools=tools))
    assert (good.value, [e.path for e in good.evidence if e.claim == "3709.25"]) == (1.0, ["$.orders[203].total"])
    bad = evaluate_metric(Grounding(), Case(output="Order ORD-1203 has a total of 3712.25.", tools=tools))
    (wrong,) = [e for e in bad.evidence if e.verdict == "contradicted"]
    assert (wrong.expected, wrong.path) == ("3709.25", "$.orders[203].total")


@pytest.mark.parametrize(
    ("answer", "result"),
    [
        ("The wind blows at 4.63m/s.", {"wind_speed": 4.63}),
        ("Expect 6.5 mm of rain.", {"rain_mm": 6.5}),
        ("Expect 2mm of rain.", {"rain": 2.0}),
        ("The flat has 64m².", {"area_m2": 64}),
        ("It costs 1.5k/month.", {"price": 1500}),
        ("It raised 12 MM in all.", {"raised": 12_000_000}),
        ("It raised $3mm in all.", {"raised_usd": 3_000_000}),
        ("It has 5m users.", {"users": 5_000_000}),
    ],
)
def test_metres_and_millimetres_are_no_millions(answer: str, result: dict[str, Any]) -> None:
    (verdict,) = [v for v in verdicts(answer, result) if v.claim.quantity is not None]
    assert verdict.outcome == "supported"


@pytest.mark.parametrize(
    ("result", "text"),
    [
        ({"city": "Rome", "temp_c": 21.4, "humidity": 40}, "Rome: 21.4 °C (humidity 40%)"),
        ({"name": "Osteria", "rating": 4.5, "reviews": 812}, "Osteria: 4.5 (812 reviews)"),
        ({"test": "Creatinine", "value": 1.4, "ref": "0.7-1.3"}, "Creatinine: 1.4 mg/dL (reference 0.7-1.3)"),
        ({"名称": "耳机", "库存": 1280, "单价": 199}, "耳机库存1280件,单价199元"),
        ({"attendance": 60_214}, "Attendance topped 60,000."),
        ({"plan": "Basic", "price_month": 9.5, "storage_gb": 50}, "Basic costs $9.50."),
        (
            {"items": [{"name": "Keyboard", "unit_price": {"amount": 89.99}}], "total": {"amount": 112.49}},
            "The Keyboard is $89.99, the total is $112.49.",
        ),
    ],
)
def test_what_follows_a_value_in_brackets_names_no_field_of_it_and_keys_are_read_whole(
    result: object, text: str
) -> None:
    assert [v.claim.text for v in check(text, [Source("tool_result", result, "lookup")]) if v.flagged] == []
