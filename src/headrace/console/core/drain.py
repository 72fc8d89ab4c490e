"""A plan that empties a broker: each of its replicas moves to another broker. Pure.

The target is the running broker that holds the fewest replicas, from another rack than the remaining replicas if there
is one. The order of replicas stays, so that a partition whose preferred leader was the drained broker gets the new one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from headrace.kernel.ids import TopicPartition
from headrace.kernel.plurals import counted


class CannotDrain(ValueError):
    """There is no broker for a replica. The message names it."""


def drain_plan(
    replicas: Mapping[TopicPartition, Sequence[int]], broker: int, others: Mapping[int, str | None]
) -> dict[TopicPartition, list[int]]:
    """`others`: the brokers that run, without the drained one, and their racks. Raises CannotDrain."""
    held = dict.fromkeys(others, 0)
    for nodes in replicas.values():
        for node in nodes:
            if node in held:
                held[node] += 1
    plan = {}
    for partition, nodes in sorted(replicas.items()):
        if broker not in nodes:
            continue
        staying = [node for node in nodes if node != broker]
        free = [node for node in others if node not in staying]
        if not free:
            raise CannotDrain(
                f"no other broker can take the replica of {partition.topic}-{partition.partition} on broker {broker}: "
                f"the partition has {counted(len(nodes), 'replica')}, and "
                f"{counted(len(others), 'other broker')} {'runs' if len(others) == 1 else 'run'}"
            )
        racks = {others.get(node) for node in staying}
        target = min(free, key=lambda node: (others[node] is not None and others[node] in racks, held[node], node))
        held[target] += 1
        plan[partition] = [target if node == broker else node for node in nodes]
    return plan
