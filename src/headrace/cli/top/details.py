"""The table behind a row: partitions of a topic, positions of a group, topics of a broker, offsets of a flow."""

from __future__ import annotations

from typing import Final

from headrace.cli.top.snapshot import Snapshot, Watch
from headrace.cli.top.tables import BAD, QUIET, UNKNOWN, Cell, Column, Row, count, lag, name_cell, state
from headrace.kernel.dataclass import dataclass
from headrace.kernel.ids import TopicPartition
from headrace.kernel.plurals import counted


@dataclass(frozen=True, slots=True)
class Detail:
    title: str
    note: str
    columns: tuple[Column, ...]
    rows: list[Row]


_N = True
_PARTITIONS: Final = (
    Column("Part.", 5, _N), Column("Leader", 6, _N), Column("Replicas", 0), Column("In sync", 12),
    Column("First", 10, _N), Column("End", 10, _N), Column("Health", 11),
)  # fmt: skip
_POSITIONS: Final = (
    Column("Topic", 0), Column("Part.", 5, _N), Column("Committed", 10, _N), Column("End", 10, _N),
    Column("Lag", 9, _N), Column("Member", 18),
)  # fmt: skip
_HELD: Final = (Column("Topic", 0), Column("Leads", 7, _N), Column("Replicas", 8, _N), Column("Behind", 7, _N))
_OFFSETS: Final = (Column("Topic", 0), Column("Part.", 6, _N), Column("Next offset", 14, _N))


async def detail(watch: Watch, snapshot: Snapshot, table: str, name: str) -> Detail:
    if table == "Topics":
        return _topic(snapshot, name)
    if table == "Groups":
        return await _group(watch, snapshot, name)
    return _broker(snapshot, name) if table == "Brokers" else _flow(snapshot, name)


def _ids(nodes: tuple[int, ...]) -> Cell:
    text = ", ".join(map(str, nodes))
    return Cell(text, text)


def _offset(value: int | None) -> Cell:
    """Without separators: people copy offsets."""
    return Cell(UNKNOWN if value is None else str(value), value, QUIET if value is None else "")


def _topic(snapshot: Snapshot, name: str) -> Detail:
    topic = snapshot.facts.topics.get(name)
    if topic is None:
        return Detail(f"topic {name}", "the topic does not exist any more", _PARTITIONS, [])
    rows = []
    for partition in topic.partitions:
        span = snapshot.spans.get(TopicPartition(name, partition.index))
        first, end = span if span is not None else (None, None)
        leader = Cell("none", -1, BAD) if partition.leader is None else Cell(str(partition.leader), partition.leader)
        rows.append(
            Row(
                str(partition.index),
                (
                    Cell(str(partition.index), partition.index, "bold"), leader, _ids(partition.replicas),
                    _ids(partition.isr), _offset(first), _offset(end),
                    state(partition.health.replace("under-replicated", "under-repl.")),
                ),
            )
        )  # fmt: skip
    readers = snapshot.readers.get(name, ())
    return Detail(
        f"topic {name}", f"read by {', '.join(readers)}" if readers else "no group reads it", _PARTITIONS, rows
    )


async def _group(watch: Watch, snapshot: Snapshot, name: str) -> Detail:
    described, positions, fault = await watch.positions(snapshot, name)
    if described is None:
        return Detail(f"group {name}", fault, _POSITIONS, [])
    rows = [
        Row(
            f"{row.topic}-{row.partition}",
            (
                name_cell(row.topic, ""), count(row.partition), _offset(row.offset), _offset(row.end), lag(row.lag),
                Cell(row.member or "–", row.member, "" if row.member else QUIET),
            ),
        )
        for row in positions
    ]  # fmt: skip
    note = f"{described.state}, {counted(len(described.members), 'member')}"
    return Detail(f"group {name}", f"{note}, {described.assignor}" if described.assignor else note, _POSITIONS, rows)


def _broker(snapshot: Snapshot, name: str) -> Detail:
    node = int(name)
    rows = []
    for topic in snapshot.facts.topics.values():
        held = [partition for partition in topic.partitions if node in partition.replicas]
        if held:
            behind = sum(node not in partition.isr for partition in held)
            cells = (
                name_cell(topic.name), count(sum(partition.leader == node for partition in held)), count(len(held)),
                count(behind, BAD if behind else QUIET),
            )  # fmt: skip
            rows.append(Row(topic.name, cells))
    disks = [one.path for one in snapshot.facts.directories if one.broker == node]
    return Detail(f"broker {name}", f"logs in {', '.join(disks)}" if disks else "it does not answer", _HELD, rows)


def _flow(snapshot: Snapshot, name: str) -> Detail:
    flow = snapshot.flows.get(name)
    if flow is None:
        return Detail(f"flow {name}", "it does not report any more", _OFFSETS, [])
    error = (flow.last.error or "").strip().splitlines()
    rows = [
        Row(f"{topic}-{partition}", (name_cell(topic, ""), count(int(partition)), _offset(offset)))
        for topic, parts in sorted(flow.last.offsets.items())
        for partition, offset in sorted(parts.items(), key=lambda pair: int(pair[0]))
    ]
    place = f"process {flow.last.pid} on {flow.last.host}"
    return Detail(f"flow {name}", error[0] if error else place, _OFFSETS, rows)
