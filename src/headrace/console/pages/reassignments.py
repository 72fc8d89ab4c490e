"""Moves of partitions: drain a broker with a plan that is shown first, and cancel moves that run."""

from __future__ import annotations

from headrace.console.cluster.administration import reassign, reassignments
from headrace.console.confirmation import confirmation
from headrace.console.core.drain import CannotDrain, drain_plan
from headrace.console.protection import Rejected
from headrace.console.rendering import View
from headrace.console.visit import Redirect, Visit
from headrace.kernel.ids import TopicPartition
from headrace.kernel.plurals import counted

_SHOWN = 200


async def drain_broker(visit: Visit) -> View | Redirect:
    facts = await visit.cluster.facts(fresh=True)
    name = visit.path("broker")
    broker = next((one for one in facts.brokers if str(one.id) == name), None)
    if broker is None:
        raise Rejected(404, f"there is no broker {name}")
    replicas = {
        TopicPartition(topic.name, partition.index): partition.replicas
        for topic in facts.topics.values()
        for partition in topic.partitions
    }
    others = {one.id: one.rack for one in facts.brokers if one.up and one.id != broker.id}
    try:
        plan = drain_plan(replicas, broker.id, others)
    except CannotDrain as fault:
        raise Rejected(409, str(fault)) from None
    if visit.submitted:
        await visit.form()
        await reassign(visit.cluster.client, plan)
        return visit.done(f"Moving {counted(len(plan), 'partition')} off broker {broker.id}.", "operations")
    rows = [(f"{p.topic}-{p.partition}", replicas[p], to) for p, to in sorted(plan.items())]
    data = {"broker": broker.id, "rows": rows[:_SHOWN], "total": len(rows), "up": broker.up}
    return View("drain.html", f"Drain broker {broker.id}", data, section="operations")


async def cancel_reassignments(visit: Visit) -> View | Redirect:
    running = await reassignments(visit.cluster.client)
    if visit.submitted:
        await visit.form()
        await reassign(visit.cluster.client, {TopicPartition(one.topic, one.partition): None for one in running})
        return visit.done(f"Cancelled the move of {counted(len(running), 'partition')}.", "operations")
    consequences = [
        f"{counted(len(running), 'partition')} {'goes' if len(running) == 1 else 'go'} back to the replicas of before.",
        "What the new replicas have copied so far is deleted. No record is lost.",
    ]
    return confirmation(
        "Cancel all moves", consequences, section="operations", label="Cancel moves",
        action=visit.url("cancel-reassignments"), back=visit.url("operations"),
    )  # fmt: skip
