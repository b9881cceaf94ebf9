"""Automaton: a rule's tree as a position automaton (Glushkov), run over the calls in one pass without backtracking."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from evalspan_collector.run import ToolCall
from evalspan_evaluators.trajectory.grammar import Call, Choice, Node, Repeat, Rule, Series, parse_rule

__all__ = ["Automaton", "Verdict", "automaton_of"]

_MOST_POSITIONS = 2_000
_REMEMBERED = 4_096

#: Decides whether a call meets an atom's conditions; gets the call and its place.
ConditionTest = Callable[[Call, ToolCall, int], bool]


@dataclass(frozen=True, slots=True)
class _Atom:
    """One position: the call it takes; None for any call; `gap` for a call that only stands in between."""

    call: Call | None
    gap: bool = False


@dataclass(slots=True)
class _Part:
    """What is needed of a subtree: whether it may be empty, where it can begin and end."""

    nullable: bool
    first: frozenset[int]
    last: frozenset[int]


@dataclass(slots=True)
class _State:
    """Positions reached together.

    Attributes:
        positions: None before the first call, empty once no continuation is left.
        furthest: The furthest position that is no gap; -1 for none.
        after: The state after a call of a name, as far as it was seen.
    """

    positions: frozenset[int] | None
    furthest: int = -1
    after: "dict[str, _State]" = field(default_factory=dict[str, "_State"])


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a run of the automaton ended.

    Attributes:
        accepted: The rule is met.
        at: Index of the call that broke it; for a rule left open at the end, of the last call that got further;
            -1 when no call did.
        open: It was broken by the end of the run, not by a call.
        wanted: Calls that would have gone on from there.
        progress: Share of the rule's parts that was reached, 0 to 1.
    """

    accepted: bool
    at: int = -1
    open: bool = False
    wanted: tuple[str, ...] = ()
    progress: float = 1.0


_ACCEPTED = Verdict(accepted=True)


