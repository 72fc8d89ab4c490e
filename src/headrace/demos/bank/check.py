"""The alerts equal the answer of the bank's own database, each once."""

from __future__ import annotations

from collections import Counter

from headrace.demos.picture import Cell, Feed, Figures, Picture, Table
from headrace.demos.picture import picture as panels
from headrace.demos.topics import Contents, Result, compacted, kept

TITLE = "Alerts on large transactions of a database, exactly once."
# The generator fills the bank's database; its changes become records.
GENERATES_ELSEWHERE = True
INPUTS = {"bank-audit": compacted()}
OUTPUTS = {"bank-changes": kept(7, 3), "bank-thresholds": compacted(), "bank-alerts": kept(30, 3)}


def expected(inputs: Contents) -> Result:
    return {
        key: [each["account"], each["cents"], each["threshold"], 1] for key, each in inputs.latest("bank-audit").items()
    }


def found(outputs: Contents) -> Result:
    rows = list(outputs.rows("bank-alerts"))
    times = Counter(row["id"] for row in rows)
    return {str(row["id"]): [row["account"], row["cents"], row["threshold"], times[row["id"]]] for row in rows}


def picture(found: Result, rows: int) -> Picture:
    alerts = list(found.values())
    lines = [f"{account}: {cents / 100:,.2f} is more than {limit / 100:,.2f}" for account, cents, limit, _ in alerts]
    accounts: Counter[str] = Counter(account for account, *_ in alerts)
    most: list[list[Cell]] = [[account, number] for account, number in accounts.most_common(rows // 2)]
    return panels(
        Figures("", {"alerts": len(found), "alerts written twice": sum(1 for each in alerts if each[3] > 1)}),
        Table("accounts with most alerts", ("account", "alerts"), most, bar="alerts"),
        Feed("latest alerts", lines[-rows // 2 :][::-1]),
    )
