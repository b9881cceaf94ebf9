"""Dataset: cases from a file, from stored runs or by hand, read one at a time and as often as you like."""

import csv
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evalspan.errors import InputError, MissingExtraError
from evalspan_collector.run import Run
from evalspan_evaluators.case import Case, Expected
from evalspan_evaluators.case_json import FieldError, case_from_json, case_to_json
from evalspan_evaluators.jsonvalue import is_list, is_object

if TYPE_CHECKING:
    from evalspan_collector.store.contract import RunQuery, Store

__all__ = ["Dataset", "case_from_run", "expected_of", "write_cases"]

#: Columns of a CSV file that hold lists: JSON, or texts with `|` between them.
_LISTS = frozenset(
    {
        *("tools", "documents", "context", "conversation", "turns", "tool_definitions", "model_calls", "flags"),
        *("tool_calls", "tools_called", "retrieval_context", "contains", "not_contains"),
        *("expected_tools", "expected_sequence", "expected_calls", "expected_categories"),
        *("expected.tools", "expected.sequence", "expected.calls", "expected.categories"),
        *("expected.contains", "expected.not_contains"),
    }
)
_NUMBERS = frozenset({"cost_usd", "cost", "duration_s"})
_COUNTS = frozenset({"cost_unknown_calls"})
_OBJECTS = frozenset({"usage", "metadata", "expected"})


class Dataset:
    """Cases that can be iterated again and again; a file is read anew each time, one case at a time.

    Args:
        open_cases: Starts a new iteration.
        name: How messages and reports call it.
    """

    def __init__(self, open_cases: Callable[[], Iterator[Case]], *, name: str = "dataset") -> None:
        self._open = open_cases
        self.name = name

    def __iter__(self) -> Iterator[Case]:
        """Read the cases from the start."""
        return self._open()

    @classmethod
    def of(cls, cases: Iterable[Case], *, name: str = "dataset") -> "Dataset":
        """The data set of these cases."""
        kept = tuple(cases)
        return cls(lambda: iter(kept), name=name)

    @classmethod
    def read(cls, path: str | Path) -> "Dataset":
        """A data set from a JSON lines, JSON, CSV, TSV or YAML file, told by the file's ending.

        Raises:
            InputError: There is no such file or it has another ending. Mistakes inside it are raised while reading,
                as `file:line: field: message`.
        """
        path = Path(path)
        readers: dict[str, Callable[[Path], Iterator[Case]]] = {
            ".jsonl": _read_jsonl,
            ".ndjson": _read_jsonl,
            ".json": _read_yaml,  # JSON is YAML, and so its mistakes have lines
            ".csv": _read_csv,
            ".tsv": _read_csv,
            ".yaml": _read_yaml,
            ".yml": _read_yaml,
        }
        reader = readers.get(path.suffix.lower())
        if reader is None:
            raise InputError(f"{str(path)!r} is no data set: its ending must be one of {', '.join(sorted(readers))}")
        if not path.is_file():
            raise InputError(f"there is no file {str(path)!r}: name a data set")
        return cls(lambda: reader(path), name=path.stem)

    @classmethod
    def from_runs(
        cls, runs: Iterable[Run], *, learn: Sequence[str] = ("output", "sequence"), name: str = "runs"
    ) -> "Dataset":
        """A data set of runs that were right: what they did becomes what is expected. See `case_from_run`."""
        return cls.of((case_from_run(run, learn=learn) for run in runs), name=name)

    @classmethod
    def from_store(
        cls, store: "Store", query: "RunQuery", *, learn: Sequence[str] = (), name: str = "store"
    ) -> "Dataset":
        """A data set of stored runs, read from the store one at a time."""

        def read() -> Iterator[Case]:
            for row in store.runs(query):
                run = store.run(row.project, row.run_id)
                if run is not None:
                    yield case_from_run(run, learn=learn)

        return cls(read, name=name)


def expected_of(run: Run, learn: Sequence[str]) -> Expected:
    """What this run did, as an expectation.

    Args:
        run: A run that was right.
        learn: Any of `output`, `tools`, `sequence` and `calls`.

    Raises:
        ValueError: Another word is among them.
    """
    unknown = sorted(set(learn) - {"output", "tools", "sequence", "calls"})
    if unknown:
        raise ValueError(f"learn {unknown[0]!r} is unknown: any of output, tools, sequence, calls")
    names = tuple(t.name for t in run.tools)
    return Expected(
        output=run.output if "output" in learn else None,
        tools=tuple(dict.fromkeys(names)) if "tools" in learn else None,
        sequence=names if "sequence" in learn else None,
        calls=tuple({"name": t.name, "arguments": t.arguments} for t in run.tools) if "calls" in learn else None,
    )


