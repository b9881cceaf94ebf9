"""Reply: a judge's text as the JSON object its schema asks for, or an error that shows the text."""

import json
from collections.abc import Mapping
from typing import Any, cast

from evalspan.errors import JudgeError
from evalspan_evaluators.closed_schema import schema_validator

__all__ = ["parsed"]


def parsed(text: str, schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """The object in the text.

    Strict: no JSON is guessed out of prose, because a guessed verdict would look like a measured one.

    Raises:
        JudgeError: The text is no JSON object, or does not meet the schema.
    """
    try:
        value: Any = json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise JudgeError(f"the reply is no JSON: {_start(text)}") from error
    if not isinstance(value, dict):
        raise JudgeError(f"the reply is no JSON object: {_start(text)}")
    problem = _schema_problem(schema, value)
    if problem:
        raise JudgeError(f"the reply does not meet its schema: {problem}: {_start(text)}")
    return cast("dict[str, Any]", value)


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def _schema_problem(schema: Mapping[str, Any], value: Any) -> str | None:
    mistake: Any = next(iter(schema_validator(dict(schema)).iter_errors(value)), None)
    return None if mistake is None else str(mistake.message)


def _start(text: str) -> str:
    return repr(text if len(text) <= 120 else text[:120] + "…")
