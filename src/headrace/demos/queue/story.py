"""Five workers share two partitions. One of them is killed with jobs in its hands."""

from __future__ import annotations

from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from headrace.demos.stage import QUIET, Stage

WORKERS = 5


def run(stage: Stage) -> None:
    _begin_at_the_first_job(stage.bootstrap)
    stage.service("audit")
    workers = [stage.service("worker", f"worker-{number}") for number in range(1, WORKERS + 1)]
    stage.say(f"{WORKERS} workers of one share group, 2 partitions, and a consumer group that sees every job")
    half = stage.records // 2
    stage.send(half)
    stage.wait_for_records(half // 4, "job-outcomes")
    workers[0].kill()
    stage.say("worker-1 is killed; the jobs in its hands go to the others when their time is over")
    stage.send(stage.records - half)
    outcomes = stage.contents("job-outcomes")

    def all_done() -> bool:
        outcomes.read_new()
        return len(outcomes.latest("job-outcomes")) >= stage.sender.sent.total

    stage.wait_for(all_done, "an outcome of every job")
    stage.wait_for_records(stage.sender.sent.total, "job-audit")


def _begin_at_the_first_job(bootstrap: str) -> None:
    """A new share group begins at the end of the topic unless its configuration says otherwise."""
    earliest = ConfigEntry("share.auto.offset.reset", "earliest", incremental_operation=AlterConfigOpType.SET)
    group = ConfigResource(ResourceType.GROUP, "workers", incremental_configs=[earliest])
    admin = AdminClient({"bootstrap.servers": bootstrap, **QUIET})
    (changed,) = admin.incremental_alter_configs([group]).values()
    changed.result()
