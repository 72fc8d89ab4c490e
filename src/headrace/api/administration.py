"""Topics, groups and their lag, as objects."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicPartition
from confluent_kafka.admin import AclBinding, AclBindingFilter, AdminClient, NewTopic, OffsetSpec

from headrace.api.errors import NotPossible
from headrace.kernel.internal_topics import refusal

_TIMEOUT_S: Final = 30.0
_PAUSE_S: Final = 0.02


@dataclass(frozen=True, slots=True)
class TopicFacts:
    name: str
    partitions: int
    replicas: int


@dataclass(frozen=True, slots=True)
class GroupFacts:
    name: str
    state: str
    kind: str


@dataclass(frozen=True, slots=True)
class Lag:
    """How far a group is behind the end of one partition."""

    group: str
    topic: str
    partition: int
    committed: int
    end: int

    @property
    def records(self) -> int:
        return max(self.end - self.committed, 0)


class Topics:
    """Mapping-like view of the topics: `cluster.topics["orders"]`, `in`, iteration by name, `len`."""

    def __init__(self, admin: AdminClient) -> None:
        self._admin = admin

    def _all(self) -> dict[str, TopicFacts]:
        found = self._admin.list_topics(timeout=_TIMEOUT_S).topics
        return {
            name: TopicFacts(
                name, len(one.partitions), max((len(p.replicas) for p in one.partitions.values()), default=0)
            )
            for name, one in sorted(found.items())
            if not name.startswith("__") and one.error is None
        }

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __contains__(self, name: object) -> bool:
        return name in self._all()

    def __len__(self) -> int:
        return len(self._all())

    def __getitem__(self, name: str) -> TopicFacts:
        found = self._all().get(name)
        if found is None:
            raise KeyError(f"there is no topic {name!r}: cluster.topics.create({name!r}) makes one")
        return found

    def create(
        self, name: str, partitions: int = 1, *, replicas: int = -1, settings: Mapping[str, str] | None = None
    ) -> TopicFacts:
        """Returns when a broker shows the topic. Raises NotPossible with the reason of the controller."""
        asked = NewTopic(name, partitions, replicas, config=dict(settings or {}))
        try:
            self._admin.create_topics([asked])[name].result(_TIMEOUT_S)
        except KafkaException as error:
            raise NotPossible(f"topic {name!r} was not created: {error.args[0].str()}") from None
        # What the wait found, and no second look: the next request may go to a broker that has not heard of the topic.
        found = self._wait(name, is_there=True)
        assert found is not None, name
        return found

    def delete(self, name: str, *, internal: bool = False) -> None:
        """Returns when a broker has forgotten the topic. Raises NotPossible with the reason of the controller. Topics
        that hold the state of brokers and tools need `internal=True`: the error says what would be lost."""
        why_not = None if internal else refusal([name], "internal=True")
        if why_not is not None:
            raise NotPossible(why_not)
        try:
            self._admin.delete_topics([name])[name].result(_TIMEOUT_S)
        except KafkaException as error:
            raise NotPossible(f"topic {name!r} was not deleted: {error.args[0].str()}") from None
        self._wait(name, is_there=False)

    def _wait(self, name: str, *, is_there: bool) -> TopicFacts | None:
        """The controller answers first, and brokers follow: Kafka's tell of a new topic some milliseconds later."""
        deadline = time.monotonic() + _TIMEOUT_S
        while True:
            found = self._all().get(name)
            if (found is not None) is is_there:
                return found
            if time.monotonic() > deadline:
                change = "created" if is_there else "deleted"
                raise NotPossible(f"topic {name!r} was {change}, but no broker showed it within {_TIMEOUT_S:g} s")
            time.sleep(_PAUSE_S)

    def _repr_html_(self) -> str:
        rows = [(one.name, one.partitions, one.replicas) for one in self._all().values()]
        return html_table(("topic", "partitions", "replicas"), rows)


class Groups:
    """The groups of the cluster by name."""

    def __init__(self, admin: AdminClient) -> None:
        self._admin = admin

    def _all(self) -> dict[str, GroupFacts]:
        found = self._admin.list_consumer_groups(request_timeout=_TIMEOUT_S).result(_TIMEOUT_S).valid
        return {
            one.group_id: GroupFacts(one.group_id, one.state.name.lower(), one.type.name.lower())
            for one in sorted(found, key=lambda group: str(group.group_id))
        }

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __getitem__(self, name: str) -> GroupFacts:
        found = self._all().get(name)
        if found is None:
            raise KeyError(f"there is no group {name!r}")
        return found

    def lag(self, group: str) -> list[Lag]:
        """The lag of each partition that the group has committed an offset of."""
        asked = [ConsumerGroupTopicPartitions(group)]
        committed = self._admin.list_consumer_group_offsets(asked)[group].result(_TIMEOUT_S).topic_partitions
        latest = {TopicPartition(one.topic, one.partition): OffsetSpec.latest() for one in committed}
        ends = {(at.topic, at.partition): end for at, end in self._admin.list_offsets(latest).items()} if latest else {}
        return [
            Lag(group, one.topic, one.partition, one.offset, ends[one.topic, one.partition].result(_TIMEOUT_S).offset)
            for one in sorted(committed, key=lambda at: (at.topic, at.partition))
        ]

    def _repr_html_(self) -> str:
        return html_table(("group", "state", "kind"), [(one.name, one.state, one.kind) for one in self._all().values()])


class Acls:
    """The ACLs of the cluster: iterate over them, `add` and `remove` them."""

    def __init__(self, admin: AdminClient) -> None:
        self._admin = admin

    def __iter__(self) -> Iterator[AclBinding]:
        from confluent_kafka.admin import AclOperation, AclPermissionType, ResourcePatternType, ResourceType

        everything = AclBindingFilter(
            ResourceType.ANY, None, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY
        )
        return iter(self._admin.describe_acls(everything).result(_TIMEOUT_S))

    def add(self, acl: AclBinding) -> None:
        self._admin.create_acls([acl])[acl].result(_TIMEOUT_S)

    def remove(self, matching: AclBindingFilter) -> int:
        """The number of ACLs that were removed."""
        return len(self._admin.delete_acls([matching])[matching].result(_TIMEOUT_S))


def html_table(head: tuple[str, ...], rows: Sequence[tuple[object, ...]]) -> str:
    """A table for notebooks."""
    from html import escape

    def line(cells: tuple[object, ...], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{escape(str(cell))}</{tag}>" for cell in cells) + "</tr>"

    return "<table>" + line(head, "th") + "".join(line(row, "td") for row in rows) + "</table>"
