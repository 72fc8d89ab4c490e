"""Commands, events, read models.

`commands` decides: it reads commands and writes events, in one transaction. `project MODEL TOPIC` keeps a read model:
it reads all events from the first one and writes the model to a compacted topic. To rebuild a model is to run it again.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections import Counter
from collections.abc import Callable
from typing import TypeAlias

from headrace import connect
from headrace.kernel.json_values import JsonObject

stopping = threading.Event()
Event: TypeAlias = JsonObject


def commands(bootstrap: str) -> None:
    # A static member: when it comes back after a crash, it gets its partitions at once.
    cluster = connect(bootstrap, settings={"group.instance.id": "commands"})
    events = cluster.topic("account-events", dict)
    with (
        cluster.transactions("account-commands") as transactions,
        cluster.topic("account-commands", dict).read(group="accounts", guarantee="exactly-once", idle=0.5) as reader,
    ):
        # After `transactions`: a transaction that a killed predecessor left open is aborted by now.
        balances: Counter[str] = Counter()
        for record in events.records():
            apply(balances, record.value or {})
        while not stopping.is_set():
            for batch in reader.batches():
                with transactions.begin(reader) as transaction:
                    for command in batch:
                        event = decided(balances, command.value or {})
                        apply(balances, event)
                        transaction.send(events, event, key=event["account"])
                        reader.done(command)


def decided(balances: Counter[str], command: Event) -> Event:
    account, amount = command["account"], command["amount"]
    what = "deposited" if command["kind"] == "deposit" else "withdrawn"
    if what == "withdrawn" and amount > balances[account]:
        what = "refused"
    return {"event": what, "account": account, "amount": amount, "command": command["command"]}


def apply(balances: Counter[str], event: Event) -> None:
    sign = {"deposited": 1, "withdrawn": -1}.get(event["event"], 0)
    balances[event["account"]] += sign * event["amount"]


def project(bootstrap: str, model: str, topic: str) -> None:
    cluster = connect(bootstrap)
    target = cluster.topic(topic, dict)
    balances: Counter[str] = Counter()
    figures: dict[str, dict[str, int]] = {}
    # A group of its own for every topic, without commits: a model always begins at the first event.
    reader = cluster.topic("account-events", dict).read(group=topic, guarantee="exactly-once", idle=0.5)
    while not stopping.is_set():
        for batch in reader.batches():
            for record in batch:
                event = record.value or {}
                apply(balances, event)
                kind = figures.setdefault(event["event"], {"number": 0, "amount": 0})
                kind["number"] += 1
                kind["amount"] += event["amount"]
                if model == "balances":
                    target.send({"balance": balances[event["account"]]}, key=event["account"])
            if model == "figures":
                for name, each in figures.items():
                    target.send(each, key=name)
            target.flush()
    reader.close()


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    roles: dict[str, Callable[..., None]] = {"commands": commands, "project": project}
    roles[sys.argv[1]](*sys.argv[2:])
