"""The dispatcher: the answer of a client, also after a fault or a malformed request."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

from headrace.handlers.cluster.api_versions import ApiVersions, Features
from headrace.handlers.dispatch.authorization import NOTHING, Needs
from headrace.handlers.dispatch.context import RequestContext
from headrace.handlers.dispatch.dispatcher import Dispatcher
from headrace.handlers.dispatch.handler import Handler
from headrace.handlers.dispatch.metering import Metering
from headrace.handlers.dispatch.request_metrics import RequestMetrics
from headrace.handlers.dispatch.table import HandlerTable
from headrace.kernel.errors import ErrorCode, Refused
from headrace.net.replies import CLOSE, Pending
from headrace.security.principal import ANONYMOUS
from headrace.wire import codec
from headrace.wire.apis import ApiKey


class Peer:
    """As much of a connection as serving looks at."""

    peer_host = "10.0.0.7"
    listener = "PLAINTEXT"
    principal = ANONYMOUS
    guarded = False
    claims: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "10.0.0.7:4711"

    def throttle(self, delay_ms: int) -> None:
        pass

    def when_closed(self, key: object, call: object) -> None:
        pass


@dataclass(frozen=True)
class Heartbeat(Handler):
    outcome: Any

    api_key: ClassVar[ApiKey] = ApiKey.HEARTBEAT
    versions: ClassVar[range] = range(5)
    needs: ClassVar[Needs] = NOTHING

    def serve(self, request: Any, context: RequestContext) -> Any:
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome


@dataclass(frozen=True)
class OffsetForLeaderEpoch(Handler):
    """An API without an error code at its top."""

    api_key: ClassVar[ApiKey] = ApiKey.OFFSET_FOR_LEADER_EPOCH
    versions: ClassVar[range] = range(2, 5)
    needs: ClassVar[Needs] = NOTHING

    def serve(self, request: Any, context: RequestContext) -> Any:
        raise Refused(ErrorCode.not_controller, "no")


def dispatcher(*handlers: Any, metering: Metering | None = None, metrics: RequestMetrics | None = None) -> Dispatcher:
    table = HandlerTable(handlers)
    table.add(ApiVersions(table, lambda: Features({}, {}, 0)))
    return Dispatcher(table, metrics or RequestMetrics(), metering=metering)


def ask(served: Dispatcher, api_key: int, version: int, body: dict[str, Any]) -> Any:
    frame = codec.encode_request(api_key, version, 77, "me", body)
    return served.serve(memoryview(frame)[4:], Peer())  # type: ignore[arg-type]


HEARTBEAT = {"group_id": "g", "generation_id": 1, "member_id": "m", "group_instance_id": None}


def test_an_answer_carries_the_correlation_id() -> None:
    reply = ask(dispatcher(Heartbeat({"error_code": 0})), 12, 4, HEARTBEAT)
    correlation_id, answer = codec.read_response(12, 4, reply[4:])
    assert (correlation_id, answer.error_code) == (77, 0)


@pytest.mark.parametrize("version", [1, 4])
def test_a_client_over_its_request_quota_gets_a_throttle_time(version: int) -> None:
    metering = Metering()
    entity: tuple[tuple[str, str | None], ...] = (("client-id", "me"),)
    metering.quotas.replace({entity: {"request_percentage": 0.000001}})
    served = dispatcher(Heartbeat({"throttle_time": 0, "error_code": 0}), metering=metering)
    body = HEARTBEAT if version >= 3 else {k: v for k, v in HEARTBEAT.items() if k != "group_instance_id"}
    waits = []
    for _ in range(50):
        correlation_id, answer = codec.read_response(12, version, ask(served, 12, version, body)[4:])
        assert (correlation_id, answer.error_code) == (77, 0)
        waits.append(codec.millis(answer.throttle_time))
    assert max(waits) > 0
    # If the field is not the first one, the client is muted without a throttle time in the answer.
    assert codec.throttle_time_at(0, 9) is None and codec.throttle_time_at(3, 2) is None


def test_a_fault_is_the_answer_and_a_bug_is_an_unknown_server_error(caplog: pytest.LogCaptureFixture) -> None:
    reply = ask(dispatcher(Heartbeat(Refused(ErrorCode.not_coordinator, "elsewhere"))), 12, 4, HEARTBEAT)
    assert codec.read_response(12, 4, reply[4:])[1].error_code is ErrorCode.not_coordinator
    assert caplog.records == []
    reply = ask(dispatcher(Heartbeat(ValueError("a bug"))), 12, 4, HEARTBEAT)
    assert codec.read_response(12, 4, reply[4:])[1].error_code is ErrorCode.unknown_server_error
    assert "10.0.0.7:4711" in caplog.text
    assert "a bug" in caplog.text


def test_an_awaited_fault_is_the_answer_too() -> None:
    async def fails() -> dict[str, Any]:
        await asyncio.sleep(0)
        raise Refused(ErrorCode.rebalance_in_progress, "wait")

    async def test() -> None:
        reply = ask(dispatcher(Heartbeat(fails())), 12, 4, HEARTBEAT)
        assert isinstance(reply, Pending)
        with pytest.raises(Refused):
            await reply
        frame = reply.answer
        assert isinstance(frame, bytearray)
        assert codec.read_response(12, 4, frame[4:])[1].error_code is ErrorCode.rebalance_in_progress

    asyncio.run(test())


def test_a_pending_that_fails_is_answered_as_a_fault_and_counted_until_then() -> None:
    pending = Pending()
    metrics = RequestMetrics()
    reply = ask(dispatcher(Heartbeat(pending), metrics=metrics), 12, 4, HEARTBEAT)
    assert reply is pending
    assert metrics.waiting[12] == 1 and 12 not in metrics.by_api
    pending.fail(Refused(ErrorCode.rebalance_in_progress, "wait"))
    assert metrics.waiting[12] == 0 and metrics.by_api[12].count == 1
    assert isinstance(pending.answer, bytearray)
    assert codec.read_response(12, 4, pending.answer[4:])[1].error_code is ErrorCode.rebalance_in_progress


def test_a_fault_of_an_api_without_an_error_code_closes_the_connection() -> None:
    assert ask(dispatcher(OffsetForLeaderEpoch()), 23, 4, {"replica_id": -1, "topics": []}) is CLOSE


@pytest.mark.parametrize(("api_key", "version"), [(12, 5), (13, 0), (99, 0)])
def test_an_unserved_api_closes_with_one_log_line_that_names_the_peer(
    api_key: int, version: int, caplog: pytest.LogCaptureFixture
) -> None:
    frame = bytearray(codec.encode_request(12, 0, 1, "me", HEARTBEAT))
    frame[4:8] = api_key.to_bytes(2, "big") + version.to_bytes(2, "big")
    with caplog.at_level(logging.WARNING):
        reply = dispatcher(Heartbeat({"error_code": 0})).serve(memoryview(frame)[4:], Peer())  # type: ignore[arg-type]
    assert reply is CLOSE
    (record,) = caplog.records
    assert "10.0.0.7:4711" in record.getMessage()


def test_an_unknown_version_of_api_versions_is_answered_in_v0() -> None:
    frame = bytearray(codec.encode_request(18, 0, 5, "me", {}))
    frame[6:8] = (99).to_bytes(2, "big")
    reply = dispatcher().serve(memoryview(frame)[4:], Peer())  # type: ignore[arg-type]
    assert isinstance(reply, bytearray)
    correlation_id, answer = codec.read_response(18, 0, reply[4:])
    assert (correlation_id, answer.error_code) == (5, ErrorCode.unsupported_version)
    assert [(key.api_key, key.min_version, key.max_version) for key in answer.api_keys] == [(18, 0, 4)]


@pytest.mark.parametrize("cut", range(1, 20))
def test_a_truncated_request_closes_the_connection(cut: int) -> None:
    frame = codec.encode_request(12, 4, 77, "me", HEARTBEAT)
    assert dispatcher(Heartbeat({"error_code": 0})).serve(memoryview(frame)[4:-cut], Peer()) is CLOSE  # type: ignore[arg-type]


def test_two_handlers_for_one_api_are_a_mistake() -> None:
    with pytest.raises(AssertionError, match="heartbeat"):
        HandlerTable([Heartbeat(None), Heartbeat(None)])


@pytest.mark.parametrize("version", range(5))
def test_supported_features_from_level_0_are_shown_to_new_clients_only(version: int) -> None:
    table = HandlerTable()
    features = Features({"old": (1, 3), "new": (0, 2)}, {"old": 3, "new": 2}, 9)
    table.add(ApiVersions(table, lambda: features))
    software = {"client_software_name": "a", "client_software_version": "1"}
    reply = ask(Dispatcher(table, RequestMetrics()), 18, version, software)
    answer = codec.read_response(18, version, reply[4:])[1]
    if version >= 3:
        shown = {feature.name for feature in answer.supported_features}
        assert shown == ({"old", "new"} if version >= 4 else {"old"})
        levels = {f.name: (f.min_version_level, f.max_version_level) for f in answer.finalized_features}
        assert levels == {"old": (3, 3), "new": (2, 2)}
