"""Messages are formatted by one application and sent by another. A sender is killed and comes back."""

from __future__ import annotations

import socket

from headrace.demos.stage import Stage
from headrace.net.free_ports import free_port


def run(stage: Stage) -> None:
    port = free_port()
    stage.service("gateway", str(port), name="gateway")
    stage.wait_for(lambda: _listens(port), "the gateway")
    stage.service("format")
    sender = stage.service("send", "notifications", str(port), name="sender")
    stage.service("send", "notifications-retry", str(port), name="sender-of-retries")
    half = stage.records // 2
    stage.send(half)
    stage.wait_for_records(half // 3, "mailbox")
    sender.kill()
    stage.say("the sender is killed; another one continues where it had committed")
    sender.start()
    stage.send(stage.records - half)
    seen = stage.contents("mailbox", "notifications.dlq")

    def all_settled() -> bool:
        seen.read_new()
        dead = {row["message"] for row in seen.rows("notifications.dlq")}
        return len(seen.latest("mailbox").keys() | dead) >= stage.sender.sent.total

    stage.wait_for(all_settled, "every message in the mailbox or among the dead letters")


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
