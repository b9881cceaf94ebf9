"""Set-up: one import in a process of its own, whatever the process already has and whatever is wrong."""

import json
import socket
import time
from typing import Any

import pytest

from evalspan.testing import Sink

AGENT = """
    import evalspan.auto

    @evalspan.tool
    def double(n: int) -> int:
        return 2 * n

    @evalspan.agent
    def agent(question: str) -> str:
        return str(double(21))

    print(agent("what?"))
"""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def resource(sink: Sink) -> dict[str, str]:
    (found,) = sink.requests[0].resource_spans
    return {a.key: a.value.string_value for a in found.resource.attributes}


def test_one_import_exports_at_exit_and_names_the_service_after_the_script(run_script: Any, sink: Sink) -> None:
    done = run_script(AGENT, OTEL_EXPORTER_OTLP_ENDPOINT=sink.endpoint)
    assert (done.stdout, done.stderr, done.returncode) == ("42\n", "", 0)
    assert [span.name for span in sink.spans] == ["invoke_agent agent", "execute_tool double"]
    assert resource(sink)["service.name"] == "agent"


def test_standard_variables_work(run_script: Any, sink: Sink) -> None:
    done = run_script(
        AGENT,
        OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:1",
        OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=sink.endpoint,
        OTEL_EXPORTER_OTLP_HEADERS="x-team=blue",
        OTEL_SERVICE_NAME="named",
        OTEL_RESOURCE_ATTRIBUTES="team=blue,service.version=7",
        EVALSPAN_API_KEY="k1",
        EVALSPAN_CAPTURE_CONTENT="false",
    )
    assert done.stderr == ""
    assert {**resource(sink), "service.name": "named", "team": "blue", "service.version": "7"} == resource(sink)
    assert sink.headers[0]["x-team"] == "blue"
    assert sink.headers[0]["authorization"] == "Bearer k1"
    assert "what?" not in str(sink.spans)


@pytest.mark.parametrize(
    "variables",
    [{"OTEL_SDK_DISABLED": "true"}, {"OTEL_TRACES_EXPORTER": "none"}, {"OTEL_TRACES_SAMPLER": "always_off"}],
    ids=repr,
)
def test_tracing_can_be_switched_off(run_script: Any, sink: Sink, variables: dict[str, str]) -> None:
    done = run_script(AGENT, OTEL_EXPORTER_OTLP_ENDPOINT=sink.endpoint, **variables)
    assert (done.stdout, done.stderr) == ("42\n", "")
    assert sink.requests == []


def test_a_dead_endpoint_changes_nothing_but_one_line_on_stderr_and_ends_in_time(run_script: Any) -> None:
    script = AGENT + "    import time; print(time.monotonic())\n"
    done = run_script(script, OTEL_EXPORTER_OTLP_ENDPOINT=f"http://127.0.0.1:{free_port()}")
    ended = time.monotonic()
    answer, last = done.stdout.split()
    assert (answer, done.returncode) == ("42", 0)
    assert ended - float(last) < 6.0  # 4 s of flush, and the end of a process on a busy machine
    assert done.stderr.count("\n") == 1
    assert "cannot export spans" in done.stderr


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"OTEL_TRACES_EXPORTER": "carrier-pigeon"}, "carrier-pigeon"),
        ({"OTEL_EXPORTER_OTLP_PROTOCOL": "http/json"}, "http/json"),
        ({"OTEL_EXPORTER_OTLP_TIMEOUT": "soon"}, "soon"),
    ],
    ids=repr,
)
def test_a_wrong_setting_is_logged_and_the_agent_runs(run_script: Any, variables: dict[str, str], said: str) -> None:
    done = run_script(AGENT, **variables)
    assert (done.stdout, done.returncode) == ("42\n", 0)
    assert said in done.stderr
    strict = run_script(AGENT, EVALSPAN_STRICT="1", **variables)
    assert strict.returncode != 0


def test_an_existing_provider_is_joined_and_not_replaced_and_twice_is_once(run_script: Any, sink: Sink) -> None:
    done = run_script(
        """
        from opentelemetry import trace
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import SimpleSpanProcessor
        from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

        memory = InMemorySpanExporter()
        mine = TracerProvider(resource=Resource({"service.name": "mine"}), shutdown_on_exit=False)
        mine.add_span_processor(SimpleSpanProcessor(memory))
        trace.set_tracer_provider(mine)

        import evalspan
        evalspan.init(endpoint=ENDPOINT)
        evalspan.init(endpoint=ENDPOINT)
        import evalspan.auto
        evalspan.init()
        evalspan.init(service_name="other")

        assert trace.get_tracer_provider() is mine

        @evalspan.tool
        def double(n):
            return 2 * n

        double(1)
        print([span.name for span in memory.get_finished_spans()])
        """.replace("ENDPOINT", repr(f"127.0.0.1:{sink.port}"))
    )
    assert done.stdout == "['execute_tool double']\n"
    assert done.stderr.count("set up already") == 1
    assert [span.name for span in sink.spans] == ["execute_tool double"]
    assert resource(sink)["service.name"] == "mine"


