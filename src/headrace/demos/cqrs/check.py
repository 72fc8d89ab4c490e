"""Balances and figures computed from the commands, and both read models beside their rebuilt twins."""

from __future__ import annotations

from collections import Counter

from headrace.demos.picture import Figures, Picture, Table
from headrace.demos.picture import picture as panels
from headrace.demos.topics import Contents, Result, compacted, kept_for_ever

TITLE = "Commands, events, and two read models rebuilt by replay."
OUTPUTS = {
    # The events are the truth: they are kept for ever and never compacted.
    "account-events": kept_for_ever(2),
    "balances": compacted(2),
    "balances-rebuilt": compacted(2),
    "figures": compacted(),
    "figures-rebuilt": compacted(),
}


def expected(inputs: Contents) -> Result:
    balances: Counter[str] = Counter()
    number: Counter[str] = Counter()
    amount: Counter[str] = Counter()
    for row in inputs.rows("account-commands"):
        if row["kind"] == "withdraw" and row["amount"] > balances[row["account"]]:
            outcome = "refused"
        else:
            outcome = "withdrawn" if row["kind"] == "withdraw" else "deposited"
            balances[row["account"]] += -row["amount"] if row["kind"] == "withdraw" else row["amount"]
        # An account exists from its first event on, also if that was refused.
        balances[row["account"]] += 0
        number[outcome] += 1
        amount[outcome] += row["amount"]
    result: Result = {}
    for name in ("", "-rebuilt"):
        result |= {f"balances{name}|{account}": balance for account, balance in balances.items()}
        result |= {f"figures{name}|{kind}": [number[kind], amount[kind]] for kind in number}
    return result


def found(outputs: Contents) -> Result:
    result: Result = {}
    for name in ("", "-rebuilt"):
        balances, figures = outputs.latest(f"balances{name}"), outputs.latest(f"figures{name}")
        result |= {f"balances{name}|{account}": each["balance"] for account, each in balances.items()}
        result |= {f"figures{name}|{kind}": [each["number"], each["amount"]] for kind, each in figures.items()}
    return result


def picture(found: Result, rows: int) -> Picture:
    accounts = sorted(key.split("|")[1] for key in found if key.startswith("balances|"))
    balances = [[name, found.get(f"balances|{name}"), found.get(f"balances-rebuilt|{name}")] for name in accounts]
    kinds = ("deposited", "withdrawn", "refused")
    figures = [[kind, *found.get(f"figures|{kind}", (0, 0))] for kind in kinds]
    return panels(
        Figures("", {"accounts": len(accounts), "events": sum(row[1] for row in figures)}),
        Table("read model 1: balances", ("account", "live", "rebuilt"), balances[:rows]),
        Table("read model 2: figures", ("event", "number", "amount"), figures, bar="number"),
    )
