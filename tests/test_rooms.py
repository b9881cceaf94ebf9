"""The bare install is light, and imports go left."""

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

#: Run in the bare environment: import the agent side and the metrics, run a metric, list what is installed.
PROBE = """
import importlib.metadata as metadata, json, sys
import evalspan
import evalspan.auto
from evalspan_collector.run import ToolCall
from evalspan_evaluators.case import Case, Expected
from evalspan_evaluators.metric import create, evaluate_metric
case = Case(
    input="price?", output="It costs 12.50 USD.", tools=(ToolCall(name="search", result={"price": 12.5}),),
    expected=Expected(sequence=("search",)),
)
scores = [evaluate_metric(create(name), case) for name in ("sequence", "grounding")]
print(json.dumps({
    "values": [s.value for s in scores],
    "installed": sorted({d.metadata["Name"].lower() for d in metadata.distributions()}),
    "loaded": sorted({m.split(".")[0] for m in sys.modules}),
}))
"""

HEAVY = {"chdb", "chdb-core", "streamlit", "clickhouse-connect", "pandas", "pyarrow", "anthropic", "pydantic", "numpy"}


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--outdir", str(out), str(ROOT)],
        check=True,
        capture_output=True,
        text=True,
    )
    (built,) = out.glob("*.whl")
    return built


@pytest.mark.wheel
@pytest.mark.timeout(600)
def test_a_bare_install_runs_metrics_and_brings_nothing_heavy(wheel: Path, tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "bare")], check=True)
    python = tmp_path / "bare" / "bin" / "python"
    subprocess.run(
        [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", str(wheel)], check=True
    )

    done = subprocess.run(
        [str(python), "-c", PROBE], check=True, capture_output=True, text=True, cwd=tmp_path, timeout=120
    )

    seen = json.loads(done.stdout.splitlines()[-1])
    assert seen["values"] == [1.0, 1.0]
    assert not HEAVY & set(seen["installed"])
    assert not {"grpc_health", "google.rpc", "streamlit", "chdb"} & set(seen["loaded"])


@pytest.mark.wheel
def test_the_wheel_holds_the_four_packages_and_their_data(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()

    tops = {name.split("/")[0] for name in names if ".dist-info" not in name}
    assert tops == {"evalspan", "evalspan_collector", "evalspan_evaluators", "evalspan_dashboard"}
    assert any(name.endswith(".sql") for name in names)
    assert all(f"{top}/py.typed" in names for top in tops)


def test_imports_go_left_only() -> None:
    done = subprocess.run(
        [str(Path(sys.executable).parent / "lint-imports"), "--no-cache"],
        check=False,
        capture_output=True,
        text=True,
        cwd=ROOT,
    )

    assert done.returncode == 0, done.stdout[-3000:]