def test_arguments_of_init_win_over_variables(run_script: Any, sink: Sink) -> None:
    done = run_script(
        """
        import os
        import evalspan
        evalspan.init("svc", ENDPOINT, api_key="k2", headers={"X-Team": "red"}, environment="production", capture_content=False)

        @evalspan.tool
        def double(n):
            return 2 * n

        double(4321)
        print(evalspan.flush(), os.environ.get("ANTHROPIC_OPEN_TELEMETRY_TRACES_CONTENT_MODE"))
        """.replace("ENDPOINT", repr(sink.endpoint)),
        OTEL_SERVICE_NAME="not-this",
        OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:1",
        EVALSPAN_API_KEY="not-this",
    )
    assert (done.stdout, done.stderr) == ("True None\n", "")
    found = resource(sink)
    assert (found["service.name"], found["deployment.environment.name"]) == ("svc", "production")
    assert (sink.headers[0]["authorization"], sink.headers[0]["x-team"]) == ("Bearer k2", "red")
    assert "4321" not in str(sink.spans)


def test_the_users_own_content_mode_stays(run_script: Any, sink: Sink) -> None:
    script = "import evalspan.auto, os\nprint(os.environ['ANTHROPIC_OPEN_TELEMETRY_TRACES_CONTENT_MODE'])\n"
    mode = "ANTHROPIC_OPEN_TELEMETRY_TRACES_CONTENT_MODE"
    assert run_script(script, OTEL_EXPORTER_OTLP_ENDPOINT=sink.endpoint).stdout == "content\n"
    assert (
        run_script(script, OTEL_EXPORTER_OTLP_ENDPOINT=sink.endpoint, **{mode: "metadata_only"}).stdout
        == "metadata_only\n"
    )


def test_spans_of_a_forked_worker_arrive_once(run_script: Any, sink: Sink) -> None:
    done = run_script(
        """
        import os
        import evalspan.auto

        @evalspan.tool
        def work(where):
            return where

        work("parent")
        evalspan.flush()
        child = os.fork()
        if child == 0:
            work("child")
            evalspan.flush()
            os._exit(0)
        print(os.waitpid(child, 0)[1])
        """,
        OTEL_EXPORTER_OTLP_ENDPOINT=sink.endpoint,
    )
    assert done.stdout == "0\n", done.stderr
    results = [a.value.string_value for s in sink.spans for a in s.attributes if a.key == "gen_ai.tool.call.result"]
    assert sorted(results) == ["child", "parent"]


def test_the_import_is_light(run_script: Any) -> None:
    done = run_script(
        """
        import sys
        import evalspan.auto
        foreign = {name.partition(".")[0] for name in sys.modules}
        heavy = {"anthropic", "pydantic", "genai_prices", "httpx", "httpx2", "pandas", "numpy", "clickhouse_connect", "chdb",
                 "streamlit", "yaml", "rich", "typer", "evalspan_collector", "evalspan_evaluators", "evalspan_dashboard"}
        print(sorted(foreign & heavy))
        """,
        OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:1",
    )
    assert done.stdout == "[]\n", done.stderr


def test_http_protocol_exports_over_http(run_script: Any) -> None:
    from http.server import BaseHTTPRequestHandler, HTTPServer
    from threading import Thread

    got: list[tuple[str, str]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            got.append((self.path, str(self.headers.get("Content-Type"))))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the signature of http.server
            return

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        script = f"import evalspan\nevalspan.init(endpoint='http://127.0.0.1:{server.server_address[1]}', protocol='http/protobuf')\n"
        done = run_script(script + "evalspan.tool('t')(lambda: 1)()\n")
        server.shutdown()
    assert done.stderr == ""
    assert got == [("/v1/traces", "application/x-protobuf")]


def test_attribute_names_are_complete_and_unique() -> None:
    from evalspan import attributes

    texts = [getattr(attributes, name) for name in attributes.__all__]
    plain = [text for text in texts if isinstance(text, str)]
    assert len(plain) == len(set(plain))
    assert sorted(attributes.__all__) == list(attributes.__all__)
    assert json.dumps(plain)
