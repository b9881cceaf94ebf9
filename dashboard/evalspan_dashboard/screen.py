"""Screen: what every page shares: the store, the filters in the address, and how errors look."""

import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import streamlit as st

from evalspan.errors import EvalspanError, StoreError
from evalspan_collector.store.contract import Facets, Store
from evalspan_dashboard import queries
from evalspan_dashboard.commands.options import connect, own_project, read_settings
from evalspan_dashboard.safe import plain

__all__ = ["Filters", "facets", "filters", "guarded", "own_project", "run_link", "store", "table"]

ALL = "all"
#: What the filters offer is read again after this part of the window: 4 seconds for a day, 2 minutes for a month.
_FRESH = 20_000


@st.cache_resource(show_spinner=False)
def _connection() -> Store:
    return connect(read_settings())


def store() -> Store:
    """The store of this dashboard, one connection for all its sessions."""
    return _connection()


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """What the reader chose; all of it stands in the address, so that it can be sent to a colleague."""

    window: queries.Window
    project: str | None
    agent: str | None
    now_ns: int

    @property
    def since_ns(self) -> int:
        """Start of the window."""
        return self.now_ns - self.window.seconds * queries.NS


def _choice(name: str, title: str, options: list[str], default: str) -> str:
    asked = st.query_params.get(name, default)
    index = options.index(asked) if asked in options else options.index(default)
    chosen = st.sidebar.selectbox(title, options, index=index, format_func=str, key=f"filter_{name}")
    if chosen == default:
        st.query_params.pop(name, None)
    else:
        st.query_params[name] = chosen
    return chosen


def facets(project: str | None, window: queries.Window, now_ns: int) -> Facets:
    """Values that the filters offer; over a long window they may be a few minutes old."""
    return _facets(project, window.seconds, now_ns // max(window.seconds * queries.NS // _FRESH, 1))


@st.cache_data(show_spinner=False, max_entries=64)
def _facets(project: str | None, window_s: int, slot: int) -> Facets:
    del slot  # a later slot asks again
    return queries.facets(store(), project=project, since_ns=time.time_ns() - window_s * queries.NS)


def filters() -> Filters:
    """Draw the filters in the side bar and return what is chosen."""
    names = [window.name for window in queries.WINDOWS]
    chosen = _choice("window", "Time", names, names[1])
    window = next(w for w in queries.WINDOWS if w.name == chosen)
    now_ns = time.time_ns()
    only = own_project()
    found = facets(only, window, now_ns)
    project = only or _choice("project", "Project", [ALL, *found.projects], ALL)
    agent = _choice("agent", "Agent", [ALL, *found.agents], ALL)
    return Filters(
        window=window,
        project=None if project == ALL else project,
        agent=None if agent == ALL else agent,
        now_ns=now_ns,
    )


def table(
    rows: Sequence[Mapping[str, object]], *, columns: Mapping[str, Any] | None = None, height: int | None = None
) -> None:
    """Rows as a table; cells are drawn on a canvas, so text in them stays text."""
    st.dataframe(  # pyright: ignore[reportUnknownMemberType]  streamlit's signature names optional libraries
        list(rows),
        hide_index=True,
        width="stretch",
        height=height or "auto",
        column_config=columns,
        placeholder="-",  # unknown, as everywhere else
    )


def run_link(run_id: str) -> str:
    """Address of the run's page, relative to the dashboard."""
    return f"/run?run={run_id}"


@contextmanager
def guarded() -> Generator[None]:
    """Show our own errors as a sentence with the next action instead of a traceback."""
    try:
        yield
    except StoreError as error:
        st.error("The store does not answer. Start it with `evalspan up`, then reload this page.")
        st.text(plain(error, limit=600))
        _connection.clear()
        st.stop()
    except EvalspanError as error:
        st.error("This cannot be shown:")
        st.text(plain(error, limit=600))
        st.stop()
