"""AlterConfigs (key 33, versions 0–2): the whole set of overrides of a resource at once. v2 flexible.

Deprecated: overrides that are not in the request are removed. Newer clients use IncrementalAlterConfigs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, Final, Protocol, TypeVar, cast

from headrace.controller.gateway import ControllerGateway
from headrace.controller.results import ResourceResult
from headrace.handlers.configs.config_resources import BROKER, BROKER_LOGGER, NAMES, NUMBERS, require_config
from headrace.handlers.dispatch.authorization import Access, Needs
from headrace.handlers.dispatch.context import RequestContext
from headrace.handlers.dispatch.handler import Handler
from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import ErrorCode, Fault
from headrace.security.acl.model import Operation
from headrace.wire.apis import ApiKey

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from headrace.wire.messages.alter_configs import (
        AlterConfigsRequest,
        AlterConfigsResourceResponse,
        AlterConfigsResponse,
    )


_INVALID: Final = int(ErrorCode.invalid_request)


# Checks new values of this broker's own settings against its files. Raises a Fault.
CheckOwn = Callable[[Mapping[str, str]], None]


@dataclass(frozen=True)
class AlterConfigs(Handler):
    gateway: ControllerGateway
    broker_id: int
    check_own: CheckOwn

    api_key: ClassVar[ApiKey] = ApiKey.ALTER_CONFIGS
    versions: ClassVar[range] = range(3)
    needs: ClassVar[Needs] = Needs(
        cluster=Operation.ALTER_CONFIGS, topic=Operation.ALTER_CONFIGS, group=Operation.ALTER_CONFIGS
    )

    async def serve(self, request: AlterConfigsRequest, context: RequestContext) -> AlterConfigsResponse:
        others, rows = refused_here(request.resources, self.broker_id, self.check_own, context.access)
        for resource in tuple(others):
            if int(resource.resource_type) == BROKER_LOGGER:
                others.remove(resource)
                why = "log levels are changed by IncrementalAlterConfigs only"
                rows.append(resource_row(BROKER_LOGGER, resource.resource_name, _INVALID, why))
        return await alter_the_rest(self.gateway, request, context, others, rows, self.serve_at_controller)

    async def serve_at_controller(self, request: AlterConfigsRequest, context: RequestContext) -> AlterConfigsResponse:
        asked: list[tuple[str, str, dict[str, str | None]]] = []
        rows: list[AlterConfigsResourceResponse] = []
        for resource in request.resources:
            kind, name = int(resource.resource_type), str(resource.resource_name)
            denied = denied_row(context.access, kind, name)
            if denied is not None:
                rows.append(denied)
            elif len({str(config.name) for config in resource.configs}) != len(resource.configs):
                rows.append(resource_row(kind, name, _INVALID, "Error due to duplicate config keys"))
            else:
                asked.append((NAMES[kind], name, {str(config.name): config.value for config in resource.configs}))
        results = await self.gateway.controller.replace_configs(asked, validate_only=request.validate_only)
        return {"throttle_time": 0, "responses": rows + [row_of(result) for result in results]}

    def refuse(
        self, request: AlterConfigsRequest, context: RequestContext, error_code: int, message: str
    ) -> AlterConfigsResponse:
        return refused_resources(request.resources, error_code, message)


def denied_row(access: Access, kind: int, name: str) -> AlterConfigsResourceResponse | None:
    """The answer for a resource whose configuration the client may not change."""
    try:
        require_config(access, Operation.ALTER_CONFIGS, kind, name)
    except Fault as fault:
        return resource_row(kind, name, int(fault.code), fault.message)
    return None


class NamedValue(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def value(self) -> str | None: ...


class NamedResource(Protocol):
    """A resource of AlterConfigs or IncrementalAlterConfigs."""

    resource_type: int
    resource_name: str

    @property
    def configs(self) -> Sequence[NamedValue]: ...


Resource = TypeVar("Resource", bound=NamedResource)
Request = TypeVar("Request")


def refused_here(
    resources: Sequence[Resource], broker_id: int, check_own: CheckOwn, access: Access
) -> tuple[list[Resource], list[AlterConfigsResourceResponse]]:
    """(resources to forward to the controller, answers for the refused ones)."""
    keys = [(int(resource.resource_type), str(resource.resource_name)) for resource in resources]
    times = Counter(keys)
    going: list[Resource] = []
    rows: list[AlterConfigsResourceResponse] = []
    for (kind, name), resource in zip(keys, resources, strict=True):
        if times[kind, name] > 1:
            rows.append(resource_row(kind, name, _INVALID, "Each resource must appear at most once."))
        elif kind not in NAMES:
            rows.append(resource_row(kind, name, _INVALID, f"Unknown resource type {kind}"))
        elif kind == BROKER and name and name.lstrip("-").isdecimal() and int(name) != broker_id:
            # The settings of one broker can only be changed through that broker.
            why = f"Unexpected broker id, expected {broker_id}, but received {name}"
            rows.append(resource_row(kind, name, _INVALID, why))
        elif kind == BROKER and name and (denied := denied_row(access, kind, name)) is not None:
            # Before the check: it reads files that the request names.
            rows.append(denied)
        elif kind == BROKER and name and (refusal := _refusal(resource, check_own)) is not None:
            rows.append(resource_row(kind, name, _INVALID, refusal))
        else:
            going.append(resource)
    return going, rows


def _refusal(resource: NamedResource, check_own: CheckOwn) -> str | None:
    try:
        check_own({str(one.name): one.value for one in resource.configs if one.value is not None})
    except Fault as fault:
        return fault.message
    return None


async def alter_the_rest(
    gateway: ControllerGateway,
    request: Request,
    context: RequestContext,
    resources: Sequence[NamedResource],
    rows: list[AlterConfigsResourceResponse],
    locally: Callable[[Request, RequestContext], Awaitable[AlterConfigsResponse]],
) -> AlterConfigsResponse:
    """The controller's answer for `resources`, together with the rows of this broker."""
    if not rows:
        return await gateway.serve(request, context, lambda: locally(request, context))
    if not resources:
        return {"throttle_time": 0, "responses": rows}
    part = cast("Request", replace(cast("DataclassInstance", request), resources=tuple(resources)))
    answer = await gateway.serve(part, context, lambda: locally(part, context))
    return {"throttle_time": 0, "responses": rows + list(answer["responses"])}


def resource_row(kind: int, name: str, error_code: int = 0, message: str | None = None) -> AlterConfigsResourceResponse:
    return {"error_code": error_code, "error_message": message, "resource_type": kind, "resource_name": name}


def row_of(result: ResourceResult) -> AlterConfigsResourceResponse:
    return resource_row(NUMBERS[result.resource_type], result.name, int(result.error), result.message)


def refused_resources(resources: Sequence[NamedResource], error_code: int, message: str) -> AlterConfigsResponse:
    rows = [resource_row(int(r.resource_type), r.resource_name, error_code, message) for r in resources]
    return {"throttle_time": 0, "responses": rows}
