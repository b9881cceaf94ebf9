"""Statements: judge metrics that take an answer apart and give each statement a verdict of its own."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from evalspan.errors import JudgeError
from evalspan_evaluators.case import Case
from evalspan_evaluators.grounding.source import Source, has_evidence, sources_of
from evalspan_evaluators.jsonvalue import is_list, is_object, short
from evalspan_evaluators.judge import Judge, JudgeReply, JudgeRequest
from evalspan_evaluators.metric import MetricBase
from evalspan_evaluators.score import Evidence, JudgeUsage, Score, Verdict

__all__ = ["AnswerRelevancy", "Faithfulness"]

_MOST_STATEMENTS = 60
#: Characters of one source, and of all sources together, that the judge is shown.
_SOURCE_CHARACTERS = 40_000
_ALL_CHARACTERS = 160_000
#: A judge that gives more than was asked is read up to here.
_MOST_READ = 200
_LONGEST_REASON = 1_000
_REPLY_TOKENS = 8_192
_NO_STATEMENT = "the judge found no statement in the output"
#: How the judge names a source: the number decides, for what follows it is only there to be read.
_CITED = re.compile(r"source_(\d{1,6})")

_SPLIT = f"""Split the actual output into its statements, each one self-contained, every one once, in order, at most
{_MOST_STATEMENTS}. Leave out greetings, questions to the user and offers of further help. For each give `quote`,
the words of the actual output it stands in, copied letter for letter."""

_RELEVANCY_PROMPT = f"""You check whether the answer of an AI agent keeps to what was asked.
{_SPLIT}
Give each the verdict `relevant` (helps to answer the input), `partly` (supports the answer without answering) or
`irrelevant` (has nothing to do with the input), and a short reason.
Whether a statement is true does not matter here."""

_FAITHFULNESS_PROMPT = f"""You check whether the answer of an AI agent keeps to its sources: what its tools returned,
the documents it was given and what the user said. They are the only truth; your own knowledge does not count.
{_SPLIT}
Leave out opinions and advice too. Give each the verdict `supported` (a source says so or it follows from sources by
plain reasoning), `contradicted` (a source says otherwise) or `unsupported` (no source says anything about it), the
name of the deciding source or "", and a short reason that cites it."""


def _schema(verdicts: tuple[str, ...], *further: str) -> Mapping[str, Any]:
    texts = {name: {"type": "string"} for name in ("quote", *further, "reason")}
    item = {
        "type": "object",
        "properties": {**texts, "verdict": {"type": "string", "enum": list(verdicts)}},
        "required": [*texts, "verdict"],
        "additionalProperties": False,
    }
    return {
        "type": "object",
        "properties": {"statements": {"type": "array", "items": item}},
        "required": ["statements"],
        "additionalProperties": False,
    }


@dataclass(frozen=True, slots=True)
class _Statement:
    """One statement of the answer as the judge sees it."""

    quote: str
    verdict: str
    reason: str
    source: str


def _statements(reply: JudgeReply, verdicts: tuple[str, ...]) -> list[_Statement]:
    """The judge's list; a judge need not check schemas, so it is checked here."""
    given: Any = reply.verdict.get("statements")
    if not is_list(given):
        raise JudgeError(
            f"judge {reply.usage.model!r} gave {short(given)}: a list of statements was asked", usage=reply.usage
        )
    found: list[_Statement] = []
    for item in given[:_MOST_READ]:
        if not is_object(item) or item.get("verdict") not in verdicts:
            raise JudgeError(
                f"judge {reply.usage.model!r} gave {short(item)}: a verdict is one of {verdicts}", usage=reply.usage
            )
        quote, verdict, reason, source = (
            str(item.get(name) or "").strip() for name in ("quote", "verdict", "reason", "source")
        )
        found.append(_Statement(quote, verdict, short(reason, _LONGEST_REASON), source))
    return found


def _evidence(
    statements: Iterable[_Statement], output: str, verdicts: Mapping[str, Verdict], sources: Sequence[Source]
) -> tuple[Evidence, ...]:
    """One evidence per statement, where it stands in the output when its quote is found there."""
    found: list[Evidence] = []
    behind = 0
    for statement in statements:
        start = output.find(statement.quote, behind) if statement.quote else -1
        if start < 0 and statement.quote:
            start = output.find(statement.quote)
        if start >= 0:
            behind = start + len(statement.quote)
        cited = _CITED.search(statement.source)
        number = int(cited.group(1)) if cited else 0
        source = sources[number - 1] if 1 <= number <= len(sources) else None
        found.append(
            Evidence(
                verdict=verdicts[statement.verdict],
                claim=statement.quote,
                start=start if start >= 0 else None,
                end=start + len(statement.quote) if start >= 0 else None,
                source=source.kind if source else None,
                tool=source.tool if source else None,
                span_id=source.span_id if source else None,
                code=statement.verdict.upper(),
                note=statement.reason or None,
            )
        )
    return tuple(found)


