"""IncrementalAlterConfigs (key 44, versions 0–1): set, delete, append, subtract overrides (KIP-339). v1 flexible.

Topics, brokers and groups go to the controller; log levels belong to the broker that gets the request.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

from headrace.controller.core.config_changes import KeyChange
from headrace.controller.gateway import ControllerGateway
from headrace.handlers import broker_loggers
from headrace.handlers.alter_configs import refused_resources, resource_row, row_of
from headrace.handlers.config_resources import BROKER_LOGGER, NAMES
from headrace.handlers.context import RequestContext
from headrace.kernel.errors import ErrorCode, Fault, Refused


@dataclass(frozen=True)
class IncrementalAlterConfigs:
    gateway: ControllerGateway
    broker_id: int

    api_key: ClassVar[int] = 44
    versions: ClassVar[range] = range(2)

    async def __call__(self, request: Any, context: RequestContext) -> Any:
        loggers = [r for r in request.resources if int(r.resource_type) == BROKER_LOGGER]
        if not loggers:
            return await self.gateway.serve(
                request, context.header, context.principal, context.peer_host, lambda: self._alter(request)
            )
        rows = [self._alter_loggers(resource, request.validate_only) for resource in loggers]
        others = tuple(r for r in request.resources if int(r.resource_type) != BROKER_LOGGER)
        if others:
            if not self.gateway.controller.is_active:
                why = "log levels and other settings in one request: send it to the controller, or send two"
                rows += refused_resources(replace(request, resources=others), int(ErrorCode.invalid_request), why)[
                    "responses"
                ]
            else:
                rows += (await self._alter(replace(request, resources=others)))["responses"]
        return {"throttle_time": 0, "responses": rows}

    def refuse(self, request: Any, context: RequestContext, error_code: int, message: str) -> dict[str, Any]:
        return refused_resources(request, error_code, message)

    def _alter_loggers(self, resource: Any, validate_only: bool) -> dict[str, Any]:
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

    async def _alter(self, request: Any) -> dict[str, Any]:
        asked, responses = [], []
        seen: dict[tuple[int, str], int] = {}
        for resource in request.resources:
            key = (int(resource.resource_type), str(resource.resource_name))
            seen[key] = seen.get(key, 0) + 1
        for (kind, name), count in seen.items():
            if count > 1:
                responses.append(
                    resource_row(kind, name, int(ErrorCode.invalid_request), "Each resource must appear at most once.")
                )
            elif kind not in NAMES:
                message = f"Unknown resource type {kind}"
                responses.append(resource_row(kind, name, int(ErrorCode.invalid_request), message))
        for resource in request.resources:
            kind, name = int(resource.resource_type), str(resource.resource_name)
            if seen[(kind, name)] == 1 and kind in NAMES:
                asked.append((NAMES[kind], name, _changes(resource)))
        results = await self.gateway.controller.change_configs(asked, validate_only=request.validate_only)
        return {"throttle_time": 0, "responses": responses + [row_of(result) for result in results]}


def _changes(resource: Any) -> list[KeyChange]:
    return [KeyChange(str(c.name), int(c.config_operation), c.value) for c in resource.configs]
