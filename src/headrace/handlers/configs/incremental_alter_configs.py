"""IncrementalAlterConfigs (key 44, versions 0–1): set, delete, append, subtract overrides (KIP-339). v1 flexible.

Topics, brokers and groups go to the controller; log levels belong to the broker that gets the request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from headrace.controller.core.config_changes import KeyChange
from headrace.controller.gateway import ControllerGateway
from headrace.handlers.configs import broker_loggers
from headrace.handlers.configs.alter_configs import (
    CheckOwn,
    alter_the_rest,
    denied_row,
    refused_here,
    refused_resources,
    resource_row,
    row_of,
)
from headrace.handlers.configs.config_resources import BROKER_LOGGER, NAMES
from headrace.handlers.dispatch.authorization import Needs
from headrace.handlers.dispatch.context import RequestContext
from headrace.handlers.dispatch.handler import Handler
from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import ErrorCode, Fault, Refused
from headrace.security.acl.model import Operation
from headrace.wire.apis import ApiKey

if TYPE_CHECKING:
    from headrace.wire.messages.incremental_alter_configs import (
        AlterConfigsResource,
        AlterConfigsResourceResponse,
        IncrementalAlterConfigsRequest,
        IncrementalAlterConfigsResponse,
    )


@dataclass(frozen=True)
class IncrementalAlterConfigs(Handler):
    gateway: ControllerGateway
    broker_id: int
    check_own: CheckOwn

    api_key: ClassVar[ApiKey] = ApiKey.INCREMENTAL_ALTER_CONFIGS
    versions: ClassVar[range] = range(2)
    needs: ClassVar[Needs] = Needs(
        cluster=Operation.ALTER_CONFIGS, topic=Operation.ALTER_CONFIGS, group=Operation.ALTER_CONFIGS
    )

    async def serve(
        self, request: IncrementalAlterConfigsRequest, context: RequestContext
    ) -> IncrementalAlterConfigsResponse:
        others, rows = refused_here(request.resources, self.broker_id, self.check_own, context.access)
        for resource in tuple(others):
            if int(resource.resource_type) == BROKER_LOGGER:
                others.remove(resource)
                denied = denied_row(context.access, BROKER_LOGGER, str(resource.resource_name))
                rows.append(denied or self._alter_loggers(resource, request.validate_only))
        return await alter_the_rest(self.gateway, request, context, others, rows, self.serve_at_controller)

    async def serve_at_controller(
        self, request: IncrementalAlterConfigsRequest, context: RequestContext
    ) -> IncrementalAlterConfigsResponse:
        asked: list[tuple[str, str, list[KeyChange]]] = []
        rows: list[AlterConfigsResourceResponse] = []
        for resource in request.resources:
            kind, name = int(resource.resource_type), str(resource.resource_name)
            denied = denied_row(context.access, kind, name)
            if denied is None:
                asked.append((NAMES[kind], name, _changes(resource)))
            else:
                rows.append(denied)
        results = await self.gateway.controller.change_configs(asked, validate_only=request.validate_only)
        return {"throttle_time": 0, "responses": rows + [row_of(result) for result in results]}

    def refuse(
        self, request: IncrementalAlterConfigsRequest, context: RequestContext, error_code: int, message: str
    ) -> IncrementalAlterConfigsResponse:
        return refused_resources(request.resources, error_code, message)

    def _alter_loggers(self, resource: AlterConfigsResource, validate_only: bool) -> AlterConfigsResourceResponse:
        name, changes = str(resource.resource_name), _changes(resource)
        try:
            if name != str(self.broker_id):
                why = f"Unexpected broker id {name or '(empty)'}, expected {self.broker_id}"
                raise Refused(ErrorCode.invalid_request, why)
            broker_loggers.check(changes)
        except Fault as fault:
            return resource_row(BROKER_LOGGER, name, int(fault.code), fault.message)
        if not validate_only:
            broker_loggers.apply(changes)
        return resource_row(BROKER_LOGGER, name)


def _changes(resource: AlterConfigsResource) -> list[KeyChange]:
    return [KeyChange(str(c.name), int(c.config_operation), c.value) for c in resource.configs]
