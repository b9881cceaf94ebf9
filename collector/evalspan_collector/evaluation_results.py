"""Evaluation results: what somebody else's evaluator said of a span, in any dialect."""

from collections.abc import Mapping
from typing import Any

from evalspan_collector.converters import number, text
from evalspan_collector.lenient_json import as_text, is_list, is_object, unwrap
from evalspan_collector.messages import unflatten

__all__ = ["from_evaluator_span", "from_event", "from_guard", "from_indexed", "from_legacy"]

#: One result: name, score, label, explanation, annotator, scope, target.
Result = dict[str, Any]


def _result(scope: str, target: str | None = None, **fields: Any) -> Result | None:
    """A result without empty fields; None when it has no name or says nothing."""
    kept = {k: v for k, v in fields.items() if v is not None}
    if "name" not in kept or not kept.keys() & {"score", "label", "explanation", "error"}:
        return None
    return {**kept, "scope": scope, **({"target": target} if target else {})}


def from_event(attributes: Mapping[str, Any]) -> Result | None:
    """The `gen_ai.evaluation.result` event or log record of the semantic conventions."""
    return _result(
        "span",
        name=text(attributes.get("gen_ai.evaluation.name")),
        score=number(attributes.get("gen_ai.evaluation.score.value")),
        label=text(attributes.get("gen_ai.evaluation.score.label")),
        explanation=text(attributes.get("gen_ai.evaluation.explanation")),
        error=text(attributes.get("error.type")),
        response_id=text(attributes.get("gen_ai.response.id")),
    )


def from_indexed(flat: Mapping[str, Any], scope: str) -> list[Result]:
    """OpenInference: `evaluations.0.evaluation.name` and `annotations.0.annotation.name`."""
    listed = unflatten(flat)
    found: list[Result] = []
    for entry in listed if is_list(listed) else []:
        body = entry.get("evaluation", entry.get("annotation")) if is_object(entry) else None
        if not is_object(body):
            continue
        result = _result(
            scope,
            name=text(body.get("name")),
            score=number(body.get("score")),
            label=text(body.get("label")),
            explanation=text(body.get("explanation")),
            annotator=text(body.get("annotator_kind")),
            identifier=text(body.get("identifier")),
        )
        if result is not None:
            found.append(result)
    return found


def from_legacy(flat: Mapping[str, Any]) -> list[Result]:
    """Older Arize keys: `eval.NAME.score`, `.label`, `.explanation`."""
    names: dict[str, dict[str, Any]] = {}
    for key, value in flat.items():
        name, _, field = key.rpartition(".")
        if name and field in {"score", "label", "explanation"}:
            names.setdefault(name, {})[field] = value
    found = (
        _result(
            "span",
            name=name,
            score=number(v.get("score")),
            label=text(v.get("label")),
            explanation=text(v.get("explanation")),
        )
        for name, v in names.items()
    )
    return [f for f in found if f is not None]


def from_guard(attributes: Mapping[str, Any]) -> Result | None:
    """OpenLIT's guardrail keys."""
    return _result(
        "span",
        name=text(attributes.get("guard.name")) or "guard",
        score=number(attributes.get("guard.score")),
        label=text(attributes.get("guard.verdict", attributes.get("guard.classification"))),
        explanation=text(attributes.get("guard.explanation")),
        annotator="CODE",
    )


def from_evaluator_span(name: str, output: str | None, target: str | None) -> Result | None:
    """An OpenInference EVALUATOR span: its output is the verdict, its one link the target."""
    value = unwrap(output)
    if is_object(value):
        return _result(
            "span",
            target,
            name=text(value.get("name")) or name,
            score=number(value.get("score", value.get("value"))),
            label=text(value.get("label")),
            explanation=text(value.get("explanation", value.get("reason"))),
        )
    return _result(
        "span",
        target,
        name=name,
        score=number(value),
        label=None if number(value) is not None or value is None else as_text(value),
    )
