"""Config file: YAML read safely, validated into a model, every mistake named by file, line and field."""

import difflib
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from evalspan.errors import ConfigError

if TYPE_CHECKING:
    import yaml
    from pydantic import BaseModel
    from pydantic_core import ErrorDetails

__all__ = [
    "MAX_ALIASES",
    "MAX_BYTES",
    "MAX_NODES",
    "ConfigDocument",
    "Problem",
    "load_model",
    "parse_yaml",
    "read_yaml",
]

#: Largest file that is read, in bytes: rules are written by people.
MAX_BYTES = 1_048_576
#: Most aliases (`*name`) of a file.
MAX_ALIASES = 200
#: Most values once aliases are written out: a few nested aliases can stand for millions.
MAX_NODES = 50_000
#: Deepest nesting.
MAX_DEPTH = 40

_MERGE = "tag:yaml.org,2002:merge"

Location = tuple[str | int, ...]
ModelT = TypeVar("ModelT", bound="BaseModel")


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake: where in the document, and what to do about it."""

    location: Location
    message: str


@dataclass(frozen=True, slots=True)
class ConfigDocument:
    """A parsed YAML file and the line of every key and list item in it.

    Attributes:
        name: How messages call the file.
        data: Mappings, lists and plain values, as `yaml.safe_load` gives them.
        lines: Line (from 1) by path of keys and indexes.
    """

    name: str
    data: Any
    lines: Mapping[Location, int] = field(default_factory=dict[Location, int])

    def line(self, location: Sequence[str | int]) -> int:
        """The line of this place, or of the nearest thing around it that has one."""
        place = tuple(location)
        while place and place not in self.lines:
            place = place[:-1]
        return self.lines.get(place, 1)

    def describe(self, problem: Problem) -> str:
        """`evalspan.yaml:12: rules[0].sample: 1.5 is not between 0 and 1`."""
        where = f"{self.name}:{self.line(problem.location)}"
        path = _dotted(problem.location)
        return f"{where}: {path}: {problem.message}" if path else f"{where}: {problem.message}"

    def error(self, problems: Sequence[Problem]) -> ConfigError:
        """One error that names every problem, in the order of the file."""
        ordered = sorted(problems, key=lambda p: self.line(p.location))
        return ConfigError("\n".join(self.describe(p) for p in ordered))

    def validate(self, model: type[ModelT]) -> ModelT:
        """The document as this pydantic model.

        Raises:
            ConfigError: Naming file, line, field, value and the next action, one line per mistake.
        """
        valid, problems = self.examine(model)
        if valid is None:
            raise self.error(problems)
        return valid

    def examine(self, model: type[ModelT], place: Location = ()) -> tuple[ModelT | None, list[Problem]]:
        """What stands at a place of the document as this model, or every mistake in it.

        Raises:
            LookupError: The document has no such place.
        """
        from pydantic import ValidationError

        data = self.data
        for part in place:
            data = data[part]
        try:
            return model.model_validate({} if data is None else data), []
        except ValidationError as error:
            return None, [self._problem(e, model, place) for e in error.errors(include_url=False)]

    def _problem(self, error: "ErrorDetails", model: "type[BaseModel]", place: Location = ()) -> Problem:
        inner: Location = tuple(part for part in error["loc"] if part != "[key]")
        location = (*place, *inner)
        if error["type"] == "extra_forbidden":
            return Problem(location, _unknown_field(inner, model))
        if error["type"] == "missing":
            return Problem(location, "is missing: add it")
        return Problem(location, _readable(error))


def load_model(path: str | Path, model: type[ModelT]) -> tuple[ModelT, ConfigDocument]:
    """Read and validate a file; the document comes along for checks that need more than the model.

    Raises:
        ConfigError: The file cannot be read, is no YAML, is too large, or does not fit the model.
    """
    document = read_yaml(path)
    return document.validate(model), document


def read_yaml(path: str | Path) -> ConfigDocument:
    """Parse a YAML file the way `yaml.safe_load` does, within limits, keeping line numbers.

    Raises:
        ConfigError: The file cannot be read, is no YAML, repeats a key, or passes a limit.
    """
    path = Path(path)
    try:
        if path.exists() and not path.is_file():  # a pipe would wait for its writer for ever
            raise ConfigError(f"{str(path)!r} is no regular file: name one with --config or EVALSPAN_CONFIG")
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigError(f"cannot read {str(path)!r}: {reason}; check --config and EVALSPAN_CONFIG") from error
    if len(raw) > MAX_BYTES:
        raise ConfigError(f"{path} is larger than {MAX_BYTES} bytes: split the file")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise ConfigError(f"{path}:{line}: byte {error.object[error.start]:#04x} is no UTF-8: save as UTF-8") from error
    return parse_yaml(text, name=str(path))


def parse_yaml(text: str, *, name: str = "evalspan.yaml") -> ConfigDocument:
    """Parse YAML text; like `read_yaml` otherwise."""
    import yaml

    try:
        loader = yaml.SafeLoader(text)
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise ConfigError(f"{name}:{line}: character {error.character:#04x} has no place in YAML: remove it") from error
    try:
        _limit_events(text, name)
        node = loader.get_single_node()
        if node is None:
            return ConfigDocument(name, None)
        lines = _Walk(name).walk(node)
        return ConfigDocument(name, cast("Any", loader).construct_document(node), lines)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 1
        raise ConfigError(f"{name}:{line}: is no YAML: {error.problem or error.context}") from error
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise ConfigError(f"{name}: is no YAML: {error}") from error
    except (AttributeError, LookupError, TypeError) as error:  # what the library raises for a tag that does not fit
        raise ConfigError(f"{name}: a tag such as !!bool does not fit its value ({error!r}): remove it") from error
    finally:
        loader.dispose()


def _limit_events(text: str, name: str) -> None:
    """Stop at the first value, alias or level too many, before the document is built."""
    import yaml

    aliases = values = depth = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        aliases += isinstance(event, yaml.AliasEvent)
        values += isinstance(event, yaml.NodeEvent)
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        line = event.start_mark.line + 1 if event.start_mark else 1
        if aliases > MAX_ALIASES:
            raise ConfigError(f"{name}:{line}: more than {MAX_ALIASES} aliases (*name): write the values out")
        if values > MAX_NODES:
            raise ConfigError(f"{name}:{line}: more than {MAX_NODES} values: split the file")
        if depth > MAX_DEPTH:
            raise ConfigError(f"{name}:{line}: nested deeper than {MAX_DEPTH} levels: flatten the file")


class _Walk:
    """Collects the line of every place, counting values as if every alias were written out."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._nodes = 0
        self._lines: dict[Location, int] = {}

    def walk(self, root: "yaml.Node") -> dict[Location, int]:
        stack: list[tuple[Location, yaml.Node]] = [((), root)]
        self._lines[()] = root.start_mark.line + 1
        while stack:
            location, node = stack.pop()
            for place, child in self._children(location, node):
                self._lines.setdefault(place, child.start_mark.line + 1)
                stack.append((place, child))
        return self._lines

    def _count(self, location: Location, node: "yaml.Node") -> None:
        line = node.start_mark.line + 1
        self._nodes += 1
        if self._nodes > MAX_NODES:
            raise ConfigError(
                f"{self._name}:{line}: more than {MAX_NODES} values: too many aliases or too large a file"
            )
        if len(location) > MAX_DEPTH:
            raise ConfigError(f"{self._name}:{line}: nested deeper than {MAX_DEPTH} levels: flatten the file")

    def _children(self, location: Location, node: "yaml.Node") -> "Iterator[tuple[Location, yaml.Node]]":
        import yaml

        self._count(location, node)
        if isinstance(node, yaml.SequenceNode):
            for index, item in enumerate(cast("list[yaml.Node]", node.value)):
                yield (*location, index), item
        elif isinstance(node, yaml.MappingNode):
            yield from self._pairs(location, cast("list[tuple[yaml.Node, yaml.Node]]", node.value))

    def _pairs(
        self, location: Location, pairs: "list[tuple[yaml.Node, yaml.Node]]"
    ) -> "Iterator[tuple[Location, yaml.Node]]":
        import yaml

        seen: set[Hashable] = set()
        for key, value in pairs:
            self._count(location, key)
            if key.tag == _MERGE:
                sources = cast("list[yaml.Node]", value.value) if isinstance(value, yaml.SequenceNode) else [value]
                for source in sources:
                    # A merged key keeps the line where it was written, unless it is written here again.
                    yield from ((place, n) for place, n in self._children(location, source) if place not in self._lines)
                continue
            line = key.start_mark.line + 1
            text = str(key.value) if isinstance(key, yaml.ScalarNode) else repr(key.value)
            if text in seen:
                raise ConfigError(f"{self._name}:{line}: {_dotted((*location, text))}: is there twice: remove one")
            seen.add(text)
            self._lines[(*location, text)] = line
            yield (*location, text), value


