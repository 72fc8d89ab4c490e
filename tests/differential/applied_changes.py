"""Waits until brokers have applied the changes that their controller has answered.

A controller of Apache Kafka answers a change when it is committed. Each broker reads the change later, shows it in its
metadata first, and passes it to its coordinators and replicas after that. Until then it answers requests from the old
state. So each change to a broker under comparison is followed by two more, to a quota that no client has. A broker
applies one part of the metadata log after the other, so a broker that shows the second change has applied everything
before the first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from tests.support.clock import wait_for

CREATE_TOPICS, DELETE_TOPICS, CREATE_PARTITIONS, ALTER_CONFIGS, INCREMENTAL_ALTER_CONFIGS = 19, 20, 37, 33, 44
CREATE_ACLS, DELETE_ACLS, ELECT_LEADERS, ALTER_REASSIGNMENTS, ALTER_QUOTAS = 30, 31, 43, 45, 49
ALTER_SCRAM, UPDATE_FEATURES, UNREGISTER_BROKER, DESCRIBE_QUOTAS = 51, 57, 64, 48
CHANGES: Final = frozenset(
    {
        CREATE_TOPICS, DELETE_TOPICS, CREATE_PARTITIONS, ALTER_CONFIGS, INCREMENTAL_ALTER_CONFIGS, CREATE_ACLS,
        DELETE_ACLS, ELECT_LEADERS, ALTER_REASSIGNMENTS, ALTER_QUOTAS, ALTER_SCRAM, UPDATE_FEATURES, UNREGISTER_BROKER,
    }
)  # fmt: skip
_CLIENT: Final = "of no client"

# (api key, version, body) → the answer as plain values
Ask = Callable[[int, int, dict[str, Any]], Any]


def is_change(api_key: int, body: Mapping[str, Any]) -> bool:
    return api_key in CHANGES and not body.get("validate_only")


def wait_until_applied(asks: Sequence[Ask]) -> None:
    """`asks` send requests to each broker of one cluster."""
    for is_set in (True, False):
        wait_for(lambda is_set=is_set: _alter(asks[0], is_set=is_set), "the controller to take a change", poll=0.05)
        for ask in asks:
            wait_for(lambda ask=ask, is_set=is_set: _shows(ask) is is_set, "the broker to apply a change", poll=0.002)


def _alter(ask: Ask, *, is_set: bool) -> bool:
    entity = [{"entity_type": "client-id", "entity_name": _CLIENT}]
    change = {"key": "request_percentage", "value": 100.0, "remove": not is_set}
    answer = ask(ALTER_QUOTAS, 1, {"entries": [{"entity": entity, "ops": [change]}], "validate_only": False})
    return not answer["entries"][0]["error_code"]


def _shows(ask: Ask) -> bool:
    component = {"entity_type": "client-id", "match_type": 0, "match": _CLIENT}
    return bool(ask(DESCRIBE_QUOTAS, 1, {"components": [component], "strict": True})["entries"])
