"""A broker that is killed at any call that changes a file: what it acknowledged is there after the next start.

Other tests kill at random moments. This one counts the calls of a short life, in which the broker creates, writes,
compacts, cuts and deletes logs: about a thousand. It kills at some of them in `make test`, at two hundred in the long
form, and at each, before and within it, with HEADRACE_ROUNDS=3000 (two hours). HEADRACE_CALLS=120-140 chooses
the calls.
"""

from __future__ import annotations

import os
import random
import shutil
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from headrace.client.blocking.client import READ_COMMITTED, READ_UNCOMMITTED, BlockingClient
from headrace.client.blocking.fetch import FetchSettings, fetched_records
from headrace.client.blocking.produce import BatchProducer, Section, Transaction
from headrace.kernel.errors import ErrorCode, Fault
from headrace.records.batch import HEADER_BYTES
from headrace.records.builder import Record, build_batch
from headrace.testing.process import BrokerProcess
from tests.support.clock import wait_for
from tests.support.effort import is_long, rounds
from tests.support.kill_shim import KillShim

pytestmark = [
    pytest.mark.chaos,
    pytest.mark.skipif(sys.platform != "linux", reason="preloads a library, which is built for Linux"),
    pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler"),
]
# Everything that works in the background does so at once.
_SETTINGS: Final = {
    "log.initial.task.delay.ms": "50",
    "log.retention.check.interval.ms": "50",
    "log.cleaner.backoff.ms": "50",
    "log.flush.scheduler.interval.ms": "50",
    "log.flush.offset.checkpoint.interval.ms": "50",
    "log.flush.start.offset.checkpoint.interval.ms": "50",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
}
_SMALL: Final = {
    "internal.segment.bytes": "1000",
    "index.interval.bytes": "100",
    "file.delete.delay.ms": "50",
    "retention.ms": "-1",
}
_COMPACTED: Final = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", "max.compaction.lag.ms": "1"}
_T0_MS: Final = 1_700_000_000_000
_DELETED_BEFORE: Final = 5


class Died(Exception):
    """The broker was killed before it answered."""


class Client(BlockingClient):
    """Does not wait for a broker that is dead."""

    def __init__(self, broker: BrokerProcess) -> None:
        super().__init__(broker.bootstrap, patience_s=60)
        self._process = broker.process

    def forget(self, fault: Fault) -> None:
        if self.is_dead():
            raise Died from fault
        super().forget(fault)

    def is_dead(self) -> bool:
        return self._process is not None and self._process.poll() is not None


@dataclass
class Acknowledged:
    """What the broker said it did. Of the last operation, which it did not answer, nothing is known."""

    topics: dict[str, dict[str, str]] = field(default_factory=dict)
    deleted: set[str] = field(default_factory=set)
    records: dict[str, list[bytes]] = field(default_factory=dict)
    latest: dict[bytes, bytes] = field(default_factory=dict)
    committed: list[bytes] = field(default_factory=list)
    hidden: list[bytes] = field(default_factory=list)
    """Values of transactions that did not commit."""
    offset: int = -1
    asked: str = ""
    """The operation that has no answer yet."""


def send(
    client: BlockingClient, topic: str, value: bytes, key: bytes = b"k", transaction: Transaction | None = None
) -> None:
    # Large enough for a new segment every few records.
    records = [Record(key, value.ljust(200), timestamp_ms=_T0_MS)]
    producer = BatchProducer(client, transaction=transaction)
    producer.send((topic, 0), Section(build_batch(records)[HEADER_BYTES:], 1, _T0_MS, _T0_MS))
    producer.flush()


