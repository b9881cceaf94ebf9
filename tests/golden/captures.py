"""Captures: requests as instrumentation libraries sent them, packed one capture to a zip file."""

import json
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evalspan_collector.assemble import assemble
from evalspan_collector.intake import read_logs, read_traces
from evalspan_collector.run import Run
from evalspan_collector.span import LogRecord, Span

__all__ = ["FOLDER", "Capture", "capture", "captures", "snapshot"]

FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Capture:
    """One capture.

    Attributes:
        name: `library__scenario`.
        requests: Signal (`traces`, `logs`) and body of every request, in order of arrival.
        truth: What the driver of the capture knows by itself.
    """

    name: str
    requests: tuple[tuple[str, bytes], ...]
    truth: dict[str, Any]

    def read(self, order: list[int] | None = None) -> tuple[list[Span], list[LogRecord]]:
        """Spans and log records; `order` picks requests by number, in any order and as often as it says."""
        spans: list[Span] = []
        logs: list[LogRecord] = []
        for index in range(len(self.requests)) if order is None else order:
            signal, body = self.requests[index]
            if signal == "logs":
                logs.extend(read_logs(body, project="default", received_ns=index).logs)
            else:
                spans.extend(read_traces(body, project="default", received_ns=index).spans)
        return spans, logs

    def runs(self) -> tuple[Run, ...]:
        """The runs, as the collector would have them at last."""
        spans, logs = self.read()
        return assemble(spans, logs)


def captures() -> list[str]:
    """Names of all captures."""
    return sorted(p.stem for p in (FOLDER / "captures").glob("*.zip"))


def capture(name: str) -> Capture:
    """Unpack one capture."""
    with zipfile.ZipFile(FOLDER / "captures" / f"{name}.zip") as archive:
        files = {n: archive.read(n) for n in sorted(archive.namelist())}
    requests = tuple((n.split("-")[1], body) for n, body in files.items() if n.endswith(".binpb"))
    return Capture(name, requests, json.loads(files["truth.json"]))


def snapshot(runs: tuple[Run, ...]) -> str:
    """The runs as text a person can read and compare."""
    return json.dumps([_readable(r) for r in runs], indent=1, ensure_ascii=False, sort_keys=True) + "\n"


def _readable(run: Run) -> dict[str, Any]:
    shown = run.to_json()
    for tool in shown["tools"]:
        tool["result"] = _short(tool["result"])
    shown["steps"] = [
        f"{'  ' * s.depth}{s.kind} {s.name}{' FAILED' if s.failed else ''}"
        f"{' (messages)' if s.observed == 'message' else ''}{f' by {s.agent}' if s.agent else ''}"
        for s in run.steps
    ]
    shown["stitch_confidence"] = run.stitch_confidence
    shown["trace_ids"] = list(run.trace_ids)
    shown["system_prompt"] = _short(run.system_prompt)
    shown["offered_tools"] = sorted({d.name for d in run.tool_definitions})
    shown["conversation"] = [f"{m.role}: {', '.join(p.type for p in m.parts)}" for m in run.conversation]
    return shown


def _short(value: Any) -> Any:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return value if len(text) <= 300 else f"{text[:300]}... ({len(text)} characters)"
