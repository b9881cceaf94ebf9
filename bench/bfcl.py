"""Agreement of `tool_arguments` with the official checker of the Berkeley function-calling leaderboard.

With labelled rows (`DIR/bfcl/<split>.jsonl`, verdicts of the checker on real model outputs) those are used. Without,
the questions and possible answers of the PyPI package `bfcl-eval` are: right calls drawn from them, and calls with
one or two things changed, each judged by the package's own checker and by ours.

    pip install --no-deps bfcl-eval && python bench/bfcl.py [--json]

`--no-deps` because the package asks for the SDK of every vendor, of which its checker needs none.
"""

import argparse
import ast
import copy
import importlib
import importlib.util
import json
import random
import sys
import types
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from evalspan_collector.run import ToolCall, ToolDefinition
from evalspan_evaluators.case import Case, Expected
from evalspan_evaluators.jsonvalue import is_list
from evalspan_evaluators.metric import Metric, create, evaluate_metric

__all__ = ["agreement_on_package", "agreement_on_rows", "package_is_there"]

Row = dict[str, Any]
Calls = list[dict[str, Any]]
Check = Callable[[Calls, Calls, Calls], bool]

#: The Python categories: Java and JavaScript answers are source text of those languages.
CATEGORIES = (
    "simple_python", "multiple", "parallel", "parallel_multiple",
    "live_simple", "live_multiple", "live_parallel", "live_parallel_multiple",
)  # fmt: skip
#: Values that fit few arguments.
_ODD: tuple[Any, ...] = (0, 1.5, "x", True, [], {}, [1], ["a"], None)
_PACKAGE = "bfcl_eval"
_CHECKER = f"{_PACKAGE}.eval_checker.ast_eval"


def ours(definitions: Calls, made: Calls, acceptable: Calls) -> bool:
    """What `tool_arguments` says: every expected call made with acceptable values, and no other call."""
    metric = create("tool_arguments", {"declared_types": bool(definitions), "extra_calls": "fail", "text": "loose"})
    assert isinstance(metric, Metric)
    case = Case(
        tools=tuple(ToolCall(name=name, arguments=values) for call in made for name, values in call.items()),
        tool_definitions=tuple(ToolDefinition(name=d["name"], parameters=d.get("parameters")) for d in definitions)
        or None,
        expected=Expected(
            calls=tuple({"name": name, "acceptable": values} for call in acceptable for name, values in call.items())
        ),
    )
    score = evaluate_metric(metric, case)
    if score.error:
        raise RuntimeError(f"tool_arguments failed on {made!r}: {score.error}")
    return score.value == 1.0 if acceptable else not made


def calls_of(raw: Any) -> Calls:
    """Calls as the field writes them: JSON, `{"name", "arguments"}` or `{name: arguments}`, or Python call syntax."""
    if isinstance(raw, str):
        text = raw.strip().removeprefix("```json").removeprefix("```python").removeprefix("```").removesuffix("```")
        with suppress(ValueError):
            return calls_of(json.loads(text))
        return _python_calls(text.strip())
    if isinstance(raw, dict):
        row = cast("Row", raw)
        if isinstance(row.get("name"), str) and "arguments" in row:
            arguments: Any = row["arguments"]
            return [{row["name"]: json.loads(arguments) if isinstance(arguments, str) else arguments}]
        return [{name: values} for name, values in row.items()]
    return [call for item in cast("list[Any]", raw or []) for call in calls_of(item)]


def _python_calls(text: str) -> Calls:
    """`[f(a=1), g.h(b="x")]`; nothing where the text is no such list."""
    try:
        tree = ast.parse(text if text.startswith("[") else f"[{text}]", mode="eval").body
    except SyntaxError:
        return []
    nodes = tree.elts if isinstance(tree, ast.List) else [tree]
    if not all(isinstance(node, ast.Call) for node in nodes):
        return []
    return [
        {ast.unparse(node.func): {word.arg: _literal(word.value) for word in node.keywords if word.arg}}
        for node in nodes
        if isinstance(node, ast.Call)
    ]


def _literal(node: ast.expr) -> Any:
    try:
        return ast.literal_eval(node)
    except ValueError:
        return ast.unparse(node)


def _definitions(row: Row) -> Calls:
    given: Any = row.get("tools") or row.get("functions") or []
    listed: list[Any] = json.loads(given) if isinstance(given, str) else given
    return [cast("Row", tool.get("function", tool)) for tool in cast("Calls", listed)]


def agreement_on_rows(rows: list[Row]) -> dict[str, float]:
    """Share of labelled rows decided as the label says, over all and by task."""
    hits: dict[str, list[bool]] = defaultdict(list)
    for row in rows:
        made, acceptable = calls_of(row["answer"]), calls_of(row.get("expected") or [])
        hits[row["task"]].append(ours(_definitions(row), made, acceptable) == bool(row["label"]))
    return _shares(hits)


def _shares(hits: dict[str, list[bool]]) -> dict[str, float]:
    every = [hit for found in hits.values() for hit in found]
    return {"agreement": sum(every) / len(every), "calls": float(len(every))} | {
        task: sum(found) / len(found) for task, found in hits.items()
    }


def package_is_there() -> bool:
    """Whether `bfcl-eval` can be imported."""
    return importlib.util.find_spec(_PACKAGE) is not None