def _worst(statements: Iterable[_Statement], *verdicts: str) -> str:
    """The first statement of the worst verdict, for the reason."""
    for verdict in verdicts:
        for statement in statements:
            if statement.verdict == verdict:
                return f"; {verdict}: {statement.quote!r} ({statement.reason})"
    return ""


async def _asked(
    metric: "AnswerRelevancy | Faithfulness", judge: Judge, instructions: str, data: Mapping[str, str], *, cites: bool
) -> tuple[list[_Statement], JudgeUsage]:
    """The statements of an answer with the judge's verdicts, from one question."""
    verdicts = tuple(metric.verdicts)
    request = JudgeRequest(
        purpose=f"{metric.name}/statements",
        instructions=instructions,
        data=data,
        schema=_schema(verdicts, *(("source",) if cites else ())),
        model=metric.model,
        max_tokens=_REPLY_TOKENS,
    )
    reply = await judge.ask(request)
    return _statements(reply, verdicts), reply.usage


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerRelevancy(MetricBase):
    """A judge's share of the answer's statements that help to answer the input; those that help partly count.

    The formula is that of DeepEval's AnswerRelevancyMetric: (relevant + partly) / statements.

    Attributes:
        model: Another model than the judge's own.
    """

    name: ClassVar[str] = "answer_relevancy"
    requires: ClassVar[tuple[str, ...]] = ("input", "output")
    #: The judge's verdicts and what they are as evidence.
    verdicts: ClassVar[Mapping[str, Verdict]] = {"relevant": "match", "partly": "info", "irrelevant": "mismatch"}

    model: str | None = None

    async def evaluate_with(self, case: Case, judge: Judge) -> Score:
        """Ask once, for all statements."""
        output = case.output or ""
        data = {"input": case.input or "", "actual_output": output}
        statements, usage = await _asked(self, judge, _RELEVANCY_PROMPT, data, cites=False)
        if not statements:
            return self.skip(_NO_STATEMENT, judge=usage)
        right = sum(s.verdict != "irrelevant" for s in statements)
        return self.score(
            right / len(statements),
            f"{right} of {len(statements)} statements relevant{_worst(statements, 'irrelevant')}",
            evidence=_evidence(statements, output, self.verdicts, ()),
            judge=usage,
            extra=(("statements", float(len(statements))),),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Faithfulness(MetricBase):
    """A judge's share of the answer's statements that tool results, documents and user turns support.

    The formula is that of Ragas (Es et al. 2023, arXiv 2309.15217): supported / statements. No evidence at all, or no
    statement, is not applicable. Where `grounding` checks values without a model, this one reads meaning.

    Attributes:
        model: Another model than the judge's own.
    """

    name: ClassVar[str] = "faithfulness"
    requires: ClassVar[tuple[str, ...]] = ("output",)
    #: The judge's verdicts and what they are as evidence.
    verdicts: ClassVar[Mapping[str, Verdict]] = {
        "supported": "supported",
        "contradicted": "contradicted",
        "unsupported": "unsupported",
    }

    model: str | None = None

    async def evaluate_with(self, case: Case, judge: Judge) -> Score:
        """Ask once, for all statements against all sources."""
        sources = [source for source in sources_of(case) if source.kind != "system_prompt"]
        if not has_evidence(sources):
            return self.skip("no tool result, document or earlier turn to check against")
        output = case.output or ""
        named, cut = _named(sources)
        data = named | {"actual_output": output}
        statements, usage = await _asked(self, judge, _FAITHFULNESS_PROMPT, data, cites=True)
        if not statements:
            return self.skip(_NO_STATEMENT, judge=usage)
        right = sum(s.verdict == "supported" for s in statements)
        shortened = f"; the judge saw {cut} sources shortened or not at all" if cut else ""
        return self.score(
            right / len(statements),
            f"{right} of {len(statements)} statements supported"
            f"{_worst(statements, 'contradicted', 'unsupported')}{shortened}",
            evidence=_evidence(statements, output, self.verdicts, sources),
            judge=usage,
            extra=(("statements", float(len(statements))), ("sources_cut", float(cut))),
        )


def _named(sources: Sequence[Source]) -> tuple[dict[str, str], int]:
    """The sources as texts under names the judge can cite, oldest first, and how many were cut or left out.

    Where all together are too long the newest stay, since an answer mostly rests on the last results.
    """
    kept: list[tuple[str, str]] = []
    left, cut = _ALL_CHARACTERS, 0
    for number, source in reversed(list(enumerate(sources, 1))):
        whole = source.content if isinstance(source.content, str) else _json(source.content)
        text = whole[: min(_SOURCE_CHARACTERS, left)]
        cut += len(text) < len(whole)
        if text:
            kept.append(("_".join(part for part in (f"source_{number}", source.kind, source.tool) if part), text))
            left -= len(text)
    return dict(reversed(kept)), cut


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
