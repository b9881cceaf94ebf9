"""SQL: queries that parse, and whether two of them mean the same, as far as that can be told."""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from evalspan.errors import MissingExtraError
from evalspan_evaluators.case import Case
from evalspan_evaluators.jsonvalue import is_list, short
from evalspan_evaluators.metric import MetricBase
from evalspan_evaluators.output.fenced import blocks
from evalspan_evaluators.score import Evidence, Score

__all__ = ["Sql", "SqlVerdict", "compare_sql", "sql_problem"]

_LONGEST = 20_000
#: Most places at which two queries of the same shape may differ and still be called different, not rewritten.
_MOST_DIFFERENCES = 4

Relation = Literal["equivalent", "different", "unknown"]


@dataclass(frozen=True, slots=True)
class SqlVerdict:
    """How two queries relate, and why."""

    relation: Relation
    why: str


def _library() -> Any:
    try:
        import sqlglot
    except ImportError as error:
        raise MissingExtraError("sqlglot", "server") from error
    return sqlglot


def _parsed(query: str, dialect: str | None) -> Any:
    """The tree of one statement; raises ValueError with the parser's words."""
    sqlglot = _library()
    if len(query) > _LONGEST:
        raise ValueError(f"the query has {len(query)} characters: at most {_LONGEST}")
    try:
        trees = [tree for tree in sqlglot.parse(query, dialect=dialect) if tree is not None]
    except (sqlglot.errors.SqlglotError, RecursionError) as error:
        raise ValueError(_first_line(error)) from error
    if not trees:
        raise ValueError("there is no statement")
    if any(isinstance(tree, sqlglot.exp.Command | sqlglot.exp.Column | sqlglot.exp.Alias) for tree in trees):
        raise ValueError(f"{short(query, 60)!r} is no statement that can be checked")
    return trees


def _first_line(error: BaseException) -> str:
    lines = str(error).replace("\x1b[4m", "").replace("\x1b[0m", "").splitlines()
    return short(lines[0], 200) if lines else type(error).__name__


def sql_problem(query: str, dialect: str | None = None) -> str:
    """What is wrong with the SQL; empty when it parses."""
    try:
        _parsed(query, dialect)
    except ValueError as error:
        return str(error)
    return ""


def compare_sql(left: str, right: str, *, dialect: str | None = None) -> SqlVerdict:
    """Whether two queries mean the same.

    Equivalent: the same tree after folding case, aliases, order of AND and OR, and constants. Different: the same
    shape with a few other columns, values or operators, or other results on generated data. Unknown: everything else,
    such as true rewrites that no simple rule proves.
    """
    try:
        one, other = _parsed(left, dialect), _parsed(right, dialect)
    except ValueError as error:
        if " ".join(left.lower().split()) == " ".join(right.lower().split()):
            return SqlVerdict("equivalent", "the same text but for case and white space")
        return SqlVerdict("unknown", f"cannot be parsed: {error}")
    if len(one) != len(other):
        return SqlVerdict("different", f"{len(one)} statements against {len(other)}")
    verdicts = [_compare_trees(a, b, dialect) for a, b in zip(one, other, strict=True)]
    for relation in ("different", "unknown"):
        for verdict in verdicts:
            if verdict.relation == relation:
                return verdict
    return verdicts[0]


def _compare_trees(one: Any, other: Any, dialect: str | None) -> SqlVerdict:
    try:
        left, right = _canonical(one, dialect), _canonical(other, dialect)
    except RecursionError:
        return SqlVerdict("unknown", "nested too deep")
    if left == right:
        return SqlVerdict("equivalent", "the same query but for its form")
    gaps = _leaf_differences(left, right)
    if gaps is not None and len(gaps) <= _MOST_DIFFERENCES:
        return SqlVerdict("different", f"the same shape, but {'; '.join(gaps)}")
    return SqlVerdict("unknown", "the queries are built differently; only data or a proof can tell")


def _canonical(tree: Any, dialect: str | None) -> Any:
    exp = _library().exp
    from sqlglot.optimizer.normalize_identifiers import normalize_identifiers
    from sqlglot.optimizer.simplify import simplify

    tree = normalize_identifiers(tree.copy(), dialect=dialect)
    tree = tree.transform(_unquoted)
    for group in tree.find_all(exp.Group):  # the order of its columns means nothing
        group.set("expressions", sorted(group.expressions, key=lambda node: str(node.sql())))
    names = {
        table.alias: f"t{index}"
        for index, table in enumerate(tree.find_all(exp.Table, exp.Subquery, exp.Values))
        if table.args.get("alias")
    }
    tree = tree.transform(_renamed, names)
    try:
        return simplify(tree)
    except Exception:  # noqa: BLE001  the simplifier is best effort; the tree before it is still comparable
        return tree


