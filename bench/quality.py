"""Quality of the metrics on labelled data: `python bench/quality.py --data DIR --split dev [--sets a,b] [--json]`.

DIR/<set>/<split>.jsonl holds rows {id, group, task, input, contexts, answer, label, label_detail}. What is measured
is what ships: the sets of planted and human-marked mistakes go through `evalspan_evaluators.grounding.check`.
"""

import argparse
import json
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

from bfcl import agreement_on_package, agreement_on_rows, package_is_there

from evalspan_collector.run import ToolCall
from evalspan_evaluators.case import Case, Expected
from evalspan_evaluators.grounding import ClaimVerdict, Source, check
from evalspan_evaluators.metric import Metric, create, evaluate_metric

Row = dict[str, Any]
Figures = dict[str, float]


def rows_of(data: Path, name: str, split: str) -> list[Row]:
    """Rows of one set; contexts, trajectory and label_detail are JSON texts in some sets."""
    rows: list[Row] = []
    with (data / name / f"{split}.jsonl").open(encoding="utf-8") as lines:
        for line in lines:
            row: Row = json.loads(line)
            for key in ("contexts", "trajectory", "label_detail", "user_turns", "expected"):
                if isinstance(row.get(key), str):
                    row[key] = json.loads(row[key])
            rows.append(row)
    return rows


def contexts_as_tools(row: Row) -> Iterator[Source]:
    for position, text in enumerate(row["contexts"]):
        yield Source("tool_result", text, "context", call=position)


def flagged(verdicts: tuple[ClaimVerdict, ...], *, strict: bool) -> list[ClaimVerdict]:
    """Claims that count as found: major ones, and with `strict` minor ones too."""
    return [v for v in verdicts if v.flagged and (strict or v.severity == "major")]


def system_prompt(data: Path) -> list[Source]:
    path = data / "tau_airline" / "system_prompt.txt"
    return [Source("system_prompt", path.read_text(encoding="utf-8"))] if path.exists() else []


SOFT_KINDS = ("entity", "category", "negation")


def tau_perturb(data: Path, split: str) -> Figures:
    """Share of replies flagged by kind of planted mistake; for soft kinds minor claims count too."""
    policy = system_prompt(data)
    hits: dict[str, list[bool]] = defaultdict(list)
    for row in rows_of(data, "tau_perturb", split):
        sources = [*policy, *(Source("user", t) for t in row["user_turns"]), *contexts_as_tools(row)]
        verdicts = check(row["answer"], sources)
        kind = row["label_detail"]["kind"]
        hits[kind].append(bool(flagged(verdicts, strict=kind in SOFT_KINDS)))
        if kind == "original":
            hits["original_strict"].append(bool(flagged(verdicts, strict=True)))
    return {kind: sum(found) / len(found) for kind, found in hits.items()}


def trajectory_sources(messages: list[Row]) -> Iterator[tuple[str, list[Source]]]:
    """Each reply of an agent with the sources before it."""
    sources: list[Source] = []
    names: dict[str, str] = {}
    call = 0
    for message in messages:
        role, content = message["role"], message.get("content")
        if role == "user":
            sources.append(Source("user", content or ""))
        elif role == "tool":
            name = message.get("name") or names.get(message.get("tool_call_id", ""), "tool")
            sources.append(Source("tool_result", content, name, call=call))
            call += 1
        elif role == "assistant":
            if content:
                yield content, list(sources)
            for asked in message.get("tool_calls") or ():
                names[asked.get("id", "")] = asked["name"]
                sources.append(Source("tool_arguments", asked["arguments"], asked["name"], call=call))


def calls_of(messages: list[Row]) -> tuple[ToolCall, ...]:
    """The tool calls of a conversation with their results."""
    results = {m.get("tool_call_id"): m.get("content") for m in messages if m["role"] == "tool"}
    return tuple(
        ToolCall(name=c["name"], arguments=json.loads(c["arguments"]), result=results.get(c.get("id")))
        for m in messages
        for c in m.get("tool_calls") or ()
    )


def value_of(name: str, case: Case, **parameters: Any) -> float | None:
    """What the metric of this name says about a case; None for an error or not applicable."""
    metric = create(name, parameters)
    assert isinstance(metric, Metric)
    return evaluate_metric(metric, case).value


def tau_airline(data: Path, split: str) -> Figures:
    """Good replies with a flagged figure, date or id; and how well the writes tell success."""
    policy = system_prompt(data)
    good: list[bool] = []
    writes: Counter[tuple[int, bool]] = Counter()
    for row in rows_of(data, "tau_airline", split):
        wanted = tuple({"name": a["name"], "arguments": a["kwargs"]} for a in row["label_detail"]["expected_actions"])
        case = Case(output=row["answer"] or "-", tools=calls_of(row["trajectory"]), expected=Expected(calls=wanted))
        writes[int(row["label"]), value_of("writes", case) == 1.0] += 1
        if not row["label"]:
            continue
        for reply, sources in trajectory_sources(row["trajectory"]):
            verdicts = check(reply, [*policy, *sources])
            if any(v.severity == "major" and v.outcome != "not_checkable" for v in verdicts):
                good.append(bool(flagged(verdicts, strict=False)))
    return {
        "good_replies_flagged": sum(good) / len(good),
        "replies": float(len(good)),
        "writes_bacc": balanced(writes),
    }


def tatqa_numeric(data: Path, split: str) -> Figures:
    hits: dict[str, list[bool]] = defaultdict(list)
    for row in rows_of(data, "tatqa_numeric", split):
        sources = [Source("user", row["input"]), *contexts_as_tools(row)]
        found = bool(flagged(check(row["answer"], sources), strict=False))
        kind, task = row["label_detail"]["kind"], row["task"]
        name = {"digit": "changed_digit", "unit": "unit", "scale10": "times_ten"}.get(kind, f"gold_{task}")
        hits["derived" if name == "gold_arithmetic" else name].append(found)
    return {name: sum(found) / len(found) for name, found in hits.items()}


