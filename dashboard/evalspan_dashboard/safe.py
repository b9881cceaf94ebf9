"""Safe: text from traces, shown so that it can neither format, link nor load anything.

A markdown image in a trace would make the operator's browser call out. So text from traces is shown only through
`st.text`, `st.code`, `st.json` and `st.dataframe`, and through `label` where Streamlit reads Markdown.
"""

import re
from typing import Any, cast

from evalspan_dashboard.output import clean

__all__ = ["label", "plain", "plain_json"]

_MARKDOWN = re.compile(r"([\\`*_{}\[\]()<>#+\-.!|~$:&@/=^\"'])")


def label(text: object, *, limit: int = 120) -> str:
    """Untrusted text for a Markdown place (labels, captions, titles): every special character is escaped."""
    return _MARKDOWN.sub(r"\\\1", clean(text, limit=limit))


def plain(text: object, *, limit: int = 200_000) -> str:
    """Untrusted text for `st.text` and `st.code`: control and direction characters made visible."""
    return clean(text, limit=limit, lines=True)


def plain_json(value: Any) -> Any:
    """Untrusted JSON for `st.json`: every text in it, keys too, like `plain`."""
    if isinstance(value, str):
        return plain(value)
    if isinstance(value, dict):
        return {plain(key): plain_json(item) for key, item in cast("dict[object, object]", value).items()}
    if isinstance(value, list | tuple):
        return [plain_json(item) for item in cast("list[object]", value)]
    return value
