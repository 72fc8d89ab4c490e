"""Kills a copy job repeatedly until it completes, then counts duplicated and lost rows.

python -m tests.pipelines.kills [--kills 10] [--rows 50000] [--victims driver,executor,python,freeze]
                                [--target topic|connector|sqlite|postgres|parquet] [--format headrace|kafka]
                                [--read-format headrace|kafka] [--partitions 3] [--broker headrace|apache] [--seed 1]

If the driver is the only victim, Spark runs as local[2]. Otherwise it is a standalone cluster of two workers with
speculative execution, and each kill chooses its victim at random. `freeze` stops an executor's Python worker for some
seconds: Spark starts its task a second time elsewhere, and then the first one resumes and continues to write.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from headrace.client.blocking.client import BlockingClient
from headrace.client.blocking.produce import BatchProducer, Section
from headrace.records.batch import HEADER_BYTES
from headrace.records.builder import Record, build_batch
from tests.pipelines.copy_targets import CopyTarget, TopicTarget, copy_target
from tests.pipelines.spark_cluster import SparkCluster
from tests.support.clock import Stopwatch

DRIVER, EXECUTOR, PYTHON, FREEZE = "driver", "executor", "python", "freeze"
# A run may also fail by itself after four kills of one task. The checkpoint must survive that too.
_FAILURES_ALLOWED = 5
_LONGEST_BATCH_S = 1.0


@dataclass(frozen=True)
class Outcome:
    rows: int
    kills: Counter[str]
    lost: int
    doubled: int
    seconds: float
    failed_runs: int


def fill(client: BlockingClient, topic: str, rows: int, partitions: int) -> None:
    client.create_topic(topic, partitions)
    producer = BatchProducer(client)
    now = int(time.time() * 1000)
    for number, begin in enumerate(range(0, rows, 500)):
        records = [Record(b"%d" % i, b"row %d" % i, timestamp_ms=now) for i in range(begin, min(begin + 500, rows))]
        section = Section(build_batch(records)[HEADER_BYTES:], len(records), now, now)
        producer.send((topic, number % partitions), section)
    producer.flush()


@dataclass
class KilledJob:
    """A job that is restarted whenever it dies, with a list of its kills."""

    command: Sequence[str]
    log: Path
    # Spark writes every batch that it begins here.
    batches: Path
    chance: random.Random
    victims: Sequence[str]
    kills: int
    cluster: SparkCluster | None = None
    killed: Counter[str] = field(default_factory=Counter)
    failed_runs: int = 0

    def run(self) -> None:
        while (code := self._run_once()) != 0:
            if code != -signal.SIGKILL:
                self.failed_runs += 1
                assert self.failed_runs <= _FAILURES_ALLOWED, self._tail()

    def _tail(self) -> str:
        return self.log.read_text(errors="replace")[-3000:]

    def _run_once(self) -> int:
        with self.log.open("ab") as log:
            process = subprocess.Popen(
                self.command, stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True
            )
        assert process.stdout is not None
        try:
            assert process.stdout.readline(), self._tail()
            while self.killed.total() < self.kills and self._lives_a_while(process):
                self._kill(process)
            return process.wait(600)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            process.stdout.close()

    def _lives_a_while(self, process: subprocess.Popen[str]) -> bool:
        """Waits until the job is in one of its next batches, at a random point: while it reads, in a transaction,
        between the commit and Spark's own record of it. False if the job ended."""
        wanted = self._last_batch() + self.chance.randint(1, 3)
        while process.poll() is None:
            if self._last_batch() >= wanted:
                try:
                    process.wait(self.chance.uniform(0, _LONGEST_BATCH_S))
                except subprocess.TimeoutExpired:
                    return True
            time.sleep(0.02)
        return False

    def _last_batch(self) -> int:
        return max((int(file.name) for file in self.batches.glob("*") if file.name.isdigit()), default=-1)

    def _kill(self, process: subprocess.Popen[str]) -> None:
        victim = self.chance.choice(self.victims)
        if victim == DRIVER:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        else:
            assert self.cluster is not None
            strikes = {
                EXECUTOR: self.cluster.kill_executor,
                PYTHON: self.cluster.kill_python_worker,
                FREEZE: self.cluster.freeze_python_worker,
            }
            strike = strikes[victim]
            # The process that was killed before may not have been replaced yet.
            while not strike(self.chance):
                if process.poll() is not None:
                    return
                time.sleep(0.05)
        self.killed[victim] += 1


def copy_with_kills(
    bootstrap: str,
    directory: Path,
    *,
    kills: int,
    rows: int,
    rows_per_batch: int,
    target: CopyTarget | None = None,
    victims: Sequence[str] = (DRIVER,),
    cluster: SparkCluster | None = None,
    seed: int = 1,
    partitions: int = 3,
) -> Outcome:
    target = target or TopicTarget()
    client = BlockingClient(bootstrap)
    source = f"kills-{seed}-{target.name}"
    fill(client, source, rows, partitions)
    target.prepare(client, directory)
    watch = Stopwatch()
    master = cluster.url if cluster is not None else "local[2]"
    arguments = target.job(bootstrap, source, directory, rows_per_batch)
    command = [sys.executable, str(Path(__file__).with_name("copy_job.py")), master, *arguments]
    batches = directory / target.checkpoint / "offsets"
    job = KilledJob(command, directory / "job.log", batches, random.Random(seed), victims, kills, cluster)
    job.run()
    seen = target.written(client, directory)
    lost = sum(1 for i in range(rows) if i not in seen)
    doubled = sum(count - 1 for count in seen.values())
    client.close()
    return Outcome(rows, job.killed, lost, doubled, watch.seconds, job.failed_runs)


def main() -> None:
    from headrace.testing.process import broker_process
    from tests.reference.kafka import ReferenceKafka

    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--rows-per-batch", type=int, default=1_000)
    parser.add_argument("--victims", default=DRIVER)
    parser.add_argument("--target", default="topic")
    parser.add_argument("--format", default="headrace")
    parser.add_argument("--read-format")
    parser.add_argument("--partitions", type=int, default=3)
    parser.add_argument("--broker", default="headrace")
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    # A signal must also stop the brokers, the cluster and the job.
    signal.signal(signal.SIGTERM, lambda _number, _frame: sys.exit("stopped"))
    victims = chosen.victims.split(",")
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True)))
        own = broker_process() if chosen.broker == "headrace" else ReferenceKafka(directory / "kafka")
        broker = stack.enter_context(own)
        cluster = None if victims == [DRIVER] else stack.enter_context(SparkCluster(directory / "spark"))
        outcome = copy_with_kills(
            broker.bootstrap,  # type: ignore[attr-defined]
            directory,
            kills=chosen.kills,
            rows=chosen.rows,
            rows_per_batch=chosen.rows_per_batch,
            target=copy_target(chosen.target, chosen.format, directory, stack, chosen.read_format),
            partitions=chosen.partitions,
            victims=victims,
            cluster=cluster,
            seed=chosen.seed,
        )
    print(f"{chosen.format} on {chosen.broker} to {chosen.target}: {outcome}")


if __name__ == "__main__":
    main()
