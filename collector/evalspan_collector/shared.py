"""Shared: one object for each text that comes again and again, such as the keys of attributes."""

__all__ = ["SharedTexts", "shared"]

#: What a text takes beside its letters, about.
_OVERHEAD = 150
#: Longer texts are few and seldom come again.
_LONG = 256


class SharedTexts:
    """Gives the object first seen of equal texts; bounded, where `sys.intern` keeps every text for ever (Python 3.12).

    Args:
        max_bytes: Bytes of what is held, about; when they are more, all is forgotten and seen anew.
    """

    def __init__(self, *, max_bytes: int = 4 << 20) -> None:
        self._max_bytes = max_bytes
        self._texts: dict[str, str] = {}
        self.size = 0

    def __call__(self, text: str) -> str:
        """The same text, as the object that was seen first."""
        found = self._texts.get(text)
        if found is not None or len(text) > _LONG:
            return found or text
        size = len(text) + _OVERHEAD
        if self.size + size > self._max_bytes:
            self._texts.clear()
            self.size = 0
        self._texts[text] = text
        self.size += size
        return text


#: What this process has seen.
shared = SharedTexts()
