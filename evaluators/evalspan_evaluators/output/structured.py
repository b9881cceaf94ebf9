"""Structured: answers that must be JSON, fit a schema, or be code that parses."""

import ast
import json
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from evalspan_evaluators.case import Case
from evalspan_evaluators.closed_schema import SchemaRefusedError, schema_validator
from evalspan_evaluators.jsonvalue import short
from evalspan_evaluators.metric import MetricBase
from evalspan_evaluators.output.fenced import Block, blocks, first_json
from evalspan_evaluators.score import Evidence, Score

__all__ = ["CodeParses", "JsonSchema", "JsonValid"]

_LONGEST_CODE = 200_000
_MOST_ERRORS = 20


def _read(output: str, *, fenced: bool) -> tuple[Any, Evidence | None]:
    """The JSON value, or what is wrong and where."""
    text, offset = first_json(output) if fenced else (output, 0)
    try:
        return json.loads(text, parse_constant=_no_constant), None
    except json.JSONDecodeError as error:
        at = offset + error.pos
        return None, Evidence(
            verdict="mismatch",
            claim=short(output[max(0, at - 20) : at + 20]),
            start=at,
            end=min(at + 1, len(output)),
            code="JSON_INVALID",
            note=f"{error.msg} (line {error.lineno}, column {error.colno})",
        )
    except (ValueError, RecursionError) as error:
        note = str(error) or "nested too deep"
        return None, Evidence(verdict="mismatch", claim=short(output), code="JSON_INVALID", note=note)


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonValid(MetricBase):
    """1.0 when the output is JSON by RFC 8259, else 0.0 with the place of the first mistake.

    Attributes:
        fenced: A JSON block in a markdown fence counts; prose around it is then free.
    """

    name: ClassVar[str] = "json_valid"
    requires: ClassVar[tuple[str, ...]] = ("output",)
    default_threshold: ClassVar[float | None] = 1.0

    fenced: bool = True

    def evaluate(self, case: Case) -> Score:
        """Parse the output."""
        _, problem = _read(case.output or "", fenced=self.fenced)
        if problem is None:
            return self.score(1.0, "the output is JSON")
        return self.score(0.0, f"the output is no JSON: {problem.note}", evidence=(problem,))


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonSchema(MetricBase):
    """1.0 when the output is JSON that meets the schema, else 0.0 with each mistake and its path.

    Attributes:
        schema: A JSON schema of any draft (2020-12 where it names none).
        fenced: A JSON block in a markdown fence counts.
    """

    name: ClassVar[str] = "json_schema"
    requires: ClassVar[tuple[str, ...]] = ("output",)
    default_threshold: ClassVar[float | None] = 1.0

    schema: Mapping[str, Any] | bool
    fenced: bool = True

    def evaluate(self, case: Case) -> Score:
        """Parse the output and validate it."""
        value, problem = _read(case.output or "", fenced=self.fenced)
        if problem is not None:
            return self.score(0.0, f"the output is no JSON: {problem.note}", evidence=(problem,))
        schema: Any = dict(self.schema) if isinstance(self.schema, Mapping) else self.schema
        try:
            validator: Any = schema_validator(schema)
        except SchemaRefusedError as error:
            return self.fail(f"the schema cannot be used: {error}")
        found: list[Evidence] = []
        for mistake in validator.iter_errors(value):
            path = "$" + "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in mistake.instance_path)
            note = short(mistake.message, 200)
            found.append(Evidence(verdict="mismatch", claim=path, path=path, code="SCHEMA_VIOLATION", note=note))
            if len(found) >= _MOST_ERRORS:
                break
        if not found:
            return self.score(1.0, "the output meets the schema")
        return self.score(0.0, f"{found[0].path}: {found[0].note}", evidence=tuple(found))


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeParses(MetricBase):
    """Share of the code blocks that parse; Python, JSON and SQL can be told, other languages are left out.

    Attributes:
        language: Language of blocks that name none, and of an output without any fence; None leaves those out.
    """

    name: ClassVar[str] = "code_parses"
    requires: ClassVar[tuple[str, ...]] = ("output",)
    default_threshold: ClassVar[float | None] = 1.0

    language: str | None = None

    def evaluate(self, case: Case) -> Score:
        """Parse each block whose language is known."""
        output = case.output or ""
        found = blocks(output)
        if not found and self.language:
            found = [Block(self.language.lower(), output, 0, len(output))]
        checked = 0
        bad: list[Evidence] = []
        for block in found[:100]:
            problem = _problem(block.language or (self.language or "").lower(), block.text)
            checked += problem is not None
            if problem:
                bad.append(
                    Evidence(
                        verdict="mismatch",
                        claim=short(block.text.strip()),
                        start=block.start,
                        end=block.end,
                        code="CODE_INVALID",
                        note=problem,
                    )
                )
        if not checked:
            return self.skip("no code of a language that can be checked (Python, JSON, SQL)")
        value = (checked - len(bad)) / checked
        reason = (
            f"{len(bad)} of {checked} code blocks do not parse: {bad[0].note}" if bad else f"{checked} blocks parse"
        )
        return self.score(value, reason, evidence=tuple(bad[:_MOST_ERRORS]))


def _problem(language: str, code: str) -> str | None:
    """What is wrong; empty when nothing is; None when it cannot be checked."""
    if len(code) > _LONGEST_CODE:
        return None
    if language in ("python", "py", "python3"):
        return _python_problem(code)
    if language == "json":
        _, problem = _read(code, fenced=False)
        return "" if problem is None else problem.note or "no JSON"
    if language in ("sql", "postgres", "postgresql", "mysql", "sqlite"):
        from evalspan_evaluators.output.sql import sql_problem

        return sql_problem(
            code, "postgres" if language.startswith("postgres") else language if language != "sql" else None
        )
    return None


def _python_problem(code: str) -> str:
    # Sessions as people paste them: the prompts are no code.
    if code.lstrip().startswith(">>>"):
        lines = [line[4:] for line in code.splitlines() if line.lstrip().startswith((">>>", "..."))]
        code = "\n".join(lines)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)
            ast.parse(code)
    except SyntaxError as error:
        return f"{error.msg} (line {error.lineno})"
    except (ValueError, RecursionError, MemoryError) as error:
        return str(error) or "nested too deep"
    return ""
