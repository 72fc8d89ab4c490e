"""The error table: Kafka's error codes and the exceptions (faults) that map to them.

There are three kinds of errors. *Answers* are error codes as data, one per topic or partition. *Faults* are raised:

    Fault                       code + a message that names the thing, the value and the way out
    ├── NotLeader               NOT_LEADER_OR_FOLLOWER
    ├── FencedLeaderEpoch       FENCED_LEADER_EPOCH
    ├── UnknownLeaderEpoch      UNKNOWN_LEADER_EPOCH
    ├── UnknownPartition        UNKNOWN_TOPIC_OR_PARTITION
    ├── UnknownTopicId          UNKNOWN_TOPIC_ID
    ├── OffsetOutOfRange        OFFSET_OUT_OF_RANGE
    ├── StorageFault            KAFKA_STORAGE_ERROR (disk, log dir offline, no space)
    ├── CorruptBatch            CORRUPT_MESSAGE
    └── Refused                 any other code, given at the raise

A handler turns a fault into the answer for the partition or topic that caused it. *Bugs* are failed assertions: the
broker logs the traceback and answers UNKNOWN_SERVER_ERROR.
"""

from __future__ import annotations

from typing import ClassVar

from kio.schema.errors import ErrorCode

__all__ = [
    "CorruptBatch",
    "ErrorCode",
    "Fault",
    "FencedLeaderEpoch",
    "NotLeader",
    "OffsetOutOfRange",
    "Refused",
    "StorageFault",
    "UnknownLeaderEpoch",
    "UnknownPartition",
    "UnknownTopicId",
]


class Fault(Exception):
    """An operating fault with the error code and message that the client receives."""

    default_code: ClassVar[ErrorCode] = ErrorCode.unknown_server_error

    def __init__(self, message: str = "", *, code: ErrorCode | None = None) -> None:
        super().__init__(message)
        self.code = self.default_code if code is None else code

    @property
    def message(self) -> str:
        return str(self.args[0]) if self.args else ""


class NotLeader(Fault):
    default_code = ErrorCode.not_leader_or_follower


class FencedLeaderEpoch(Fault):
    default_code = ErrorCode.fenced_leader_epoch


class UnknownLeaderEpoch(Fault):
    default_code = ErrorCode.unknown_leader_epoch


class UnknownPartition(Fault):
    default_code = ErrorCode.unknown_topic_or_partition


class UnknownTopicId(Fault):
    default_code = ErrorCode.unknown_topic_id


class OffsetOutOfRange(Fault):
    default_code = ErrorCode.offset_out_of_range


class StorageFault(Fault):
    default_code = ErrorCode.kafka_storage_error


class CorruptBatch(Fault):
    default_code = ErrorCode.corrupt_message


class Refused(Fault):
    """A fault with any other code: `raise Refused(ErrorCode.invalid_request, "acks=7: must be -1, 0 or 1")`."""

    def __init__(self, code: ErrorCode, message: str = "") -> None:
        super().__init__(message, code=code)
