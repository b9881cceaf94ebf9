"""Results report: the results of a data set as Markdown and as JUnit XML."""

import re
from xml.etree import ElementTree as ET

from evalspan_evaluators.results import CaseResult, Results
from evalspan_evaluators.score import Score

__all__ = ["markdown_cell", "results_junit", "results_markdown", "xml_text"]

#: What XML 1.0 cannot hold.
_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def xml_text(text: str) -> str:
    """The text without characters that XML cannot hold."""
    return _NO_XML.sub("�", text)


def markdown_cell(text: str) -> str:
    """The text on one line, with nothing in it that Markdown reads as markup."""
    return " ".join(re.sub(r"([\\|<>`*\[\]])", r"\\\1", text).split())


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def results_markdown(results: Results) -> str:
    """A table of the metrics, and the cases that failed with their reasons."""
    rate, average = _number(results.pass_rate), _number(results.average_score)
    lines = [
        f"**{len(results.cases)} cases, pass rate {rate}, average score {average}**",
        "",
        "| metric | passed | failed | errors | n/a | mean |",
        "|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {m.metric} | {m.passed} | {m.failed} | {m.errors} | {m.not_applicable} | {_number(m.average)} |"
        for m in results.metrics
    ]
    bad = [(c, s) for c in results.cases for s in c.scores if _is_bad(s)]
    if bad:
        lines += ["", "| case | metric | value | reason |", "|---|---|---|---|"]
    lines += [
        f"| {markdown_cell(c.name)} | {s.metric} | {_number(s.value)} | {markdown_cell(s.error or s.reason)} |"
        for c, s in bad
    ]
    return "\n".join(lines) + "\n"


def _is_bad(score: Score) -> bool:
    return score.passed is False or score.error is not None


def results_junit(results: Results) -> str:
    """JUnit XML: one test case per case, its scores as properties."""
    counts = results.counts
    root = ET.Element(
        "testsuite",
        name="evalspan",
        tests=str(len(results.cases)),
        failures=str(counts["failed"]),
        errors=str(counts["error"]),
        skipped=str(counts["not_applicable"]),
    )
    for case in results.cases:
        root.append(_junit_case(case))
    ET.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _junit_case(case: CaseResult) -> ET.Element:
    element = ET.Element("testcase", classname="evalspan", name=xml_text(case.name), time="0")
    properties = ET.SubElement(element, "properties")
    for score in case.scores:
        ET.SubElement(properties, "property", name=f"evalspan.{score.metric}", value=xml_text(str(score)))
    tag = {"failed": "failure", "error": "error", "not_applicable": "skipped"}.get(case.verdict)
    if tag is not None:
        why = [s for s in case.scores if _is_bad(s)] or list(case.scores)
        ET.SubElement(element, tag, message=xml_text("; ".join(f"{s.metric}: {s.error or s.reason}" for s in why)))
    return element
