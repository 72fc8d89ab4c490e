"""Compaction of the same segments by Headrace and by Apache Kafka's log cleaner.

The benchmark writes the segments of a log once and copies them. Headrace compacts a copy in this process. Kafka gets
its copies as the partitions of a compacted topic (a node creates the topic and stops, the benchmark replaces the
segments, the node starts again) and reports its own speed: its cleaner logs a line for every compacted log. Both sides
use one cleaner thread and 128 MiB for the map, and both sync their writes. Kafka compacts several copies one after the
other and the fastest counts, because it processes its first megabytes before the JVM has compiled the code.

`python -m benchmarks.compaction` shows the speed by the clock and by the CPU time of the cleaner's thread, which hardly
depends on other work of the machine. Threads of the JVM that compile code or collect garbage are not counted.
"""

from __future__ import annotations

import random
import re
import shutil
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from confluent_kafka.admin import AdminClient, NewTopic

from headrace.kernel.ids import TopicPartition
from headrace.records.builder import Record, build_batch
from headrace.records.compression import Codec
from headrace.storage.compaction.cleaner import Cleaner
from headrace.storage.compaction.job import dirt_of, discard, prepare
from headrace.storage.log_config import LogConfig
from headrace.storage.recovery.recovery import open_log
from tests.reference import kafka as reference

NOW_MS = 1_700_000_000_000
MAP_BYTES = 128 * 1024 * 1024
CONFIG = LogConfig(segment_bytes=16 << 20, cleanup_policy=frozenset({"compact"}))
_CLEANED = re.compile(r"cleaned log (\S+)-\d+ .*?\(([\d.,]+) MB/sec\)", re.DOTALL)


@dataclass(frozen=True)
class Shape:
    """Records of the log: about two thirds of them are outdated."""

    name: str
    value_bytes: int
    codec: Codec = Codec.NONE

    @property
    def topic(self) -> str:
        return f"values-{self.value_bytes}-{self.codec.name.lower()}"


SHAPES = (
    Shape("compaction, values of 1,000 bytes", 1000),
    Shape("compaction, values of 100 bytes", 100),
    Shape("compaction, values of 1,000 bytes, lz4", 1000, Codec.LZ4),
)