def _unquoted(node: Any) -> Any:
    exp = _library().exp
    if isinstance(node, exp.Identifier) and node.args.get("quoted"):
        return exp.to_identifier(node.name.lower())
    if isinstance(node, exp.Paren) and not isinstance(node.this, exp.Query):
        return node.this if isinstance(node.this, exp.Column | exp.Literal | exp.Paren) else node
    return node


def _renamed(node: Any, names: dict[str, str]) -> Any:
    """Table aliases get names by their place, so that other aliases are no difference."""
    exp = _library().exp
    if isinstance(node, exp.Column) and node.table in names:
        node.set("table", exp.to_identifier(names[node.table]))
    elif isinstance(node, exp.TableAlias) and node.this is not None and node.name in names:
        node.set("this", exp.to_identifier(names[node.name]))
    return node


def _leaf_differences(left: Any, right: Any) -> list[str] | None:
    """Where two trees of the same shape differ; None when the shapes differ."""
    exp = _library().exp
    gaps: list[str] = []
    stack: list[tuple[Any, Any, bool]] = [(left, right, False)]
    swappable = (exp.Binary, exp.AggFunc, exp.SetOperation)
    while stack:
        one, other, counted = stack.pop()
        if not isinstance(one, exp.Expression) or not isinstance(other, exp.Expression):
            if one != other:
                gaps.append(f"{short(one, 40)} against {short(other, 40)}")
            continue
        if type(one) is not type(other):
            same_family = any(isinstance(one, kind) and isinstance(other, kind) for kind in swappable)
            leaves = isinstance(one, exp.Literal | exp.Column) and isinstance(other, exp.Literal | exp.Column)
            leaves = leaves or counted  # COUNT(*) against COUNT(DISTINCT x)
            if not same_family and not leaves:
                return None
            gaps.append(f"{short(one.sql(), 40)} against {short(other.sql(), 40)}")
            if leaves:
                continue
        pairs = _child_pairs(one, other)
        if pairs is None:
            return None
        inside = isinstance(one, exp.AggFunc)
        stack.extend((mine, theirs, inside) for mine, theirs in pairs)
    return gaps


def _child_pairs(one: Any, other: Any) -> list[tuple[Any, Any]] | None:
    def args(node: Any) -> dict[str, Any]:
        return {key: value for key, value in node.args.items() if value not in (None, [], False)}

    mine, theirs = args(one), args(other)
    if mine.keys() != theirs.keys():
        return None
    pairs: list[tuple[Any, Any]] = []
    for key, value in mine.items():
        if is_list(value) != is_list(theirs[key]):
            return None
        if is_list(value):
            if len(value) != len(theirs[key]):
                return None
            pairs.extend(zip(value, theirs[key], strict=True))
        else:
            pairs.append((value, theirs[key]))
    return pairs


@dataclass(frozen=True, slots=True, kw_only=True)
class Sql(MetricBase):
    """SQL of the answer: does it parse, and does it mean what the expected query means?

    Without an expected query 1.0 when it parses, else 0.0. With one, 1.0 when both are equivalent, 0.0 when they are
    different, and not applicable (label `unknown`) where neither can be shown.

    Attributes:
        expected: The expected query; None takes the case's `expected.output` where that is SQL.
        dialect: A dialect of sqlglot, such as `postgres`, `mysql`, `snowflake`; None for a general one.
        compare: Compare with the expected query where there is one.
    """

    name: ClassVar[str] = "sql"
    requires: ClassVar[tuple[str, ...]] = ("output",)
    default_threshold: ClassVar[float | None] = 1.0

    expected: str | None = None
    dialect: str | None = None
    compare: bool = True

    def evaluate(self, case: Case) -> Score:
        """Parse the query, then compare it."""
        query = _query(case.output or "")
        problem = sql_problem(query, self.dialect)
        if problem:
            evidence = Evidence(verdict="mismatch", claim=short(query), code="SQL_INVALID", note=problem)
            return self.score(0.0, f"the SQL does not parse: {problem}", evidence=(evidence,), label="invalid")
        expected = self.expected
        if expected is None and case.expected.output and not sql_problem(case.expected.output, self.dialect):
            expected = case.expected.output
        if expected is None or not self.compare:
            return self.score(1.0, "the SQL parses", label="valid")
        verdict = compare_sql(_query(expected), query, dialect=self.dialect)
        if verdict.relation == "unknown":
            return self.skip(f"unknown whether the queries are equivalent: {verdict.why}", label="unknown")
        same = verdict.relation == "equivalent"
        evidence = Evidence(
            verdict="match" if same else "mismatch",
            claim=short(query),
            expected=short(expected),
            code=None if same else "SQL_DIFFERENT",
            note=verdict.why,
        )
        return self.score(1.0 if same else 0.0, verdict.why, evidence=(evidence,), label=verdict.relation)


def _query(output: str) -> str:
    """The SQL of an answer: its first SQL block, else all of it."""
    found = [block for block in blocks(output) if block.language in ("sql", "") or "sql" in block.language]
    return found[0].text if found else output
