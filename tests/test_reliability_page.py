"""docs/reliability.md names tests: each of them exists."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "reliability.md").read_text(encoding="utf-8")


def _defined() -> set[str]:
    return {
        node.name
        for path in (ROOT / "tests").rglob("test_*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }


def test_every_test_that_the_page_names_exists() -> None:
    named = set(re.findall(r"`(test_\w+)`", PAGE))
    assert len(named) > 80
    assert sorted(named - _defined()) == []


def test_every_gate_has_a_row_with_a_test() -> None:
    rows = {match[1] for match in re.finditer(r"^\| (R\d+) \|.*`test_\w+`", PAGE, flags=re.MULTILINE)}
    assert rows == {f"R{number}" for number in range(1, 14)}
