"""Every message is in the mailbox with its text, or a dead letter with its reason."""

from __future__ import annotations

import json

from headrace.demos.picture import Feed, Figures, Picture, Table
from headrace.demos.picture import picture as panels
from headrace.demos.topics import Contents, Result, compacted, kept

TITLE = "Notifications: formatted, sent, retried, dead letters."
OUTPUTS = {
    "notifications": kept(1, 3),
    # One partition: its records are in the order of their next attempts.
    "notifications-retry": kept(1),
    "notifications.dlq": kept(30),
    "mailbox": compacted(3),
}


def expected(inputs: Contents) -> Result:
    result: Result = {}
    for row in inputs.rows("messages"):
        user, number = int(row["user"]), row["number"]
        if user % 17 == 0:
            result[row["message"]] = "dead: no such address"
        elif user % 19 == 0:
            result[row["message"]] = "dead: busy"
        else:
            text = f"Your password was changed (reference {number})."
            if row["kind"] == "order-shipped":
                text = f"Your order {number} is on its way."
            elif row["kind"] == "invoice":
                text = f"Invoice {number} is ready."
            result[row["message"]] = f"user-{user}@example.org: {text}"
    return result


def found(outputs: Contents) -> Result:
    result: Result = {}
    for record in outputs.records["notifications.dlq"]:
        row, reason = json.loads(record.value or b"{}"), dict(record.headers).get("reason") or b""
        result[row["message"]] = f"dead: {reason.decode()}"
    return result | {key: f"{each['to']}: {each['text']}" for key, each in outputs.latest("mailbox").items()}


def picture(found: Result, rows: int) -> Picture:
    dead = {key: value for key, value in found.items() if value.startswith("dead: ")}
    reasons: dict[str, int] = {}
    for value in dead.values():
        reasons[value[6:]] = reasons.get(value[6:], 0) + 1
    mails = [value for key, value in found.items() if key not in dead]
    return panels(
        Figures("", {"delivered": len(mails), "dead letters": len(dead)}),
        Table("dead letters", ("reason", "number"), sorted(reasons.items()), bar="number"),
        Feed("mailbox", mails[-rows // 2 :][::-1]),
    )
