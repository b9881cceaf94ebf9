"""Doctor: sends a probe through every hop and names the one that is broken, with the fix."""

import secrets
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

from evalspan.errors import EvalspanError
from evalspan_collector.records import OutcomeName
from evalspan_collector.settings import Settings
from evalspan_collector.store.contract import Store
from evalspan_evaluators.scoring import RECEIVED_RULE
from evalspan_evaluators.worker_status import WorkerStatus, read_status, status_path

__all__ = ["HOPS", "Doctor", "Hop"]

Outcome = Literal["ok", "broken", "skipped"]
#: In the way of the data.
HOPS = ("config", "store", "collector", "span", "run", "worker", "dashboard")
EXPORT = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
PROBE_AGENT = "evalspan_doctor"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hop:
    """What the doctor found at one hop.

    Attributes:
        fix: What to do next; empty when the hop is sound.
        seconds: How long the probe took there.
    """

    name: str
    outcome: Outcome
    detail: str
    fix: str = ""
    seconds: float = 0.0

    def to_json(self) -> dict[str, Any]:
        """One line of `evalspan doctor --json`."""
        return {
            "hop": self.name,
            "outcome": self.outcome,
            "detail": self.detail,
            "fix": self.fix,
            "seconds": round(self.seconds, 3),
        }


class _BrokenError(Exception):
    def __init__(self, detail: str, fix: str) -> None:
        super().__init__(detail)
        self.fix = fix


