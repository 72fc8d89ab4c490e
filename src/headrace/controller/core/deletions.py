"""Deletes a topic: the topic leaves the image in one change, and its nodes are deleted afterwards in bounded steps.

The deletion is final as soon as its mark (/admin/delete_topics/<topic>) is stored: brokers delete the logs of that
topic id when they replay the change. A broker that was down at that time sets its logs aside at its next start, as
Kafka does, because an unknown id does not prove that its topic was deleted. Then the nodes are deleted, children before
parents, a bounded number at a time because a multi has a size limit. If the controller dies in between, the mark stays
and the next controller continues. The mark is deleted last; until then the name cannot be used again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from headrace.coordination import paths
from headrace.coordination.store import Delete, Op


def clearing_steps(
    topic: str, partitions: Sequence[int], *, has_config: bool, is_marked: bool, step_size: int
) -> Iterator[list[Op]]:
    """Groups of operations, one multi each, that delete all nodes of the topic."""
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
