"""The topology of a streams application (KIP-1071): StreamsGroupTopology (record type 23, value of version 0).

A subtopology is a part of the application that runs as tasks, one for each partition of its source topics. It reads
source topics and repartition topics, and writes to repartition topics and to the changelog topics of its state stores.
A partition count or replication factor of 0 is not decided by the application.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Final, NamedTuple

from headrace.coordinators.codec.primitives import (
    Reader,
    UnreadableRecord,
    compact_string,
    compact_strings,
    int16,
    int32,
    read_version,
    tagged,
    uvarint,
)

TOPOLOGY: Final = 23


class InternalTopicInfo(NamedTuple):
    """A repartition or changelog topic, as the application describes it."""

    name: str
    partitions: int = 0
    replication_factor: int = 0
    configs: tuple[tuple[str, str], ...] = ()


class CopartitionGroup(NamedTuple):
    """Indexes of topics that must have the same number of partitions, in the arrays of their subtopology."""

    source_topics: tuple[int, ...] = ()
    source_topic_regex: tuple[int, ...] = ()
    repartition_source_topics: tuple[int, ...] = ()


class Subtopology(NamedTuple):
    id: str
    source_topics: tuple[str, ...] = ()
    source_topic_regex: tuple[str, ...] = ()
    changelog_topics: tuple[InternalTopicInfo, ...] = ()
    repartition_sink_topics: tuple[str, ...] = ()
    repartition_source_topics: tuple[InternalTopicInfo, ...] = ()
    copartition_groups: tuple[CopartitionGroup, ...] = ()

    @property
    def input_topics(self) -> tuple[str, ...]:
        return *self.source_topics, *(topic.name for topic in self.repartition_source_topics)


class StreamsTopology:
    """The subtopologies keep the order in which the application sent them; two orders are the same topology."""

    def __init__(self, epoch: int, subtopologies: Iterable[Subtopology]) -> None:
        self.epoch = epoch
        self.subtopologies = tuple(subtopologies)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StreamsTopology) and (self.epoch, self.by_id) == (other.epoch, other.by_id)

    __hash__ = None  # type: ignore[assignment]

    @cached_property
    def by_id(self) -> Mapping[str, Subtopology]:
        return {each.id: each for each in self.subtopologies}

    @cached_property
    def readers(self) -> Mapping[str, str]:
        """Input topic → the id of the subtopology that reads it."""
        return {topic: each.id for each in self.by_id.values() for topic in each.input_topics}

    @cached_property
    def required_topics(self) -> frozenset[str]:
        return frozenset(
            topic
            for each in self.subtopologies
            for topic in (*each.input_topics, *(info.name for info in each.changelog_topics))
        )


def topology_value(topology: StreamsTopology) -> bytes:
    parts = [int16(0), int32(topology.epoch), uvarint(len(topology.subtopologies) + 1)]
    for each in topology.subtopologies:
        parts += (
            compact_string(each.id),
            compact_strings(each.source_topics),
            compact_strings(each.source_topic_regex),
            _topic_infos(each.changelog_topics),
            compact_strings(each.repartition_sink_topics),
            _topic_infos(each.repartition_source_topics),
            uvarint(len(each.copartition_groups) + 1),
            *(b"".join(map(_int16s, group)) + tagged() for group in each.copartition_groups),
            tagged(),
        )
    return b"".join((*parts, tagged()))


def read_topology_value(data: bytes) -> StreamsTopology:
    _, reader = read_version(data, range(1), "StreamsGroupTopologyValue")
    epoch = reader.int32()
    return StreamsTopology(epoch, [_read_subtopology(reader) for _ in range(reader.compact_count())])


def _read_subtopology(reader: Reader) -> Subtopology:
    found = Subtopology(
        reader.compact_string(),
        tuple(reader.compact_strings()),
        tuple(reader.compact_strings()),
        _read_topic_infos(reader),
        tuple(reader.compact_strings()),
        _read_topic_infos(reader),
        tuple(_read_copartition_group(reader) for _ in range(reader.compact_count())),
    )
    reader.tagged()
    return found


def _read_copartition_group(reader: Reader) -> CopartitionGroup:
    found = CopartitionGroup(_read_int16s(reader), _read_int16s(reader), _read_int16s(reader))
    reader.tagged()
    return found


def _topic_infos(topics: tuple[InternalTopicInfo, ...]) -> bytes:
    parts = [uvarint(len(topics) + 1)]
    for topic in topics:
        parts += (compact_string(topic.name), int32(topic.partitions), int16(topic.replication_factor))
        parts += (key_values(topic.configs), tagged())
    return b"".join(parts)


def _read_topic_infos(reader: Reader) -> tuple[InternalTopicInfo, ...]:
    found = []
    for _ in range(reader.compact_count()):
        found.append(
            InternalTopicInfo(reader.compact_string(), reader.int32(), reader.int16(), read_key_values(reader))
        )
        reader.tagged()
    return tuple(found)


def key_values(pairs: Iterable[tuple[str, str]]) -> bytes:
    pairs = tuple(pairs)
    return uvarint(len(pairs) + 1) + b"".join(
        compact_string(key) + compact_string(value) + tagged() for key, value in pairs
    )


def read_key_values(reader: Reader) -> tuple[tuple[str, str], ...]:
    found = []
    for _ in range(reader.compact_count()):
        found.append((reader.compact_string(), reader.compact_string()))
        reader.tagged()
    return tuple(found)


def _int16s(values: tuple[int, ...]) -> bytes:
    return uvarint(len(values) + 1) + struct.pack(f">{len(values)}h", *values)


def _read_int16s(reader: Reader) -> tuple[int, ...]:
    count = reader.compact_count()
    if count < 0:
        raise UnreadableRecord("null where a list must be")
    return tuple(reader.int16() for _ in range(count))
