"""The least rights that a producer, a consumer, a pipeline or a schema registry needs, as ACLs.

Describe comes with Read and Write. A producer without a transactional id needs nothing more for idempotence: a right to
write to any topic includes it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from headrace.security.acl.model import Acl, Entry, Operation, PatternType, Permission, ResourcePattern, ResourceType

# Groups of ledgers of earlier versions, the topics of progress and of the sink's ledger, and the suffix of topics for
# dead letters.
_SINK: Final = "headrace-sink."
_PIPELINES: Final = "__pipelines"
_LEDGER: Final = "__sink_ledger"
_DEAD_LETTERS: Final = ".dlq"
_WRITTEN: Final = (Operation.WRITE, Operation.CREATE)

Right = tuple[ResourcePattern, Operation]


def literal(kind: ResourceType, name: str) -> ResourcePattern:
    return ResourcePattern(kind, name)


def prefixed(kind: ResourceType, name: str) -> ResourcePattern:
    return ResourcePattern(kind, name, PatternType.PREFIXED)


def acls(rights: Iterable[Right], principal: str, host: str = "*") -> list[Acl]:
    unique = dict.fromkeys(rights)
    return [Acl(pattern, Entry(principal, host, operation, Permission.ALLOW)) for pattern, operation in unique]


def of_producer(topics: Iterable[str], transactional_id: str | None = None, *, creates: bool = False) -> list[Right]:
    rights = [(literal(ResourceType.TOPIC, topic), Operation.WRITE) for topic in topics]
    if creates:
        rights += [(pattern, Operation.CREATE) for pattern, _ in rights]
    if transactional_id is not None:
        rights.append((literal(ResourceType.TRANSACTIONAL_ID, transactional_id), Operation.WRITE))
    return rights


def of_group(group: str, topics: Iterable[str]) -> list[Right]:
    rights = [(literal(ResourceType.TOPIC, topic), Operation.READ) for topic in topics]
    return [*rights, (literal(ResourceType.GROUP, group), Operation.READ)]


def of_registry(topic: str = "_schemas", group: str = "schema-registry") -> list[Right]:
    """An instance of the registry reads and writes its topic in transactions, and is a member of its group."""
    own = literal(ResourceType.TOPIC, topic)
    return [
        *((own, operation) for operation in (Operation.READ, *_WRITTEN)),
        (literal(ResourceType.GROUP, group), Operation.READ),
        (prefixed(ResourceType.TRANSACTIONAL_ID, group), Operation.WRITE),
    ]


def of_pipeline(
    name: str, reads: Iterable[str], writes: Iterable[str], transactional_id_prefix: str | None = None
) -> list[Right]:
    """Reads its topics and commits as the groups `<name>.<flow>`. Writes its topics, and dead letters of the topics it
    reads, in transactions with the ledger `__sink_ledger`. Reports progress in `__pipelines`. Moves ledgers of earlier
    versions from groups to the topic. Without a prefix, transactional ids are the random ids of the queries."""
    reads, writes = list(reads), list(writes)
    rights = [(literal(ResourceType.TOPIC, topic), Operation.READ) for topic in reads]
    for topic in (*writes, _PIPELINES, _LEDGER):
        # READ of a written topic: earlier versions kept the ledger as an offset of it.
        rights += [(literal(ResourceType.TOPIC, topic), one) for one in (*_WRITTEN, Operation.READ)]
    for topic in reads:
        rights += [(literal(ResourceType.TOPIC, f"{topic}{_DEAD_LETTERS}"), one) for one in _WRITTEN]
    rights += [(prefixed(ResourceType.GROUP, group), Operation.READ) for group in (f"{name}.", _SINK)]
    rights.append((prefixed(ResourceType.GROUP, _SINK), Operation.DELETE))
    kind = ResourceType.TRANSACTIONAL_ID
    ids = literal(kind, "*") if transactional_id_prefix is None else prefixed(kind, f"{transactional_id_prefix}-")
    return [*rights, (ids, Operation.WRITE)]