def case_from_run(
    run: Run,
    *,
    expected: Expected | None = None,
    learn: Sequence[str] = ("output", "sequence"),
    name: str | None = None,
) -> Case:
    """Make this run a case.

    Args:
        run: The run.
        expected: What is expected; None takes it from what the run did.
        learn: What to take from the run, see `expected_of`.
        name: Of the case; None takes the run's id.
    """
    case = Case.from_run(run, expected=expected_of(run, learn) if expected is None else expected)
    return case if name is None else replace(case, name=name)


def write_cases(path: str | Path, cases: Iterable[Case], *, append: bool = False) -> int:
    """Write cases as JSON lines, or add them to a file.

    Returns:
        How many were written.
    """
    written = 0
    with Path(path).open("a" if append else "w", encoding="utf-8") as file:
        for case in cases:
            file.write(json.dumps(case_to_json(case), ensure_ascii=False, default=str) + "\n")
            written += 1
    return written


def _located(data: object, path: Path, line: int) -> Case:
    try:
        return case_from_json(data)
    except FieldError as error:
        raise InputError(f"{path}:{line}: {error}") from error


def _read_jsonl(path: Path) -> Iterator[Case]:
    with path.open("rb") as file:
        for number, raw in enumerate(file, 1):
            line = raw.removeprefix(b"\xef\xbb\xbf") if number == 1 else raw
            if not line.strip():
                continue
            try:
                data = json.loads(line.decode("utf-8"))
            except UnicodeDecodeError as error:
                raise InputError(f"{path}:{number}: byte {error.start} is no UTF-8: save as UTF-8") from error
            except (ValueError, RecursionError) as error:
                raise InputError(f"{path}:{number}: is no JSON: {error}; one object per line") from error
            yield _located(data, path, number)


def _read_csv(path: Path) -> Iterator[Case]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        no_cells: list[str] = []
        reader = csv.reader(file, delimiter="\t" if path.suffix.lower() == ".tsv" else ",", strict=True)
        try:
            header = [cell.strip() for cell in next(reader, no_cells)]
            _check_header(header, path)
            start = reader.line_num + 1
            for row in reader:
                if any(cell.strip() for cell in row):
                    yield _located(_csv_case(header, row, path, start), path, start)
                start = reader.line_num + 1
        except csv.Error as error:
            raise InputError(f"{path}:{reader.line_num}: is no CSV: {error}; JSON lines take any text") from error
        except UnicodeDecodeError as error:
            raise InputError(f"{path}:{reader.line_num + 1}: is no UTF-8: save as UTF-8") from error


def _check_header(header: list[str], path: Path) -> None:
    if not header:
        raise InputError(f"{path}:1: is empty: the first line names the columns, such as input,output")
    twice = sorted({name for name in header if header.count(name) > 1})
    if twice:
        raise InputError(f"{path}:1: column {twice[0]!r} is there twice: keep one")


def _csv_case(header: list[str], row: list[str], path: Path, line: int) -> dict[str, Any]:
    if len(row) != len(header):
        raise InputError(f"{path}:{line}: {len(row)} cells under {len(header)} columns: quote texts that hold commas")
    data: dict[str, Any] = {}
    for name, cell in zip(header, row, strict=True):
        if not name or cell == "":
            continue
        try:
            value = _cell(name, cell)
        except ValueError as error:
            raise InputError(f"{path}:{line}: {name}: {cell[:80]!r} {error}") from error
        outer, dot, inner = name.partition(".")
        if dot and outer in {"expected", "usage", "metadata"}:
            data.setdefault(outer, {})[inner] = value
        else:
            data[name] = value
    return data


def _cell(name: str, cell: str) -> Any:
    if name in _LISTS:
        return json.loads(cell) if cell.lstrip()[:1] == "[" else [part.strip() for part in cell.split("|")]
    if name in _NUMBERS:
        return float(cell)
    if name in _COUNTS or name.startswith("usage."):
        return int(cell)
    if name in _OBJECTS and cell.lstrip()[:1] == "{":
        return json.loads(cell)
    return cell


def _read_yaml(path: Path) -> Iterator[Case]:
    if find_spec("yaml") is None:
        raise MissingExtraError("PyYAML", "server")
    from evalspan_collector.config_file import read_yaml

    document = read_yaml(path)
    data: Any = document.data
    prefix: tuple[str | int, ...] = ()
    if is_object(data) and "cases" in data:
        data, prefix = data["cases"], ("cases",)
    if not is_list(data):
        raise InputError(f"{path}:1: is no list of cases: write `- input: ...`, or the list under `cases:`")
    for index, item in enumerate(data):
        try:
            yield case_from_json(item)
        except FieldError as error:
            place: tuple[str | int, ...] = (*prefix, index, *_path(error.field))
            raise InputError(f"{path}:{document.line(place)}: {error}") from error


def _path(field: str) -> tuple[str | int, ...]:
    """`expected.tools[1]` as ("expected", "tools", 1)."""
    pieces = field.replace("[", ".").replace("]", "").split(".")
    return tuple(int(piece) if piece.isdigit() else piece for piece in pieces if piece)
