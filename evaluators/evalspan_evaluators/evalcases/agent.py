"""Agent: one run of the agent under test: by a command, at an address, or from recorded traces."""

import http.client
import json
import os
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from evalspan.errors import InputError
from evalspan_collector.run import Run
from evalspan_evaluators.case import Case
from evalspan_evaluators.evalcases.case import AgentSpec, EvalCase
from evalspan_evaluators.evalcases.reply import case_of_reply
from evalspan_evaluators.evalcases.sink import open_sink

__all__ = ["AgentRun", "recorded_runs", "run_agent"]

_MOST_REPLY_BYTES = 32 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentRun:
    """What one run of the agent gave.

    Attributes:
        case: What is judged; None when the agent could not be run.
        error: Why it could not.
    """

    case: Case | None = None
    error: str | None = None


def run_agent(spec: EvalCase, runs: int = 1) -> Iterator[AgentRun]:
    """Run the agent of a case this many times; recorded runs are given once each, all of them when more are asked for.

    Raises:
        InputError: The case names no agent, or recorded runs that are not there.
    """
    agent = spec.agent
    if agent.recorded is not None:
        found = recorded_runs(spec, agent.recorded)
        yield from (AgentRun(case=_named(Case.from_run(run), spec)) for run in (found if runs > 1 else found[:1]))
        return
    if not agent.command and not agent.url:
        raise InputError(
            f"{spec.path}: {spec.name!r} names no agent: set endpoint, adapter_config.command or "
            "adapter_config.recorded, or give --url, --command or --recorded"
        )
    for _ in range(runs):
        yield _by_command(spec, agent) if agent.command else _by_url(spec, agent, agent.url or "")


def _named(case: Case, spec: EvalCase) -> Case:
    return replace(case, name=spec.name, expected=spec.expected, input=case.input or spec.query)


def recorded_runs(spec: EvalCase, path: Path) -> list[Run]:
    """The runs of recorded traces that belong to a case: those that were asked the same, else all of its own file.

    Every folder inside a folder is a capture of its own; a file or folder named like the case belongs to it as well.

    Raises:
        InputError: There is none.
    """
    if not path.exists():
        raise InputError(f"{spec.path}: there are no recorded traces {str(path)!r}")
    folders = [path, *sorted(p for p in path.rglob("*") if p.is_dir())] if path.is_dir() else [path]
    runs = list({run.run_id: run for folder in folders for run in _reconstructed(folder)}.values())
    asked = [r for r in runs if r.input is not None and _plain(r.input) == _plain(spec.query)]
    if asked:
        return asked
    own = [p for p in path.rglob("*") if _plain(p.stem) == _plain(spec.name)] if path.is_dir() else [path]
    found = [r for p in own for r in _reconstructed(p)]
    if not found:
        raise InputError(
            f"{spec.path}: no run in {str(path)!r} was asked {spec.query[:80]!r}, nor is one named like the case"
        )
    return found


def _plain(text: str) -> str:
    return "".join(c for c in text.casefold() if c.isalnum())


@lru_cache(maxsize=64)
def _reconstructed(path: Path) -> tuple[Run, ...]:
    from evalspan_collector.reconstruct import reconstruct_paths

    return tuple(run for item in reconstruct_paths([path], prices=_prices()) for run in item.runs)


def _prices() -> Any:
    from evalspan_collector.prices import Prices

    return Prices() if find_spec("genai_prices") else None


def _by_command(spec: EvalCase, agent: AgentSpec) -> AgentRun:
    """Start the command with the query on stdin and in place of `{query}`; take its spans, else what it printed."""
    command = [part.replace("{query}", spec.query) for part in agent.command]
    given = json.dumps({"query": spec.query, "context": spec.context}) if spec.context is not None else spec.query
    started = time.monotonic()
    with open_sink(agent.protocol) as sink:
        env = {**os.environ, **sink.environment, **agent.env}
        try:
            process = subprocess.Popen(  # noqa: S603  running the user's own command is the point
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=env,
                cwd=spec.path.parent,
                start_new_session=True,
            )
        except OSError as error:
            return AgentRun(error=f"cannot start {command[0]!r}: {error.strerror or error}")
        try:
            out, err = process.communicate(given.encode(), timeout=agent.timeout_s)
        except subprocess.TimeoutExpired:
            _end(process)
            return AgentRun(
                error=f"{command[0]!r} did not end within {agent.timeout_s:g} s: raise adapter_config.timeout"
            )
        took = time.monotonic() - started
        if process.returncode:
            said = err.decode("utf-8", "replace").strip()[-500:] or "it said nothing"
            return AgentRun(error=f"{command[0]!r} ended with exit code {process.returncode}: {said}")
        runs = sink.runs(_prices())
    printed = case_of_reply(out.decode("utf-8", "replace"), took)
    return AgentRun(case=_named(_merged(runs, printed), spec))


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ends the command and what it started; it has a process group of its own."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.communicate()


def _merged(runs: tuple[Run, ...], printed: Case) -> Case:
    """The traced run, with what the agent printed where the trace tells nothing."""
    if not runs:
        return printed
    traced = Case.from_run(runs[-1])
    return replace(
        traced,
        output=traced.output or printed.output,
        cost_usd=printed.cost_usd if traced.cost_usd is None else traced.cost_usd,
        duration_s=printed.duration_s if traced.duration_s is None else traced.duration_s,
    )


def _by_url(spec: EvalCase, agent: AgentSpec, url: str) -> AgentRun:
    """Post the query as JSON and read the reply."""
    if urlsplit(url).scheme not in {"http", "https"}:
        return AgentRun(error=f"endpoint {url!r} is no address: write http://... or https://...")
    body = json.dumps({"query": spec.query, "context": spec.context or {}}).encode()
    headers = {"content-type": "application/json", "accept": "application/json", **agent.headers}
    request = urllib.request.Request(url, data=body, headers=headers)  # noqa: S310  the scheme is checked above
    started = time.monotonic()
    try:
        with urllib.request.urlopen(request, timeout=agent.timeout_s) as answer:  # noqa: S310  the same
            raw = answer.read(_MOST_REPLY_BYTES + 1)
    except urllib.error.HTTPError as error:
        return AgentRun(error=f"{url} answered {error.code}: {error.read(500).decode('utf-8', 'replace')}")
    except (OSError, http.client.HTTPException) as error:
        return AgentRun(error=f"{url} cannot be reached: {error}")
    took = time.monotonic() - started
    if len(raw) > _MOST_REPLY_BYTES:
        return AgentRun(error=f"{url} answered with more than {_MOST_REPLY_BYTES} bytes")
    return AgentRun(case=_named(case_of_reply(raw.decode("utf-8", "replace"), took), spec))
