"""Every screen in headless Chromium, on the demo's data."""

import json
import os
import re
import secrets
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import grpc
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Status
from playwright.sync_api import Browser, Page, expect, sync_playwright

pytestmark = [pytest.mark.e2e, pytest.mark.browser, pytest.mark.timeout(300)]

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--no-first-run",
]
WAIT_MS = 30_000
expect.set_options(timeout=WAIT_MS)  # a page is drawn piece by piece, and a busy machine takes its time


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One Chromium for this module, and no longer: Playwright's event loop runs in this thread until it is closed."""
    if CHROMIUM is None:
        assert not os.environ.get("CI"), "CI installs Chromium; it is missing"
        pytest.skip("Chromium is not installed: apt-get install chromium")
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=CHROMIUM, headless=True, args=FLAGS)
        yield launched
        launched.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    opened = browser.new_page(viewport={"width": 1400, "height": 1000})
    yield opened
    opened.close()


def _shot(page: Page, name: str) -> None:
    """Keep a picture when asked for one: EVALSPAN_SCREENSHOTS names the folder."""
    folder = os.environ.get("EVALSPAN_SCREENSHOTS")
    if folder:
        Path(folder).mkdir(parents=True, exist_ok=True)
        page.wait_for_timeout(1500)  # charts and tables are drawn after the script has run
        page.screenshot(path=str(Path(folder) / f"{name}.png"), full_page=True)


def _settled(page: Page) -> None:
    """Wait until Streamlit has drawn everything."""
    page.wait_for_selector("[data-testid=stApp][data-test-script-state=notRunning]", timeout=WAIT_MS)
    assert page.locator("[data-testid=stException]").count() == 0


def _contradicted_run(demo: Any) -> str:
    failed = demo.lines("scores", "list", "--metric", "grounding", "--failed")
    return next(str(s["run_id"]) for s in failed if any("197.42" in e.get("claim", "") for e in s["evidence"]))


def test_the_overview_shows_pass_rates_cost_latency_and_errors(demo_evalspan: Any, page: Page) -> None:
    page.goto(demo_evalspan.dashboard)

    expect(page.get_by_role("heading", name="Overview")).to_be_visible(timeout=WAIT_MS)
    expect(page.get_by_text("Pass rate per metric")).to_be_visible(timeout=WAIT_MS)
    for title in ("Error rate", "Latency p95", "Cost", "Worst scores"):
        expect(page.get_by_text(title, exact=True).first).to_be_visible()
    _settled(page)
    expect(page.locator("[data-testid=stVegaLiteChart]")).to_have_count(4, timeout=WAIT_MS)
    _shot(page, "overview")


def test_the_runs_list_filters_by_agent_from_the_address(demo_evalspan: Any, page: Page) -> None:
    page.goto(f"{demo_evalspan.dashboard}/runs?agent=refund_bot&metric=sequence&verdict=failed")

    expect(page.get_by_role("heading", name="Runs")).to_be_visible(timeout=WAIT_MS)
    expect(page.locator("[data-testid=stDataFrame]")).to_be_visible(timeout=WAIT_MS)
    _settled(page)
    assert "agent=refund_bot" in page.url
    _shot(page, "runs")


def test_the_run_page_names_the_contradiction_with_tool_path_and_true_value(demo_evalspan: Any, page: Page) -> None:
    page.goto(f"{demo_evalspan.dashboard}/run?run={_contradicted_run(demo_evalspan)}")

    claim = page.get_by_text(re.compile(r"contradicted.*197\.42.*187\.42.*fetch_stock_data")).first
    expect(claim).to_be_visible(timeout=WAIT_MS)
    _settled(page)
    for tool in ("fetch_stock_data", "analyze_metrics", "write_summary"):
        expect(page.get_by_text(tool).first).to_be_visible(timeout=WAIT_MS)
    expect(page.locator("[data-testid=stVegaLiteChart]")).to_have_count(1, timeout=WAIT_MS)
    page.get_by_text(re.compile("tool call fetch_stock_data")).first.click()
    expect(page.get_by_text("187.42").first).to_be_visible(timeout=WAIT_MS)
    _shot(page, "run")


def test_the_alerts_page_shows_the_alert(demo_evalspan: Any, page: Page) -> None:
    page.goto(f"{demo_evalspan.dashboard}/alerts")

    expect(page.get_by_text("grounding-drop").first).to_be_visible(timeout=WAIT_MS)
    _settled(page)
    _shot(page, "alerts")


