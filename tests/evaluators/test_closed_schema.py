"""Schemas, which may come from a trace, are compiled without asking any address or file."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from evalspan_collector.run import ToolCall, ToolDefinition
from evalspan_evaluators.case import Case
from evalspan_evaluators.closed_schema import SchemaRefusedError, schema_validator
from evalspan_evaluators.output.structured import JsonSchema
from evalspan_evaluators.trajectory.schema import ToolSchema


@pytest.fixture
def listener() -> Iterator[tuple[str, list[str]]]:
    """An address, and what was asked of it."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # the base class's name
            """Be quiet."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/x", asked
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("key", ["$ref", "$schema"])
def test_nothing_outside_of_a_schema_is_asked_for(listener: tuple[str, list[str]], key: str, tmp_path: Path) -> None:
    url, asked = listener
    (tmp_path / "s.json").write_text("{}")
    for place in (url, (tmp_path / "s.json").as_uri()):
        with pytest.raises(SchemaRefusedError):
            schema_validator({key: place, "type": "object"})
        score = JsonSchema(schema={key: place}).evaluate(Case(output="{}"))
        assert score.error is not None
        schema: dict[str, Any] = {"type": "object", "properties": {"a": {key: place}}}
        case = Case(
            tools=(ToolCall(name="t", arguments={"a": 1}),),
            tool_definitions=(ToolDefinition(name="t", parameters=schema),),
        )
        ToolSchema().evaluate(case)
    assert asked == []


def test_references_inside_of_a_schema_and_to_the_drafts_are_followed() -> None:
    inside = schema_validator({"$defs": {"n": {"type": "integer"}}, "properties": {"a": {"$ref": "#/$defs/n"}}})
    assert inside.is_valid({"a": 1})
    assert not inside.is_valid({"a": "x"})
    draft = schema_validator({"$ref": "https://json-schema.org/draft/2020-12/schema"})
    assert draft.is_valid({"type": "object"})
    assert not draft.is_valid({"type": 7})


def test_a_wrong_schema_is_told_as_such() -> None:
    with pytest.raises(SchemaRefusedError, match="objct"):
        schema_validator({"type": "objct"})
