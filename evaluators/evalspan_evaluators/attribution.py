"""Attribution: the step and the agent that most likely made a run fail, a heuristic with its evidence.

Each move of an agent collects points for what is suspicious about it: it failed, or what it wrote failed when it was
run; it guesses where it should look something up; it states facts it did not look up; a failed metric points at it.
Earlier moves come first among equals, since later ones inherit their mistakes. A manager that only hands out work is
blamed last. Nothing here is proof: the points say where to look first.

Measured on the development half of Who&When (86 failed multi-agent logs, labelled by people; Zhang et al. 2025,
arXiv 2505.00212): `bench/attribution.py` prints the agent and step accuracy beside the floors.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from evalspan_collector.run import Run, Step
from evalspan_evaluators.score import Evidence, Score
from evalspan_evaluators.trajectory.outcome import call_failed, failure_text

__all__ = ["Attribution", "Move", "Suspect", "attribute", "attribute_moves", "moves_of", "moves_of_log"]

#: Names of things that run code or speak for the user: their moves are consequences.
_ENVIRONMENT = re.compile(r"terminal|executor|environment|user_?proxy|^(user|human|tool|system)$", re.IGNORECASE)
#: Names of agents that plan and hand out work.
_MANAGER = re.compile(r"orchestrat|manager|supervisor|coordinat|planner|router", re.IGNORECASE)
#: A speaker's remark behind its name, such as `Orchestrator (thought)`.
_REMARK = re.compile(r"\s*\(.*\)$")
_FAILURE = re.compile(r"exit ?code:? [1-9]|traceback|\w*error: |\w*exception: |execution failed", re.IGNORECASE)
_GUESS = re.compile(
    r"\b(?:assum\w*|placeholders?|simulat\w*|hypothetical\w*|mock(?:ed)?|dummy|(?:example|sample|fake) data"
    r"|for demonstration|let's say|manually|presumabl\w*|likely)\b",
    re.IGNORECASE,
)
_CODE = "```"
_DIGIT = re.compile(r"\d")
#: Characters of a text that are read.
_LONGEST = 20_000
#: A shorter text is an agreement or a sign-off.
_SHORT = 40

#: Points by reason; see the module's docstring for why.
_POINTS = {
    "STEP_FAILED": 1.0,
    "METRIC_POINTS_HERE": 1.0,
    "CAUSED_FAILURE": 1.0,
    "GUESS": 0.5,
    "WROTE_CODE": 0.5,
    "UNCHECKED_FACTS": 0.3,
    "SIGN_OFF": -1.0,
    "TASK_STATEMENT": -1.0,
    "MANAGER": -2.0,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """One thing that somebody did in a run.

    Attributes:
        index: Number of the step.
        agent: Who did it.
        text: What it wrote or asked for.
        environment: It is the outcome of somebody else's move (a terminal, the user), never to blame.
        manager: Its agent hands out work.
        failed: The step itself failed; the text says how.
        failure: What the failure said.
    """

    index: int
    agent: str
    text: str = ""
    environment: bool = False
    manager: bool = False
    failed: bool = False
    failure: str = ""
    span_id: str | None = None
    tool: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspect:
    """A move and what speaks against it.

    Attributes:
        points: Sum over the reasons, the malus for being late included; only their order means something.
        evidence: The reasons, each with its code.
    """

    step: int
    agent: str
    points: float
    evidence: tuple[Evidence, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Attribution:
    """The move most responsible for a failure, and those behind it.

    Attributes:
        suspects: All moves that may be to blame, the most suspicious first.
    """

    suspects: tuple[Suspect, ...]

    @property
    def step(self) -> int:
        """Number of the most suspicious step."""
        return self.suspects[0].step

    @property
    def agent(self) -> str:
        """Its agent."""
        return self.suspects[0].agent

    @property
    def evidence(self) -> tuple[Evidence, ...]:
        """What speaks against it."""
        return self.suspects[0].evidence

    def __str__(self) -> str:
        why = "; ".join(e.note or e.code or "" for e in self.evidence) or "nothing stands out, it acted first"
        return f"step {self.step} by {self.agent}: {why}"


@dataclass(slots=True)
class _Case:
    """The evidence gathered against one move."""

    move: Move
    points: float = 0.0
    evidence: list[Evidence] = field(default_factory=list[Evidence])

    def add(self, code: str, note: str, *, value: str | None = None) -> None:
        self.points += _POINTS[code]
        if _POINTS[code] > 0:
            self.evidence.append(
                Evidence(
                    verdict="info",
                    claim=self.move.agent,
                    value=None if value is None else value[:300],
                    tool=self.move.tool,
                    span_id=self.move.span_id,
                    code=code,
                    note=note,
                )
            )


def attribute(run: Run, scores: Iterable[Score] = ()) -> Attribution | None:
    """The step of a failed run that is most likely to blame; None when the run has no step that could be.

    Args:
        run: The run.
        scores: Its scores: the spans that failed ones point at become suspicious.
    """
    failed = [s for s in scores if s.passed is False]
    pointed = {
        e.span_id: s.metric
        for s in failed
        for e in s.evidence
        if e.span_id and e.verdict not in {"match", "supported", "info"}
    }
    return attribute_moves(moves_of(run), pointed_at=pointed)


def attribute_moves(moves: Sequence[Move], *, pointed_at: dict[str, str] | None = None) -> Attribution | None:
    """The same for moves of any origin, in order.

    Args:
        moves: What was done.
        pointed_at: Name of the failed metric by span id.
    """
    suspects: list[Suspect] = []
    for place, move in enumerate(moves):
        if move.environment:
            continue
        found = _Case(move)
        _what_it_did(found, place)
        _what_came_of_it(found, moves[place + 1] if place + 1 < len(moves) else None)
        metric = (pointed_at or {}).get(move.span_id or "")
        if metric is not None:
            found.add("METRIC_POINTS_HERE", f"the failed metric {metric!r} points at it")
        points = found.points - place / len(moves)
        suspects.append(Suspect(step=move.index, agent=move.agent, points=points, evidence=tuple(found.evidence)))
    if not suspects:
        return None
    # Stable: among equals the earlier move stays in front.
    return Attribution(suspects=tuple(sorted(suspects, key=lambda s: -s.points)))


def _what_it_did(found: _Case, place: int) -> None:
    move = found.move
    text = move.text[:_LONGEST]
    if move.manager:
        found.add("MANAGER", "")
    if move.failed:
        found.add("STEP_FAILED", "the step failed", value=move.failure or None)
    if len(text) < _SHORT and move.tool is None:
        found.add("SIGN_OFF", "")
    if place == 0 and move.tool is None:
        found.add("TASK_STATEMENT", "")
        return
    guess = _GUESS.search(text)
    if guess:
        found.add("GUESS", f"it guesses ({guess[0]!r}) instead of looking it up", value=_around(text, guess.start()))
    if _CODE in text:
        found.add("WROTE_CODE", "it wrote code")
    elif move.tool is None and _DIGIT.search(text):
        found.add("UNCHECKED_FACTS", "it states facts that it did not look up in this step")


def _what_came_of_it(found: _Case, following: Move | None) -> None:
    if following is None or not following.environment:
        return
    hit = _FAILURE.search(following.text[:_LONGEST])
    if hit:
        found.add("CAUSED_FAILURE", "what it wrote failed when it was run", value=_around(following.text, hit.start()))


def _around(text: str, at: int) -> str:
    return " ".join(text[max(0, at - 60) : at + 140].split())


def moves_of_log(entries: Iterable[tuple[str, str]]) -> tuple[Move, ...]:
    """Moves of a conversation between agents.

    Args:
        entries: Speaker and text of each entry, in order. A remark in brackets behind the name is left out.
    """
    found: list[Move] = []
    for index, (speaker, text) in enumerate(entries):
        name = _REMARK.sub("", speaker) or speaker
        found.append(
            Move(
                index=index,
                agent=name,
                text=text,
                environment=_ENVIRONMENT.search(name) is not None,
                manager=_MANAGER.search(name) is not None,
            )
        )
    return tuple(found)


def moves_of(run: Run) -> tuple[Move, ...]:
    """Moves of a run: its model calls and tool calls, each by the agent that made it."""
    managers = {_owner(run, s) for s in run.steps if s.kind == "agent"}
    workers = {s.agent or run.agent for s in run.steps if s.kind in {"tool_call", "model_call"}}
    several = len(workers - {None}) > 1
    found: list[Move] = []
    for step in run.steps:
        move = _move(run, step)
        if move is not None:
            manages = several and move.agent in managers
            found.append(move if not manages else _as_manager(move))
    return tuple(found)


def _owner(run: Run, step: Step) -> str | None:
    return run.agent if step.parent_index is None else run.steps[step.parent_index].agent


def _as_manager(move: Move) -> Move:
    # Its own tool calls are its work; only what it says to others is managing.
    if move.tool is not None:
        return move
    return Move(
        index=move.index,
        agent=move.agent,
        text=move.text,
        manager=True,
        failed=move.failed,
        failure=move.failure,
        span_id=move.span_id,
    )


def _move(run: Run, step: Step) -> Move | None:
    agent = step.agent or run.agent or "agent"
    shared: dict[str, Any] = {"index": step.index, "agent": agent, "span_id": step.span_id}
    if step.tool is not None:
        call = step.tool
        failed = step.failed or call_failed(call)
        return Move(tool=call.name, text=str(call.arguments or ""), failed=failed, failure=failure_text(call), **shared)
    if step.model_call is not None:
        text = "\n".join(m.text for m in step.model_call.output_messages)
        return Move(text=text, failed=step.failed, failure=step.error or "", **shared)
    return None
