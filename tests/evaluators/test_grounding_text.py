"""What the language tools of grounding remember, and for how long."""

from evalspan_evaluators.grounding.text import kept_if_short


def test_short_texts_are_remembered_and_long_ones_are_not() -> None:
    asked: list[int] = []

    @kept_if_short(8)
    def length(text: str) -> int:
        asked.append(len(text))
        return len(text)

    short, long = "price", "price " * 1_000
    assert [length(short), length(short), length(long), length(long)] == [5, 5, 6_000, 6_000]
    assert asked == [5, 6_000, 6_000]


def test_no_more_texts_are_remembered_than_asked_for() -> None:
    asked: list[str] = []

    @kept_if_short(2)
    def told(text: str) -> str:
        asked.append(text)
        return text

    for text in ("a", "b", "c", "a"):
        assert told(text) == text
    assert asked == ["a", "b", "c", "a"]
