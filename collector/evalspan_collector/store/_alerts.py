"""Alert states and their changes in ClickHouse."""

# ruff: noqa: S608 - statements are put together from constants of ours; values travel as parameters

from collections.abc import Callable
from dataclasses import fields
from typing import Final

from evalspan_collector.records import AlertEvent, AlertState
from evalspan_collector.store._current import project_condition
from evalspan_collector.store.client import Client

__all__ = ["AlertTables"]

_STATE_COLUMNS: Final = tuple(f.name for f in fields(AlertState))
_EVENT_COLUMNS: Final = tuple(f.name for f in fields(AlertEvent))


class AlertTables:
    """The tables alerts and alert_events."""

    def __init__(self, client: Client, clock: Callable[[], int]) -> None:
        self._client = client
        self._clock = clock

    def states(self, project: str | None) -> list[AlertState]:
        """Current state of every alert."""
        condition, parameters = project_condition(project)
        rows = self._client.rows(
            f"SELECT {', '.join(_STATE_COLUMNS)} FROM alerts FINAL WHERE {condition} ORDER BY project, alert",
            parameters,
        )
        return [AlertState(**dict(zip(_STATE_COLUMNS, row, strict=True))) for row in rows]

    def write_state(self, state: AlertState) -> None:
        """Replaces the state of an alert."""
        token = f"alert:{state.project}:{state.alert}:{state.updated_ns}:{hash(state)}"
        self._client.insert("alerts", _STATE_COLUMNS, [[getattr(state, n)] for n in _STATE_COLUMNS], token=token)

    def events(self, project: str | None, limit: int) -> list[AlertEvent]:
        """Changes, newest first."""
        condition, parameters = project_condition(project)
        rows = self._client.rows(
            f"SELECT {', '.join(_EVENT_COLUMNS)} FROM alert_events FINAL WHERE {condition} "
            "ORDER BY created_ns DESC, event_id LIMIT {limit:UInt32}",
            {**parameters, "limit": limit},
        )
        return [AlertEvent(**dict(zip(_EVENT_COLUMNS, row, strict=True))) for row in rows]

    def write_event(self, event: AlertEvent) -> None:
        """Adds a change, or replaces it by its id."""
        now = self._clock()
        columns = [[getattr(event, name)] for name in _EVENT_COLUMNS]
        self._client.insert(
            "alert_events", (*_EVENT_COLUMNS, "written_ns"), [*columns, [now]], token=f"event:{event.event_id}:{now}"
        )
