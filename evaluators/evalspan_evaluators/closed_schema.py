"""Closed schema: JSON schemas compiled without asking any file or address, whoever wrote them."""

from typing import Any, Never

from evalspan.errors import MissingExtraError

__all__ = ["SchemaRefusedError", "schema_validator"]


class SchemaRefusedError(ValueError):
    """A schema cannot be used: it is wrong, or refers to something outside of itself."""


def _refuse(uri: str) -> Never:
    raise SchemaRefusedError(f"{uri!r} is outside of the schema: put it under $defs")


def schema_validator(schema: Any) -> Any:
    """A validator of `jsonschema_rs` for a schema, which may come from a trace.

    References inside of the schema and to the known drafts are followed; nothing is fetched from anywhere.

    Raises:
        SchemaRefusedError: The schema is wrong, or refers to something else.
        MissingExtraError: `jsonschema-rs` is not installed.
    """
    try:
        import jsonschema_rs
    except ImportError as error:
        raise MissingExtraError("jsonschema-rs", "server") from error
    try:
        return jsonschema_rs.validator_for(schema, retriever=_refuse)
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError, TypeError) as error:
        raise SchemaRefusedError(str(error).partition("\n\nFailed validating")[0]) from error
