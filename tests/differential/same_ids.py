"""Gives generated member ids the same value on both brokers: Headrace uses the id that Kafka generated.

Otherwise the brokers could not be compared where a choice depends on the hash of an id. Kafka gets the request first.
The id is in its answer or, while a join waits for other members, in its description of the group.
"""

from __future__ import annotations

import re
import select
import socket
import struct
import uuid
from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING

from headrace.coordinators.group.core.consumer.java_order import java_hash
from headrace.kernel.ids import uuid_from_text
from headrace.testing import RunningBroker
from headrace.wire import codec
from tests.support.clock import PATIENCE_S, Stopwatch
from tests.support.group_requests import DESCRIBE

if TYPE_CHECKING:
    from tests.differential.histories import Side, Step

ANSWERED_S = 0.06
_UUID = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")


class SameIds:
    def __init__(self, ours: RunningBroker) -> None:
        self._next: deque[uuid.UUID] = deque(maxlen=1)
        self._met: set[str] = set()
        ours.broker.parts.coordinators.groups.new_uuid = self._take

    def _take(self) -> uuid.UUID:
        return self._next.popleft() if self._next else uuid.uuid4()

    def follow(self, kafka: Side, step: Step, asked: socket.socket) -> None:
        """Call it after the request to Kafka and before the request to Headrace."""
        self._next.clear()
        watch = Stopwatch()
        while (member_id := _answered_id(asked, step)) is None and not (member_id := self._described_id(kafka, step)):
            assert not watch.has_run(PATIENCE_S), f"Kafka neither answers nor shows the member of {step}"
        if member_id:
            self._met.add(member_id)
            found = _UUID.search(member_id)
            self._next.append(uuid.UUID(found[0]) if found else uuid_from_text(member_id))

    def _described_id(self, kafka: Side, step: Step) -> str:
        body = {"groups": [step.body["group_id"]], "include_authorized_operations": False}
        found = [str(member.member_id) for member in kafka.ask(DESCRIBE, 5, body).groups[0].members]
        made_up = [member_id for member_id in found if _UUID.search(member_id) or len(member_id) == 22]
        return next((member_id for member_id in made_up if member_id not in self._met), "")


def _answered_id(asked: socket.socket, step: Step) -> str | None:
    """None while there is no answer."""
    if not select.select([asked], [], [], ANSWERED_S)[0]:
        return None
    (length,) = struct.unpack(">i", asked.recv(4, socket.MSG_PEEK | socket.MSG_WAITALL))
    frame = asked.recv(4 + length, socket.MSG_PEEK | socket.MSG_WAITALL)
    return str(codec.read_response(step.api, step.version, frame[4:])[1].member_id)


def share_a_bucket(ids: Iterable[str]) -> bool:
    """Whether Kafka's order of these members depends on the order in which it met them."""
    buckets = [(value ^ value >> 16) & 15 for value in map(java_hash, ids)]
    return len(set(buckets)) < len(buckets)
