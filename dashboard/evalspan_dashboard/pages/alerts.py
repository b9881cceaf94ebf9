"""Alerts: where each one stands, and what changed."""

from typing import Literal

import streamlit as st

from evalspan_collector.run import iso_time
from evalspan_dashboard import queries, screen
from evalspan_dashboard.output import clean, number
from evalspan_dashboard.safe import label

_COLOURS: dict[str, Literal["red", "orange", "gray", "green"]] = {
    "firing": "red",
    "pending": "orange",
    "no_data": "gray",
    "resolved": "green",
    "ok": "green",
}


def _states(board: queries.AlertBoard) -> None:
    why = {(event.project, event.alert): event.reason for event in reversed(board.events)}  # the newest one stays
    for state in board.states:
        left, right = st.columns([1, 6], vertical_alignment="center")
        left.badge(label(state.state), color=_COLOURS.get(state.state, "gray"))
        right.markdown(f"**{label(state.alert)}**")
        right.text(f"since {iso_time(state.since_ns)[:19]}Z   value {number(state.value, 3)}   sample {state.sample}")
        if reason := why.get((state.project, state.alert)):
            right.text(clean(reason, limit=600))


def page() -> None:
    """Draw the page."""
    st.title("Alerts")
    with screen.guarded():
        board = queries.alert_board(screen.store(), project=screen.own_project())
        if not board.states:
            st.info("No alert has been evaluated yet: add one to evalspan.yaml under `alerts`.")
            return
        _states(board)
        st.subheader("Changes")
        screen.table(
            [
                {
                    "time": iso_time(e.created_ns)[:19].replace("T", " "),
                    "alert": clean(e.alert),
                    "state": e.state,
                    "value": e.value,
                    "limit": e.threshold,
                    "sample": e.sample,
                    "delivered": e.delivered,
                    "reason": clean(e.reason, limit=300),
                    "delivery error": clean(e.delivery_error or "", limit=200),
                }
                for e in board.events
            ],
        )


page()
