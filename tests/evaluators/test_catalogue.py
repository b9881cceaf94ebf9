"""The table of metrics in the documentation is the one of the code."""

from pathlib import Path

from evalspan_evaluators.catalogue import catalogue_rows, catalogue_table
from evalspan_evaluators.metric import available

PAGE = Path(__file__).parents[2] / "docs" / "metrics.md"


def test_the_page_lists_every_metric_as_it_is() -> None:
    _, _, table = PAGE.read_text().partition("evalspan_evaluators.catalogue` -->\n")

    assert table == catalogue_table(), "run `python -m evalspan_evaluators.catalogue` and put its table into the page"


def test_every_metric_says_what_it_checks() -> None:
    rows = {name.strip("`"): rest for name, *rest in catalogue_rows()}

    assert set(rows) <= set(available())
    for name, (summary, _, threshold, _) in rows.items():
        assert len(summary) > 20, name
        assert 0.0 <= float(threshold) <= 1.0
    assert "a judge" in rows["correctness"][1]
    assert "`tools` (required)" in rows["forbidden_tools"][3]