class Life:
    """The operations of one broker, in order. Each is in `said` when the broker acknowledged it."""

    def __init__(self, broker: BrokerProcess, client: Client, said: Acknowledged) -> None:
        self._client, self._said, self._data = client, said, broker.data_dir
        self._admin = admin(broker.bootstrap)

    def run(self) -> None:
        try:
            for operation in self._operations():
                operation()
                self._said.asked = ""
        except Fault as fault:
            what = f"the end of the broker: {self._said.asked}: {fault.message}"
            wait_for(self._client.is_dead, what, within=10)
            raise Died from fault

    def _operations(self) -> Iterator[Callable[[], None]]:
        yield lambda: self._create("orders", _SMALL)
        for number in range(12):
            yield lambda number=number: self._write("orders", b"order %d" % number)
        yield lambda: self._create("prices", {**_SMALL, **_COMPACTED})
        for number in range(30):
            yield lambda number=number: self._write("prices", b"price %d" % number, key=b"k%d" % (number % 3))
        yield lambda: self._commit_offset(7)
        yield lambda: self._transaction("tx-1", b"committed", commit=True)
        yield lambda: self._transaction("tx-2", b"aborted", commit=False)
        yield lambda: self._delete_records("orders", _DELETED_BEFORE)
        yield lambda: self._set("orders", "max.message.bytes", "77777")
        yield lambda: self._create("gone", _SMALL)
        for number in range(6):
            yield lambda number=number: self._write("gone", b"gone %d" % number)
        yield lambda: self._delete("gone")
        yield lambda: self._await("the compaction of prices", self._is_compacted)
        yield lambda: self._await("the deletion of gone", lambda: not any(self._data.glob("gone-*-delete")))
        yield lambda: self._commit_offset(9)
        for number in range(12, 16):
            yield lambda number=number: self._write("orders", b"order %d" % number)

    def _await(self, what: str, condition: Callable[[], bool]) -> None:
        wait_for(lambda: condition() or self._client.is_dead(), what)

    def _is_compacted(self) -> bool:
        checkpoint = self._data / "cleaner-offset-checkpoint"
        return checkpoint.exists() and "prices 0 " in checkpoint.read_text()

    def _create(self, topic: str, settings: dict[str, str]) -> None:
        self._said.asked = f"create {topic}"
        self._client.create_topic(topic, 1, configs=settings)
        # Brokers do not show internal settings.
        self._said.topics[topic] = {name: value for name, value in settings.items() if not name.startswith("internal.")}

    def _write(self, topic: str, value: bytes, key: bytes = b"k") -> None:
        self._said.asked = f"write {value.decode()}"
        if topic == "prices":
            self._said.hidden.append(value)
        send(self._client, topic, value, key)
        self._said.records.setdefault(topic, []).append(value)
        if topic == "prices":
            self._said.hidden.remove(value)
            self._said.latest[key] = value

    def _transaction(self, name: str, value: bytes, *, commit: bool) -> None:
        self._said.asked = f"transaction {name}"
        transaction = Transaction(self._client, name, timeout_ms=30_000)
        transaction.begin()
        send(self._client, "orders", value, transaction=transaction)
        if not commit:
            self._said.hidden.append(value)
            transaction.abort()
            return
        self._said.asked = f"commit {name}"
        transaction.commit("readers", {("orders", 0): (8, "")})
        self._said.committed.append(value)
        self._said.offset = 8

    def _commit_offset(self, offset: int) -> None:
        self._said.asked = f"offset {offset}"
        self._client.commit_offsets("readers", {("orders", 0): (offset, "")})
        self._said.offset = offset

    def _delete_records(self, topic: str, before: int) -> None:
        self._said.asked = f"delete records of {topic}"
        body = {
            "topics": [{"name": topic, "partitions": [{"partition_index": 0, "offset": before}]}],
            "timeout": 30_000,
        }
        answer = self._client.leader((topic, 0)).call("delete_records", body)
        assert answer.topics[0].partitions[0].error_code is ErrorCode.none

    def _set(self, topic: str, name: str, value: str) -> None:
        self._said.asked = f"set {name} of {topic}"
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
        resource.add_incremental_config(ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET))
        self._answer(self._admin.incremental_alter_configs([resource])[resource])
        self._said.topics[topic][name] = value

    def _delete(self, topic: str) -> None:
        self._said.asked = f"delete {topic}"
        self._answer(self._admin.delete_topics([topic])[topic])
        self._said.deleted.add(topic)

    def _answer(self, future: Future[Any]) -> None:
        wait_for(lambda: future.done() or self._client.is_dead(), f"an answer: {self._said.asked}")
        if self._client.is_dead():
            raise Died
        future.result()


