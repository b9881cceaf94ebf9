"""Report: test cases for people (text, Markdown) and for continuous integration (JUnit XML)."""

from collections.abc import Iterable
from xml.etree import ElementTree as ET

from evalspan_evaluators.evalcases.judging import CaseReport, Check, Part
from evalspan_evaluators.evalcases.suite import CaseOutcome, RunStatistics, SuiteReport
from evalspan_evaluators.results_report import markdown_cell, xml_text

__all__ = ["case_text", "junit_xml", "markdown", "summary_text"]

_MARKS = {"passed": "✅", "failed": "❌", "error": "⚠️", "not_applicable": "➖"}
_WORDS = {"passed": "PASSED", "failed": "FAILED", "error": "ERROR", "not_applicable": "NOT APPLICABLE"}
_TICKS = {True: "✓", False: "✗", None: "?"}


def _points(value: float | None) -> str:
    if value is None:
        return "unknown"
    text = f"{value:.2f}"
    return text.removesuffix("0")


def case_text(outcome: CaseOutcome) -> str:
    """One case, as the command line prints it."""
    report = outcome.report
    lines = [
        f"{_MARKS[outcome.verdict]} {outcome.spec.name} - {_WORDS[outcome.verdict]} (score: {_points(outcome.score)})",
        "",
    ]
    if report.error is not None:
        return "\n".join([*lines, f"  {report.error}", ""])
    lines += [_part_line(part) for part in report.parts]
    lines.append("")
    lines += [_check_line(check) for check in report.checks if check.name != "min_score"]
    lines += _further(outcome, report)
    return "\n".join(lines) + "\n"


def _further(outcome: CaseOutcome, report: CaseReport) -> Iterable[str]:
    if outcome.statistics is not None:
        yield from _statistics_lines(outcome.statistics)
    elif outcome.verdict != "passed":
        yield f"Why:     {report.reason}"
    if outcome.diff is not None:
        yield f"Diff:    {outcome.diff.state}: {outcome.diff.reason}"
        if outcome.diff.first_divergence is not None:
            yield f"         first at {outcome.diff.first_divergence}"
        for change in outcome.diff.changed_arguments[:5]:
            yield f"         {change.tool} {change.path}: {change.before!r} before, {change.after!r} now"
    if outcome.blame is not None:
        yield f"Look at: {outcome.blame}"
    for warning in outcome.spec.warnings:
        yield f"Warning: {warning}"


def _part_line(part: Part) -> str:
    label = f"{part.label}:"
    if part.value is None:
        return f"{label:<20}n/a ({part.detail})"
    shown = f"{100 * part.value:.0f}/100" if part.name == "output_quality" else f"{100 * part.value:.0f}%"
    return f"{label:<20}{shown} ({part.detail})"


def _check_line(check: Check) -> str:
    shown = check.shown
    if check.name in {"cost", "latency"}:
        shown = shown.replace("(limit ", "(limit: ")
    note = "" if check.blocking else " (does not fail the case)"
    return f"{check.label + ':':<8} {shown} {_TICKS[check.passed]}{note}"


def _statistics_lines(stats: RunStatistics) -> Iterable[str]:
    low, high = stats.interval.low, stats.interval.high
    yield (
        f"Runs:    {stats.passes}/{stats.runs} passed ({stats.pass_rate:.0%}, {stats.interval.confidence:.0%} interval "
        f"{low:.0%} to {high:.0%}; needs {stats.spec.pass_rate:.0%}) {_TICKS[not stats.problems]}"
    )
    if stats.mean_score is not None:
        spread = "" if stats.std_dev is None else f", standard deviation {stats.std_dev:.1f}"
        yield f"Scores:  mean {stats.mean_score:.1f}{spread}, median {stats.median:.1f}, p95 {stats.p95:.1f}"
    k = min(stats.runs, 5)
    yield f"pass@{k}:  {stats.pass_at_k[k - 1]:.2f}   pass^{k}: {stats.pass_hat_k[k - 1]:.2f}"
    yield f"Flaky:   {stats.flakiness.value:.2f} ({stats.flakiness.label})"
    for problem in stats.problems:
        yield f"Why:     {problem}"


