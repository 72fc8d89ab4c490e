"""Load for fault tests: idempotent producers, a group that reads everything, and the history of both."""

from __future__ import annotations

import contextlib
import shutil
import threading
from typing import Any

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from headrace.testing.chaos.history import ANY_OFFSET, History, Place, Value
from tests.cluster.supervised_reader import SupervisedReader
from tests.reference import kafka
from tests.support.clock import Stopwatch, wait_for
from tests.support.cluster import RunningCluster
from tests.support.effort import is_long
from tests.support.java_client import JavaProgram
from tests.support.unit import RunningUnit

_QUIET = {"log_level": 0, "socket.timeout.ms": 6000, "topic.metadata.refresh.interval.ms": 1000}


class Load:
    """Starts with the `with` block. `finish` stops the producers and returns the history. With `spread`, records
    go to this number of partitions in turn, otherwise by key."""

    def __init__(
        self,
        cluster: RunningCluster | RunningUnit,
        topic: str,
        *,
        producers: int = 2,
        rate: int = 400,
        spread: int | None = None,
    ) -> None:
        self.history = History(delivered=set())
        self.sent = 0
        self.failed: list[str] = []
        self.longest_gap_s = 0.0  # without any acknowledgement
        self._silence_s = 0.0  # of one partition, since `listen`
        self._since_ack_of: dict[int, Stopwatch] = {}
        self._acks_of: dict[int, int] = {}
        self._cluster = cluster
        self._topic = topic
        self._pause_s = 10 / rate  # producers send ten at a time
        self._spread = spread
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._since_ack = Stopwatch()
        self._producers = [
            threading.Thread(target=self._produce, args=(f"p{n}",), name=f"producer {n}") for n in range(producers)
        ]
        self._group = SupervisedReader.of(cluster.client, topic)
        self._reader = threading.Thread(target=self._consume, name="group reader")

    def __enter__(self) -> Load:
        for thread in (*self._producers, self._reader):
            thread.start()
        self.wait_for_acks(20)
        return self

    def __exit__(self, *_: Any) -> None:
        self._stop.set()
        self._read_enough()
        for thread in (*self._producers, self._reader):
            thread.join(60)

    @property
    def parts(self) -> tuple[Load, ...]:
        """The loads that this one combines, each with its own history."""
        return (self,)

    @property
    def deadlocked(self) -> int:
        """Number of group clients that were replaced because of a deadlock (`supervised_reader`)."""
        return self._group.replaced

    @property
    def acked(self) -> int:
        return len(self.history.acked)

    def wait_for_acks(self, more: int) -> float:
        """Waits until this many more records are acknowledged. Returns the duration."""
        watch, target = Stopwatch(), self.acked + more
        wait_for(lambda: self.acked >= target, f"{more} more acknowledgements")
        return watch.seconds

    def listen(self) -> None:
        """Starts to measure `silence_s`."""
        with self._lock:
            self._silence_s = 0.0

    def silence_s(self) -> float:
        """The longest time without an acknowledgement on any partition since `listen`, up to one on each."""
        with self._lock:
            before = dict(self._acks_of)
        wait_for(
            lambda: all(self._acks_of[partition] > count for partition, count in before.items()),
            "an acknowledgement by every partition",
        )
        return self._silence_s

    # Producers

    def _produce(self, name: str) -> None:
        producer = Producer(
            {
                **self._cluster.client,
                "enable.idempotence": True,
                "acks": "all",
                "linger.ms": 2,
                "message.timeout.ms": 120_000,
                "retry.backoff.ms": 50,
                "reconnect.backoff.max.ms": 500,
                **_QUIET,
            }
        )
        number = 0
        while not self._stop.is_set():
            for _ in range(10):
                value = Value(name, number)
                where: dict[str, Any] = {"key": str(number % 50).encode()}
                if self._spread is not None:
                    where = {"partition": number % self._spread}
                producer.produce(self._topic, value.encode(), on_delivery=self._answered(value), **where)
                number += 1
            pause = Stopwatch()
            while (left := self._pause_s - pause.seconds) > 0:
                producer.poll(left)  # returns at the first answer
        if producer.flush(90):
            self.failed.append(f"{name}: not everything was answered within 90 s")
        with self._lock:
            self.sent += number

    def _answered(self, value: Value) -> Any:
        def answered(error: KafkaError | None, message: Any) -> None:
            with self._lock:
                if error is not None:
                    self.failed.append(f"{value}: {error}")
                    return
                # A retry that the broker knew already may be acknowledged without its offset.
                offset = message.offset()
                self._acknowledged(value, Place(message.partition(), ANY_OFFSET if offset is None else offset))

        return answered

    def _acknowledged(self, value: Value, place: Place) -> None:
        """The caller holds the lock."""
        self.longest_gap_s = max(self.longest_gap_s, self._since_ack.seconds)
        self._since_ack.restart()
        partition = place.partition
        since_ack = self._since_ack_of.setdefault(partition, Stopwatch())
        self._silence_s = max(self._silence_s, since_ack.seconds)
        since_ack.restart()
        self._acks_of[partition] = self._acks_of.get(partition, 0) + 1
        self.history.acked[value] = place

    # The group

    def _consume(self) -> None:
        try:
            self._group.run(self._was_read)
        except RuntimeError as problem:
            self.failed.append(str(problem))

    def _was_read(self, partition: int, offset: int, data: bytes) -> None:
        assert self.history.delivered is not None
        value = Value.decode(data)
        self.history.delivered.add(value)
        self.history.reads.append((Place(partition, offset), value))

    def _read_enough(self) -> None:
        self._group.end()

    # The end

    def stop_writing(self) -> None:
        self._stop.set()
        for thread in self._producers:
            thread.join(100)

    def finish(self) -> History:
        """After healing: stops writing, lets the group read to the end, then reads the whole log itself."""
        self.stop_writing()
        self._cluster.wait_in_sync(self._topic)
        history = self.history
        assert history.delivered is not None
        delivered = history.delivered
        replaced = -1
        while replaced != self.deadlocked:  # the replacement of a deadlocked client has as much time
            replaced = self.deadlocked
            with contextlib.suppress(AssertionError):  # the checker names the missing records
                wait_for(lambda: history.acked.keys() <= delivered, "the group to read everything")
        self._read_enough()
        self._reader.join(60)
        history.final = read_all(self._cluster, self._topic)
        return history


