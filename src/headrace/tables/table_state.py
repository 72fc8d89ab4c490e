"""What a table holds, and how far it is behind its topic: for `headrace tables ls` and `show`."""

from __future__ import annotations

from headrace.client.blocking.client import LATEST, READ_COMMITTED, BlockingClient
from headrace.kernel.errors import Fault
from headrace.pipelines.errors import PipelineError
from headrace.tables.definitions import Definition


def state_of(definition: Definition, client: BlockingClient) -> dict[str, object]:
    """One row of `tables ls`. A table that cannot be read has the reason as its state."""
    table = definition.table
    row: dict[str, object] = {
        "table": table.topic,
        "state": "paused" if definition.is_paused else "ready",
        "format": table.format,
        "mode": table.mode,
        "rows": None,
        "behind": None,
        "version": None,
        "path": table.path,
    }
    try:
        offsets, version, rows = facts_of(definition)
        row |= {"rows": rows, "version": version, "behind": behind(client, definition, offsets)}
    except (PipelineError, Fault) as error:
        row["state"] = str(error)
    return row


def facts_of(definition: Definition) -> tuple[dict[int, int], int, int]:
    """(offset per partition, version, rows) of the table."""
    found = definition.log.check()
    return found.offsets, found.version, found.rows()


def behind(client: BlockingClient, definition: Definition, offsets: dict[int, int]) -> int:
    """Offsets of the topic after those of the table. Raises PipelineError if the topic is another one now."""
    topic = definition.table.topic
    found = client.topics([topic])
    if topic not in found:
        raise PipelineError(f"topic {topic!r} does not exist")
    if str(found[topic].topic_id) != definition.table.topic_id:
        raise PipelineError(f"topic {topic!r} was deleted and created again")
    pairs = [(topic, index) for index in found[topic].partitions]
    ends = client.list_offsets(dict.fromkeys(pairs, LATEST), isolation=READ_COMMITTED)
    return sum(max(end - offsets.get(index, 0), 0) for (_, index), end in ends.items())