class Doctor:
    """Walks the hops in the order of the data; a hop behind a broken one is skipped.

    Args:
        settings: Where everything should listen.
        connect: Opens the store; raises `StoreError` when it cannot.
        api_key: Key for the collector, where keys are configured.
        patience_s: Seconds a probe may take per hop before that hop counts as broken.
    """

    def __init__(
        self,
        settings: Settings,
        connect: Callable[[Settings], Store],
        *,
        api_key: str | None = None,
        patience_s: float = 20.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings
        self._connect = connect
        self._metadata = (("authorization", f"Bearer {api_key}"),) if api_key else ()
        self._patience_s = patience_s
        self._clock = clock
        self._trace_id = secrets.token_bytes(16)
        self._store: Store | None = None
        self._run_id: str | None = None
        self._rules: int | None = None
        self._probes: dict[str, Callable[[], str]] = {
            "config": self._look_at_config,
            "store": self._look_at_store,
            "collector": self._look_at_collector,
            "span": self._look_for_span,
            "run": self._look_for_run,
            "worker": self._look_for_outcome,
            "dashboard": self._look_at_dashboard,
        }

    def examine(self, only: Sequence[str] = HOPS) -> Iterator[Hop]:
        """Yield one result per hop, as it is found; removes its own traces at the end."""
        broken: str | None = None
        try:
            for name in (hop for hop in HOPS if hop in only):
                if broken is not None and name != "dashboard":
                    yield Hop(name=name, outcome="skipped", detail=f"not reached: {broken} is broken")
                    continue
                hop = self._look(name)
                if hop.outcome == "broken":
                    broken = name
                yield hop
        finally:
            self._clean_up()

    def _look(self, name: str) -> Hop:
        started = self._clock()
        try:
            detail = self._probes[name]()
        except _BrokenError as error:
            return Hop(name=name, outcome="broken", detail=str(error), fix=error.fix, seconds=self._clock() - started)
        except (EvalspanError, OSError) as error:
            return Hop(
                name=name, outcome="broken", detail=str(error), fix=_FIXES[name], seconds=self._clock() - started
            )
        return Hop(name=name, outcome="ok", detail=detail, seconds=self._clock() - started)

    def _wait(self, look: Callable[[], str | None], detail: str, fix: str) -> str:
        deadline = self._clock() + self._patience_s
        while True:
            found = look()
            if found is not None:
                return found
            if self._clock() > deadline:
                raise _BrokenError(f"{detail} within {self._patience_s:.0f} s", fix)
            time.sleep(0.2)

    def _opened(self) -> Store:
        if self._store is None:
            self._store = self._connect(self._settings)
        return self._store

    def _look_at_config(self) -> str:
        from evalspan_evaluators.config import load_config

        status = read_status(status_path(self._settings.data_dir.run))
        try:
            config = load_config(self._settings.config)
        except EvalspanError as error:
            kept = f"\nthe worker goes on with what it read {_ago(status.config_read_ns)}" if status else ""
            raise _BrokenError(f"{error}{kept}", _FIXES["config"]) from error
        self._rules = len(config.rules)
        named = str(self._settings.config) if self._settings.config else "no evalspan.yaml: built-in defaults"
        return f"{named}: rules {len(config.rules)}, alerts {len(config.alerts)}{_worker_view(status)}"

    def _look_at_store(self) -> str:
        self._opened().ping()
        return f"answers at {self._settings.store_url or self._settings.embedded_store_url}"

    def _look_at_collector(self) -> str:
        address = f"{self._settings.host}:{self._settings.grpc_port}"
        # Any: the stubs of grpc are generic over types that they leave unknown.
        opened: Any = grpc.insecure_channel(address)
        with opened as channel:
            try:
                health_pb2_grpc.HealthStub(channel).Check(
                    health_pb2.HealthCheckRequest(), timeout=5, wait_for_ready=False
                )
                export = channel.unary_unary(
                    EXPORT,
                    request_serializer=ExportTraceServiceRequest.SerializeToString,
                    response_deserializer=ExportTraceServiceResponse.FromString,
                )
                rejected = export(self._request(), timeout=10, metadata=self._metadata).partial_success
            except grpc.RpcError as error:
                raise _BrokenError(f"{address}: {_describe(error)}", _FIXES["collector"]) from error
        if rejected.rejected_spans:
            raise _BrokenError(f"{address} rejected the probe: {rejected.error_message}", _FIXES["collector"])
        return f"{address} acknowledged the probe"

    def _look_for_span(self) -> str:
        store, trace = self._opened(), self._trace_id.hex()

        def look() -> str | None:
            spans = store.spans(self._settings.project, [trace])
            return f"{len(spans)} spans stored" if len(spans) == 2 else None

        return self._wait(look, "the acknowledged probe is not in the store", _FIXES["span"])

    def _look_for_run(self) -> str:
        store, trace = self._opened(), self._trace_id.hex()

        def look() -> str | None:
            for row in store.runs_of_traces(self._settings.project, [trace]):
                self._run_id = row.run_id
                if row.state in ("closed", "amended"):
                    return f"run {row.run_id} rebuilt and {row.state}"
            return None

        return self._wait(look, "the probe's run was not closed", _FIXES["run"])

    def _look_for_outcome(self) -> str:
        if self._run_id is None:  # asked for alone: its heartbeat must do
            from evalspan_dashboard.services import HEARTBEAT_S, heartbeat_path

            path = heartbeat_path(self._settings)
            age = time.time() - path.stat().st_mtime
            if age > HEARTBEAT_S:
                raise _BrokenError(f"last heartbeat {age:.0f} s ago", _FIXES["worker"])
            return f"heartbeat {age:.0f} s ago"
        store, run_id = self._opened(), self._run_id

        def look() -> str | None:
            outcomes = store.outcomes(self._settings.project, run_ids=[run_id])
            done = [o for o in outcomes if o.outcome != "waiting"]
            told = [f"rule {o.rule!r} {_OUTCOMES[o.outcome]}" for o in done if o.rule != RECEIVED_RULE]
            if not told and done and self._rules == 0:
                return "the worker looked at the probe's run; evalspan.yaml has no rules, so nothing is scored"
            return "; ".join(told) or None

        return self._wait(look, "no rule has an outcome for the probe's run", _FIXES["worker"])

    def _look_at_dashboard(self) -> str:
        url = f"http://{self._settings.host}:{self._settings.dashboard_port}"
        try:
            with urllib.request.urlopen(f"{url}/_stcore/health", timeout=5) as reply:  # noqa: S310  our own address
                reply.read()
        except urllib.error.URLError as error:
            raise _BrokenError(f"{url} does not answer: {error.reason}", _FIXES["dashboard"]) from error
        return f"{url} answers"

    def _request(self) -> ExportTraceServiceRequest:
        now = time.time_ns()
        request = ExportTraceServiceRequest()
        resource = request.resource_spans.add()
        resource.resource.attributes.append(_attribute("service.name", "evalspan-doctor"))
        scope = resource.scope_spans.add()
        scope.scope.name = "evalspan.doctor"
        root, child = secrets.token_bytes(8), secrets.token_bytes(8)
        for span_id, parent, name, attributes in (
            (root, b"", f"invoke_agent {PROBE_AGENT}", _agent_attributes()),
            (child, root, "execute_tool ping", _tool_attributes()),
        ):
            span = scope.spans.add(trace_id=self._trace_id, span_id=span_id, parent_span_id=parent, name=name)
            span.start_time_unix_nano, span.end_time_unix_nano = now - 1_000_000, now
            span.attributes.extend(_attribute(key, value) for key, value in attributes.items())
        return request

    def _clean_up(self) -> None:
        if self._store is None:
            return
        try:
            if self._run_id is not None:
                self._store.withdraw_runs(self._settings.project, [self._run_id], now_ns=time.time_ns())
            self._store.close()
        except EvalspanError:
            pass  # the hop that broke has been reported; a probe left behind is only a row


def _ago(at_ns: int) -> str:
    return f"{max(0.0, time.time() - at_ns / 1e9):.0f} s ago"


def _worker_view(status: WorkerStatus | None) -> str:
    """What the worker says about its own copy of the configuration."""
    if status is None:
        return ""
    said = f"; the worker read it {_ago(status.config_read_ns)}"
    if status.config_error is not None:
        raise _BrokenError(
            f"the worker cannot use the newest version: {status.config_error}\n"
            f"it goes on with what it read {_ago(status.config_read_ns)}",
            _FIXES["config"],
        )
    if status.restart_for:
        said += f"; restart for the changes of {', '.join(status.restart_for)}"
    return said


def _agent_attributes() -> dict[str, str]:
    return {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": PROBE_AGENT,
        "gen_ai.input.messages": '[{"role":"user","parts":[{"type":"text","content":"ping"}]}]',
        "gen_ai.output.messages": '[{"role":"assistant","parts":[{"type":"text","content":"pong 42"}]}]',
    }


def _tool_attributes() -> dict[str, str]:
    return {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "ping",
        "gen_ai.tool.call.arguments": "{}",
        "gen_ai.tool.call.result": '{"pong": 42}',
    }


def _attribute(key: str, value: str) -> KeyValue:
    return KeyValue(key=key, value=AnyValue(string_value=value))


def _describe(error: grpc.RpcError) -> str:
    call: Any = error  # what a call raises is an RpcError and a Call at once, which stubs cannot say
    return f"{call.code().name}: {call.details()}"


#: Outcomes as they end a sentence that starts with a rule's name.
_OUTCOMES: dict[OutcomeName, str] = {
    "scored": "scored it",
    "filtered": "is for other runs and left it out",
    "sampled_out": "left it out of its sample",
    "waiting": "waits",
    "not_applicable": "looked at it and found nothing to check",
    "over_budget": "has no money left for its judge today",
    "error": "could not score it: see `evalspan runs list --json`",
}
_FIXES = {
    "config": "correct the file at the line it names, or start without --config",
    "store": "start it with `evalspan up` or `evalspan store`; check --store-url and the token in the data folder",
    "collector": "start it with `evalspan up` or `evalspan collector`; check --grpc-port and --api-key",
    "span": "the collector cannot insert: read its log in the data folder under logs/",
    "run": "the collector stores but does not assemble: check its --shard settings and its log",
    "worker": "start it with `evalspan up` or `evalspan worker`; read its log in the data folder under logs/",
    "dashboard": "start it with `evalspan up` or `evalspan dashboard`; check --dashboard-port",
}