def official(category: str) -> Check:
    """The package's checker, loaded without the vendors' SDKs that its model table imports."""

    class Config:
        underscore_to_dot = False

    table = types.ModuleType(f"{_PACKAGE}.constants.model_config")
    table.__dict__["MODEL_CONFIG_MAPPING"] = defaultdict(Config)
    sys.modules.setdefault(table.__name__, table)
    for language in ("java", "js"):
        converter = types.ModuleType(f"{_CHECKER}.type_convertor.{language}_type_converter")
        converter.__dict__[f"{language}_type_converter"] = None
        sys.modules.setdefault(converter.__name__, converter)
    checker: Any = importlib.import_module(f"{_CHECKER}.ast_checker")
    python: Any = importlib.import_module(f"{_PACKAGE}.constants.enums").Language.PYTHON
    return lambda definitions, made, acceptable: bool(
        checker.ast_checker(definitions, made, acceptable, python, category, "any")["valid"]
    )


def agreement_on_package(rounds: int = 4, seed: int = 5) -> dict[str, float]:
    """Share of drawn and changed calls on which both checkers agree, over all and by category."""
    rng = random.Random(seed)
    spec = importlib.util.find_spec(_PACKAGE)
    assert spec is not None
    assert spec.submodule_search_locations is not None
    folder = Path(next(iter(spec.submodule_search_locations))) / "data"
    hits: dict[str, list[bool]] = defaultdict(list)
    for category in CATEGORIES:
        check = official(category)
        questions = {row["id"]: row["function"] for row in _lines(folder / f"BFCL_v4_{category}.json")}
        for answer in _lines(folder / "possible_answer" / f"BFCL_v4_{category}.json"):
            definitions: Calls = questions[answer["id"]]
            for round_ in range(rounds):
                made = _drawn(answer["ground_truth"], rng)
                if round_:
                    made = _changed(made, definitions, rng)
                try:
                    verdict = check(definitions, made, answer["ground_truth"])
                except Exception:  # noqa: BLE001  the official checker breaks on a few shapes: no verdict, no row
                    continue
                hits[category].append(ours(definitions, made, answer["ground_truth"]) == verdict)
    return _shares(hits)


def _lines(path: Path) -> Iterator[Row]:
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


def _one_of(values: Any, rng: random.Random) -> Any:
    """One acceptable value; objects inside hold lists of acceptable values again."""
    if not is_list(values):
        return values
    offered = [value for value in values if value != ""]
    if not offered:
        return None
    value: Any = copy.deepcopy(rng.choice(offered))
    if isinstance(value, dict):
        return _chosen(cast("Row", value), rng)
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return [_chosen(item, rng) for item in cast("Calls", value)]
    return cast("Any", value)


def _chosen(values: Row, rng: random.Random) -> Row:
    picked = {key: _one_of(value, rng) for key, value in values.items()}
    return {key: value for key, value in picked.items() if value is not None}


def _drawn(acceptable: Calls, rng: random.Random) -> Calls:
    """Calls that should be right; arguments that may be left out are, half of the time."""
    made: Calls = []
    for call in acceptable:
        for name, values in call.items():
            kept = {key: given for key, given in values.items() if "" not in given or rng.random() < 0.5}
            made.append({name: _chosen(kept, rng)})
    return made


def _as_text(value: Any, rng: random.Random) -> Any:
    return rng.choice([value.upper() + " ", value.replace(" ", "-") + ".", value + "x"])


def _as_number(value: Any, rng: random.Random) -> Any:
    return rng.choice([float(value), int(value), value + 1, str(value)])


def _as_list(value: Any, rng: random.Random) -> Any:
    other = [item.lower() if isinstance(item, str) else item for item in value]
    return rng.choice([value[::-1], other, value[1:]])


def _changed(made: Calls, definitions: Calls, rng: random.Random) -> Calls:
    """The calls with one or two things changed: values, types, order, arguments, whole calls."""
    changed: Calls = copy.deepcopy(made)
    for _ in range(rng.choice([1, 1, 2])):
        if not changed:
            return changed
        call = rng.choice(changed)
        values: Row = next(iter(call.values()))
        kind = rng.randrange(6)
        if kind == 0 and values:
            del values[rng.choice(list(values))]
        elif kind == 1:
            known = list(rng.choice(definitions)["parameters"].get("properties", {}))
            values[rng.choice([*known, "unheard_of"])] = rng.choice(_ODD)
        elif kind == 2:
            rng.shuffle(changed)
        elif kind == 3 and rng.random() < 0.5:
            changed.append(copy.deepcopy(call))
        elif kind == 3:
            changed.remove(call)
        elif values:
            key = rng.choice(list(values))
            values[key] = _other(values[key], rng)
    return changed


def _other(value: Any, rng: random.Random) -> Any:
    if isinstance(value, str):
        return _as_text(value, rng)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return _as_number(value, rng)
    return _as_list(value, rng) if isinstance(value, list) else value


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if not package_is_there():
        print("bfcl-eval is not installed: pip install --no-deps bfcl-eval", file=sys.stderr)
        return 2
    figures = agreement_on_package()
    for name, value in figures.items():
        print(f"{name:<24}{value:10.4f}")
    if options.json:
        print(json.dumps({"bfcl": figures}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
