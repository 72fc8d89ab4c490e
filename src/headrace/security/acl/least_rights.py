"""The least rights that a producer, a consumer, a pipeline or a schema registry needs, as ACLs.

Describe comes with Read and Write. A producer without a transactional id needs nothing more for idempotence: a right to
write to any topic includes it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from headrace.security.acl.model import Acl, Entry, Operation, PatternType, Permission, ResourcePattern, ResourceType

# Topics of progress, of the source's notes and of the sink's ledger; the suffix of topics for dead letters.
_PIPELINES: Final = "__pipelines"
_NOTES: Final = "__streams"
_LEDGER: Final = "__sink_ledger"
_DEAD_LETTERS: Final = ".dlq"
_WRITTEN: Final = (Operation.WRITE, Operation.CREATE)
_KEPT: Final = (Operation.READ, *_WRITTEN)

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


def topic_pattern(name: str) -> ResourcePattern:
    """The topics of a name, or of a prefix such as `orders-*`."""
    if name.endswith("*") and name != "*":
        return prefixed(ResourceType.TOPIC, name[:-1])
    return literal(ResourceType.TOPIC, name)


def of_source(name: str, reads: Iterable[str]) -> list[Right]:
    """Reads topics, commits as the groups `<name>.<flow>`, and keeps notes about the topics in `__streams`."""
    topics = [topic_pattern(topic) for topic in reads]
    if not topics:
        return []
    rights = [(topic, Operation.READ) for topic in topics]
    rights.append((prefixed(ResourceType.GROUP, f"{name}."), Operation.READ))
    return rights + [(literal(ResourceType.TOPIC, _NOTES), one) for one in _KEPT]


def of_described(topics: Iterable[str]) -> list[Right]:
    """Reads the configuration of topics: a mirror creates its copies with the same."""
    return [(topic_pattern(topic), Operation.DESCRIBE_CONFIGS) for topic in topics]


def of_sink(writes: Iterable[str], id_prefixes: Iterable[str]) -> list[Right]:
    """Writes topics in transactions with the ledger `__sink_ledger`. Without prefixes of transactional ids it is a sink
    with `mode=at-least-once`, which has neither."""
    rights = [(topic_pattern(topic), one) for topic in writes for one in _WRITTEN]
    ids = [prefixed(ResourceType.TRANSACTIONAL_ID, prefix) for prefix in id_prefixes]
    if not rights or not ids:
        return rights
    rights += [(literal(ResourceType.TOPIC, _LEDGER), one) for one in _KEPT]
    return rights + [(pattern, Operation.WRITE) for pattern in ids]


def of_progress() -> list[Right]:
    return [(literal(ResourceType.TOPIC, _PIPELINES), one) for one in _WRITTEN]


def of_pipeline(
    name: str,
    reads: Iterable[str],
    writes: Iterable[str],
    id_prefixes: Iterable[str],
    *,
    writes_dead_letters: bool = False,
) -> list[Right]:
    """A pipeline with its source, sink, dead letters and progress in one cluster."""
    reads = list(reads)
    letters = [dead_letters_of(topic) for topic in reads] if writes_dead_letters else []
    return [*of_source(name, reads), *of_sink([*writes, *letters], id_prefixes), *of_progress()]


def dead_letters_of(topic: str) -> str:
    # ACLs cannot say "ends with .dlq": the dead letters of a prefix are covered by the prefix.
    return topic if topic.endswith("*") else f"{topic}{_DEAD_LETTERS}"
