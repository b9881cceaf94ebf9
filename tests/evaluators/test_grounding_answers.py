"""Honest answers about thirty-three tool results, none of which may be flagged, and answers with one planted error each."""

import json
from pathlib import Path
from typing import Any

import pytest

from evalspan_evaluators.grounding import Source, check

_KNOWN: dict[str, dict[str, Any]] = json.loads(Path(__file__).with_name("grounding_answers.json").read_text("utf-8"))


def answers(kind: str) -> list[Any]:
    return [pytest.param(name, text, id=f"{name}-{text[:40]}") for name, told in _KNOWN.items() for text in told[kind]]


def flagged(result: object, text: str) -> list[tuple[str, str, str | None]]:
    verdicts = check(text, [Source("tool_result", result, "lookup", call=0)])
    return [(v.claim.text, v.outcome, v.code) for v in verdicts if v.flagged]


@pytest.mark.parametrize(("name", "text"), answers("honest"))
def test_an_honest_answer_is_not_flagged(name: str, text: str) -> None:
    assert flagged(_KNOWN[name]["result"], text) == []


@pytest.mark.parametrize(("name", "text"), answers("planted"))
def test_a_planted_error_is_found(name: str, text: str) -> None:
    assert flagged(_KNOWN[name]["result"], text) != []


@pytest.mark.parametrize(("name", "text"), answers("honest")[::3] + answers("planted")[::3])
def test_a_result_as_text_in_a_content_part_is_read_like_the_object(name: str, text: str) -> None:
    """Tools of the Model Context Protocol send their JSON as the text of a part."""
    result = _KNOWN[name]["result"]
    text_of = result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)
    part = [{"type": "text", "text": text_of}]
    assert flagged(part, text) == flagged(result, text)


def test_text_in_text_in_text_ends() -> None:
    content: object = {"total": 42_517}
    for _ in range(6):
        content = {"text": json.dumps(content)}
    assert flagged(content, "The total is 42,517.") == []


@pytest.mark.parametrize(
    ("text", "code", "path"),
    [
        ("It costs €812.40.", "OTHER_CURRENCY", "$.price.currency"),
        ("It arrives at 16:05.", "OTHER_FIELD", "$.arrive"),
        ("The flight departs on May 15, 2026.", "OTHER_FIELD", "$.depart"),
    ],
)
def test_the_evidence_names_the_field_that_was_meant(text: str, code: str, path: str) -> None:
    [verdict] = [v for v in check(text, [Source("tool_result", _KNOWN["flight"]["result"], "lookup")]) if v.flagged]
    assert (verdict.code, verdict.fact and verdict.fact.path) == (code, path)


@pytest.mark.parametrize(
    ("text", "code", "path"),
    [
        ("The price fell by $5.32.", "OTHER_SIGN", "$.change"),
        ("The stock is up 5.32%.", "OTHER_FIELD", "$.change_pct"),
        ("The previous close was $187.42.", "OTHER_FIELD", "$.prev_close"),
    ],
)
def test_sign_share_and_name_of_a_field_count(text: str, code: str, path: str) -> None:
    [verdict] = [v for v in check(text, [Source("tool_result", _KNOWN["stock"]["result"], "lookup")]) if v.flagged]
    assert (verdict.code, verdict.fact and verdict.fact.path) == (code, path)
