"""Scores, outcomes and the judge's ledger in ClickHouse."""

# ruff: noqa: S608 - statements are put together from constants of ours; values travel as parameters

from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields, replace
from typing import Any, Final, Protocol

from evalspan_collector.records import JudgeCallRecord, OutcomeName, OutcomeRecord, ScoreRecord
from evalspan_collector.store._current import WIDE_NS, current_scores, project_condition, written_since
from evalspan_collector.store.client import Client
from evalspan_collector.store.contract import ScoreQuery

__all__ = ["ScoreTables"]

SCORE_COLUMNS: Final = tuple(f.name for f in fields(ScoreRecord))
OUTCOME_COLUMNS: Final = tuple(f.name for f in fields(OutcomeRecord))
CALL_COLUMNS: Final = tuple(f.name for f in fields(JudgeCallRecord))
_NAMES: Final = ", ".join(SCORE_COLUMNS)
#: What tells one score from every other, the first columns of a record; its rows differ in their version.
_KEY: Final = ("project", "run_id", "metric", "rule")
_ROW: Final = ", ".join((*_KEY, "version"))
#: So many scores are looked for among all rows of a window, more among its current rows.
_FEW: Final = 100
_CONDITIONS: Final = {
    "metric": "metric = {metric:String}",
    "rule": "rule = {rule:String}",
    "agent": "agent = {agent:String}",
    "passed": "passed = {passed:Bool}",
    "since_ns": "run_started_ns >= {since_ns:Int64}",
    "until_ns": "run_started_ns < {until_ns:Int64}",
}
_OUTCOMES: Final = f"SELECT {', '.join(OUTCOME_COLUMNS)} FROM outcomes FINAL"

_RUNS_OF: Final = """
SELECT run_id, state = 'withdrawn', trace_id = '', agent, started_ns FROM runs  -- no trace: its data was deleted
WHERE project = {project:String} AND run_id IN {ids:Array(String)}
ORDER BY updated_ns DESC LIMIT 1 BY run_id
"""

_WITHDRAW_SCORES: Final = f"""
INSERT INTO scores ({", ".join(SCORE_COLUMNS)}, version)
SELECT {", ".join("true" if name == "superseded" else name for name in SCORE_COLUMNS)}, version + 1
FROM scores FINAL
WHERE project = {{project:String}} AND run_id IN {{ids:Array(String)}} AND NOT superseded
"""

# Should the run come back, it is to be judged again.
_WITHDRAW_OUTCOMES: Final = """
INSERT INTO outcomes
SELECT project, rule, run_id, run_revision, greatest({now:Int64}, created_ns + 1), 'waiting', rule_version,
    'the run was withdrawn', attempt, run_started_ns
FROM outcomes FINAL
WHERE project = {project:String} AND run_id IN {ids:Array(String)}
"""


class _Record(Protocol):
    """What is written about a run."""

    @property
    def project(self) -> str: ...

    @property
    def run_id(self) -> str: ...


class _Asked:
    """A query in SQL: conditions, order and parameters."""

    def __init__(self, query: ScoreQuery, now_ns: int) -> None:
        self.project, self.parameters = project_condition(query.project)
        conditions = ["NOT superseded"]
        for name, text in _CONDITIONS.items():
            value = getattr(query, name)
            if value is not None:
                conditions.append(text)
                self.parameters[name] = value
        self.where = " AND ".join(conditions)
        first = "value NULLS LAST, run_started_ns DESC" if query.worst_first else "created_ns DESC"
        self.order = f"ORDER BY {first}, run_id, metric, rule LIMIT {{limit:UInt32}}"
        self.parameters |= {"limit": query.limit, "floor": written_since(query.since_ns or 0, now_ns)}


def _newest(condition: str) -> str:
    """The newest row of each score, with its version behind the columns of a record."""
    return f"SELECT {_NAMES}, version FROM scores WHERE {condition} ORDER BY version DESC LIMIT 1 BY {', '.join(_KEY)}"


def _records(rows: Iterable[Sequence[Any]]) -> list[ScoreRecord]:
    return [ScoreRecord(**dict(zip(SCORE_COLUMNS, row, strict=True))) for row in rows]


