"""Overrides of a resource after a request to change them: merging, and the checks before anything is stored.

Two requests do it: AlterConfigs gives the whole new set, IncrementalAlterConfigs gives operations on it (KIP-339).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from typing import Final

from headrace.cluster.core.changes import ConfigSet
from headrace.cluster.core.features import ELIGIBLE_LEADERS
from headrace.cluster.core.image import ClusterImage
from headrace.config import (
    BROKER_KEYS,
    GROUP_KEYS,
    TOPIC_KEYS,
    BrokerConfig,
    ConfigError,
    Key,
    TopicConfig,
    Type,
    canonical_topic_overrides,
    validate_broker_overrides,
    validate_client_metrics,
    validate_group_overrides,
    validate_topic_overrides,
)
from headrace.config.key import Value
from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import ErrorCode, Refused, UnknownPartition
from headrace.kernel.ids import topic_name_problem


class Operation(IntEnum):
    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@dataclass(frozen=True, slots=True)
class KeyChange:
    name: str
    operation: int
    value: str | None


MIN_INSYNC: Final = "min.insync.replicas"
# As in Kafka; it also keeps a resource's settings within one write of the store.
_LONGEST_VALUE: Final = 32_767
TABLES: dict[str, Mapping[str, Key]] = {"topic": TOPIC_KEYS, "broker": BROKER_KEYS, "group": GROUP_KEYS}


def merged(
    current: Mapping[str, str], changes: Sequence[KeyChange], keys: Mapping[str, Key], effective: Callable[[str], str]
) -> dict[str, str]:
    """The overrides after incremental operations; `effective(name)` is the value in force as text. Raises Refused."""
    result = dict(current)
    seen: set[str] = set()
    for change in changes:
        if change.name in seen:
            why = f"Error due to duplicate config keys: {change.name} is given more than once"
            raise Refused(ErrorCode.invalid_request, why)
        seen.add(change.name)
        if change.operation not in tuple(Operation):
            raise Refused(ErrorCode.invalid_request, f"config {change.name}: unknown operation {change.operation}")
        if change.operation == Operation.DELETE:
            result.pop(change.name, None)
            continue
        if change.value is None:
            raise Refused(ErrorCode.invalid_request, f"Null value not supported for {change.name}")
        if change.operation == Operation.SET:
            result[change.name] = change.value
            continue
        key = keys.get(change.name)
        if key is None or key.type is not Type.LIST:
            verb = Operation(change.operation).name
            raise Refused(ErrorCode.invalid_config, f"Can't {verb} to key {change.name} because its type is not LIST.")
        result[change.name] = _list_changed(result.get(change.name, effective(change.name) or ""), change)
    return result


def _list_changed(current: str, change: KeyChange) -> str:
    items = [item.strip() for item in current.split(",") if item.strip()]
    given = [item.strip() for item in (change.value or "").split(",") if item.strip()]
    if change.operation == Operation.APPEND:
        items += [item for item in given if item not in items]
    else:
        items = [item for item in items if item not in given]
    return ",".join(items)


def replaced(values: Mapping[str, str | None], null_code: ErrorCode = ErrorCode.invalid_request) -> dict[str, str]:
    """The given values, none of them null. CreateTopics has another error code for null, as in Kafka."""
    result: dict[str, str] = {}
    for name, value in values.items():
        if value is None:
            raise Refused(null_code, f"Null value not supported for {name}")
        result[name] = value
    return result


def check_named(resource_type: str, name: str) -> None:
    """Only brokers have a resource without a name: the cluster-wide default."""
    if resource_type != "broker" and not name:
        raise Refused(ErrorCode.invalid_request, f"Default {resource_type} resources are not allowed.")


def check_resource(image: ClusterImage, resource_type: str, name: str) -> None:
    """Raises if the resource does not exist."""
    if resource_type == "topic":
        problem = topic_name_problem(name)
        if problem is not None:
            raise Refused(ErrorCode.invalid_topic_exception, problem)
        if name not in image.topics:
            raise UnknownPartition(f"The topic '{name}' does not exist.")
    elif resource_type == "broker" and name and not name.lstrip("-").isdecimal():
        raise Refused(ErrorCode.invalid_request, f"Node id must be an integer, but it is: {name}")


def check_min_insync(image: ClusterImage, resource_type: str, name: str, values: Mapping[str, str]) -> None:
    """Eligible leader replicas need one value for all brokers, stored since the cluster was created (KIP-966)."""
    if resource_type != "broker" or not image.features.get(ELIGIBLE_LEADERS, 0):
        return
    before, after = image.config_of("broker", name).get(MIN_INSYNC), values.get(MIN_INSYNC)
    if name and after is not None and after != before:
        why = f"Broker-level {MIN_INSYNC} cannot be altered while ELR is enabled: set it for all brokers, or by topic."
        raise Refused(ErrorCode.invalid_config, why)
    if not name and after is None and before is not None:
        why = f"Cluster-level {MIN_INSYNC} cannot be removed while ELR is enabled: set it to another value."
        raise Refused(ErrorCode.invalid_config, why)


def check_values(resource_type: str, name: str, values: Mapping[str, str], config: BrokerConfig) -> dict[str, str]:
    """The values to store, under Kafka's names. Raises INVALID_CONFIG or INVALID_REQUEST naming key, value and rule."""
    if any(len(value) > _LONGEST_VALUE for value in values.values()):
        limit = f"the maximum value size of {_LONGEST_VALUE} bytes"
        why = f"The configuration value cannot be added because it exceeds {limit}."
        raise Refused(ErrorCode.invalid_config, why)
    try:
        if resource_type == "topic":
            validate_topic_overrides(values, config)
            return canonical_topic_overrides(values)
        if resource_type == "group":
            validate_group_overrides(values, config)
        elif resource_type == "broker":
            validate_broker_overrides(config, values, cluster_wide=not name)
        elif resource_type == "client-metrics":
            validate_client_metrics(values)
    except ConfigError as error:
        # In Kafka each broker checks its own settings, and answers INVALID_REQUEST for a wrong one.
        code = ErrorCode.invalid_request if resource_type == "broker" else ErrorCode.invalid_config
        raise Refused(code, error.message) from error
    return dict(values)


def effective_text(image: ClusterImage, resource_type: str, name: str, config: BrokerConfig) -> Callable[[str], str]:
    """The value that APPEND and SUBTRACT change when a list has no override yet."""

    def value_of(key: str) -> str:
        value: Value
        if resource_type == "topic":
            value = TopicConfig(config, image.config_of("topic", name)).get(key)
        else:
            value = config.get(key)
        return ",".join(value) if isinstance(value, list | tuple | set | frozenset) else str(value or "")

    return value_of


def change_for(image: ClusterImage, resource_type: str, name: str, values: dict[str, str]) -> list[ConfigSet]:
    if image.config_of(resource_type, name) == values:
        return []
    return [ConfigSet(resource_type, name, values)]
