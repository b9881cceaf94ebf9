"""The ceilings that keep the code readable, counted."""

import ast
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
ROOMS = ("instrumentation", "collector", "evaluators", "dashboard")
SOURCES = sorted(p for room in ROOMS for p in (ROOT / room).rglob("*.py"))
MAX_FILE_LINES = 500
MAX_FUNCTION_LINES = 60


def _ids(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", SOURCES, ids=_ids)
def test_a_module_is_short_and_says_what_it_is(path: Path) -> None:
    text = path.read_text()
    if not text.strip():
        return

    tree = ast.parse(text)

    assert text.count("\n") <= MAX_FILE_LINES
    assert ast.get_docstring(tree), "a module says its noun in one sentence at its top"
    long = [
        f"{node.name}: {node.end_lineno - node.lineno + 1} lines"
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.end_lineno is not None
        and node.end_lineno - node.lineno + 1 > MAX_FUNCTION_LINES
    ]
    assert not long


def _order(name: str) -> tuple[int, str]:
    """Constants, then classes, then functions, each by the alphabet: the order the linter keeps too."""
    if name.isupper():
        return (0, name)
    return (1 if name[0].isupper() else 2, name)


@pytest.mark.parametrize("path", SOURCES, ids=_ids)
def test_the_public_names_are_all_listed_in_order(path: Path) -> None:
    tree = ast.parse(path.read_text())
    listed = [
        [str(ast.literal_eval(item)) for item in node.value.elts]
        for node in tree.body
        if isinstance(node, ast.Assign)
        and isinstance(node.value, ast.List | ast.Tuple)
        and any(isinstance(t, ast.Name) and t.id == "__all__" for t in node.targets)
    ]
    defined = {
        n.name
        for n in tree.body
        if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and not n.name.startswith("_")
    }
    is_private = path.name in {"__main__.py", "app.py"} or path.name.startswith("_") or "pages" in path.parts
    if not listed:
        assert is_private or not defined, f"public names without __all__: {sorted(defined)}"
        return

    assert listed[0] == sorted(listed[0], key=_order)
    assert len(listed[0]) == len(set(listed[0]))
    assert not defined - set(listed[0]), f"public names that __all__ leaves out: {sorted(defined - set(listed[0]))}"


@pytest.mark.parametrize("path", SOURCES, ids=_ids)
def test_every_ignore_has_its_code_and_a_reason(path: Path) -> None:
    for number, line in enumerate(path.read_text().splitlines(), 1):
        for match in re.finditer(r"#\s*(noqa|type:\s*ignore|pyright:\s*ignore)(.*)$", line):
            rest = match[2]
            assert re.match(r"(\[[\w, -]+\]|:\s*[A-Z]+\d+(,\s*[A-Z]+\d+)*)\s+\S", rest), (
                f"line {number}: {line.strip()}"
            )


#: Calls that run what they read, or show a trace's text as markup.
FORBIDDEN = re.compile(
    r"unsafe_allow_html|\bst\.html\(|\bpickle\b|\bjoblib\b|torch\.load|yaml\.(unsafe_|full_)?load\(|shell=True|\bos\.system\("
    r"|(?<![.\w])eval\(|(?<![.\w])exec\("
)


@pytest.mark.parametrize("path", SOURCES, ids=_ids)
def test_sec_no_source_runs_what_it_reads_or_shows_traces_as_markup(path: Path) -> None:
    tree = ast.parse(path.read_text())
    code = ast.unparse(_without_texts(tree))
    assert not FORBIDDEN.findall(code)


def _without_texts(tree: ast.Module) -> ast.Module:
    """Words in texts are not calls."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            node.value = "text"
    return tree


def test_the_repository_names_no_workplace() -> None:
    tracked = subprocess.run(
        ["git", "ls-files", "-z"], check=False, capture_output=True, text=True, cwd=ROOT
    ).stdout.split("\0")
    if tracked == [""]:
        pytest.skip("no git checkout: nothing is tracked")
    pattern = re.compile(r"/wo[r]k/|bash_job[s]|/[.]library|shared/(facts|design|traces|evaldata)|TO[D]O|FI[X]ME")
    hits = [
        f"{name}: {match[0]}"
        for name in tracked
        if name and name != "uv.lock" and (ROOT / name).is_file()
        for match in pattern.finditer((ROOT / name).read_bytes().decode("utf-8", "ignore"))
        if not name.endswith((".gz", ".zst", ".binpb"))
    ]

    assert not hits