class JavaLoad(Load):
    """The same load with Apache Kafka's Java clients, in a process of their own."""

    def __init__(self, cluster: RunningCluster | RunningUnit, topic: str, *, rate: int = 400) -> None:
        super().__init__(cluster, topic, producers=1)
        self._flushed = threading.Event()
        self._program = JavaProgram("LoadClient", cluster.bootstrap, topic, "java", str(rate))

    def _produce(self, name: str) -> None:
        self._stop.wait()
        with contextlib.suppress(OSError, ValueError):  # it has already ended
            self._program.tell("stop")
        if not self._flushed.wait(90):
            self.failed.append("java: not everything was answered within 90 s")

    def _consume(self) -> None:
        assert self._program.process.stdout is not None
        for line in self._program.process.stdout:
            what, *words = line.split()
            if what == "ack":
                with self._lock:
                    self._acknowledged(Value.decode(words[2].encode()), Place(int(words[0]), int(words[1])))
            elif what == "read":
                self._was_read(int(words[0]), int(words[1]), words[2].encode())
            elif what == "flushed":
                self.sent = int(words[0])
                self._flushed.set()
            else:
                self.failed.append(line)
        self._flushed.set()

    def _read_enough(self) -> None:
        self._program.close()


class CombinedLoad(Load):
    """Load from librdkafka's clients and from the Java clients."""

    def __init__(self, cluster: RunningCluster | RunningUnit, topic: str, *, rate: int = 400) -> None:
        super().__init__(cluster, topic, rate=rate)
        self._java = JavaLoad(cluster, topic, rate=rate // 2)

    def __enter__(self) -> Load:
        with contextlib.ExitStack() as stack:
            stack.enter_context(self._java)
            super().__enter__()
            stack.pop_all()
        return self

    def __exit__(self, *_: Any) -> None:
        super().__exit__()
        self._java.__exit__()

    @property
    def parts(self) -> tuple[Load, ...]:
        return (self, self._java)

    def wait_for_acks(self, more: int) -> float:
        took = super().wait_for_acks(more)
        if self._java.acked:  # it is in progress
            self._java.wait_for_acks(more // 4)
        return took

    def stop_writing(self) -> None:
        super().stop_writing()
        self._java.stop_writing()


def client_load(cluster: RunningCluster | RunningUnit, topic: str) -> Load:
    """Uses both kinds of clients if the effort is long, the cluster is open and Apache Kafka's jars are available."""
    has_java = kafka.available() and shutil.which("javac") and "security.protocol" not in cluster.client
    return (CombinedLoad if is_long() and has_java else Load)(cluster, topic)


def read_all(cluster: RunningCluster | RunningUnit, topic: str) -> dict[int, list[tuple[int, Value]]]:
    """Reads every partition from start to end, with a consumer without a group."""
    consumer = Consumer(
        {
            **cluster.client,
            "group.id": f"{topic}-audit",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            **_QUIET,
        }
    )
    found: dict[int, list[tuple[int, Value]]] = {partition: [] for partition in cluster.metadata(topic)}
    consumer.assign([TopicPartition(topic, partition, 0) for partition in found])
    open_partitions = set(found)

    def all_read() -> bool:
        for message in consumer.consume(1000, timeout=1.0):
            if message.error() is None:
                found[message.partition()].append((message.offset(), Value.decode(message.value())))
            elif message.error().code() == KafkaError._PARTITION_EOF:
                open_partitions.discard(message.partition())
        return not open_partitions

    try:
        wait_for(all_read, lambda: f"the end of partitions {open_partitions}", poll=0)
    finally:
        consumer.close()
    return found