def overlaps(verdict: ClaimVerdict, span: Row) -> bool:
    return bool(verdict.claim.start < span["end"] and span["start"] < verdict.claim.end)


def rotowire_acc(data: Path, split: str) -> Figures:
    """Mistake level: a flagged claim is right when it overlaps a gold mistake; recall over gold mistakes."""
    right = wrong = gold = found_gold = 0
    by_type: Counter[str] = Counter()
    all_types: Counter[str] = Counter()
    for row in rows_of(data, "rotowire_acc", split):
        sources = [Source("user", row["input"]), *contexts_as_tools(row)]
        marked = flagged(check(row["answer"], sources), strict=True)
        spans = row["label_detail"]["spans"]
        for verdict in marked:
            hit = any(overlaps(verdict, s) for s in spans)
            right, wrong = right + hit, wrong + (not hit)
        for span in spans:
            hit = any(overlaps(v, span) for v in marked)
            all_types[span["type"]] += 1
            by_type[span["type"]] += hit
            gold, found_gold = gold + 1, found_gold + hit
    return {
        "precision": right / max(1, right + wrong),
        "recall": found_gold / max(1, gold),
        "number_recall": by_type["NUMBER"] / max(1, all_types["NUMBER"]),
        "name_recall": by_type["NAME"] / max(1, all_types["NAME"]),
    }


def quintd(data: Path, split: str) -> Figures:
    """Balanced accuracy over sentences: a sentence is flagged when a claim in it is."""
    counts: Counter[tuple[int, bool]] = Counter()
    by_task: dict[str, Counter[tuple[int, bool]]] = defaultdict(Counter)
    for row in rows_of(data, "quintd", split):
        sources = [Source("user", row["input"]), *contexts_as_tools(row)]
        marked = flagged(check(row["answer"], sources), strict=True)
        for sentence in row["label_detail"]["sentences"]:
            hit = any(overlaps(v, sentence) for v in marked)
            counts[sentence["label"], hit] += 1
            by_task[row["task"]][sentence["label"], hit] += 1
    return {"sentence_bacc": balanced(counts)} | {f"{task}_bacc": balanced(c) for task, c in by_task.items()}


def balanced(counts: Counter[tuple[int, bool]]) -> float:
    recall = counts[1, True] / max(1, counts[1, True] + counts[1, False])
    rest = counts[0, False] / max(1, counts[0, True] + counts[0, False])
    return (recall + rest) / 2


def langid(data: Path, split: str) -> Figures:
    """Share of texts whose language is told right; an abstention counts as wrong."""
    hits: dict[str, list[bool]] = defaultdict(list)
    for row in rows_of(data, "langid", split):
        value = value_of("language", Case(output=row["answer"]), expected=row["label"])
        hits[row["task"]].append(value == 1.0)
    return {task: sum(found) / len(found) for task, found in hits.items()}


def json_schema(data: Path, split: str) -> Figures:
    """Agreement with the official verdicts, by draft."""
    hits: dict[str, list[bool]] = defaultdict(list)
    for row in rows_of(data, "json_schema", split):
        case = Case(output=json.dumps(row["answer"]))
        schema: Any = row["input"]
        if isinstance(schema, dict) and row["task"].startswith("draft7"):
            schema = {"$schema": "http://json-schema.org/draft-07/schema#"} | cast("Row", schema)
        value = value_of("json_schema", case, schema=schema, fenced=False)
        hits[row["task"]].append(value is not None and (value == 1.0) == bool(row["label"]))
    return {task: sum(found) / len(found) for task, found in hits.items()}


def sql_equiv(data: Path, split: str) -> Figures:
    """By task: share decided right, and share left unknown."""
    hits: dict[str, list[float | None]] = defaultdict(list)
    for row in rows_of(data, "sql_equiv", split):
        value = value_of("sql", Case(output=row["answer"]), expected=row["answer_b"])
        hits[row["task"]].append(None if value is None else float((value == 1.0) == bool(row["label"])))
    figures: Figures = {}
    for task, found in hits.items():
        figures[task] = sum(v or 0.0 for v in found) / len(found)
        figures[f"{task}_unknown"] = sum(v is None for v in found) / len(found)
    return figures


def bfcl(data: Path, split: str) -> Figures:
    """Agreement with the official checker's verdict on calls against lists of acceptable values."""
    return agreement_on_rows(rows_of(data, "bfcl", split))


SETS: dict[str, Callable[[Path, str], Figures]] = {
    "tau_perturb": tau_perturb,
    "tau_airline": tau_airline,
    "tatqa_numeric": tatqa_numeric,
    "rotowire_acc": rotowire_acc,
    "quintd": quintd,
    "bfcl": bfcl,
    "langid": langid,
    "json_schema": json_schema,
    "sql_equiv": sql_equiv,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--split", default="dev")
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    results: dict[str, Figures] = {}
    for name in options.sets.split(","):
        if (options.data / name / f"{options.split}.jsonl").exists():
            results[name] = {k: round(v, 4) for k, v in SETS[name](options.data, options.split).items()}
        elif name == "bfcl" and package_is_there():
            results[name] = {k: round(v, 4) for k, v in agreement_on_package().items()}
    for name, figures in results.items():
        print(name)
        for key, value in figures.items():
            print(f"  {key:<24}{value:8.3f}")
    if options.json:
        print(json.dumps(results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
