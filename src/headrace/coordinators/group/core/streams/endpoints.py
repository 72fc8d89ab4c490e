"""Which partitions are where, for interactive queries: every member learns the endpoint and tasks of all members.

Only members with `application.server` have an endpoint. Mirrors Kafka's EndpointToPartitionsManager.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from headrace.cluster.core.image import ClusterImage
from headrace.coordinators.codec.streams_groups import Endpoint
from headrace.coordinators.group.core.streams.group import StreamsMember
from headrace.coordinators.group.core.streams.internal_topics import ConfiguredTopology


class EndpointPartitions(NamedTuple):
    endpoint: Endpoint
    active: tuple[tuple[str, tuple[int, ...]], ...]
    standby: tuple[tuple[str, tuple[int, ...]], ...]


def endpoints_of(
    members: Iterable[StreamsMember], topology: ConfiguredTopology, image: ClusterImage
) -> tuple[EndpointPartitions, ...]:
    return tuple(
        EndpointPartitions(
            member.about.user_endpoint,
            _partitions(member.assigned.active, topology, image),
            _partitions(member.assigned.standby, topology, image),
        )
        for member in members
        if member.about.user_endpoint is not None
    )


def _partitions(
    tasks: Mapping[str, Collection[int]], topology: ConfiguredTopology, image: ClusterImage
) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """The tasks as partitions of the input topics. Kafka fails while a topic is missing; here it is left out."""
    found = []
    for subtopology, numbers in tasks.items():
        configured = (topology.subtopologies or {}).get(subtopology)
        for topic in sorted(configured.input_topics if configured is not None else ()):
            info = image.topics.get(topic)
            if info is not None:
                # As in Kafka: a topic with fewer partitions than this member has tasks gets the lowest of them.
                found.append((topic, tuple(sorted(numbers)[: max(len(info.partitions), 0)])))
    return tuple(found)
