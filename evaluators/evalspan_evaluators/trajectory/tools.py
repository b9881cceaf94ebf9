"""Tools: were the expected tools called, and only those that may be?"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import ClassVar

from evalspan_collector.run import ToolCall
from evalspan_evaluators.case import Case
from evalspan_evaluators.metric import MetricBase
from evalspan_evaluators.score import Evidence, Score
from evalspan_evaluators.trajectory.categories import category_members
from evalspan_evaluators.trajectory.comparison import surplus
from evalspan_evaluators.trajectory.names import listing, near_name, normal_name, shown

__all__ = ["AllowedTools", "ForbiddenTools", "ToolAccuracy", "ToolCategories", "ToolSelection"]

_MOST_EVIDENCE = 20


def _called(case: Case) -> dict[str, str | None]:
    """Names of the tools called, each with the span of its first call."""
    first: dict[str, str | None] = {}
    for call in case.tools or ():
        if call.name not in first:
            first[call.name] = call.span_id
    return first


def _missing_tool(name: str, others: Iterable[str]) -> Evidence:
    near = near_name(name, list(others))
    if near:
        return Evidence(
            verdict="mismatch",
            claim=name,
            source="expected",
            value=near,
            expected=name,
            code="TOOL_NAME_MISMATCH",
            note=f"'{shown(near)}' was called: is it the same tool? Then change the expected name",
        )
    return Evidence(
        verdict="mismatch",
        claim=name,
        source="expected",
        expected=name,
        code="TOOL_MISSING",
        note=f"'{shown(name)}' was never called: is it offered to the model under this name?",
    )


def _missing_category(category: str, members: tuple[str, ...]) -> Evidence:
    return Evidence(
        verdict="mismatch",
        claim=category,
        source="expected",
        expected=listing(members),
        code="CATEGORY_NOT_SATISFIED",
        note=f"no tool of category {category!r} was called; add your tool's name to own_categories if it is one",
    )


def _hints(evidence: Iterable[Evidence]) -> str:
    near = [f"'{shown(e.expected or '')}' looks like '{shown(e.value or '')}'" for e in evidence if e.value]
    return f"; {', '.join(near[:3])}" if near else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolAccuracy(MetricBase):
    """Share of the expected tools and categories that were called; further calls are listed, not punished.

    Set based and case-sensitive, as EvalView's. For a score that punishes further tools see `tool_selection`.

    Attributes:
        expected: Tool names; None takes the case's `expected.tools`.
        categories: Categories; None takes the case's `expected.categories`.
        own_categories: Further tools of a category, or categories of your own.
    """

    name: ClassVar[str] = "tool_accuracy"
    requires: ClassVar[tuple[str, ...]] = ("tools",)

    expected: tuple[str, ...] | None = None
    categories: tuple[str, ...] | None = None
    own_categories: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])

    def evaluate(self, case: Case) -> Score:
        """Look for each expected tool and category among the calls."""
        tools = tuple(dict.fromkeys((case.expected.tools if self.expected is None else self.expected) or ()))
        categories = tuple(
            dict.fromkeys((case.expected.categories if self.categories is None else self.categories) or ())
        )
        total = len(tools) + len(categories)
        if not total:
            return self.skip("no tools are expected: set the parameter expected or the case's expected.tools")
        called = _called(case)
        missing = [name for name in tools if name not in called]
        further = [name for name in called if name not in tools]
        members = {category: category_members(category, self.own_categories) for category in categories}
        unmet = {category: names for category, names in members.items() if called.keys().isdisjoint(names)}
        evidence = (
            *(_missing_tool(name, further) for name in missing[:_MOST_EVIDENCE]),
            *(_missing_category(category, names) for category, names in unmet.items()),
        )
        met = total - len(missing) - len(unmet)
        value = met / total
        reason = f"{met}/{total} expected tools called"
        if missing:
            reason += f"; missing {listing(missing)}"
        if unmet:
            reason += f"; no tool of category {listing(unmet)}"
        reason += _hints(evidence)
        if further:
            reason += f"; others called {listing(further)}"
        return self.score(value, reason, evidence=evidence, extra=(("further_tools", float(len(further))),))


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCategories(MetricBase):
    """Share of the expected categories of which at least one tool was called.

    Attributes:
        expected: Categories; None takes the case's `expected.categories`.
        own_categories: Further tools of a category, or categories of your own.
    """

    name: ClassVar[str] = "tool_categories"
    requires: ClassVar[tuple[str, ...]] = ("tools",)
    default_threshold: ClassVar[float | None] = 1.0

    expected: tuple[str, ...] | None = None
    own_categories: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])

    def evaluate(self, case: Case) -> Score:
        """Look for a tool of each category among the calls."""
        wanted = tuple(dict.fromkeys((case.expected.categories if self.expected is None else self.expected) or ()))
        if not wanted:
            return self.skip("no categories are expected: set the parameter expected or expected.categories")
        called = _called(case)
        evidence: list[Evidence] = []
        met = 0
        for category in wanted:
            members = category_members(category, self.own_categories)
            served = [name for name in called if name in members]
            met += bool(served)
            evidence.append(
                Evidence(
                    verdict="match",
                    claim=category,
                    value=listing(served),
                    tool=served[0],
                    span_id=called[served[0]],
                )
                if served
                else _missing_category(category, members)
            )
        unmet = [e.claim for e in evidence if e.verdict == "mismatch"]
        reason = f"{met}/{len(wanted)} categories used" + (f"; none of {listing(unmet)}" if unmet else "")
        return self.score(met / len(wanted), reason, evidence=tuple(evidence))


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSelection(MetricBase):
    """F1 of the tools called against the tools expected: both a missing and a further tool cost.

    `extra` carries `precision`, `recall` and `f1`.

    Attributes:
        expected: Tool names; None takes the case's `expected.tools`, else its `expected.sequence`, else the names
            of its `expected.calls`.
        counted: Compare how often each tool was called, not only whether.
    """

    name: ClassVar[str] = "tool_selection"
    requires: ClassVar[tuple[str, ...]] = ("tools",)

    expected: tuple[str, ...] | None = None
    counted: bool = False

    def evaluate(self, case: Case) -> Score:
        """Compare the sets (or multisets) of names."""
        given = self._expected(case)
        if given is None:
            return self.skip("no tools are expected: set the parameter expected or the case's expected.tools")
        actual_names = [call.name for call in case.tools or ()]
        expected = list(given) if self.counted else list(dict.fromkeys(given))
        actual = actual_names if self.counted else list(dict.fromkeys(actual_names))
        missing, further = surplus(expected, actual), surplus(actual, expected)
        hits = len(expected) - len(missing)
        precision = hits / len(actual) if actual else 1.0
        recall = hits / len(expected) if expected else 1.0
        both = len(expected) + len(actual)
        f1 = 2 * hits / both if both else 1.0
        first = _called(case)
        evidence = (
            *(_missing_tool(name, further) for name in missing[:_MOST_EVIDENCE]),
            *(
                Evidence(verdict="mismatch", claim=n, value=n, tool=n, span_id=first[n], code="TOOL_UNEXPECTED")
                for n in further[:_MOST_EVIDENCE]
            ),
        )
        reason = f"precision {precision:.2f}, recall {recall:.2f}"
        reason += f"; missing {listing(missing)}" if missing else ""
        reason += f"; not expected {listing(further)}" if further else ""
        measures = (("precision", precision), ("recall", recall), ("f1", f1))
        return self.score(f1, reason + _hints(evidence[: len(missing)]), evidence=evidence, extra=measures)

    def _expected(self, case: Case) -> tuple[str, ...] | None:
        if self.expected is not None:
            return self.expected
        wanted = case.expected
        if wanted.tools is not None:
            return wanted.tools
        if wanted.sequence is not None:
            return wanted.sequence
        if wanted.calls is not None:
            return tuple(str(call["name"]) for call in wanted.calls if "name" in call)
        return None


#: A longer name is matched by its start.
_LONGEST_NAME = 300
_SERVER = re.compile(r"__|[./:]")


def _forbidden_by(name: str, patterns: Sequence[str]) -> str | None:
    """The first pattern that a tool's name, or its last part behind a server's name, matches."""
    ends = {normal_name(name), normal_name(_SERVER.split(name)[-1])}
    return next((p for p in patterns if any(_matches(normal_name(p), end) for end in ends)), None)


def _matches(pattern: str, name: str) -> bool:
    return pattern == name or (("*" in pattern or "?" in pattern) and fnmatchcase(name[:_LONGEST_NAME], pattern))


@dataclass(frozen=True, slots=True, kw_only=True)
class ForbiddenTools(MetricBase):
    """1.0 when none of the forbidden tools was called, else 0.0: one call is too many.

    Names are compared as they are and normalised (lower case, without `-`, `_` and spaces), so that a renamed
    tool does not slip through; so is the last part of a name with a server's in front, `mcp__db__delete_user`.

    Attributes:
        tools: Names that must never be called; `*` and `?` stand for any letters, as in `delete_*`.
    """

    name: ClassVar[str] = "forbidden_tools"
    requires: ClassVar[tuple[str, ...]] = ("tools",)
    default_threshold: ClassVar[float | None] = 1.0

    tools: tuple[str, ...]

    def evaluate(self, case: Case) -> Score:
        """Look for a forbidden name among the calls."""
        if not self.tools:
            return self.skip("the list of forbidden tools is empty")
        told = {call.name: _forbidden_by(call.name, self.tools) for call in case.tools or ()}
        hits = [call for call in case.tools or () if told[call.name] is not None]
        evidence = tuple(
            Evidence(
                verdict="mismatch",
                claim=told[call.name] or "",
                value=call.name,
                tool=call.name,
                span_id=call.span_id,
                code="VIOLATION",
                note="take the tool away from the agent, or out of the forbidden list",
            )
            for call in hits[:_MOST_EVIDENCE]
        )
        if not hits:
            return self.score(1.0, f"none of {listing(self.tools)} was called")
        names = list(dict.fromkeys(call.name for call in hits))
        return self.score(
            0.0, f"forbidden tools called {listing(names)} ({len(hits)} times)", evidence=evidence, label="violation"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AllowedTools(MetricBase):
    """Share of the calls whose tool is allowed.

    Attributes:
        tools: Names that may be called; None takes the names of the tools the model was offered.
    """

    name: ClassVar[str] = "allowed_tools"
    requires: ClassVar[tuple[str, ...]] = ("tools",)
    default_threshold: ClassVar[float | None] = 1.0

    tools: tuple[str, ...] | None = None

    def evaluate(self, case: Case) -> Score:
        """Look for calls of tools that are not on the list."""
        allowed = self._allowed(case)
        if allowed is None:
            return self.skip("no list of allowed tools: set the parameter tools, or capture tool definitions")
        calls = case.tools or ()
        if not calls:
            return self.skip("no tool was called")
        known = set(allowed)
        wrong = [call for call in calls if call.name not in known]
        value = (len(calls) - len(wrong)) / len(calls)
        if not wrong:
            return self.score(value, f"all {len(calls)} calls went to allowed tools")
        evidence = tuple(self._evidence(call, allowed) for call in wrong[:_MOST_EVIDENCE])
        names = listing(dict.fromkeys(call.name for call in wrong))
        return self.score(
            value, f"{len(wrong)} of {len(calls)} calls went to tools not allowed: {names}", evidence=evidence
        )

    def _allowed(self, case: Case) -> tuple[str, ...] | None:
        if self.tools is not None:
            return self.tools
        if not case.tool_definitions:
            return None
        return tuple(definition.name for definition in case.tool_definitions)

    @staticmethod
    def _evidence(call: ToolCall, allowed: tuple[str, ...]) -> Evidence:
        near = near_name(call.name, allowed)
        note = f"did the agent mean '{shown(near)}'?" if near else None
        return Evidence(
            verdict="mismatch",
            claim=call.name,
            value=call.name,
            tool=call.name,
            span_id=call.span_id,
            code="TOOL_NAME_MISMATCH" if near else "TOOL_NOT_FOUND",
            note=note,
        )
