"""docker-compose.yml is valid and holds no password."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[1]


def test_the_compose_file_resolves_without_an_engine() -> None:
    compose = shutil.which("docker-compose")
    if compose is None:
        assert not os.environ.get("CI"), "CI installs docker-compose; it is missing"
        pytest.skip("docker-compose is not installed: apt-get install docker-compose")

    done = subprocess.run(
        [compose, "-f", str(ROOT / "docker-compose.yml"), "config"],
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, "EVALSPAN_CLICKHOUSE_PASSWORD": "from-the-environment"},
    )

    assert done.returncode == 0, done.stderr
    services = yaml.safe_load(done.stdout)["services"]
    assert set(services) == {"clickhouse", "collector", "worker", "dashboard"}
    assert all("healthcheck" in service for service in services.values())


def test_the_compose_file_demands_a_password_and_publishes_on_loopback_only() -> None:
    text = (ROOT / "docker-compose.yml").read_text()
    services = yaml.safe_load(text)["services"]

    password = services["clickhouse"]["environment"]["CLICKHOUSE_PASSWORD"]
    assert password.startswith("${EVALSPAN_CLICKHOUSE_PASSWORD:?")
    assert ":latest" not in text
    ports = [port for service in services.values() for port in service.get("ports", [])]
    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)
