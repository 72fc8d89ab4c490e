"""Envelope (key 58, version 0): a client's request that another broker forwards to the controller (KIP-590).

Brokers only: the sender needs ClusterAction. The request inside is authorized and served as if its client had sent
it here; its answer goes back as bytes. The handler accepts only requests for the controller, and only while this broker
is the controller.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from headrace.controller.controller import Controller
from headrace.handlers.dispatch.authorization import Authorization, Needs
from headrace.handlers.dispatch.context import RequestContext
from headrace.handlers.dispatch.forwarded_requests import serve_forwarded
from headrace.handlers.dispatch.handler import Handler
from headrace.handlers.dispatch.table import HandlerTable
from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import ErrorCode, Refused
from headrace.security.acl.model import Operation
from headrace.security.principal import read_principal
from headrace.wire.apis import ApiKey

if TYPE_CHECKING:
    from headrace.wire.messages.envelope import EnvelopeRequest, EnvelopeResponse


# Kafka forwards the requests that change the cluster.
FORWARDED: Final = frozenset(
    {
        ApiKey.CREATE_TOPICS,
        ApiKey.DELETE_TOPICS,
        ApiKey.CREATE_ACLS,
        ApiKey.DELETE_ACLS,
        ApiKey.ALTER_CONFIGS,
        ApiKey.CREATE_PARTITIONS,
        ApiKey.ELECT_LEADERS,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        ApiKey.ALTER_CLIENT_QUOTAS,
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        ApiKey.CREATE_DELEGATION_TOKEN,
        ApiKey.RENEW_DELEGATION_TOKEN,
        ApiKey.EXPIRE_DELEGATION_TOKEN,
        ApiKey.UPDATE_FEATURES,
        ApiKey.UNREGISTER_BROKER,
    }
)


@dataclass(frozen=True)
class Envelope(Handler):
    controller: Controller
    table: HandlerTable
    authorization: Authorization

    api_key: ClassVar[ApiKey] = ApiKey.ENVELOPE
    versions: ClassVar[range] = range(1)
    needs: ClassVar[Needs] = Needs(request=Operation.CLUSTER_ACTION)
    is_advertised: ClassVar[bool] = False

    async def serve(self, request: EnvelopeRequest, context: RequestContext) -> EnvelopeResponse:
        if not self.controller.is_active:
            return {"response_data": None, "error_code": int(ErrorCode.not_controller)}
        try:
            # Never the forwarding broker's principal: a broker has more rights than its clients.
            principal, claims = read_principal(bytes(request.request_principal or b""))
            host = bytes(request.client_host_address).decode()
        except ValueError:  # UnicodeDecodeError and JSONDecodeError too
            principal = ""
        if not principal:
            return {"response_data": None, "error_code": int(ErrorCode.principal_deserialization_failure)}
        try:
            answer = await serve_forwarded(
                self.table,
                bytes(request.request_data),
                FORWARDED,
                authorization=self.authorization,
                host=host,
                listener=context.listener,
                principal=principal,
                claims=claims,
                now_ms=context.received_at_ms,
            )
        except Refused as refused:
            return {"response_data": None, "error_code": int(refused.code)}
        return {"response_data": answer, "error_code": 0}