def write_segments(directory: Path, shape: Shape, size_bytes: int) -> None:
    chance = random.Random(11)
    directory.mkdir(parents=True)
    log = open_log(directory, TopicPartition(shape.topic, 0), CONFIG, clean=False, now_ms=NOW_MS)
    keys = size_bytes // (shape.value_bytes + 30) // 3
    while log.size_bytes < size_bytes:
        records = [
            Record(
                b"key-%010d" % chance.randrange(keys),
                chance.randbytes(shape.value_bytes // 2) + b"-" * (shape.value_bytes // 2),
                timestamp_ms=NOW_MS,
            )
            for _ in range(max(1, 16_000 // shape.value_bytes))
        ]
        log.append_as_leader(bytearray(build_batch(records, codec=shape.codec)), leader_epoch=0, now_ms=NOW_MS)
    log.roll(now_ms=NOW_MS)
    log.close()


class Speed(NamedTuple):
    """Megabytes of log per second: by the clock, and by the CPU time of the cleaner's thread."""

    clock: float
    cpu: float


def ours(directory: Path, rounds: int) -> Speed:
    """The best of several turns."""
    log = open_log(directory, TopicPartition("bench", 0), CONFIG, clean=True, now_ms=NOW_MS)
    log.advance_high_watermark(log.log_end_offset)
    best = Speed(0.0, 0.0)
    for _ in range(rounds):
        job = prepare(log, dirt_of(log, None, NOW_MS), replicated_up_to=log.high_watermark, now_ms=NOW_MS)
        began, cpu = time.perf_counter(), time.thread_time()
        cleaned = Cleaner(MAP_BYTES).clean(job)
        seconds, cpu_seconds = time.perf_counter() - began, time.thread_time() - cpu
        megabytes = sum(segment.size_bytes for segment in job.segments) / 1e6
        best = Speed(max(best.clock, megabytes / seconds), max(best.cpu, megabytes / cpu_seconds))
        discard(cleaned)
    log.close()
    return best


def _cleaner_cpu_seconds(pid: int) -> float:
    total = 0.0
    for task in Path(f"/proc/{pid}/task").iterdir():
        if (task / "comm").read_text().startswith("kafka-log-clean"):
            total += int((task / "schedstat").read_text().split()[0]) / 1e9
    return total


def kafkas(directory: Path, sources: dict[Shape, Path], copies: int) -> dict[Shape, Speed]:
    """By the clock as reported in Kafka's log."""
    settings = {"log.cleaner.backoff.ms": "100", "log.cleaner.threads": "1", "log.retention.ms": "-1"}
    settings["log.cleaner.dedupe.buffer.size"] = str(MAP_BYTES)
    told = ("-Dorg.slf4j.simpleLogger.log.org.apache.kafka.storage.internals.log=info",)
    kafka = reference.ReferenceKafka(directory / "kafka", settings=settings, java_options=told, full_compiler=True)
    config = {
        "cleanup.policy": "compact",
        "segment.bytes": str(CONFIG.segment_bytes),
        "min.cleanable.dirty.ratio": "0.01",
    }
    with kafka:
        topics = [NewTopic(shape.topic, copies, 1, config=config) for shape in sources]
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap, "log_level": 0})
        for future in admin.create_topics(topics).values():
            future.result(30)
    for shape, source in sources.items():
        for copy in range(copies):
            home = kafka.log_dir / f"{shape.topic}-{copy}"
            for path in home.glob("0*"):
                path.unlink()
            shutil.copytree(source, home, dirs_exist_ok=True)
    told_to = kafka.directory / "kafka.out"
    cpu: list[float] = [0.0]
    with kafka:
        assert kafka.process is not None
        deadline = time.monotonic() + 300
        while len(found := _CLEANED.findall(told_to.read_text(errors="replace"))) < copies * len(sources):
            if time.monotonic() > deadline:
                raise TimeoutError(f"Kafka's cleaner did not end: see {told_to}")
            cpu += [_cleaner_cpu_seconds(kafka.process.pid)] * (len(found) + 1 - len(cpu))
            time.sleep(0.01)
        cpu += [_cleaner_cpu_seconds(kafka.process.pid)] * (len(found) + 1 - len(cpu))
    speeds: dict[Shape, Speed] = {}
    for shape, source in sources.items():
        megabytes = sum(path.stat().st_size for path in source.glob("*.log")) / 1e6
        at = [number for number, (topic, _) in enumerate(found) if topic == shape.topic]
        speeds[shape] = Speed(
            # Kafka counts in units of 1,048,576 bytes.
            max(float(found[number][1].replace(",", "")) * 1.048576 for number in at),
            max(megabytes / max(cpu[number + 1] - cpu[number], 0.001) for number in at),
        )
    return speeds


def compare(directory: Path, *, size_bytes: int = 64 << 20, rounds: int = 4) -> list[tuple[str, float, float | None]]:
    """(name, Headrace's MB/s, Kafka's MB/s or None without Java) for each shape."""
    sources = {shape: directory / shape.topic for shape in SHAPES}
    for shape, source in sources.items():
        write_segments(source, shape, size_bytes)
    theirs = kafkas(directory, sources, rounds) if reference.available() else {}
    return [
        (shape.name, ours(source, rounds).clock, theirs[shape].clock if shape in theirs else None)
        for shape, source in sources.items()
    ]


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="headrace-bench-compaction-") as name:
        directory = Path(name)
        sources = {shape: directory / shape.topic for shape in SHAPES}
        for shape, source in sources.items():
            write_segments(source, shape, 64 << 20)
        theirs = kafkas(directory, sources, 4)
        for shape, source in sources.items():
            own, other = ours(source, 4), theirs[shape]
            print(
                f"{shape.name}: clock {own.clock:,.0f} and {other.clock:,.0f} MB/s ({own.clock / other.clock:.2f}); "
                f"CPU {own.cpu:,.0f} and {other.cpu:,.0f} MB/s ({own.cpu / other.cpu:.2f})"
            )


if __name__ == "__main__":
    main()
