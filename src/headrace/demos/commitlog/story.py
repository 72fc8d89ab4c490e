"""Three services with their state in memory. Two are killed; one of them comes back empty and restores its state."""

from __future__ import annotations

from headrace.demos.stage import Stage

NAMES = ("a", "b", "c")


def run(stage: Stage) -> None:
    stores = {name: stage.service("store", name) for name in NAMES}
    third = stage.records // 3
    stage.send(third)
    stage.wait_for_records(third // 2, "stock")
    stores["a"].kill()
    stage.say("service a is killed: its memory is gone, b and c take over its partitions")
    stage.pause(3)
    stage.send(third)
    stage.wait_for_records(third + third // 2, "stock")
    stores["a"].start()
    stores["b"].kill()
    stage.say("service a starts empty and restores its state from the log; service b is killed")
    stage.pause(3)
    stage.send(stage.records - 2 * third)
    stores["b"].start()
    sent = stage.sender.sent.total
    stage.wait_for_records(sent, "stock", what=f"{sent:,} changes in the log")
    _wait_for_equal_copies(stage)


def _wait_for_equal_copies(stage: Stage) -> None:
    seen = stage.contents("stock", "stock-copies")

    def equal() -> bool:
        seen.read_new()
        log = {article: each["stock"] for article, each in seen.latest("stock").items()}
        copies = seen.latest("stock-copies")
        return all(copies.get(name, {}).get("copy") == log for name in NAMES)

    stage.wait_for(equal, "the copies of all services to equal the log")