class Automaton:
    """A compiled rule; its memory of transitions grows with use and is bounded."""

    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        self._atoms: list[_Atom] = []
        self._follow: list[set[int]] = []
        whole = self._build(rule.node)
        if rule.gaps:
            whole = self._series([whole, self._star(self._atom(_Atom(None, gap=True)))])
        self._first = whole.first
        self._last = whole.last
        self._nullable = whole.nullable
        self._names = [_matcher(atom.call) for atom in self._atoms]
        pairs = zip(self._atoms, self._names, strict=True)
        #: Tell the names of calls that also have to meet conditions.
        self._conditional = [fits for atom, fits in pairs if atom.call is not None and atom.call.conditions]
        self._start = _State(None)
        self._states: dict[frozenset[int], _State] = {}
        self._remembered = 0

    # Construction.

    def _atom(self, atom: _Atom) -> _Part:
        if len(self._atoms) >= _MOST_POSITIONS:
            raise ValueError(
                f"the rule {self.rule.text!r} has more than {_MOST_POSITIONS} parts once it is written out"
            )
        self._atoms.append(atom)
        self._follow.append(set())
        here = frozenset({len(self._atoms) - 1})
        return _Part(nullable=False, first=here, last=here)

    def _build(self, node: Node) -> _Part:
        if isinstance(node, Series):
            return self._series([self._build(part) for part in node.parts])
        if isinstance(node, Choice):
            parts = [self._build(option) for option in node.options]
            return _Part(
                nullable=any(p.nullable for p in parts),
                first=frozenset(position for p in parts for position in p.first),
                last=frozenset(position for p in parts for position in p.last),
            )
        if isinstance(node, Repeat):
            return self._repeat(node)
        atom = self._atom(_Atom(node if isinstance(node, Call) else None))
        if self.rule.gaps:
            return self._series([self._star(self._atom(_Atom(None, gap=True))), atom])
        return atom

    def _series(self, parts: Sequence[_Part]) -> _Part:
        whole = parts[0]
        for part in parts[1:]:
            for position in whole.last:
                self._follow[position] |= part.first
            whole = _Part(
                nullable=whole.nullable and part.nullable,
                first=whole.first | part.first if whole.nullable else whole.first,
                last=whole.last | part.last if part.nullable else part.last,
            )
        return whole

    def _star(self, part: _Part) -> _Part:
        for position in part.last:
            self._follow[position] |= part.first
        return _Part(nullable=True, first=part.first, last=part.last)

    def _repeat(self, node: Repeat) -> _Part:
        empty = _Part(nullable=True, first=frozenset(), last=frozenset())
        fixed = [self._build(node.part) for _ in range(node.low)]
        if node.high is None:
            return self._series([*fixed, self._star(self._build(node.part))])
        # x{0,3} as (x (x (x)?)?)?: the copies are chained, so the follow sets stay small.
        tail = empty
        for _ in range(node.high - node.low):
            chained = self._series([self._build(node.part), tail])
            tail = _Part(nullable=True, first=chained.first, last=chained.last)
        return self._series([*fixed, tail]) if fixed else tail

    # Running.

    def run(self, calls: Sequence[ToolCall], test: ConditionTest) -> Verdict:
        """Run over all calls; linear in their number."""
        state = self._start
        best, best_at = -1, -1
        for index, call in enumerate(calls):
            after = state.after.get(call.name) or self._step(state, call, index, test)
            if not after.positions:
                wanted = self._wanted(state.positions)
                return Verdict(accepted=False, at=index, wanted=wanted, progress=(best + 1) / len(self._atoms))
            if after.furthest > best:
                best, best_at = after.furthest, index
            state = after
        reached = state.positions
        if self._nullable if reached is None else not self._last.isdisjoint(reached):
            return _ACCEPTED
        wanted = self._wanted(frozenset({best}) if best >= 0 and self.rule.gaps else reached)
        progress = (best + 1) / len(self._atoms)
        return Verdict(accepted=False, at=best_at, open=True, wanted=wanted, progress=progress)

    def _step(self, state: _State, call: ToolCall, index: int, test: ConditionTest) -> _State:
        """The state after this call, remembered where the call's name alone decides it."""
        if self._remembered >= _REMEMBERED:
            self._forget()
        reached = frozenset(p for p in self._next(state.positions) if self._meets(p, call, index, test))
        after = self._states.get(reached)
        if after is None:
            furthest = max((p for p in reached if not self._atoms[p].gap), default=-1)
            after = self._states[reached] = _State(reached, furthest)
            self._remembered += 1
        if len(call.name) <= 200 and not any(fits(call.name) for fits in self._conditional):
            state.after[call.name] = after
            self._remembered += 1
        return after

    def _forget(self) -> None:
        for state in (self._start, *self._states.values()):
            state.after.clear()
        self._states.clear()
        self._remembered = 0

    def _next(self, state: frozenset[int] | None) -> frozenset[int] | set[int]:
        if state is None:
            return self._first
        reached: set[int] = set()
        for position in state:
            reached |= self._follow[position]
        return reached

    def _meets(self, position: int, call: ToolCall, index: int, test: ConditionTest) -> bool:
        atom = self._atoms[position].call
        if atom is None:
            return True
        named = self._names[position](call.name)
        met = named and (not atom.conditions or test(atom, call, index))
        return met != atom.negated

    def _wanted(self, state: frozenset[int] | None) -> tuple[str, ...]:
        names: dict[str, None] = {}
        for position in sorted(self._next(state)):
            atom = self._atoms[position]
            if not atom.gap and not (atom.call is not None and atom.call.negated):
                names["any tool" if atom.call is None else atom.call.name] = None
        return tuple(names)


def _matcher(call: Call | None) -> Callable[[str], bool]:
    if call is None or call.name == "*":
        return lambda _: True
    if "*" in call.name or "?" in call.name:
        pieces = (".*" if c == "*" else "." if c == "?" else re.escape(c) for c in call.name)
        pattern = re.compile("".join(pieces), re.DOTALL)
        # At most a few stars in a name the user wrote, on a name cut to 200 letters: bounded work.
        return lambda name: pattern.fullmatch(name[:200]) is not None
    wanted = call.name
    return lambda name: name == wanted


@lru_cache(maxsize=256)
def automaton_of(text: str, *, strict: bool = False) -> Automaton:
    """The automaton of a rule.

    Raises:
        ValueError: The text is no rule, or too large once its repetitions are written out.
    """
    return Automaton(parse_rule(text, strict=strict))
