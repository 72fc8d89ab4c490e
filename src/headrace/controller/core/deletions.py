"""Deleting a topic: it leaves the image in one change, its nodes are cleared in bounded steps after it.

The deletion is decided the moment its mark (/admin/delete_topics/<topic>) is stored: brokers delete the logs of that
topic id when they replay the change. A broker that was away then sets them aside at its start, as Kafka does: that an
id is unknown does not prove that its topic was deleted. What remains is clearing nodes, children before parents, a
bounded number at a time because a multi has a size limit. A controller that dies half-way leaves the
mark; the next one goes on from what is still there. The mark goes last, and until then the name cannot be used again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from headrace.coordination import paths
from headrace.coordination.store import Delete, Op


def clearing_steps(
    topic: str, partitions: Sequence[int], *, has_config: bool, is_marked: bool, step_size: int
) -> Iterator[list[Op]]:
    """Groups of operations, each to be one multi, after which nothing of the topic is left in the store."""
    ops: list[Op] = []
    for index in partitions:
        ops += [Delete(paths.partition_state(topic, index)), Delete(paths.partition(topic, index))]
        if len(ops) >= step_size:
            yield ops
            ops = []
    ops += [Delete(paths.topic_partitions(topic)), Delete(paths.topic(topic))]
    if has_config:
        ops.append(Delete(paths.config("topic", topic)))
    if is_marked:
        ops.append(Delete(paths.delete_topic(topic)))
    yield ops