def values(client: BlockingClient, topic: str, isolation: int) -> list[tuple[bytes, bytes]]:
    """Keys and values from the log start offset to the end."""
    (start,) = client.list_offsets({(topic, 0): -2}).values()
    (end,) = client.list_offsets({(topic, 0): -1}, isolation=isolation).values()
    found = fetched_records(client, (topic, 0), start, end, FetchSettings(isolation=isolation))
    return [(record.key or b"", (record.value or b"").rstrip()) for record in found]


def settings_of(bootstrap: str, topic: str) -> dict[str, str]:
    asked, resource = admin(bootstrap), ConfigResource(ConfigResource.Type.TOPIC, topic)
    (found,) = asked.describe_configs([resource]).values()
    return {name: str(entry.value) for name, entry in found.result(60).items()}


def admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})


def check(bootstrap: str, client: BlockingClient, said: Acknowledged) -> None:
    """Everything that was acknowledged is there, once and in order."""
    found = client.topics(None)
    assert not said.deleted & found.keys()
    open_deletion = said.asked.removeprefix("delete ")
    for topic, settings in said.topics.items():
        if topic in said.deleted or (topic == open_deletion and topic not in found):
            continue
        assert topic in found
        assert settings.items() <= settings_of(bootstrap, topic).items()
        if topic == "prices":
            continue
        seen = [value for _, value in values(client, topic, READ_UNCOMMITTED) if value.startswith(topic[:4].encode())]
        assert len(seen) == len(set(seen)), seen
        written = said.records.get(topic, [])
        (start,) = client.list_offsets({(topic, 0): -2}).values()
        # The broker writes a new log start offset down some time after its answer, as Kafka does.
        assert start <= (_DELETED_BEFORE if topic == "orders" else 0)
        expected = written[start:]
        assert seen[: len(expected)] == expected
        assert len(seen) - len(expected) <= 1, "records that nobody sent"
    if "prices" in said.topics:
        latest = dict(values(client, "prices", READ_UNCOMMITTED))
        for key, value in said.latest.items():
            assert latest[key] == value or latest[key] in said.hidden
    if "orders" in said.topics:
        committed = [value for _, value in values(client, "orders", READ_COMMITTED)]
        assert "orders" not in said.topics or set(said.committed) <= set(committed)
        assert b"aborted" not in committed
    if said.offset >= 0:
        offsets = client.committed_offsets("readers")
        (offset, _) = offsets["orders", 0]
        unanswered = {f"offset {offset}", "commit tx-1"}
        assert offset == said.offset or said.asked in unanswered, (offset, said.offset, said.asked)


def strays(data: Path) -> list[str]:
    return sorted(path.name.partition(".")[0] for path in data.glob("*-stray"))


