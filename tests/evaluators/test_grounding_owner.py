"""A value that only another subject has is contradicted with the subject's own, in JSON and in prose."""

from dataclasses import dataclass
from typing import Any

import pytest

from evalspan_collector.run import ToolCall
from evalspan_evaluators.case import Case, Turn
from evalspan_evaluators.grounding import Grounding
from evalspan_evaluators.metric import evaluate_metric
from evalspan_evaluators.score import Evidence


@dataclass(frozen=True)
class Language:
    """How a language says the weather: an answer, a result line, and the two cities."""

    answer: str
    line: str
    here: str
    there: str
    decimal: str = "21.5"


LANGUAGES = {
    "en": Language("{city} is at {temp} °C now.", "{city}: {temp} °C, sunny", "Paris", "Berlin"),
    "de": Language("In {city} sind es {temp} Grad.", "{city}: {temp} °C, sonnig", "Paris", "Berlin", "21,5"),
    "fr": Language("À {city}, il fait {temp} degrés.", "{city} : {temp} °C, nuageux", "Paris", "Berlin", "21,5"),
    "es": Language("En {city} hace {temp} grados.", "{city}: {temp} °C, soleado", "París", "Berlín", "21,5"),
    "pt": Language("Em {city} faz {temp} graus.", "{city}: {temp} °C, sol", "Paris", "Berlim", "21,5"),
    "ja": Language("{city}の気温は{temp}度です。", "{city}: {temp}度、晴れ", "パリ", "ベルリン"),
    "zh": Language("{city}现在{temp}度。", "{city}：{temp}度，晴", "巴黎", "柏林"),
}


def weather(form: str, says: Language, city: str, temp: str) -> ToolCall:
    """One city's weather as JSON, as JSON without arguments, as a line, or as a line whose city is in the arguments."""
    value = float(temp.replace(",", "."))
    if form == "line":
        return ToolCall(name="get_weather", result=says.line.format(city=city, temp=temp))
    if form == "asked":
        return ToolCall(name="get_weather", arguments={"city": city}, result=f"{temp} °C")
    result = {"city": city, "temp_c": value}
    return ToolCall(name="get_weather", arguments={"city": city} if form == "json" else None, result=result)


def flags(output: str, tools: tuple[ToolCall, ...], turns: tuple[Turn, ...] = ()) -> list[Evidence]:
    score = evaluate_metric(Grounding(), Case(input="And now?", output=output, tools=tools, turns=turns))
    return [e for e in score.evidence if e.verdict in ("contradicted", "unsupported")]


@pytest.mark.parametrize("form", ["json", "bare", "line", "asked"])
@pytest.mark.parametrize("language", LANGUAGES)
def test_the_value_of_an_earlier_turn_about_another_subject_does_not_support(language: str, form: str) -> None:
    says = LANGUAGES[language]
    here = weather(form, says, says.here, says.decimal)
    there = weather(form, says, says.there, "18")
    earlier = Turn(input="?", output=says.answer.format(city=says.there, temp="18"), tools=(there,))
    (wrong,) = flags(says.answer.format(city=says.here, temp="18"), (here,), (earlier,))
    assert (wrong.claim, wrong.verdict, wrong.code) == ("18", "contradicted", "OTHER_RECORD")
    assert wrong.expected in ("21.5", "21,5")
    assert (wrong.tool, wrong.path) == ("get_weather", "$.temp_c" if form in ("json", "bare") else "$")
    assert flags(says.answer.format(city=says.here, temp=says.decimal), (here,), (earlier,)) == []
    assert flags(says.answer.format(city=says.there, temp="18"), (here,), (earlier,)) == []


@pytest.mark.parametrize("form", ["json", "bare", "line", "asked"])
def test_calls_of_one_run_are_told_apart(form: str) -> None:
    says = LANGUAGES["en"]
    tools = (weather(form, says, "Berlin", "18"), weather(form, says, "Paris", "21.5"))
    assert [e.expected for e in flags("It is 18 °C in Paris right now.", tools)] == ["21.5"]
    assert flags("Paris is 21.5 C, Berlin was 18 C.", tools) == []
    assert flags("It is 21.5 °C in Paris, 18 °C in Berlin.", tools) == []


@pytest.mark.parametrize(
    ("answer", "results", "expected"),
    [
        ("Acme's revenue was $410 million.", ["Acme reported revenue of $395 million.",
                                               "Globex reported revenue of $410 million."], "$395 million"),
        ("Invoice INV-7 is for 250 EUR.", ["INV-7: 180 EUR, open", "INV-9: 250 EUR, paid"], "180 EUR"),
        ("Margins at Acme are 12 %.", ["Acme has a margin of 9 %.", "Globex has a margin of 12 %."], "9 %"),
    ],
)  # fmt: skip
def test_sentences_of_documents_are_told_apart(answer: str, results: list[str], expected: str) -> None:
    (wrong,) = flags(answer, tuple(ToolCall(name="read", result=text) for text in results))
    assert (wrong.verdict, wrong.expected) == ("contradicted", expected)


@pytest.mark.parametrize(
    ("answer", "results"),
    [
        ("Paris will be 18 C on Tuesday.", ["Paris: 21.5 C now. Tomorrow 18 C."]),
        ("In Paris it is 18 C.", ["The forecast of the day: 18 C. Paris is calm."]),
        ("Paris and Berlin are at 18 C.", ["Paris: 21.5 C", "Berlin: 18 C"]),
        ("Acme had 18 offices and 21 plants.", ["Acme: 21 plants", "It has 18 offices."]),
    ],
)
def test_a_value_without_an_owner_of_its_own_is_not_another_subjects(answer: str, results: list[str]) -> None:
    assert flags(answer, tuple(ToolCall(name="read", result=text) for text in results)) == []


def test_a_record_under_the_subjects_name_is_its_own() -> None:
    result: Any = {"Paris": {"temp_c": 21.5}, "Berlin": {"temp_c": 18}}
    tool = ToolCall(name="get_weather", result=result)
    (wrong,) = flags("Paris is at 18 °C.", (tool,))
    assert (wrong.expected, wrong.path) == ("21.5", "$.Paris.temp_c")
