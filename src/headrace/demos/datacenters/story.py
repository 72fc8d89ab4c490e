"""Two data centers are mirrored into an aggregate. One is lost, and its clients go over with translated offsets."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.datagen.generator import Generator
from headrace.datagen.plan import load
from headrace.datagen.sending import Sender, create_topics
from headrace.demos.processes import OneBroker
from headrace.demos.stage import QUIET, Stage
from headrace.net.free_ports import free_port

if TYPE_CHECKING:
    from headrace.pipelines.connectors.mirror import MirrorSpec
    from headrace.pipelines.flows.runner import PipelineRun

MIRROR = """name: {region}
source: {{bootstrap: "{source}"}}
target: {{bootstrap: "{target}"}}
topics: orders
rename: "{region}.{{topic}}"
storage: {storage}
"""


@dataclass
class DataCenter:
    region: str
    broker: OneBroker
    sender: Sender
    generator: Generator
    mirror: Path
    sent: int = 0

    def send(self, stage: Stage, records: int) -> None:
        self.sender.run(self.generator, count=self.sent + records, stop=stage.stopping.is_set)
        self.sent += records
        stage.sender.sent.records[self.region] += records

    def spec(self) -> MirrorSpec:
        from headrace.pipelines.connectors.mirror import load_mirror

        return load_mirror(self.mirror)


def run(stage: Stage) -> None:
    from headrace.pipelines.connectors.mirror import translate_group

    with ExitStack() as stack:
        east, west = (
            stack.enter_context(_data_center(stage, region, seed)) for seed, region in enumerate(("east", "west"))
        )
        stage.say("two data centers and an aggregate run; Spark mirrors both into the aggregate")
        half = stage.records // 4
        for center in (east, west):
            center.send(stage, half)
        there = stage.service("bill", "orders", "east", stage.bootstrap, "east", bootstrap=east.broker.bootstrap)
        stage.service("bill", "orders", "west", stage.bootstrap, "west", bootstrap=west.broker.bootstrap)
        mirror_of_east, _ = (stack.enter_context(_mirroring(stage, center)) for center in (east, west))
        stage.wait_for_records(2 * half, "bills")
        there.stop()
        stage.wait_for_records(half, "east.orders")
        moved = translate_group(east.spec(), "billing")
        for (topic, partition), (before, after) in sorted(moved.items()):
            stage.say(f"group billing, {topic}-{partition}: offset {before} in east is offset {after} in the aggregate")
        for center in (east, west):
            center.send(stage, half)
        stage.wait_for_records(2 * half, "east.orders")
        east.broker.kill(1)
        mirror_of_east.stop()
        stage.say("east is lost; its billing goes on in the aggregate, from the translated offsets")
        stage.pause(3)
        stage.service("bill", "east.orders", "east", stage.bootstrap, "aggregate")
        _write_journal(stage, east, west)
        stage.wait_for_records(east.sent + west.sent, "bills")
        stage.end_services()


@contextmanager
def _data_center(stage: Stage, region: str, seed: int) -> Iterator[DataCenter]:
    broker = OneBroker(stage.data / region, free_port(), {})
    try:
        plan = load(stage.directory / "data.yml")
        settings = {"bootstrap.servers": broker.bootstrap, **QUIET}
        create_topics(plan, settings, replication=1)
        file = stage.data / f"{region}.yml"
        storage = stage.data / f"mirror-{region}"
        file.write_text(MIRROR.format(region=region, source=broker.bootstrap, target=stage.bootstrap, storage=storage))
        sender = Sender(settings, paced=stage.is_paced)
        # Records of another time would be deleted by the retention of a week.
        generator = Generator(plan, start_ms=int(time.time() * 1000), seed=seed)
        yield DataCenter(region, broker, sender, generator, file)
    finally:
        broker.stop()


@contextmanager
def _mirroring(stage: Stage, center: DataCenter) -> Iterator[PipelineRun]:
    """`headrace mirror run` in this process. Its faults after the loss of its source are expected."""
    from headrace.pipelines.connectors.mirror import mirror_run

    assert stage.spark is not None
    running = mirror_run(center.spec(), stage.spark(), once=False, report=lambda _: None)
    running.start()

    def supervise() -> None:
        try:
            running.supervise()
        except Exception:
            # Boundary of the thread. A mirror that failed copies nothing more, and the story waits in vain and says so.
            stage.say(f"the mirror of {center.region} has ended")

    thread = threading.Thread(target=supervise, name=f"mirror {center.region}", daemon=True)
    thread.start()
    try:
        yield running
    finally:
        running.stop()
        thread.join(60)


def _write_journal(stage: Stage, *centers: DataCenter) -> None:
    """What the data centers have acknowledged: the check bills these numbers."""
    with stage.cluster() as cluster:
        journal = cluster.topic("journal", dict)
        for center in centers:
            journal.send({"orders": center.sent}, key=center.region)
