"""DescribeConfigs (key 32, versions 1–4): current values of settings and their sources.

v1  synonyms, sources · v3 types, documentation (KIP-569) · v4 flexible
Topics, brokers (this one by its id, or the cluster-wide dynamic defaults by an empty name), log levels of this broker,
groups, client metrics (always empty: not supported). Only the broker itself answers for its own settings; clients send
that request to it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, ClassVar

from headrace.cluster.core.image import ClusterImage
from headrace.cluster.view import ClusterView
from headrace.config import (
    BrokerConfig,
    ConfigEntry,
    Source,
    describe_broker,
    describe_client_metrics,
    describe_cluster_default,
    describe_group,
    describe_topic,
)
from headrace.handlers.configs import broker_loggers
from headrace.handlers.configs.config_resources import (
    BROKER,
    BROKER_LOGGER,
    CLIENT_METRICS,
    GROUP,
    TOPIC,
    require_config,
)
from headrace.handlers.dispatch.authorization import Needs
from headrace.handlers.dispatch.context import RequestContext
from headrace.handlers.dispatch.handler import Handler
from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import ErrorCode, Fault, Refused, UnknownPartition
from headrace.kernel.ids import topic_name_problem
from headrace.security.acl.model import Operation
from headrace.wire.apis import ApiKey

if TYPE_CHECKING:
    from headrace.wire.messages.describe_configs import (
        DescribeConfigsRequest,
        DescribeConfigsResourceResult,
        DescribeConfigsResponse,
        DescribeConfigsResult,
    )


@dataclass(frozen=True)
class DescribeConfigs(Handler):
    view: ClusterView
    config: Callable[[], BrokerConfig]
    broker_id: int

    api_key: ClassVar[ApiKey] = ApiKey.DESCRIBE_CONFIGS
    versions: ClassVar[range] = range(1, 5)
    needs: ClassVar[Needs] = Needs(
        cluster=Operation.DESCRIBE_CONFIGS, topic=Operation.DESCRIBE_CONFIGS, group=Operation.DESCRIBE_CONFIGS
    )

    def serve(self, request: DescribeConfigsRequest, context: RequestContext) -> DescribeConfigsResponse:
        image = self.view.current
        results: list[DescribeConfigsResult] = []
        for resource in request.resources:
            row: DescribeConfigsResult = {
                "error_code": 0,
                "error_message": "",
                "resource_type": int(resource.resource_type),
                "resource_name": resource.resource_name,
                "configs": [],
            }
            try:
                require_config(
                    context.access, Operation.DESCRIBE_CONFIGS, int(resource.resource_type), resource.resource_name
                )
                # An empty list of keys means all of them, as null does.
                keys = set(resource.configuration_keys or ()) or None
                entries = self._describe(image, int(resource.resource_type), resource.resource_name, keys)
            except Fault as fault:
                row["error_code"], row["error_message"] = int(fault.code), fault.message
            else:
                synonyms = request.include_synonyms
                docs = request.include_documentation
                row["configs"] = [_entry(entry, synonyms, docs) for entry in entries]
            results.append(row)
        return {"throttle_time": 0, "results": results}

    def refuse(
        self, request: DescribeConfigsRequest, context: RequestContext, error_code: int, message: str
    ) -> DescribeConfigsResponse:
        rows: list[DescribeConfigsResult] = [
            {
                "error_code": error_code,
                "error_message": message,
                "resource_type": int(resource.resource_type),
                "resource_name": resource.resource_name,
                "configs": [],
            }
            for resource in request.resources
        ]
        return {"throttle_time": 0, "results": rows}

    def _describe(self, image: ClusterImage, kind: int, name: str, keys: Collection[str] | None) -> list[ConfigEntry]:
        if kind == TOPIC:
            problem = topic_name_problem(name)
            if problem is not None:
                raise Refused(ErrorCode.invalid_topic_exception, problem)
            if name not in image.topics:
                raise UnknownPartition()
            return describe_topic(self.config(), image.config_of("topic", name), keys)
        if kind == BROKER:
            if not name:
                return describe_cluster_default(image.config_of("broker", ""), keys)
            self._check_broker(name)
            return describe_broker(self.config(), keys)
        if kind == BROKER_LOGGER:
            if not name:
                raise Refused(ErrorCode.invalid_request, "Broker id must not be empty")
            self._check_broker(name)
            return [
                _log_level(logger, level) for logger, level in broker_loggers.levels().items() if _picked(logger, keys)
            ]
        if kind == GROUP:
            if not name:
                raise Refused(ErrorCode.invalid_request, "Group name must not be empty")
            return describe_group(self.config(), image.config_of("group", name), keys)
        if kind == CLIENT_METRICS:
            if not name:
                raise Refused(ErrorCode.invalid_request, "Client metrics subscription name must not be empty")
            return describe_client_metrics(image.config_of("client-metrics", name), keys)
        raise Refused(ErrorCode.invalid_request, f"Unsupported resource type: {kind}")

    def _check_broker(self, name: str) -> None:
        if not name.lstrip("-").isdecimal():
            raise Refused(ErrorCode.invalid_request, f"Broker id must be an integer, but it is: {name}")
        if int(name) != self.broker_id:
            why = f"Unexpected broker id, expected {self.broker_id} or empty string, but received {name}"
            raise Refused(ErrorCode.invalid_request, why)


def _picked(name: str, keys: Collection[str] | None) -> bool:
    return keys is None or name in keys


def _log_level(name: str, level: str) -> ConfigEntry:
    return ConfigEntry(
        name=name,
        value=level,
        source=Source.DYNAMIC_BROKER_LOGGER,
        config_type=0,
        is_sensitive=False,
        is_read_only=False,
        synonyms=[],
        documentation="",
    )


def _entry(entry: ConfigEntry, include_synonyms: bool, include_documentation: bool) -> DescribeConfigsResourceResult:
    return {
        "name": entry.name,
        "value": entry.value,
        "read_only": entry.is_read_only,
        "config_source": int(entry.source),
        "is_sensitive": entry.is_sensitive,
        "synonyms": [
            {"name": synonym.name, "value": synonym.value, "source": int(synonym.source)} for synonym in entry.synonyms
        ]
        if include_synonyms
        else [],
        "config_type": entry.config_type,
        "documentation": entry.documentation if include_documentation or not entry.documentation else None,
    }
