"""A bug is found. The service stops, its group goes back to offset 0, and the mended code rebuilds the state."""

from __future__ import annotations

from headrace.client.blocking.client import EARLIEST, BlockingClient
from headrace.demos.stage import Stage


def run(stage: Stage) -> None:
    first = stage.service("revenue", "1")
    stage.send(stage.records)
    sent = stage.sender.sent.total
    stage.wait_for_records(sent, "revenue")
    stage.say("the books do not agree: version 1 adds refunds instead of subtracting them")
    first.stop()
    stage.pause(4)
    # What `headrace groups reset revenue --to earliest` does. The service must be stopped.
    with BlockingClient(stage.bootstrap) as client:
        partitions = [("sales", index) for index in client.topics(["sales"])["sales"].partitions]
        starts = client.list_offsets(dict.fromkeys(partitions, EARLIEST))
        client.commit_offsets("revenue", {partition: (offset, "") for partition, offset in starts.items()})
    stage.say("the group goes back to offset 0; version 2 reads everything again")
    stage.service("revenue", "2")
    stage.wait_for_records(2 * sent, "revenue")
