"""Safe: text from traces, shown so that it can neither format, link nor load anything.

A markdown image in a trace would make the operator's browser call out. So text from traces is shown only through
`st.text`, `st.code`, `st.json` and `st.dataframe`, and through `label` where Streamlit reads Markdown.
"""

import re

from evalspan_dashboard.output import clean

__all__ = ["label", "plain"]

_MARKDOWN = re.compile(r"([\\`*_{}\[\]()<>#+\-.!|~$:&@/=^\"'])")


def label(text: object, *, limit: int = 120) -> str:
    """Untrusted text for a Markdown place (labels, captions, titles): every special character is escaped."""
    return _MARKDOWN.sub(r"\\\1", clean(text, limit=limit))


def plain(text: object, *, limit: int = 200_000) -> str:
    """Untrusted text for `st.text` and `st.code`: control and direction characters made visible."""
    return clean(text, limit=limit, lines=True)
