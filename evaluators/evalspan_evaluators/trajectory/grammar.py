"""Grammar: the small language of trajectory rules, parsed into a tree (docs/metrics-trajectory.md has the syntax)."""

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

__all__ = [
    "Any_",
    "Call",
    "Choice",
    "Condition",
    "Node",
    "Repeat",
    "Rule",
    "Series",
    "before",
    "between",
    "counted",
    "never_after",
    "none_of",
    "parse_rule",
    "read_path",
]

_MOST_REPEATS = 100
_LONGEST_RULE = 2_000
_DEEPEST = 40

Operator = Literal["=", "!=", "<", "<=", ">", ">=", "~", "exists"]


@dataclass(frozen=True, slots=True)
class Condition:
    """A test of one argument (`amount <= 100`), of the result (`result.status = 'ok'`), or of the call (`failed`).

    Attributes:
        path: Where the value is: names and indexes; the first name `result` means the call's result.
        operator: How it is compared.
        value: What it is compared with; None when it comes from an earlier result.
        tool: Tool whose earlier result must hold the value, `any` for every tool; None for a plain value.
        source: Path inside that result; empty for anywhere in it.
    """

    path: tuple[str | int, ...]
    operator: Operator
    value: Any = None
    tool: str | None = None
    source: tuple[str | int, ...] = ()


@dataclass(frozen=True, slots=True)
class Call:
    """One call: of the named tool (`*` and `?` stand for letters), or of any other when `negated`."""

    name: str
    conditions: tuple[Condition, ...] = ()
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Any_:  # noqa: N801  `Any` is taken
    """One call of whatever tool."""


