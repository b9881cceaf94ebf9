"""Python reprs as data."""

from evalspan_collector.python_repr import read_repr


def test_the_repr_of_an_object_becomes_data() -> None:
    text = "ChatMessage(role=<MessageRole.USER: 'user'>, blocks=[TextBlock(block_type='text', text='Hi')], raw=None)"
    assert read_repr(text) == {
        "__class__": "ChatMessage",
        "role": "user",
        "blocks": [{"__class__": "TextBlock", "block_type": "text", "text": "Hi"}],
        "raw": None,
    }


def test_the_pairs_that_pydantic_prints_are_read() -> None:
    assert read_repr("content='{\"a\": 1}' name='search' tool_call_id='t1' status='error'") == {
        "content": '{"a": 1}',
        "name": "search",
        "tool_call_id": "t1",
        "status": "error",
    }


def test_objects_printed_one_after_another_are_a_list() -> None:
    text = "Delta(content='a', n=None)Delta(content='b', n=None)"
    assert [d["content"] for d in read_repr(text)] == ["a", "b"]


def test_an_object_without_a_readable_form_is_nothing() -> None:
    assert read_repr("Ctx(x=<workflows.Context object at 0x7f6f>, y=1)") == {"__class__": "Ctx", "x": None, "y": 1}


def test_a_repr_that_was_cut_off_is_none() -> None:
    assert read_repr("AgentInput(input=[ChatMessage(role='us...") is None


def test_nothing_is_ever_run() -> None:
    assert read_repr("__import__('os').system('true')") is None
    assert read_repr("f(x=[i for i in range(9)])") is None


def test_plain_text_is_no_repr() -> None:
    assert read_repr("The answer (in short) is 4.") is None
