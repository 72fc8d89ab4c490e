"""Identifiers, name rules and hashes, the same as Kafka's."""

from __future__ import annotations

import base64
import re
import uuid
from typing import Final, NamedTuple

ZERO_UUID: Final = uuid.UUID(int=0)
MAX_TOPIC_NAME_LENGTH: Final = 249
_LEGAL_TOPIC_NAME: Final = re.compile(r"[a-zA-Z0-9._-]+\Z")

# The coordinators' internal topics: clients may read them, only a coordinator writes them.
GROUP_METADATA_TOPIC: Final = "__consumer_offsets"
TRANSACTION_STATE_TOPIC: Final = "__transaction_state"
SHARE_GROUP_STATE_TOPIC: Final = "__share_group_state"
# Kafka's name for the log of its KRaft controllers. Headrace has no such topic and reserves the name.
CLUSTER_METADATA_TOPIC: Final = "__cluster_metadata"
INTERNAL_TOPICS: Final = frozenset({GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC, SHARE_GROUP_STATE_TOPIC})
# A common misspelling in documents. Commands accept it.
OTHER_SPELLINGS: Final = {"__consumer__offsets": GROUP_METADATA_TOPIC}


# The principal of a client that did not authenticate.
ANONYMOUS: Final = "User:ANONYMOUS"


class TopicPartition(NamedTuple):
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def topic_name_problem(name: str) -> str | None:
    """Why `name` cannot name a topic, or None when it can."""
    if not name:
        return "topic name is empty: give it 1 to 249 letters, digits, '.', '_' or '-'"
    if name in (".", ".."):
        return f"topic name {name!r}: must not be '.' or '..'"
    if len(name) > MAX_TOPIC_NAME_LENGTH:
        return f"topic name is {len(name)} characters long: at most {MAX_TOPIC_NAME_LENGTH} are allowed"
    if not _LEGAL_TOPIC_NAME.match(name):
        return f"topic name {name!r}: only ASCII letters, digits, '.', '_' and '-' are allowed"
    return None


def names_collide(one: str, other: str) -> bool:
    """Whether two topic names differ only in '.' and '_', which Kafka's metric names do not distinguish."""
    return one.replace(".", "_") == other.replace(".", "_")


def new_topic_id() -> uuid.UUID:
    """A random id; never zero, and never one that prints with a leading '-' (tools would read it as a flag)."""
    while True:
        candidate = uuid.uuid4()
        if not uuid_to_text(candidate).startswith("-"):
            return candidate


def uuid_to_text(value: uuid.UUID) -> str:
    """Kafka prints ids as unpadded URL-safe base64 (22 characters)."""
    return base64.urlsafe_b64encode(value.bytes).rstrip(b"=").decode()


def uuid_from_text(text: str) -> uuid.UUID:
    """Raises ValueError when `text` is not 22 characters of URL-safe base64."""
    if len(text) != 22:
        raise ValueError(f"id {text!r}: must be 22 characters of URL-safe base64")
    return uuid.UUID(bytes=base64.urlsafe_b64decode(text + "=="))


def murmur2(data: bytes) -> int:
    """The signed 32-bit hash with which Java producers choose the partition of a key."""
    mask, mix = 0xFFFFFFFF, 0x5BD1E995
    length = len(data)
    value = (0x9747B28C ^ length) & mask
    for at in range(0, length - 3, 4):
        word = int.from_bytes(data[at : at + 4], "little") * mix & mask
        word = (word ^ (word >> 24)) * mix & mask
        value = value * mix & mask ^ word
    tail = data[length & ~3 :]
    if tail:
        value = (value ^ int.from_bytes(tail, "little")) * mix & mask
    value = (value ^ (value >> 13)) * mix & mask
    value ^= value >> 15
    return value - (1 << 32) if value & 0x80000000 else value


def partition_for_key(key: bytes, partitions: int) -> int:
    return (murmur2(key) & 0x7FFFFFFF) % partitions


def java_string_hash(text: str) -> int:
    """Java's String.hashCode: chooses the coordinator partition of a group or transactional id."""
    value = 0
    units = text.encode("utf-16-be")
    for at in range(0, len(units), 2):
        value = (31 * value + (units[at] << 8 | units[at + 1])) & 0xFFFFFFFF
    return value - (1 << 32) if value & 0x80000000 else value


def coordinator_partition(group_or_transactional_id: str, partitions: int) -> int:
    """The partition in which Kafka stores this id, so that Kafka can read what Headrace wrote, and the reverse."""
    value = java_string_hash(group_or_transactional_id)
    # Kafka's Utils.abs: the smallest integer has no positive counterpart.
    return 0 if value == -(1 << 31) else abs(value) % partitions