@dataclass(frozen=True, slots=True)
class Series:
    """One after the other."""

    parts: tuple["Node", ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """One of several."""

    options: tuple["Node", ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """At least `low` times, at most `high` times; None for no bound."""

    part: "Node"
    low: int
    high: int | None


Node = Call | Any_ | Series | Choice | Repeat


@dataclass(frozen=True, slots=True)
class Rule:
    """One parsed rule.

    Attributes:
        text: As it was written.
        kind: `sequence`, or the word of the constraint (`before`, `never`, `between`, `count`).
        node: The tree whose language the whole run must be in.
        gaps: Further calls may stand between the parts of a sequence.
    """

    text: str
    kind: Literal["sequence", "before", "never", "between", "count"]
    node: Node
    gaps: bool


_TOKEN = re.compile(
    r"\s*(?:(?P<text>'[^']*'|\"[^\"]*\")|(?P<dots>\.\.\.)|(?P<op><=|>=|!=|->|[=<>~(){}\[\]|?*+,!.;])"
    r"|(?P<number>-?\d+(?:\.\d+)?(?![\w-]))|(?P<word>(?:(?!->)[^\s'\"=<>~(){}\[\]|?*+,!;])+))"
)
_WORDS = frozenset({"before", "after", "between", "and", "never", "at", "most", "least", "exactly", "of"})


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    at: int


def _tokens(text: str) -> list[_Token]:
    if len(text) > _LONGEST_RULE:
        raise ValueError(f"the rule has {len(text)} characters: at most {_LONGEST_RULE}")
    tokens: list[_Token] = []
    at = 0
    end = len(text.rstrip())
    while at < end:
        found = _TOKEN.match(text, at)
        if found is None or found.lastgroup is None:
            raise ValueError(f"cannot read {text[at : at + 20]!r} at character {at + 1} of {text!r}")
        tokens.append(_Token(found.lastgroup, found.group(found.lastgroup), found.start(found.lastgroup)))
        at = found.end()
    return tokens


class _Parser:
    """Recursive descent over the tokens of one rule."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = _tokens(text)
        self._at = 0
        self._depth = 0
        self._consumed = False

    def rule(self, *, strict: bool) -> Rule:
        if not self._tokens:
            raise ValueError("the rule is empty")
        rule = self._constraint() or Rule(self._text, "sequence", self._choice(), not strict)
        if self._at < len(self._tokens):
            raise self._wrong("the end")
        return rule

    # Constraints: each becomes a tree over all calls of the run.

    def _constraint(self) -> Rule | None:
        if self._word("never"):
            call = self._call()
            if self._word("after"):
                return self._made("never", never_after(call, self._call()))
            if self._word("before"):
                return self._made("before", before(self._call(), call))
            return self._made("never", none_of(call))
        if self._word("at"):
            most = self._word("most")
            if not most and not self._word("least"):
                raise self._wrong("most or least")
            count = self._count()
            return self._made("count", counted(self._of(), 0 if most else count, count if most else None))
        if self._word("exactly"):
            count = self._count()
            return self._made("count", counted(self._of(), count, count))
        return self._infix()

    def _infix(self) -> Rule | None:
        start = self._at
        if not self._is_call():
            return None
        left = self._call()
        if self._word("before"):
            return self._made("before", before(left, self._call()))
        if self._word("after"):
            return self._made("before", before(self._call(), left))
        if self._word("between"):
            first = self._call()
            if not self._word("and"):
                raise self._wrong("and")
            return self._made("between", between(left, first, self._call()))
        self._at = start
        return None

    def _made(self, kind: Literal["before", "never", "between", "count"], node: Node) -> Rule:
        return Rule(self._text, kind, node, gaps=False)

    def _of(self) -> Call:
        if not self._word("of"):
            raise self._wrong("of")
        return self._call()

    def _count(self) -> int:
        token = self._next()
        if token is None or token.kind != "number" or not token.text.isdigit():
            raise self._wrong("a whole number", back=True)
        return _bounded(int(token.text))

    # Sequences.

    def _choice(self) -> Node:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise ValueError(f"the rule is nested deeper than {_DEEPEST} brackets")
        options = [self._series()]
        while self._take("|"):
            options.append(self._series())
        self._depth -= 1
        return options[0] if len(options) == 1 else Choice(tuple(options))

    def _series(self) -> Node:
        parts: list[Node] = []
        while True:
            if self._take("->") or self._take(","):
                continue
            part = self._part()
            if part is None:
                break
            parts.append(part)
        if not parts:
            raise self._wrong("a tool name")
        return parts[0] if len(parts) == 1 else Series(tuple(parts))

    def _part(self) -> Node | None:
        node: Node
        if self._take("..."):
            return Repeat(Any_(), 0, None)
        if self._take("."):
            node = Any_()
        elif self._take("("):
            node = self._choice()
            if not self._take(")"):
                raise self._wrong(")")
        elif self._is_call():
            node = self._call()
        else:
            return None
        while (bounds := self._bounds()) is not None:
            node = Repeat(node, *bounds)
        return node

    def _bounds(self) -> tuple[int, int | None] | None:
        if self._take("?"):
            return 0, 1
        if self._take("*"):
            return 0, None
        if self._take("+"):
            return 1, None
        if not self._take("{"):
            return None
        low = self._count() if self._peek_kind() == "number" else 0
        high: int | None = low
        if self._take(","):
            high = self._count() if self._peek_kind() == "number" else None
        if not self._take("}"):
            raise self._wrong("}")
        if high is not None and high < low:
            raise ValueError(f"{{{low},{high}}} in {self._text!r}: the upper bound is below the lower one")
        return low, high

    def _is_call(self) -> bool:
        token = self._peek()
        if token is None:
            return False
        return token.kind == "text" or token.text == "!" or (token.kind == "word" and token.text not in _WORDS)

    def _call(self) -> Call:
        negated = self._take("!")
        token = self._next()
        if token is None or token.kind not in ("word", "text") or (token.kind == "word" and token.text in _WORDS):
            raise self._wrong("a tool name", back=True)
        name = token.text[1:-1] if token.kind == "text" else token.text
        # `get_*` reaches us as a word and a star; a star that touches the word belongs to it.
        while token.kind == "word" and self._touches("*", token.at + len(name)):
            self._at += 1
            name += "*"
            follow = self._peek()
            if follow is not None and follow.kind == "word" and follow.at == token.at + len(name):
                self._at += 1
                name += follow.text
        conditions: list[Condition] = []
        if self._take("["):
            while True:
                conditions.append(self._condition())
                if self._take("]"):
                    break
                if not self._take(",") and not self._word("and"):
                    raise self._wrong("] or ,")
        return Call(name, tuple(conditions), negated)

    def _touches(self, text: str, at: int) -> bool:
        """A star right behind a name that ends in `_`, `-`, `.` or `:` is a wildcard, elsewhere a repetition."""
        token = self._peek()
        return token is not None and token.text == text and token.at == at and self._text[at - 1] in "_-.:/"

    def _condition(self) -> Condition:
        token = self._next()
        if token is None or token.kind not in ("word", "text"):
            raise self._wrong("an argument name", back=True)
        path = read_path(token.text[1:-1] if token.kind == "text" else self._with_indexes(token.text))
        operator = self._peek()
        if operator is None or operator.text not in ("=", "!=", "<", "<=", ">", ">=", "~"):
            return Condition(path, "exists")
        self._at += 1
        if self._word("from"):
            source = self._next()
            if source is None or source.kind not in ("word", "text") or operator.text not in ("=", "!="):
                raise self._wrong("a tool name after from, with = or !=", back=True)
            whole = source.text[1:-1] if source.kind == "text" else self._with_indexes(source.text)
            tool, _, rest = whole.partition(".")
            return Condition(path, _operator(operator.text), tool=tool, source=read_path(rest))
        return Condition(path, _operator(operator.text), value=self._value())

    def _with_indexes(self, text: str) -> str:
        """`items[0].id` reaches us in pieces, because brackets are tokens."""
        while self._peek_text(0) == "[" and self._is_index(self._peek_text(1)) and self._peek_text(2) == "]":
            text += f".{self._peek_text(1)}"
            self._at += 3
            if self._peek_text(0) == "." and self._at + 1 < len(self._tokens):
                text += "." + self._tokens[self._at + 1].text
                self._at += 2
        return text

    @staticmethod
    def _is_index(text: str | None) -> bool:
        return text is not None and (text == "*" or text.isdigit())

    def _value(self) -> Any:
        token = self._next()
        if token is None or token.kind not in ("word", "text", "number"):
            raise self._wrong("a value", back=True)
        if token.kind == "text":
            return token.text[1:-1]
        if token.kind == "number":
            return float(token.text) if "." in token.text else int(token.text)
        return {"true": True, "false": False, "null": None}.get(token.text, token.text)

    # Tokens.

    def _peek(self) -> _Token | None:
        return self._tokens[self._at] if self._at < len(self._tokens) else None

    def _peek_kind(self) -> str | None:
        token = self._peek()
        return token.kind if token else None

    def _peek_text(self, ahead: int) -> str | None:
        return self._tokens[self._at + ahead].text if self._at + ahead < len(self._tokens) else None

    def _next(self) -> _Token | None:
        token = self._peek()
        self._consumed = token is not None
        self._at += self._consumed
        return token

    def _take(self, text: str) -> bool:
        token = self._peek()
        if token is not None and token.kind in ("op", "dots") and token.text == text:
            self._at += 1
            return True
        return False

    def _word(self, text: str) -> bool:
        token = self._peek()
        if token is not None and token.kind == "word" and token.text == text:
            self._at += 1
            return True
        return False

    def _wrong(self, wanted: str, *, back: bool = False) -> ValueError:
        if back and self._consumed:
            self._at -= 1
        token = self._peek()
        got = f"{token.text!r} at character {token.at + 1}" if token else "the end"
        return ValueError(f"expected {wanted}, got {got} in {self._text!r}")


def _operator(text: str) -> Operator:
    found: dict[str, Operator] = {"=": "=", "!=": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">=", "~": "~"}
    return found[text]


def read_path(text: str) -> tuple[str | int, ...]:
    """The parts of `items.0.id` or `items[0].id`; `*` stands for every index."""
    if not text:
        return ()
    plain = text.replace("[", ".").replace("]", "")
    return tuple(int(part) if part.isdigit() else part for part in plain.split(".") if part)


def _bounded(count: int) -> int:
    if count > _MOST_REPEATS:
        raise ValueError(f"{count} repetitions: at most {_MOST_REPEATS}")
    return count


def _not(call: Call) -> Call:
    return Call(call.name, call.conditions, not call.negated)


def none_of(call: Call) -> Node:
    """No such call."""
    return Repeat(_not(call), 0, None)


def before(first: Call, second: Call) -> Node:
    """No second without a first before it."""
    return Series((none_of(second), Repeat(Series((first, Repeat(Any_(), 0, None))), 0, 1)))


def never_after(call: Call, mark: Call) -> Node:
    """No such call after the mark."""
    return Series((none_of(mark), Repeat(Series((mark, none_of(call))), 0, 1)))


def between(call: Call, first: Call, last: Call) -> Node:
    """Every such call has a first before it and a last behind it."""
    middle = Series((first, Repeat(Any_(), 0, None), last, none_of(call)))
    return Series((none_of(call), Repeat(middle, 0, 1)))


def counted(call: Call, low: int, high: int | None) -> Node:
    """Such calls, at least `low` and at most `high`."""
    one = Series((call, none_of(call)))
    return Series((none_of(call), Repeat(one, low, high)))


@lru_cache(maxsize=512)
def parse_rule(text: str, *, strict: bool = False) -> Rule:
    """Parse one rule.

    Raises:
        ValueError: The text is no rule; the message has the place.
    """
    return _Parser(text).rule(strict=strict)