class ScoreTables:
    """The tables scores, outcomes and judge_calls."""

    def __init__(self, client: Client, clock: Callable[[], int]) -> None:
        self._client = client
        self._clock = clock

    def write_scores(self, scores: Sequence[ScoreRecord], token: str) -> None:
        """Adds scores; one of a withdrawn run is stored as superseded, one of a run whose data was deleted is not."""
        records = self._completed(scores)
        if not records:
            return
        rows = [
            (*(getattr(record, name) for name in SCORE_COLUMNS), (record.run_revision << 64) | record.created_ns)
            for record in records
        ]
        self._insert("scores", (*SCORE_COLUMNS, "version"), rows, token)

    def _completed(self, scores: Sequence[ScoreRecord]) -> list[ScoreRecord]:
        known = self._runs_of(scores)
        done: list[ScoreRecord] = []
        for score in scores:
            withdrawn, bare, agent, started_ns = known.get((score.project, score.run_id), (0, 0, None, 0))
            if withdrawn and bare:
                continue  # its data was deleted while it was judged
            done.append(
                replace(
                    score,
                    superseded=score.superseded or bool(withdrawn),
                    agent=score.agent if score.agent is not None else agent,
                    run_started_ns=started_ns or score.run_started_ns,
                )
            )
        return done

    def _runs_of(self, records: Sequence[_Record]) -> dict[tuple[str, str], tuple[Any, ...]]:
        known: dict[tuple[str, str], tuple[Any, ...]] = {}
        for project in {record.project for record in records}:
            ids = sorted({record.run_id for record in records if record.project == project})
            for run_id, *facts in self._client.rows(_RUNS_OF, {"project": project, "ids": ids}):
                known[project, str(run_id)] = tuple(facts)
        return known

    def _deleted(self, records: Sequence[_Record]) -> set[tuple[str, str]]:
        """The runs of these records, by project and id, whose data was deleted and did not come in anew."""
        return {key for key, (withdrawn, bare, *_) in self._runs_of(records).items() if withdrawn and bare}

    def withdraw(self, project: str, run_ids: Sequence[str], now_ns: int) -> None:
        """Supersedes every score of these runs, and reopens their outcomes."""
        parameters = {"project": project, "ids": list(run_ids), "now": now_ns}
        settings = {"async_insert": 0}
        self._client.execute(_WITHDRAW_SCORES, parameters, settings)
        self._client.execute(_WITHDRAW_OUTCOMES, parameters, settings)

    def scores(self, query: ScoreQuery, now_ns: int) -> list[ScoreRecord]:
        """Current scores; the window is that of the runs' start."""
        asked = _Asked(query, now_ns)
        if query.run_ids is not None:
            condition = f"{asked.project} AND run_id IN {{ids:Array(String)}}"
            sql = f"SELECT {_NAMES} FROM ({_newest(condition)}) WHERE {asked.where} {asked.order}"
            rows = self._client.rows(sql, {**asked.parameters, "ids": list(query.run_ids)})
            return _records(rows)
        if query.limit <= _FEW:
            return self._first(query, asked, now_ns)
        return self._of_window(query, asked, now_ns)

    def _first(self, query: ScoreQuery, asked: "_Asked", now_ns: int) -> list[ScoreRecord]:
        """The first few of a window, without looking for the newest row of every score in it.

        Current rows are among all rows: those that come first in order are taken, and kept where they are current;
        where most are not, the window is read after all.
        """
        sql = (
            f"SELECT {_ROW} FROM scores WHERE {asked.project} AND created_ns >= {{floor:Int64}} "
            f"AND {asked.where} {asked.order}"
        )
        for looked_at in (query.limit + _FEW, 10 * _FEW):
            rows = self._client.rows(sql, {**asked.parameters, "limit": looked_at})
            found = self._still_current(rows)
            if len(found) >= query.limit or len(rows) < looked_at:
                return found[: query.limit]
        return self._of_window(query, asked, now_ns)

    def _still_current(self, rows: Sequence[tuple[Any, ...]]) -> list[ScoreRecord]:
        """The scores whose newest row is among these, in their order."""
        if not rows:
            return []
        keys = sorted({(str(row[0]), str(row[1])) for row in rows})
        newest = self._client.rows(
            _newest("(project, run_id) IN arrayZip({projects:Array(String)}, {ids:Array(String)})"),
            {"projects": [key[0] for key in keys], "ids": [key[1] for key in keys]},
        )
        current = {(*row[: len(_KEY)], row[-1]): row[:-1] for row in newest}
        return _records(current[row] for row in map(tuple, rows) if row in current)

    def _of_window(self, query: ScoreQuery, asked: "_Asked", now_ns: int) -> list[ScoreRecord]:
        """Which ones, from narrow columns; then the whole rows of just these."""
        columns = (*_KEY, "version", "created_ns", "run_started_ns", "agent", "value", "passed", "superseded")
        source = current_scores(columns, asked.project, wide=now_ns - (query.since_ns or 0) > WIDE_NS)
        chosen = f"SELECT {_ROW} FROM {source} WHERE {asked.where} {asked.order}"
        sql = f"SELECT {_NAMES} FROM scores WHERE ({_ROW}) IN ({chosen}) {asked.order}"
        return _records(self._client.rows(sql, asked.parameters))

    def write_outcomes(self, outcomes: Sequence[OutcomeRecord], token: str) -> None:
        """Adds outcomes, but for those of runs whose data was deleted."""
        deleted = self._deleted(outcomes)
        kept = [outcome for outcome in outcomes if (outcome.project, outcome.run_id) not in deleted]
        rows = [tuple(getattr(outcome, name) for name in OUTCOME_COLUMNS) for outcome in kept]
        self._insert("outcomes", OUTCOME_COLUMNS, rows, token)

    def outcomes(
        self,
        project: str | None,
        *,
        run_ids: Sequence[str] | None,
        rule: str | None,
        name: OutcomeName | None,
        before: tuple[int, str] | None,
        limit: int,
    ) -> list[OutcomeRecord]:
        """Current outcomes, newest first."""
        condition, parameters = project_condition(project)
        conditions = [condition]
        if run_ids is not None:
            conditions.append("run_id IN {ids:Array(String)}")
            parameters["ids"] = list(run_ids)
        if rule is not None:
            conditions.append("rule = {rule:String}")
            parameters["rule"] = rule
        if name is not None:  # of the newest row alone: a filter on a column outside of the key comes after FINAL
            conditions.append("outcome = {name:String}")
            parameters["name"] = name
        if before is not None:  # of the same time those of a later id
            conditions.append("(created_ns, {last:String}) < ({created:Int64}, run_id)")
            parameters.update(created=before[0], last=before[1])
        rows = self._client.rows(
            f"{_OUTCOMES} WHERE {' AND '.join(conditions)} "
            "ORDER BY created_ns DESC, run_id, rule, run_revision DESC LIMIT {limit:UInt32}",
            {**parameters, "limit": limit},
        )
        return [OutcomeRecord(**dict(zip(OUTCOME_COLUMNS, row, strict=True))) for row in rows]

    def write_calls(self, calls: Sequence[JudgeCallRecord], token: str) -> None:
        """Adds calls to the ledger; one about a run whose data was deleted says only what it cost."""
        deleted = self._deleted(calls)
        told = [
            replace(call, run_id="", error=None) if (call.project, call.run_id) in deleted else call for call in calls
        ]
        rows = [tuple(getattr(call, name) for name in CALL_COLUMNS) for call in told]
        self._insert("judge_calls", CALL_COLUMNS, rows, token)

    def spend(self, project: str, rule: str | None, since_ns: int) -> float:
        """US dollars of the ledger since then; a call of unknown cost counts with what was set aside for it."""
        condition = "1" if rule is None else "rule = {rule:String}"
        rows = self._client.rows(
            # Not FINAL: the row before a call and the one after it may lie on two shards, see `write_calls`.
            "SELECT sum(coalesce(cost_usd, reserved_usd)) FROM (SELECT cost_usd, reserved_usd FROM judge_calls "
            f"WHERE project = {{project:String}} AND created_ns >= {{since:Int64}} AND {condition} "
            "ORDER BY created_ns DESC LIMIT 1 BY call_id)",
            {"project": project, "since": since_ns, "rule": rule or ""},
        )
        return float(rows[0][0] or 0.0)

    def _insert(self, table: str, names: Sequence[str], rows: Sequence[tuple[Any, ...]], token: str) -> None:
        if rows:
            self._client.insert(table, names, list(zip(*rows, strict=True)), token=token)
