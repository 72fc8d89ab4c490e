"""The word count on a standalone Spark cluster and three brokers, while an executor and a broker are lost."""

from __future__ import annotations

import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from headrace.pipelines.flows.templates import WORDCOUNT
from tests.pipelines.spark_cluster import SparkCluster
from tests.support.clock import wait_for
from tests.support.cluster import RunningCluster
from tests.support.effort import is_long

_INPUT, _OUTPUT = "streams-plaintext-input", "streams-wordcount-output"
_WORDS = [f"word{number}" for number in range(40)]


class Lines(threading.Thread):
    """Writes lines until `stop`, and counts the words of acknowledged lines."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(daemon=True)
        self.counts: Counter[str] = Counter()
        self.lines = 0
        self._enough = threading.Event()
        self._chance = random.Random(8)
        self._producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "log_level": 0})

    def run(self) -> None:
        while not self._enough.wait(0.01):
            words = self._chance.choices(_WORDS, k=8)
            self._producer.produce(
                _INPUT, " ".join(words).encode(), on_delivery=lambda error, _, words=words: self._told(error, words)
            )
            self._producer.poll(0)

    def _told(self, error: KafkaError | None, words: list[str]) -> None:
        # An idempotent producer retries for two minutes. With two of three brokers alive no write may fail.
        assert error is None, error
        self.counts.update(words)
        self.lines += 1

    def finish(self) -> None:
        self._enough.set()
        self.join()
        assert self._producer.flush(120) == 0


class Counts:
    """The latest count of every word in the committed records."""

    def __init__(self, bootstrap: str) -> None:
        self._consumer = Consumer(
            {"bootstrap.servers": bootstrap, "group.id": "x", "isolation.level": "read_committed", "log_level": 0}
        )
        self._consumer.assign([TopicPartition(_OUTPUT, partition, 0) for partition in range(3)])
        self.latest: dict[str, int] = {}

    def read(self) -> dict[str, int]:
        while (message := self._consumer.poll(0.2)) is not None:
            if message.error() is None:
                key, value = message.key(), message.value()
                assert key is not None and value is not None and len(value) == 8
                self.latest[key.decode()] = int.from_bytes(value, "big")
        return self.latest

    def close(self) -> None:
        self._consumer.close()


@pytest.mark.chaos
@pytest.mark.timeout(1200)
@pytest.mark.skipif(not is_long(), reason="a cluster of each kind takes minutes: HEADRACE_EFFORT=long")
def test_word_count_survives_the_loss_of_an_executor_and_a_broker(tmp_path: Path) -> None:
    pipeline = tmp_path / "wordcount"
    shutil.copytree(WORDCOUNT, pipeline)
    with RunningCluster(tmp_path / "brokers") as brokers, SparkCluster(tmp_path / "spark") as spark:
        brokers.create_topic(_INPUT)
        brokers.create_topic(_OUTPUT, config={"cleanup.policy": "compact"})
        command = [sys.executable, "-m", "headrace.cli", "pipeline", "run", str(pipeline), "--master", spark.url]
        # Spark's default of 200 would mean 200 transactions per batch on two cores.
        command += ["--bootstrap", brokers.bootstrap, "--set", "spark.sql.shuffle.partitions=4"]
        lines, counts = Lines(brokers.bootstrap), Counts(brokers.bootstrap)
        with (tmp_path / "driver.log").open("wb") as log:
            driver = subprocess.Popen(command, stdout=log, stderr=log)

        def counted(more_than: int) -> bool:
            assert driver.poll() is None, (tmp_path / "driver.log").read_text(errors="replace")[-3000:]
            return sum(counts.read().values()) > more_than

        try:
            lines.start()
            wait_for(lambda: counted(0), "the first counts", within=300)
            seen = sum(counts.latest.values())
            assert spark.kill_executor(random.Random(1))
            written = lines.counts.total()
            wait_for(lambda: counted(written), "counts after an executor was killed", within=300)
            brokers.brokers[brokers.leader(_OUTPUT)].kill()
            written_later = lines.counts.total()
            wait_for(lambda: counted(written_later), "counts after a broker was killed", within=300)
            lines.finish()
            wait_for(lambda: counts.read() == dict(lines.counts), "all words counted", within=300)
            time.sleep(2)
            assert counts.read() == dict(lines.counts)
            print(f"\n{lines.lines} lines, {lines.counts.total()} words, {seen} of them before the first kill")
            driver.send_signal(signal.SIGTERM)
            assert driver.wait(120) == 0, (tmp_path / "driver.log").read_text(errors="replace")[-3000:]
        finally:
            counts.close()
            if driver.poll() is None:
                driver.kill()
                driver.wait()
