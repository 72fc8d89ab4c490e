"""The sink's transactions when the broker dies, without Spark. A failed task is retried, as Spark does."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

from headrace.client.blocking.client import BlockingClient
from headrace.pipelines.errors import PipelineError
from headrace.pipelines.options import SinkOptions
from headrace.pipelines.sink.ledger import SinkLedger
from headrace.pipelines.sink.writer import write_slot
from headrace.testing.process import broker_process
from tests.pipelines.copy_targets import committed_keys
from tests.support.effort import rounds

_ROWS = 20


class Task(threading.Thread):
    """Writes batch after batch to one slot, each until it is written."""

    def __init__(self, options: SinkOptions) -> None:
        super().__init__(daemon=True)
        self.options = options
        self.batch = self.failures = self.skipped = 0
        self.enough = threading.Event()

    def run(self) -> None:
        while not self.enough.is_set():
            keys = [b"%d" % (self.batch * _ROWS + number) for number in range(_ROWS)]
            rows = pa.RecordBatch.from_arrays([pa.array(keys, pa.binary())] * 2, names=["key", "value"])
            try:
                # Two batches, so that the broker may die between them.
                done = write_slot(self.options, iter([rows[:5], rows[5:]]), "faults", 0, self.batch)
            except PipelineError:
                self.failures += 1
                continue
            self.skipped += done.skipped
            self.batch += 1


@pytest.mark.chaos
def test_broker_death_during_a_transaction_loses_and_duplicates_nothing(tmp_path: Path) -> None:
    chance = random.Random(4)
    with broker_process(data_dir=tmp_path / "data") as broker:
        with BlockingClient(broker.bootstrap) as client:
            client.create_topic("out", 3)
        given = {"kafka.bootstrap.servers": broker.bootstrap, "topic": "out"}
        task = Task(SinkOptions.parse(given))
        task.start()
        deaths = rounds(short=4, long=60)
        for _ in range(deaths):
            before = task.batch
            while task.batch == before:
                assert task.is_alive()
                time.sleep(0.005)
            time.sleep(chance.uniform(0, 0.05))
            broker.kill()
            broker.start()
        task.enough.set()
        task.join(120)
        with BlockingClient(broker.bootstrap) as client:
            seen = committed_keys(client, "out")
            ledger = SinkLedger(client, SinkOptions.parse(given).cluster, "faults", 0, "out").last_batch()
    assert task.batch > deaths
    assert seen == Counter(range(task.batch * _ROWS))
    assert ledger == task.batch - 1
    print(f"{deaths} deaths, {task.batch} batches, {task.failures} failed and {task.skipped} repeated tasks")
