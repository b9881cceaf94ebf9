"""What the instrumentation tests share: a recorder, and agents run as processes of their own."""

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from evalspan.testing import Recorder, Sink, record

RunScript = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def recorder() -> Generator[Recorder]:
    with record() as found:
        yield found


@pytest.fixture
def sink() -> Generator[Sink]:
    with Sink() as found:
        yield found


@pytest.fixture
def run_script(tmp_path: Path) -> RunScript:
    """Run Python text as `agent.py` in a process, with only the OTEL_ and EVALSPAN_ variables given here."""

    def run(text: str, **variables: str) -> "subprocess.CompletedProcess[str]":
        script = tmp_path / "agent.py"
        script.write_text(textwrap.dedent(text), encoding="utf-8")
        foreign = ("OTEL_", "EVALSPAN_", "ANTHROPIC_", "PYTEST_CURRENT_TEST")
        environment = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
        environment |= {"NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"} | variables
        return subprocess.run(
            [sys.executable, str(script)], env=environment, capture_output=True, text=True, timeout=60, check=False
        )

    return run
