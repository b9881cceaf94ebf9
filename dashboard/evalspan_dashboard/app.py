"""Dashboard: navigation only; each page is one screen."""

import streamlit as st

st.set_page_config(page_title="evalspan", layout="wide")

st.navigation(
    [
        st.Page("pages/overview.py", title="Overview", icon=":material/monitoring:", default=True),
        st.Page("pages/runs.py", title="Runs", icon=":material/list:", url_path="runs"),
        st.Page("pages/run.py", title="Run", icon=":material/account_tree:", url_path="run"),
        st.Page("pages/alerts.py", title="Alerts", icon=":material/notifications:", url_path="alerts"),
    ]
).run()
