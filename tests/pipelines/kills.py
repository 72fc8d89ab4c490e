"""Kills a copy job again and again until it comes through, then counts what is doubled and what is lost.

python -m tests.pipelines.kills [--kills 10] [--rows 50000] [--format headrace|kafka] [--broker headrace|apache]
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
from dataclasses import dataclass
from pathlib import Path

from headrace.client.blocking import EARLIEST, LATEST, READ_COMMITTED, BlockingClient
from headrace.client.blocking_fetch import FetchSettings, FetchStream
from headrace.client.blocking_produce import BatchProducer, Section
from headrace.pipelines.arrow_records import Decoder
from headrace.records.batch import HEADER_BYTES
from headrace.records.builder import Record, build_batch


@dataclass(frozen=True)
class Outcome:
    rows: int
    kills: int
    lost: int
    doubled: int
    seconds: float


def fill(client: BlockingClient, topic: str, rows: int, partitions: int) -> None:
    client.create_topic(topic, partitions)
    producer = BatchProducer(client)
    now = int(time.time() * 1000)
    for number, begin in enumerate(range(0, rows, 500)):
        records = [Record(b"%d" % i, b"row %d" % i, timestamp_ms=now) for i in range(begin, min(begin + 500, rows))]
        section = Section(build_batch(records)[HEADER_BYTES:], len(records), now, now)
        producer.send((topic, number % partitions), section)
    producer.flush()


def committed_keys(client: BlockingClient, topic: str) -> Counter[bytes]:
    """Every key that a reader of committed records sees, and how often."""
    seen: Counter[bytes] = Counter()
    for partition in client.topics([topic])[topic].partitions:
        pair = (topic, partition)
        start = client.list_offsets({pair: EARLIEST})[pair]
        end = client.list_offsets({pair: LATEST}, isolation=READ_COMMITTED)[pair]
        decoder = Decoder(topic, partition, read_committed=True)
        for chunk in FetchStream(client, pair, start, end, FetchSettings(isolation=READ_COMMITTED, stall_timeout_s=20)):
            for batch in decoder.decode(chunk.records, start, end, chunk.aborted):
                seen.update(batch.column("key").to_pylist())
    return seen


def copy_with_kills(
    bootstrap: str,
    directory: Path,
    *,
    kills: int,
    rows: int,
    rows_per_batch: int,
    format: str = "headrace",
    seed: int = 1,
) -> Outcome:
    chance = random.Random(seed)
    client = BlockingClient(bootstrap)
    source, target = f"kills-in-{seed}-{format}", f"kills-out-{seed}-{format}"
    fill(client, source, rows, 3)
    client.create_topic(target, 3)
    began, killed = time.monotonic(), 0
    job = [sys.executable, str(Path(__file__).with_name("copy_job.py"))]
    arguments = [bootstrap, source, target, str(directory / "checkpoint"), format, str(rows_per_batch)]
    while True:
        with (directory / "job.log").open("ab") as log:
            process = subprocess.Popen(
                [*job, *arguments], stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True
            )
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line == "started\n", (directory / "job.log").read_text(errors="replace")[-3000:]
        try:
            # Anywhere in the life of a few batches: while reading, in a transaction, between commit and journal.
            process.wait(chance.uniform(0.3, 6.0) if killed < kills else 300)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            killed += 1
        finally:
            process.stdout.close()
        if process.returncode == 0:
            break
        assert process.returncode == -signal.SIGKILL, (directory / "job.log").read_text(errors="replace")[-3000:]
    seen = committed_keys(client, target)
    lost = sum(1 for i in range(rows) if b"%d" % i not in seen)
    doubled = sum(count - 1 for count in seen.values())
    client.close()
    return Outcome(rows, killed, lost, doubled, time.monotonic() - began)


def main() -> None:
    from headrace.testing.process import broker_process
    from tests.reference.kafka import ReferenceKafka

    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--rows-per-batch", type=int, default=1_000)
    parser.add_argument("--format", default="headrace")
    parser.add_argument("--broker", default="headrace")
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        directory = Path(folder)
        started = broker_process() if chosen.broker == "headrace" else ReferenceKafka(directory / "kafka")
        with started as broker:
            outcome = copy_with_kills(
                broker.bootstrap,
                directory,
                kills=chosen.kills,
                rows=chosen.rows,
                rows_per_batch=chosen.rows_per_batch,
                format=chosen.format,
                seed=chosen.seed,
            )
    print(f"{chosen.format} on {chosen.broker}: {outcome}")


if __name__ == "__main__":
    main()