def _hostile_request(sink: str) -> tuple[str, bytes]:
    """A run whose every text tries to load something, run something, or format itself."""
    image, script = f"![x]({sink}/image.png)", f"<script>fetch('{sink}/script')</script><img src='{sink}/tag.png'>"
    text = f"{image} {script} [link]({sink}/link) :red[red] $x$ \x1b[31m \u202e"
    name = f"evil {image}{script}"
    trace, root, child = secrets.token_bytes(16), secrets.token_bytes(8), secrets.token_bytes(8)
    now = time.time_ns()
    request = ExportTraceServiceRequest()
    scope = request.resource_spans.add().scope_spans.add()
    message = json.dumps([{"role": "user", "parts": [{"type": "text", "content": text}]}])
    for span_id, parent, operation, attributes in (
        (root, b"", "invoke_agent", {"gen_ai.agent.name": name, "gen_ai.input.messages": message,
                                      "gen_ai.output.messages": message, "error.type": text}),
        (child, root, "execute_tool", {"gen_ai.tool.name": name, "gen_ai.tool.call.arguments": json.dumps({image: text}),
                                       "gen_ai.tool.call.result": text}),
    ):  # fmt: skip
        span = scope.spans.add(trace_id=trace, span_id=span_id, parent_span_id=parent, name=f"{operation} {name}")
        span.start_time_unix_nano, span.end_time_unix_nano = now - 10**9, now
        span.status.CopyFrom(Status(code=Status.STATUS_CODE_ERROR, message=text))
        for key, value in {"gen_ai.operation.name": operation, **attributes}.items():
            span.attributes.append(KeyValue(key=key, value=AnyValue(string_value=value)))
    return trace.hex(), request.SerializeToString()


@pytest.fixture
def sink() -> Iterator[tuple[str, list[str]]]:
    """A server that must never be asked for anything."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the base class names it so
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", asked
    server.shutdown()
    server.server_close()


def test_hostile_trace_text_loads_nothing_and_runs_nothing(
    demo_evalspan: Any, page: Page, sink: tuple[str, list[str]], until: Callable[..., Any]
) -> None:
    address, asked = sink
    trace_id, body = _hostile_request(address)
    opened: Any = grpc.insecure_channel(f"127.0.0.1:{demo_evalspan.ports['grpc']}")
    with opened as channel:
        export = channel.unary_unary(
            "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
            request_serializer=bytes,
            response_deserializer=bytes,
        )
        export(body, timeout=20)
    rows: list[dict[str, Any]] = until(
        lambda: [r for r in demo_evalspan.lines("runs", "list") if r["trace_id"] == trace_id], 40, "the hostile run"
    )
    outside: list[str] = []
    page.on(
        "request",
        lambda r: (
            None if r.url.startswith((demo_evalspan.dashboard, "data:", "blob:", "ws:")) else outside.append(r.url)
        ),
    )

    for path in ("", "/runs", f"/run?run={rows[0]['run_id']}", "/alerts"):
        page.goto(demo_evalspan.dashboard + path)
        page.wait_for_selector("h1", timeout=WAIT_MS)
        _settled(page)
    page.goto(f"{demo_evalspan.dashboard}/run?run={rows[0]['run_id']}")
    page.wait_for_selector("h1", timeout=WAIT_MS)
    for expander in page.locator("[data-testid=stExpander] summary").all():
        expander.click()
    _settled(page)
    _shot(page, "hostile")

    assert asked == []
    assert outside == []
    expect(page.get_by_text("image.png").first).to_be_visible()


@pytest.mark.parametrize(
    "path",
    ["/../../../../etc/passwd", "/static/../../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/media/../../evalspan.yaml",
     "/component/x/../../../../etc/passwd", "/app/static/%2e%2e/%2e%2e/secrets.toml", "/" + "x" * 8000],
    ids=range(7),
)  # fmt: skip
def test_no_path_leads_out_of_the_dashboard(demo_evalspan: Any, path: str) -> None:
    import http.client

    connection = http.client.HTTPConnection("127.0.0.1", demo_evalspan.ports["dashboard"], timeout=10)
    try:
        connection.request("GET", path)
        reply = connection.getresponse()
        body = reply.read()
    finally:
        connection.close()
    assert b"root:" not in body
    assert b"rules:" not in body
    assert reply.status < 500