def summary_text(suite: SuiteReport) -> str:
    """The last lines of a report."""
    counts = suite.counts
    pieces = [f"{counts['passed']} passed"]
    pieces += [f"{counts[k]} {word}" for k, word in _REST if counts[k]]
    text = f"{len(suite.cases)} test cases: {', '.join(pieces)}"
    if suite.paired is not None:
        for test in (suite.paired.scores, suite.paired.verdicts):
            if test is not None:
                text += f"\nAgainst the baseline ({test.name}, {test.pairs} cases): "
                text += f"{test.difference:+.2f}, p = {test.p_value:.3f}"
    return text


_REST = (
    ("failed", "failed"),
    ("error", "with errors"),
    ("not_applicable", "with nothing to check"),
    ("regressed", "got worse"),
)


def markdown(suite: SuiteReport) -> str:
    """A table of all cases and the reasons of those that did not pass."""
    lines = [
        f"**{summary_text(suite).splitlines()[0]}**",
        "",
        "| case | result | score | tools | quality | sequence | cost | latency | baseline |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for outcome in suite.cases:
        report = outcome.report
        parts = {p.name: "-" if p.value is None else f"{100 * p.value:.0f}%" for p in report.parts}
        case = report.case
        cells = [
            outcome.spec.name,
            f"{_MARKS[outcome.verdict]} {_WORDS[outcome.verdict].lower()}",
            _points(outcome.score),
            *(parts.get(name, "-") for name in ("tool_accuracy", "output_quality", "sequence_correctness")),
            "-" if case is None or case.cost_usd is None else f"${case.cost_usd:.4f}",
            "-" if case is None or case.duration_s is None else f"{case.duration_s:.1f}s",
            "-" if outcome.diff is None else outcome.diff.state,
        ]
        lines.append(f"| {' | '.join(markdown_cell(c) for c in cells)} |")
    failed = [o for o in suite.cases if not o.ok]
    if failed:
        lines += ["", "### Not passed", ""]
        lines += [f"- **{markdown_cell(o.spec.name)}**: {markdown_cell(_why(o))}" for o in failed]
    return "\n".join(lines) + "\n"


def _why(outcome: CaseOutcome) -> str:
    reasons = list(outcome.statistics.problems) if outcome.statistics else [outcome.report.reason]
    if outcome.diff is not None and outcome.diff.regressed:
        reasons.append(f"worse than its baseline: {outcome.diff.reason}")
    return "; ".join(reasons)


def junit_xml(suite: SuiteReport) -> str:
    """JUnit XML: one test case per test case, its scores as properties."""
    counts = suite.counts
    root = ET.Element(
        "testsuite",
        name="evalspan",
        tests=str(len(suite.cases)),
        failures=str(sum(not c.ok and c.verdict not in {"error", "not_applicable"} for c in suite.cases)),
        errors=str(counts["error"]),
        skipped=str(counts["not_applicable"]),
    )
    for outcome in suite.cases:
        root.append(_junit_case(outcome))
    ET.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _junit_case(outcome: CaseOutcome) -> ET.Element:
    report = outcome.report
    took = report.case.duration_s if report.case is not None else None
    element = ET.Element(
        "testcase",
        classname=xml_text(str(outcome.spec.path)),
        name=xml_text(outcome.spec.name),
        time=f"{took or 0.0:.3f}",
    )
    properties = ET.SubElement(element, "properties")
    values: dict[str, str] = {"score": _points(outcome.score)}
    values.update({s.metric: str(s) for s in report.scores})
    if outcome.statistics is not None:
        values["pass_rate"] = f"{outcome.statistics.pass_rate:.4g}"
    if outcome.diff is not None:
        values["baseline"] = outcome.diff.state
    for name, value in values.items():
        ET.SubElement(properties, "property", name=f"evalspan.{name}", value=xml_text(value))
    why = xml_text(_why(outcome))
    if outcome.verdict == "error":
        ET.SubElement(element, "error", message=why)
    elif outcome.verdict == "not_applicable":
        ET.SubElement(element, "skipped", message=why)
    elif not outcome.ok:
        ET.SubElement(element, "failure", message=why).text = xml_text(case_text(outcome))
    return element
