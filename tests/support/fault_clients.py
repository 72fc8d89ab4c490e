"""librdkafka, aiokafka and Kafka's Java client with one interface, for tests of faults.

Each call uses a new client. A client's own error becomes a `Refused` with the name that the client gives it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.errors import KafkaError as AioError
from aiokafka.structs import OffsetAndMetadata
from aiokafka.structs import TopicPartition as AioPartition
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from tests.support.clock import PATIENCE_S
from tests.support.java_client import JavaError, JavaProgram


class Refused(Exception):
    """The client gave up. Its argument is the client's own name of the error."""


class FaultClient(Protocol):
    name: str

    def send(
        self, bootstrap: str, topic: str, *values: str, idempotent: bool = False, give_up_ms: int = 0
    ) -> list[int]:
        """Sends to partition 0, one value after the other, with acks=all. Returns the offsets. `give_up_ms`: how long
        the client tries; 0 for its own patience."""

    def read(self, bootstrap: str, topic: str, count: int) -> list[str]:
        """The first records of partition 0. The client checks their CRC."""

    def commit(self, bootstrap: str, topic: str, group: str) -> None: ...


class Librdkafka:
    name = "librdkafka"

    def send(
        self, bootstrap: str, topic: str, *values: str, idempotent: bool = False, give_up_ms: int = 0
    ) -> list[int]:
        patience = {"message.timeout.ms": give_up_ms, "request.timeout.ms": give_up_ms} if give_up_ms else {}
        quick = {"linger.ms": 0, "log_level": 0, "enable.idempotence": idempotent, "acks": "all"}
        producer = Producer({"bootstrap.servers": bootstrap, **quick, **patience})
        offsets: list[int] = []

        def delivered(error: Any, message: Any) -> None:
            if error is not None:
                raise Refused(error.name())
            offsets.append(message.offset())

        for value in values:
            producer.produce(topic, value, partition=0, on_delivery=delivered)
            assert producer.flush(PATIENCE_S) == 0
        return offsets

    def read(self, bootstrap: str, topic: str, count: int) -> list[str]:
        settings = {"group.id": "reader", "check.crcs": True, "log_level": 0}
        consumer = Consumer({"bootstrap.servers": bootstrap, **settings})
        consumer.assign([TopicPartition(topic, 0, 0)])
        found: list[str] = []
        try:
            while len(found) < count:
                message = consumer.poll(PATIENCE_S)
                assert message is not None
                if message.error() is not None:
                    raise Refused(message.error().name())
                found.append(message.value().decode())
            return found
        finally:
            consumer.close()

    def commit(self, bootstrap: str, topic: str, group: str) -> None:
        consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "log_level": 0})
        try:
            consumer.commit(offsets=[TopicPartition(topic, 0, 1)], asynchronous=False)
        except KafkaException as error:
            raise Refused(error.args[0].name()) from None
        finally:
            consumer.close()


class Aiokafka:
    name = "aiokafka"

    def send(
        self, bootstrap: str, topic: str, *values: str, idempotent: bool = False, give_up_ms: int = 0
    ) -> list[int]:
        patience = {"request_timeout_ms": give_up_ms} if give_up_ms else {}

        async def run() -> list[int]:
            async with AIOKafkaProducer(
                bootstrap_servers=bootstrap, acks="all", enable_idempotence=idempotent, **patience
            ) as producer:
                return [(await producer.send_and_wait(topic, one.encode(), partition=0)).offset for one in values]

        offsets: list[int] = self._run(run())
        return offsets

    def read(self, bootstrap: str, topic: str, count: int) -> list[str]:
        async def run() -> list[str]:
            async with AIOKafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
                consumer.assign([AioPartition(topic, 0)])
                return [(await consumer.getone()).value.decode() for _ in range(count)]

        values: list[str] = self._run(run())
        return values

    def commit(self, bootstrap: str, topic: str, group: str) -> None:
        async def run() -> None:
            async with AIOKafkaConsumer(bootstrap_servers=bootstrap, group_id=group) as consumer:
                partition = AioPartition(topic, 0)
                consumer.assign([partition])
                await consumer.commit({partition: OffsetAndMetadata(1, "")})

        self._run(run())

    def _run(self, work: Any) -> Any:
        try:
            return asyncio.run(asyncio.wait_for(work, PATIENCE_S))
        except AioError as error:
            raise Refused(type(error).__name__) from None


class Java:
    name = "java"

    def __init__(self, program: JavaProgram) -> None:
        self._program = program

    def send(
        self, bootstrap: str, topic: str, *values: str, idempotent: bool = False, give_up_ms: int = 0
    ) -> list[int]:
        settings = {"enable.idempotence": str(idempotent).lower(), "acks": "all"}
        if give_up_ms:
            settings |= {"delivery.timeout.ms": str(give_up_ms), "request.timeout.ms": str(give_up_ms)}
            settings["linger.ms"] = "0"  # must be below the first, and is 5 by default
        answer = self._ask("send", bootstrap, topic, ",".join(values), settings)
        return [int(one) for one in answer.split(",")]

    def read(self, bootstrap: str, topic: str, count: int) -> list[str]:
        return self._ask("read", bootstrap, topic, str(count), {}).split(",")

    def commit(self, bootstrap: str, topic: str, group: str) -> None:
        self._ask("commit", bootstrap, topic, group, {})

    def _ask(self, *words: Any) -> str:
        *command, settings = words
        try:
            return self._program.ask(" ".join([*command, *(f"{name}={value}" for name, value in settings.items())]))
        except JavaError as error:
            raise Refused(error.name) from None


@contextmanager
def fault_client(name: str) -> Iterator[FaultClient]:
    if name == Java.name:
        with JavaProgram("FaultClient") as program:
            yield Java(program)
    else:
        yield Librdkafka() if name == Librdkafka.name else Aiokafka()