class Trial:
    """One broker after another on one directory."""

    def __init__(self, directory: Path, shims: Path) -> None:
        self.data = directory / "data"
        directory.mkdir()
        self._shim = KillShim(shims, below=self.data)

    def live(self, said: Acknowledged, kill_at: int | None = None, *, half_written: bool = False) -> int:
        """One life with a clean stop, or until the kill. Returns the number of calls it made."""

        def operate(broker: BrokerProcess) -> None:
            with Client(broker) as client:
                Life(broker, client, said).run()

        return self.start(operate, kill_at, half_written=half_written)

    def start(
        self, operate: Callable[[BrokerProcess], None], kill_at: int | None = None, *, half_written: bool = False
    ) -> int:
        self._shim.kill_at(kill_at, half_written=half_written)
        try:
            broker = BrokerProcess(_SETTINGS, self.data, within=self._shim.command)
        except RuntimeError:
            assert self.killed_at, "the broker did not start"
            return self._shim.made
        try:
            operate(broker)
            code = broker.stop()
            assert code == 0 or self.killed_at
        except Died:
            assert self.killed_at
        finally:
            broker.kill()
        return self._shim.made

    def crash(self, said: Acknowledged) -> None:
        """One life that ends like a crash of the machine: a part of a batch, indexes and small files are lost."""
        broker = BrokerProcess(_SETTINGS, self.data)
        try:
            with Client(broker) as client:
                Life(broker, client, said).run()
        finally:
            broker.kill()
        for topic in ("orders", "prices", "__consumer_offsets"):
            log = self.data / f"{topic}-0"
            *_, last = sorted(log.glob("*.log"))
            batch = build_batch([Record(b"k", b"torn" * 20, timestamp_ms=_T0_MS)])
            with last.open("ab") as out:
                out.write(batch[: len(batch) // 2])
            for index in [*log.glob("*.index"), *log.glob("*.snapshot")][::2]:
                index.unlink()
            (log / "leader-epoch-checkpoint").unlink()

    @property
    def killed_at(self) -> str:
        return self._shim.killed_at

    def check(self, said: Acknowledged) -> None:
        """Starts plainly. The broker serves and stops as if nothing had happened."""
        broker = BrokerProcess(_SETTINGS, self.data)
        try:
            with Client(broker) as client:
                check(broker.bootstrap, client, said)
                client.create_topic("after", 1)
                send(client, "after", b"again")
            assert broker.stop() == 0, broker.output[-2000:]
        finally:
            broker.kill()
        assert set(strays(self.data)) <= {"gone-0"}, broker.output[-2000:]


def chosen(calls: int, number: int) -> list[tuple[int, bool]]:
    """Calls, and whether half of the bytes are written if it is a write."""
    if wanted := os.environ.get("HEADRACE_CALLS"):
        first, _, last = wanted.partition("-")
        return [(call, half) for call in range(int(first), int(last or first) + 1) for half in (False, True)]
    every = [(call, half) for call in range(calls) for half in (False, True)]
    return sorted(random.Random(number).sample(every, min(len(every), number)))


@pytest.mark.timeout(14_400 if is_long() else 300)
def test_what_was_acknowledged_survives_a_kill_at_any_call(tmp_path: Path) -> None:
    said, shims = Acknowledged(), tmp_path / "shims"
    counted = Trial(tmp_path / "counted", shims)
    calls = counted.live(said)
    counted.check(said)
    for call, half_written in chosen(calls, rounds(short=5, long=200)):
        said, directory = Acknowledged(), tmp_path / f"killed-{call}-{half_written}"
        trial = Trial(directory, shims)
        trial.live(said, call, half_written=half_written)
        try:
            trial.check(said)
        except Exception as error:
            error.add_note(f"killed at call {call} of {calls}: {trial.killed_at}; open: {said.asked or 'nothing'}")
            raise
        shutil.rmtree(directory)


@pytest.mark.timeout(14_400 if is_long() else 300)
def test_the_start_after_a_crash_may_be_killed_at_any_call(tmp_path: Path) -> None:
    said, shims = Acknowledged(), tmp_path / "shims"
    crashed = Trial(tmp_path / "crashed", shims)
    crashed.crash(said)

    def copy(name: str) -> Trial:
        trial = Trial(tmp_path / name, shims)
        shutil.copytree(crashed.data, trial.data)
        return trial

    counted = copy("counted")
    calls = counted.start(lambda _: None)
    counted.check(said)
    for call, half_written in chosen(calls, rounds(short=4, long=1000)):
        trial = copy(f"killed-{call}-{half_written}")
        # Twice: the second start finds what the first one left.
        for _ in range(2):
            trial.start(lambda _: None, call, half_written=half_written)
        try:
            trial.check(said)
        except Exception as error:
            error.add_note(f"killed at call {call} of {calls}: {trial.killed_at}")
            raise
        shutil.rmtree(trial.data.parent)
