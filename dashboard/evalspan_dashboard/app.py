"""Dashboard: navigation only; each page is one screen.

Pages have no icons: Streamlit takes the icon of a page for the browser tab and fetches it from a font host.
"""

import streamlit as st

st.set_page_config(page_title="evalspan", layout="wide")

st.navigation(
    [
        st.Page("pages/overview.py", title="Overview", default=True),
        st.Page("pages/runs.py", title="Runs", url_path="runs"),
        st.Page("pages/run.py", title="Run", url_path="run"),
        st.Page("pages/alerts.py", title="Alerts", url_path="alerts"),
    ]
).run()