def _dotted(location: Sequence[str | int]) -> str:
    text = ""
    for part in location:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def _readable(error: "ErrorDetails") -> str:
    """Pydantic's message, with the value in front and without its wrapping."""
    context = error.get("ctx", {})
    if error["type"] in {"value_error", "assertion_error"} and "error" in context:
        return str(context["error"])
    value = error["input"]
    shown = repr(value) if len(repr(value)) <= 80 else f"a {type(value).__name__}"
    if error["type"] == "string_type" and isinstance(value, bool | int | float):
        return f'{shown} is not a text: put it in quotes ("{value}")'
    message = error["msg"].removeprefix("Input ")
    return f"{shown} {message}"


def _unknown_field(location: Location, model: "type[BaseModel]") -> str:
    known = _fields_at(location[:-1], model)
    name = str(location[-1])
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    if near:
        return f"unknown field {name!r}: did you mean {near[0]!r}?"
    return f"unknown field {name!r}: one of {', '.join(known)}" if known else f"unknown field {name!r}: remove it"


def _fields_at(location: Location, model: "type[BaseModel]") -> list[str]:
    """The fields of the model that stands at this place, followed through lists and mappings."""
    from pydantic import BaseModel

    current: type[BaseModel] = model
    for part in location:
        if isinstance(part, int) or part not in _by_alias(current):
            continue
        inner = [t for t in _types_in(_by_alias(current)[part]) if issubclass(t, BaseModel)]
        if not inner:
            return []
        current = inner[0]
    return sorted(_by_alias(current))


def _by_alias(model: "type[BaseModel]") -> dict[str, Any]:
    return {info.alias or name: info.annotation for name, info in model.model_fields.items()}


def _types_in(annotation: Any) -> Iterator[type]:
    from typing import get_args

    if isinstance(annotation, type):
        yield annotation
    for argument in get_args(annotation):
        yield from _types_in(argument)
