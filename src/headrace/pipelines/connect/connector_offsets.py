"""Offsets of a stopped connector, in the form of Kafka Connect: read, altered, and reset.

A topic source has entries `{"kafka_topic", "kafka_partition"}` → `{"kafka_offset"}`, as sink connectors of Kafka
Connect have. A text file has `{"filename"}` → `{"position"}`, as FileStreamSource has. Every other source has one entry
`{"connector"}` with its own offset.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from headrace.client.blocking.client import EARLIEST, TopicPartitionPair
from headrace.kernel.json_values import JsonObject
from headrace.pipelines.brokers import client_of
from headrace.pipelines.connectors.connector import SOURCES, ConnectorSpec
from headrace.pipelines.errors import OptionError
from headrace.pipelines.flows.checkpoint import Checkpoint
from headrace.pipelines.flows.reset import accept_topics
from headrace.pipelines.flows.run_lock import CHECKPOINTS
from headrace.pipelines.plugins.journal import Journal
from headrace.pipelines.source.offsets import offsets_from_json, offsets_to_json


def offsets_of(spec: ConnectorSpec) -> list[JsonObject]:
    checkpoint = Checkpoint(spec.checkpoint)
    if not checkpoint.exists():
        return []
    # As in Kafka Connect, rows that the target may not have are not behind an offset.
    finished = checkpoint.finished_offsets()
    if spec.source.kind == "topic":
        return [
            {"partition": {"kafka_topic": topic, "kafka_partition": index}, "offset": {"kafka_offset": position}}
            for offset in finished
            for (topic, index), position in sorted(offsets_from_json(offset).items())
        ]
    if spec.source.kind in SOURCES:
        return [{"partition": {"connector": spec.name}, "offset": dict(offset)} for offset in finished]
    found = Journal(spec.checkpoint / "journal").offset()
    if spec.source.kind == "lines" and found is not None:
        # As in Kafka Connect. The rest of the offset identifies the file.
        found = {"position": found["position"]}
    return [{"partition": _partition(spec), "offset": found}]


def _partition(spec: ConnectorSpec) -> JsonObject:
    return {"filename": spec.source.text("path")} if spec.source.kind == "lines" else {"connector": spec.name}


def by_file(
    specs: Sequence[ConnectorSpec], entries: Sequence[Mapping[str, object]]
) -> list[tuple[ConnectorSpec, list[Mapping[str, object]]]]:
    """The entries of each file of a connector that has several. Raises before any of them is moved."""
    if len(specs) == 1:
        return [(specs[0], list(entries))]
    found = [(spec, [entry for entry in entries if _is_of(spec, entry.get("partition"))]) for spec in specs]
    if other := next((entry for entry in entries if not any(entry in own for _, own in found)), None):
        raise OptionError(f"the connector has no partition {other.get('partition')}")
    return [(spec, own) for spec, own in found if own]


def _is_of(spec: ConnectorSpec, partition: object) -> bool:
    if spec.source.kind != "topic":
        return partition == _partition(spec)
    return isinstance(partition, dict) and partition.get("kafka_topic") in spec.source.names("name")


def alter(spec: ConnectorSpec, entries: Sequence[Mapping[str, object]]) -> None:
    """Moves the connector to these offsets. An offset of null is the beginning."""
    if spec.source.kind == "cdc":
        raise OptionError(f"connector {spec.name!r}: the replication slot of the database has the position")
    checkpoints = [Checkpoint(folder) for folder in _flows(spec)]
    if not checkpoints or not all(checkpoint.exists() for checkpoint in checkpoints):
        raise OptionError(f"connector {spec.name!r} has no offsets yet: it must have run once")
    if spec.source.kind == "topic":
        moves = [(checkpoint, _moved(spec, checkpoint, entries)) for checkpoint in checkpoints]
        with client_of(spec.pipeline()) as client:
            for checkpoint, (offsets, altered) in moves:
                accept_topics(client, checkpoint, altered)
                checkpoint.move_to([dict(offsets)])
        return
    for entry in entries:
        if entry.get("partition") != (wanted := _partition(spec)):
            raise OptionError(f"connector {spec.name!r} has the partition {wanted}, not {entry.get('partition')}")
        value = entry.get("offset")
        if spec.source.kind == "lines":
            _check_position(spec, value)
        if spec.source.kind == "jdbc":
            checkpoints[0].move_to([dict(value) if isinstance(value, dict) else {"after": None}])
        elif spec.source.kind in SOURCES:
            raise OptionError(f"connector {spec.name!r}: offsets of {spec.source.kind} cannot be altered: reset them")
        else:
            number = Journal(spec.checkpoint / "journal").append([], value)
            checkpoints[0].move_to([{"entry": number}])


def _check_position(spec: ConnectorSpec, offset: object) -> None:
    if offset is None:
        return
    position = offset.get("position") if isinstance(offset, dict) else None
    if not isinstance(position, int) or isinstance(position, bool) or position < 0:
        raise OptionError(f"connector {spec.name!r}: offset {offset}: must be null or have a position of 0 or more")


def _moved(
    spec: ConnectorSpec, checkpoint: Checkpoint, entries: Sequence[Mapping[str, object]]
) -> tuple[dict[str, dict[str, int]], set[TopicPartitionPair]]:
    """The new offsets of all partitions, and the partitions that are altered."""
    (before,) = checkpoint.offsets()
    offsets = offsets_from_json(before)
    left = set(offsets)
    for entry in entries:
        partition, value = entry.get("partition"), entry.get("offset")
        if not isinstance(partition, dict) or not {"kafka_topic", "kafka_partition"} <= set(partition):
            raise OptionError(f"partition {partition}: must have kafka_topic and kafka_partition")
        pair = (str(partition["kafka_topic"]), int(partition["kafka_partition"]))
        if pair not in offsets:
            raise OptionError(f"connector {spec.name!r} does not read partition {pair[0]}-{pair[1]}")
        left.discard(pair)
        if value is None:
            with client_of(spec.pipeline()) as client:
                offsets[pair] = client.list_offsets({pair: EARLIEST})[pair]
        elif isinstance(value, dict) and str(value.get("kafka_offset", "")).isdigit():
            offsets[pair] = int(value["kafka_offset"])
        else:
            raise OptionError(f"offset {value} of {pair[0]}-{pair[1]}: must be null or have kafka_offset")
    if left and checkpoint.is_unfinished():
        # Their offsets are the end of the batch, and the move marks the batch as done: its rows would never arrive.
        topic, index = min(left)
        raise OptionError(
            f"connector {spec.name!r}: batch {checkpoint.last_batch()} is not finished: give offsets of all "
            f"partitions, also of {topic}-{index}, or let the connector finish the batch first"
        )
    return offsets_to_json(offsets), set(offsets) - left


def reset(spec: ConnectorSpec) -> None:
    """The connector begins again, with a new ledger."""
    for folder in _flows(spec):
        Checkpoint(folder).forget()


def _flows(spec: ConnectorSpec) -> list[Path]:
    root = spec.pipeline().storage_path / CHECKPOINTS
    return sorted(folder for folder in root.glob("*") if folder.is_dir())
