"""Writes docs/reference/rights.md: the rights that each API needs, as the handlers declare them.

python -m headrace.handlers.dispatch.rights_page             writes the page
python -m headrace.handlers.dispatch.rights_page --check     says whether it is up to date, for `make check`
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from headrace.handlers.dispatch.authorization import Needs
from headrace.handlers.dispatch.compatibility import served
from headrace.security.acl.model import ResourceType
from headrace.wire.apis import ApiKey, api_name

PAGE: Final = Path(__file__).resolve().parents[4] / "docs" / "reference" / "rights.md"
_HEAD: Final = """# Rights that requests need

<!-- Written by `python -m headrace.handlers.dispatch.rights_page`; edit the handlers instead. -->

With an authorizer (`authorizer.class.name`), a client needs these operations on the resources that its request names.
A right on the cluster for the whole request is checked first: without it the client gets
CLUSTER_AUTHORIZATION_FAILED. The other rights are checked for each topic, group or transactional id, and a denied one
costs only its own row of the answer. The last column says when a right is needed, or which of several is enough.

An ACL that allows Read, Write, Delete or Alter also allows Describe; AlterConfigs also allows DescribeConfigs.

| key | API | cluster, whole request | cluster | topic | group | transactional id | user or token | |
|---|---|---|---|---|---|---|---|---|
"""
_NOTES: Final = {
    ApiKey.PRODUCE: "the transactional id only for records of a transaction",
    ApiKey.FETCH: "ClusterAction instead of Read when a broker fetches as a replica",
    ApiKey.METADATA: "Create to create missing topics; Describe on the cluster to see its operations",
    ApiKey.OFFSET_FOR_LEADER_EPOCH: "one of the two",
    ApiKey.FIND_COORDINATOR: "ClusterAction only for share partitions",
    ApiKey.LIST_GROUPS: "without Describe on the cluster the answer has only the groups that the client may describe",
    ApiKey.CREATE_TOPICS: "Create on the cluster or on the topic; DescribeConfigs to see the configuration",
    ApiKey.DELETE_TOPICS: "Delete on the cluster or on the topic",
    ApiKey.INIT_PRODUCER_ID: "without a transactional id: Write on any topic, or IdempotentWrite",
    ApiKey.ADD_PARTITIONS_TO_TXN: "ClusterAction from version 4 on, which only brokers send",
    ApiKey.WRITE_TXN_MARKERS: "one of the two",
    ApiKey.CONSUMER_GROUP_HEARTBEAT: "a regular expression subscribes only to topics that the client may describe",
    ApiKey.DESCRIBE_CONFIGS: "on the resource: brokers, loggers and client metrics belong to the cluster",
    ApiKey.ALTER_CONFIGS: "on the resource: brokers, loggers and client metrics belong to the cluster",
    ApiKey.INCREMENTAL_ALTER_CONFIGS: "on the resource: brokers, loggers and client metrics belong to the cluster",
    ApiKey.DESCRIBE_CLUSTER: "only for the list of authorized operations",
    ApiKey.ENVELOPE: "the request inside needs the rights of its own client",
}


def _words(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("_"))


def _row(key: int, needs: Needs) -> str:
    by_type: dict[ResourceType, list[str]] = {}
    for operation, resource_type in needs:
        by_type.setdefault(resource_type, []).append(_words(operation.name))
    whole = ""
    if needs.request is not None:
        whole = by_type[ResourceType.CLUSTER].pop(0)
    columns = [
        by_type.get(ResourceType.CLUSTER, []),
        by_type.get(ResourceType.TOPIC, []),
        by_type.get(ResourceType.GROUP, []),
        by_type.get(ResourceType.TRANSACTIONAL_ID, []),
        by_type.get(ResourceType.USER, []) + by_type.get(ResourceType.DELEGATION_TOKEN, []),
    ]
    cells = [whole, *(", ".join(operations) for operations in columns), _NOTES.get(ApiKey(key), "")]
    return f"| {key} | {_words(api_name(key))} | {' | '.join(cells)} |\n"


def page() -> str:
    return _HEAD + "".join(_row(key, handler.needs) for key, handler in sorted(served().items()))


def main(arguments: list[str]) -> int:
    wanted = page()
    if "--check" in arguments:
        if not PAGE.exists() or PAGE.read_text() != wanted:
            print(f"{PAGE.name} is out of date: run `make docs`", file=sys.stderr)
            return 1
        return 0
    PAGE.write_text(wanted)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
