"""The golden set: real traffic of many libraries gives the runs that really happened, and the same ones as before."""

from collections import Counter

import pytest
from golden.captures import FOLDER, capture, captures, snapshot
from golden.truth import Fact, facts

#: Facts that the instrumentation did not send though their parts look present, and why they count as met.
_ABSENT = {
    ("openai-agents__otel-genai-agents-only", "error"): "no model call is recorded, so nothing shows the missing tool",
}


@pytest.mark.parametrize("name", captures())
def test_a_capture_gives_the_expected_runs(name: str) -> None:
    """Refresh with `PYTHONPATH=tests python tests/golden/refresh.py` and read the difference."""
    expected = (FOLDER / "expected" / f"{name}.json").read_text(encoding="utf-8")
    assert snapshot(capture(name).runs()) == expected


def _all_facts() -> list[tuple[str, Fact]]:
    found: list[tuple[str, Fact]] = []
    for name in captures():
        one = capture(name)
        found.extend((one.truth["library"], f) for f in facts(one, [r.to_json() for r in one.runs()]))
    return found


def test_the_runs_are_what_really_happened() -> None:
    found = _all_facts()
    right, total = Counter[str](), Counter[str]()
    for library, fact in found:
        met = fact.right or (library, fact.field) in _ABSENT
        for group in ("all", f"field {fact.field}", f"library {library}"):
            right[group] += met
            total[group] += 1
    shares = {group: right[group] / total[group] for group in total}
    misses = [f"{library} {f.field}: {f.detail}" for library, f in found if not f.right]
    assert len(total) > 50, "the golden set shrank"
    assert shares["all"] >= 0.985, misses
    assert not [g for g, s in shares.items() if g.startswith("field ") and s < 0.95], misses
    assert not [g for g, s in shares.items() if g.startswith("library ") and s < 0.90], misses
