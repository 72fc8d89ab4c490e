"""History of acknowledgements and reads, and the checker that counts anomalies.

Every record has a unique value: its producer and a number. So the checker can count each anomaly:

acked_lost           acknowledged, but not in the log at the end
acked_elsewhere      acknowledged at one offset, found at another
doubled              written once by an idempotent producer, in the log more than once
disordered           a producer's records are in one partition in another order than it sent them
read_then_gone       a consumer read it at an offset where the log now has another record, or none
undelivered          acknowledged, but never delivered to the group that reads everything
torn_transactions    some records of a transaction are visible and others not, or an aborted one is
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, fields
from typing import NamedTuple

ANY_OFFSET = -1


class Value(NamedTuple):
    producer: str
    number: int

    def encode(self) -> bytes:
        return f"{self.producer}/{self.number}".encode()

    @classmethod
    def decode(cls, data: bytes) -> Value:
        producer, number = data.decode().split("/")
        return cls(producer, int(number))


class Place(NamedTuple):
    partition: int
    offset: int


@dataclass
class Transaction:
    values: list[Value] = field(default_factory=list)
    committed: bool | None = None  # None: the client does not know the outcome


@dataclass
class History:
    acked: dict[Value, Place] = field(default_factory=dict)
    reads: list[tuple[Place, Value]] = field(default_factory=list)
    delivered: set[Value] | None = None  # None: no group took part
    transactions: list[Transaction] = field(default_factory=list)
    # Content of the log at the end, per partition, in offset order.
    final: dict[int, list[tuple[int, Value]]] = field(default_factory=dict)


@dataclass
class Anomalies:
    acked_lost: list[object] = field(default_factory=list)
    acked_elsewhere: list[object] = field(default_factory=list)
    doubled: list[object] = field(default_factory=list)
    disordered: list[object] = field(default_factory=list)
    read_then_gone: list[object] = field(default_factory=list)
    undelivered: list[object] = field(default_factory=list)
    torn_transactions: list[object] = field(default_factory=list)

    @property
    def counts(self) -> dict[str, int]:
        return {one.name: len(getattr(self, one.name)) for one in fields(self)}

    def __bool__(self) -> bool:
        return any(self.counts.values())

    def __str__(self) -> str:
        shown = (f"{name}: {getattr(self, name)[:5]}" for name, count in self.counts.items() if count)
        return f"{self.counts} {'; '.join(shown)}"


def check(history: History) -> Anomalies:
    found = Anomalies()
    places: dict[Value, list[Place]] = defaultdict(list)
    at: dict[Place, Value] = {}
    for partition, records in history.final.items():
        newest: dict[str, int] = {}
        for offset, value in records:
            place = Place(partition, offset)
            places[value].append(place)
            at[place] = value
            if value.number < newest.get(value.producer, -1):
                found.disordered.append((place, value))
            newest[value.producer] = max(value.number, newest.get(value.producer, -1))
    for value, place in history.acked.items():
        if value not in places:
            found.acked_lost.append((value, place))
        elif place.offset != ANY_OFFSET and place not in places[value]:
            found.acked_elsewhere.append((value, place, places[value]))
        if history.delivered is not None and value not in history.delivered:
            found.undelivered.append((value, place))
    found.doubled.extend((value, where) for value, where in places.items() if len(where) > 1)
    found.read_then_gone.extend((place, value) for place, value in history.reads if at.get(place) != value)
    for transaction in history.transactions:
        visible = sum(value in places for value in transaction.values)
        whole = visible == len(transaction.values) and transaction.committed is not False
        none = visible == 0 and transaction.committed is not True
        if not whole and not none:
            found.torn_transactions.append((transaction, visible))
    return found
