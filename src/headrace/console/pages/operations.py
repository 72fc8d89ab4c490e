"""Transactions, quotas, reassignments, log directories and the configuration of brokers."""

from __future__ import annotations

import asyncio

from headrace.console.cluster import administration
from headrace.console.cluster.configs import BROKER, describe
from headrace.console.confirmation import confirmation
from headrace.console.pages.security import or_reason
from headrace.console.protection import Rejected
from headrace.console.rendering import View
from headrace.console.visit import Redirect, Visit


async def operations(visit: Visit) -> View:
    facts, client = await visit.cluster.facts(), visit.cluster.client
    (transactions, transactions_error), (quotas, quotas_error), (moves, moves_error) = await asyncio.gather(
        or_reason(administration.transactions(client)),
        or_reason(administration.quotas(client)),
        or_reason(administration.reassignments(client)),
    )
    data = {
        "transactions": transactions, "transactions_error": transactions_error, "quotas": quotas,
        "quotas_error": quotas_error, "reassignments": moves, "reassignments_error": moves_error,
        "directories": facts.directories, "brokers": facts.brokers,
    }  # fmt: skip
    return View("operations.html", "Operations", data, section="operations")


async def end_transaction(visit: Visit) -> View | Redirect:
    name = visit.query.get("id", "")
    if visit.submitted:
        await visit.form()
        await administration.end_transaction(visit.cluster.client, name)
        return visit.done(f"The open transaction of {name} is aborted.", "operations")
    consequences = [
        "Records of its open transaction are never shown to readers of committed records.",
        "Its producer is fenced: the program that uses this transactional id gets an error and must start again.",
    ]
    return confirmation(
        f"Abort the transaction of {name}", consequences, section="operations", label="Abort transaction",
        action=visit.url("end-transaction", id=name), back=visit.url("operations"),
    )  # fmt: skip


async def broker_configuration(visit: Visit) -> View:
    facts = await visit.cluster.facts()
    wanted = visit.path("broker")
    if wanted not in {str(broker.id) for broker in facts.brokers}:
        raise Rejected(404, f"there is no broker {wanted}")
    entries = await describe(visit.cluster.client, BROKER, wanted, int(wanted))
    text, everything = visit.query.get("q", "").lower(), visit.query.get("all") == "1"
    shown = [entry for entry in entries if text in entry.name and (everything or text or entry.source != "default")]
    data = {"broker": wanted, "configs": shown, "everything": everything, "total": len(entries)}
    return View("broker.html", f"Broker {wanted}", data, section="operations")
