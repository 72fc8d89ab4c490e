"""Authorization: every API declares the rights it needs, and a request without them is refused before it is served."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

from headrace.handlers.cluster.envelope import FORWARDED, Envelope
from headrace.handlers.dispatch.audit import MAX_LINES_PER_SECOND, Audit
from headrace.handlers.dispatch.authorization import (
    MAX_GRANTED,
    NOTHING,
    OPEN,
    UNRESTRICTED,
    Authorization,
    Needs,
    cluster_operations,
)
from headrace.handlers.dispatch.compatibility import served
from headrace.handlers.dispatch.context import RequestContext
from headrace.handlers.dispatch.dispatcher import Dispatcher
from headrace.handlers.dispatch.fallback_requests import fallback_service
from headrace.handlers.dispatch.handler import Handler
from headrace.handlers.dispatch.replica_only import REPLICA_ONLY
from headrace.handlers.dispatch.request_metrics import RequestMetrics
from headrace.handlers.dispatch.table import HandlerTable
from headrace.kernel.errors import ErrorCode, Refused
from headrace.security.acl.authorizer import Authorizer
from headrace.security.acl.model import (
    CLUSTER_NAME,
    SUPPORTED_OPERATIONS,
    Entry,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)
from headrace.wire import codec
from headrace.wire.apis import ApiKey, api_name

HOST = "10.0.0.7"
# Any client may ask these: they open a connection, log a client in, or say what the broker serves.
NEEDS_NOTHING = {ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE}
# The owner and the renewers of a delegation token may change it, without any ACL.
NEEDS_NOTHING |= {ApiKey.RENEW_DELEGATION_TOKEN, ApiKey.EXPIRE_DELEGATION_TOKEN}
# Kafka asks no rights of clients that push metrics. The broker serves these only with `client.telemetry.enable`.
NEEDS_NOTHING |= {ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY}


def allowing(
    principal: str, operation: Operation, resource_type: ResourceType, name: str
) -> dict[ResourcePattern, list[Entry]]:
    pattern = ResourcePattern(resource_type, name, PatternType.LITERAL)
    return {pattern: [Entry(principal, "*", operation, Permission.ALLOW)]}


@dataclass
class InForce:
    current: Authorizer


def authorization(acls: dict[ResourcePattern, list[Entry]] | None = None, **options: Any) -> Authorization:
    authorizer = Authorizer(acls or {}, **options)
    return Authorization(InForce(authorizer))


def test_every_api_declares_the_rights_it_needs() -> None:
    handlers = served()
    undeclared = [api_name(key) for key, handler in handlers.items() if "needs" not in vars(handler)]
    assert not undeclared, f"these handlers have no `needs` of their own: {undeclared}"
    without = {key for key, handler in handlers.items() if not list(handler.needs)}
    assert without == NEEDS_NOTHING
    for key, handler in handlers.items():
        for operation, resource_type in handler.needs:
            # Kafka asks for Delete on the cluster, which only an ACL for All gives.
            supported = operation in SUPPORTED_OPERATIONS[resource_type] or key == ApiKey.DELETE_TOPICS
            assert supported, f"{api_name(key)} needs {operation.name}, which {resource_type.name} does not have"


def test_every_request_that_brokers_forward_is_opened_at_the_controller() -> None:
    """A handler that forwards through the gateway and is missing in the list would work on the controller alone."""
    forwarding = {key for key, handler in served().items() if "gateway" in handler.__annotations__}
    assert ApiKey.CREATE_TOPICS in forwarding
    assert {api_name(key) for key in forwarding - FORWARDED} == set()


def test_requests_of_brokers_need_cluster_action() -> None:
    for key in REPLICA_ONLY:
        rights = list(served()[key].needs)
        assert (Operation.CLUSTER_ACTION, ResourceType.CLUSTER) in rights, api_name(key)


def test_a_handler_without_a_declaration_is_not_taken_into_the_table() -> None:
    class Undeclared(Handler):
        api_key: ClassVar[ApiKey] = ApiKey.HEARTBEAT
        versions: ClassVar[range] = range(5)

        def serve(self, request: Any, context: RequestContext) -> Any:
            return {}

    with pytest.raises(AssertionError, match="does not declare what it needs"):
        HandlerTable([Undeclared()])


class Peer:
    """As much of a connection as serving looks at."""

    peer_host = HOST
    listener = "CLIENTS"
    guarded = False
    claims: tuple[str, ...] = ()

    def __init__(self, principal: str) -> None:
        self.principal = principal

    def throttle(self, delay_ms: int) -> None:
        pass

    def when_closed(self, key: object, call: object) -> None:
        pass


class ElectLeaders(Handler):
    """Stands for any API that needs a right on the cluster."""

    api_key: ClassVar[ApiKey] = ApiKey.ELECT_LEADERS
    versions: ClassVar[range] = range(3)
    needs: ClassVar[Needs] = Needs(request=Operation.ALTER)

    def __init__(self) -> None:
        self.served_for: list[tuple[str, str]] = []

    def serve(self, request: Any, context: RequestContext) -> Any:
        self.served_for.append((context.principal, context.peer_host))
        return {"error_code": 0, "replica_election_results": [], "throttle_time": 0}


ELECT = {"election_type": 0, "topic_partitions": None, "timeout": 1000}


def elect(gate: Authorization, principal: str) -> tuple[ErrorCode, ElectLeaders]:
    handler = ElectLeaders()
    dispatcher = Dispatcher(HandlerTable([handler]), RequestMetrics(), authorization=gate)
    frame = codec.encode_request(ApiKey.ELECT_LEADERS, 2, 1, "me", ELECT)
    reply = dispatcher.serve(memoryview(frame)[4:], Peer(principal))  # type: ignore[arg-type]
    assert isinstance(reply, bytearray)
    answer = codec.read_response(ApiKey.ELECT_LEADERS, 2, bytes(reply[4:]))[1]
    return ErrorCode(answer.error_code), handler


def test_the_dispatcher_refuses_a_request_without_the_right() -> None:
    gate = authorization(allowing("User:ann", Operation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME))
    assert elect(gate, "User:ann")[0] is ErrorCode.none
    code, handler = elect(gate, "User:bob")
    assert code is ErrorCode.cluster_authorization_failed
    assert not handler.served_for
    assert elect(OPEN, "User:ANONYMOUS")[0] is ErrorCode.none


def test_a_changed_acl_counts_from_the_next_request_on() -> None:
    current = Authorizer(allowing("User:ann", Operation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME))
    in_force = InForce(current)
    gate = Authorization(in_force)
    for _ in range(2):
        assert elect(gate, "User:ann")[0] is ErrorCode.none
    in_force.current = Authorizer({})
    assert elect(gate, "User:ann")[0] is ErrorCode.cluster_authorization_failed


class AtController:
    is_active = True


def envelope(gate: Authorization, sender: str, principal: bytes | None, host: bytes = b"10.9.9.9") -> tuple[Any, Any]:
    """Sends ElectLeaders in an envelope: the code of the envelope, then of the request inside."""
    handler = ElectLeaders()
    table = HandlerTable([handler])
    table.add(Envelope(AtController(), table, gate))  # type: ignore[arg-type]
    dispatcher = Dispatcher(table, RequestMetrics(), authorization=gate)
    inner = bytes(codec.encode_request(ApiKey.ELECT_LEADERS, 2, 1, "me", ELECT)[4:])
    body = {"request_data": inner, "request_principal": principal, "client_host_address": host}
    frame = codec.encode_request(ApiKey.ENVELOPE, 0, 1, "broker", body)

    async def serve() -> Any:
        reply = dispatcher.serve(memoryview(frame)[4:], Peer(sender))  # type: ignore[arg-type]
        return reply if isinstance(reply, bytearray) else await reply

    answer = codec.read_response(ApiKey.ENVELOPE, 0, bytes(asyncio.run(serve())[4:]))[1]
    if answer.response_data is None or not bytes(answer.response_data):
        assert not handler.served_for
        return ErrorCode(answer.error_code), None
    inside = codec.read_response(ApiKey.ELECT_LEADERS, 2, bytes(answer.response_data))[1]
    assert handler.served_for in ([], [(principal.decode() if principal else "", host.decode())])
    return ErrorCode(answer.error_code), ErrorCode(inside.error_code)


BROKERS_AND_ANN = {
    ResourcePattern(ResourceType.CLUSTER, CLUSTER_NAME): [
        Entry("User:broker", "*", Operation.CLUSTER_ACTION, Permission.ALLOW),
        Entry("User:ann", "10.9.9.9", Operation.ALTER, Permission.ALLOW),
    ]
}


def test_an_envelope_with_a_forged_principal_is_refused() -> None:
    """Only a sender with ClusterAction may speak for a client."""
    gate = authorization(BROKERS_AND_ANN, super_users=["User:admin"])
    assert envelope(gate, "User:bob", b"User:admin") == (ErrorCode.cluster_authorization_failed, None)
    assert envelope(gate, "User:ann", b"User:admin") == (ErrorCode.cluster_authorization_failed, None)
    assert envelope(gate, "User:broker", b"User:admin") == (ErrorCode.none, ErrorCode.none)


def test_the_request_in_an_envelope_is_authorized_again_as_its_client() -> None:
    gate = authorization(BROKERS_AND_ANN)
    assert envelope(gate, "User:broker", b"User:ann") == (ErrorCode.none, ErrorCode.none)
    denied = ErrorCode.cluster_authorization_failed
    assert envelope(gate, "User:broker", b"User:bob") == (ErrorCode.none, denied)
    assert envelope(gate, "User:broker", b"User:ann", b"10.9.9.8") == (ErrorCode.none, denied)


@pytest.mark.parametrize("principal", [None, b"", b"\xff\xfe"])
def test_an_envelope_without_a_principal_does_not_act_as_the_broker(principal: bytes | None) -> None:
    gate = authorization(super_users=["User:broker"])
    assert envelope(gate, "User:broker", principal) == (ErrorCode.principal_deserialization_failure, None)


def test_a_client_in_a_fallback_request_is_authorized_as_itself() -> None:
    """The store carries requests of brokers. The client's request inside has the client's rights."""
    gate = authorization(BROKERS_AND_ANN)
    handler = ElectLeaders()
    table = HandlerTable([handler])
    table.add(Envelope(AtController(), table, gate))  # type: ignore[arg-type]
    serve = fallback_service(table, "BROKERS")

    def sent_for(principal: bytes) -> ErrorCode:
        inner = bytes(codec.encode_request(ApiKey.ELECT_LEADERS, 2, 1, "me", ELECT)[4:])
        body = {"request_data": inner, "request_principal": principal, "client_host_address": b"10.9.9.9"}
        letter = bytes(codec.encode_request(ApiKey.ENVELOPE, 0, 1, "broker", body)[4:])
        answer = codec.read_response(ApiKey.ENVELOPE, 0, asyncio.run(serve(letter)))[1]  # type: ignore[arg-type]
        inside = codec.read_response(ApiKey.ELECT_LEADERS, 2, bytes(answer.response_data))[1]
        return ErrorCode(inside.error_code)

    assert sent_for(b"User:ann") is ErrorCode.none
    assert sent_for(b"User:bob") is ErrorCode.cluster_authorization_failed


def test_without_an_authorizer_all_requests_share_one_access() -> None:
    assert OPEN.access("User:a", HOST, 0) is OPEN.access("User:b", "::1", 1) is UNRESTRICTED
    assert UNRESTRICTED.filter(Operation.READ, ResourceType.TOPIC, ["a", "b"]) == {"a", "b"}
    assert UNRESTRICTED.operations(ResourceType.GROUP, "g") == sum(1 << bit for bit in (3, 6, 8, 10, 11))
    NOTHING.check(UNRESTRICTED)


@pytest.mark.parametrize(
    ("resource_type", "code"),
    [
        (ResourceType.TOPIC, ErrorCode.topic_authorization_failed),
        (ResourceType.GROUP, ErrorCode.group_authorization_failed),
        (ResourceType.CLUSTER, ErrorCode.cluster_authorization_failed),
        (ResourceType.TRANSACTIONAL_ID, ErrorCode.transactional_id_authorization_failed),
        (ResourceType.DELEGATION_TOKEN, ErrorCode.delegation_token_authorization_failed),
        (ResourceType.USER, ErrorCode.delegation_token_authorization_failed),
    ],
)
def test_each_type_of_resource_has_its_code_and_its_name_is_not_told(
    resource_type: ResourceType, code: ErrorCode
) -> None:
    access = authorization().access("User:bob", HOST, ApiKey.FETCH)
    with pytest.raises(Refused) as refused:
        access.require(Operation.DESCRIBE, resource_type, "secret")
    assert refused.value.code is code
    assert "secret" not in refused.value.message


def test_operations_of_the_cluster_are_not_told_without_describe() -> None:
    may: Callable[[Operation], Authorization] = lambda operation: authorization(  # noqa: E731
        allowing("User:ann", operation, ResourceType.CLUSTER, CLUSTER_NAME)
    )
    assert cluster_operations(may(Operation.CREATE).access("User:ann", HOST, ApiKey.METADATA)) == 0
    assert cluster_operations(may(Operation.ALTER).access("User:ann", HOST, ApiKey.METADATA)) == (1 << 7) | (1 << 8)


def test_a_denial_is_logged_in_kafkas_words_and_a_list_is_not(caplog: pytest.LogCaptureFixture) -> None:
    access = authorization().access("User:b\nob", HOST, ApiKey.TXN_OFFSET_COMMIT)
    with caplog.at_level(logging.INFO, logger="kafka.authorizer.logger"):
        assert not access.may(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, 'a"b\x1b[31m')
        access.filter(Operation.DESCRIBE, ResourceType.TOPIC, ["t"])
        access.may_cluster(Operation.CREATE)
    assert caplog.messages == [
        "Principal = User:b\\nob is Denied operation = WRITE from host = 10.0.0.7 on resource = "
        'TransactionalId:LITERAL:a\\"b\\u001b[31m for request = TxnOffsetCommit with resourceRefCount = 1 '
        "based on rule DefaultDeny"
    ]


def test_allowed_checks_are_logged_at_debug(caplog: pytest.LogCaptureFixture) -> None:
    acls = allowing("User:ann", Operation.READ, ResourceType.TOPIC, "t")
    access = authorization(acls).access("User:ann", HOST, ApiKey.FETCH)
    assert access.may(Operation.READ, ResourceType.TOPIC, "t")
    assert not caplog.text
    with caplog.at_level(logging.DEBUG, logger="kafka.authorizer.logger"):
        assert access.may(Operation.READ, ResourceType.TOPIC, "t")
    assert "is Allowed operation = READ" in caplog.text
    assert "based on rule MatchingAcl(acl=StandardAcl(resourceType=TOPIC" in caplog.text


def test_an_allowed_check_allows_no_other_one() -> None:
    acls = allowing("User:ann", Operation.READ, ResourceType.TOPIC, "t")
    gate = authorization(acls)
    access = gate.access("User:ann", HOST, ApiKey.FETCH)
    for _ in range(2):
        assert access.may(Operation.READ, ResourceType.TOPIC, "t")
        assert not access.may(Operation.WRITE, ResourceType.TOPIC, "t")
        assert not access.may(Operation.READ, ResourceType.GROUP, "t")
        assert not access.may(Operation.READ, ResourceType.TOPIC, "u")
        assert not gate.access("User:bob", HOST, ApiKey.FETCH).may(Operation.READ, ResourceType.TOPIC, "t")


def test_an_access_remembers_a_limited_number_of_names() -> None:
    access = authorization(allow_if_no_acl=True).access("User:ann", HOST, ApiKey.FETCH)
    assert all(access.may(Operation.READ, ResourceType.TOPIC, f"t{number}") for number in range(3 * MAX_GRANTED))
    assert len(access._granted) == MAX_GRANTED  # type: ignore[attr-defined]


def test_a_flood_of_denials_is_cut_short(caplog: pytest.LogCaptureFixture) -> None:
    now = 5.0
    audit = Audit(monotonic=lambda: now)
    access = Authorization(InForce(Authorizer({})), audit).access("User:bob", HOST, ApiKey.FETCH)
    with caplog.at_level(logging.INFO, logger="kafka.authorizer.logger"):
        for _ in range(1000):
            access.may(Operation.READ, ResourceType.TOPIC, "t")
        assert len(caplog.messages) == MAX_LINES_PER_SECOND
        now = 6.0
        access.may(Operation.READ, ResourceType.TOPIC, "t")
    assert caplog.messages[-2] == "900 more decisions within one second are not shown"
