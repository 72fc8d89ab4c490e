"""AlterConfigs (key 33, versions 0–2): the whole set of overrides of a resource at once. v2 flexible.

Old: what a request leaves out is reset. Newer clients use IncrementalAlterConfigs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from headrace.controller.gateway import ControllerGateway
from headrace.controller.results import ResourceResult
from headrace.handlers.config_resources import BROKER_LOGGER, NAMES, NUMBERS
from headrace.handlers.context import RequestContext
from headrace.kernel.errors import ErrorCode


@dataclass(frozen=True)
class AlterConfigs:
    gateway: ControllerGateway

    api_key: ClassVar[int] = 33
    versions: ClassVar[range] = range(3)

    async def __call__(self, request: Any, context: RequestContext) -> Any:
        return await self.gateway.serve(
            request, context.header, context.principal, context.peer_host, lambda: self._alter(request)
        )

    def refuse(self, request: Any, context: RequestContext, error_code: int, message: str) -> dict[str, Any]:
        return refused_resources(request, error_code, message)

    async def _alter(self, request: Any) -> dict[str, Any]:
        asked, responses = [], []
        for resource in request.resources:
            kind, name = int(resource.resource_type), str(resource.resource_name)
            if kind not in NAMES or kind == BROKER_LOGGER:
                message = f"AlterConfigs is deprecated and does not support the resource type {NAMES.get(kind, kind)}"
                responses.append(resource_row(kind, name, int(ErrorCode.invalid_request), message))
                continue
            names = [str(config.name) for config in resource.configs]
            if len(set(names)) != len(names):
                message = "Error due to duplicate config keys"
                responses.append(resource_row(kind, name, int(ErrorCode.invalid_request), message))
                continue
            asked.append((NAMES[kind], name, {str(config.name): config.value for config in resource.configs}))
        results = await self.gateway.controller.replace_configs(asked, validate_only=request.validate_only)
        return {"throttle_time": 0, "responses": responses + [row_of(result) for result in results]}


def resource_row(kind: int, name: str, error_code: int = 0, message: str | None = None) -> dict[str, Any]:
    return {"error_code": error_code, "error_message": message, "resource_type": kind, "resource_name": name}


def row_of(result: ResourceResult) -> dict[str, Any]:
    return resource_row(NUMBERS[result.resource_type], result.name, int(result.error), result.message)


def refused_resources(request: Any, error_code: int, message: str) -> dict[str, Any]:
    rows = [resource_row(int(r.resource_type), r.resource_name, error_code, message) for r in request.resources]
    return {"throttle_time": 0, "responses": rows}
