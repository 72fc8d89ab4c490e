"""Records of the coordinators' topics as text, for kafka-dump-log and the console consumer's formatters.

Keys and values become the JSON of Kafka's tools. Records that cannot be decoded (from a newer Kafka) are skipped.
"""

from __future__ import annotations

import base64
import uuid
from collections.abc import Callable, Mapping
from typing import Final

from headrace.cli.kafka_tools.support.formatters import FORMATTERS, Formatter, Shown
from headrace.cli.kafka_tools.support.group_records import GROUP_RECORDS, SHARE_STATE_RECORDS, assignment, subscription
from headrace.cli.kafka_tools.support.json_files import compact
from headrace.coordinators.codec import classic_groups, offsets, transactions
from headrace.coordinators.codec.primitives import UnreadableRecord, key_type, key_words
from headrace.kernel.ids import GROUP_METADATA_TOPIC, SHARE_GROUP_STATE_TOPIC, TRANSACTION_STATE_TOPIC, uuid_to_text

Described = tuple[str | None, str | None]
Readers = tuple[Callable[[bytes], dict[str, object]], Callable[[bytes], dict[str, object]]]


def _version(value: bytes) -> int:
    return int.from_bytes(value[:2], "big")


def _offset_key(key: bytes) -> dict[str, object]:
    group, topic, partition = offsets.read_offset_key(key)
    return {"group": group, "topic": topic, "partition": partition}


def _offset_value(value: bytes) -> dict[str, object]:
    found = offsets.read_offset_value(value)
    topic_id = uuid.UUID(int=0) if found.topic_id is None else found.topic_id
    return {
        "offset": found.offset,
        "leaderEpoch": found.leader_epoch,
        "metadata": found.metadata,
        "commitTimestamp": found.commit_timestamp_ms,
        **({"expireTimestamp": found.expire_timestamp_ms} if _version(value) == 1 else {}),
        **({"topicId": uuid_to_text(topic_id)} if _version(value) >= 4 and found.topic_id is not None else {}),
    }


def _group_key(key: bytes) -> dict[str, object]:
    return {"group": key_words(key, 1)[0]}


def _group_value(value: bytes) -> dict[str, object]:
    return _group_document(classic_groups.read_group_metadata_value(value), _base64, _base64)


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _group_document(
    found: classic_groups.GroupMetadataValue,
    subscription_of: Callable[[bytes], object],
    assignment_of: Callable[[bytes], object],
) -> dict[str, object]:
    return {
        "protocolType": found.protocol_type,
        "generation": found.generation,
        "protocol": found.protocol,
        "leader": found.leader,
        "currentStateTimestamp": found.current_state_timestamp_ms,
        "members": [
            {
                "memberId": member.member_id,
                "groupInstanceId": member.group_instance_id,
                "clientId": member.client_id,
                "clientHost": member.client_host,
                "rebalanceTimeout": member.rebalance_timeout_ms,
                "sessionTimeout": member.session_timeout_ms,
                "subscription": subscription_of(member.subscription),
                "assignment": assignment_of(member.assignment),
            }
            for member in found.members
        ],
    }


def _transaction_value(value: bytes) -> dict[str, object]:
    found = transactions.read_transaction_log_value(value)
    partitions = (
        None if found.partitions is None else [{"topic": t, "partitionIds": list(p)} for t, p in found.partitions]
    )
    return {
        "producerId": found.producer_id,
        # Tagged fields appear only if they are not the default.
        **({"previousProducerId": found.previous_producer_id} if found.previous_producer_id >= 0 else {}),
        **({"nextProducerId": found.next_producer_id} if found.next_producer_id >= 0 else {}),
        "producerEpoch": found.producer_epoch,
        **({"nextProducerEpoch": found.next_producer_epoch} if found.next_producer_epoch >= 0 else {}),
        "transactionTimeoutMs": found.timeout_ms,
        "transactionStatus": found.status,
        "transactionPartitions": partitions,
        "transactionLastUpdateTimestampMs": found.last_update_timestamp_ms,
        "transactionStartTimestampMs": found.start_timestamp_ms,
        **({"clientTransactionVersion": found.client_transaction_version} if found.client_transaction_version else {}),
    }


def _transaction_key(key: bytes) -> dict[str, object]:
    return {"transactionalId": transactions.read_transaction_log_key(key)}


def _decoded_group_value(value: bytes) -> dict[str, object]:
    """With decoded subscriptions and assignments, as kafka-dump-log prints them. The formatter prints base64."""
    found = classic_groups.read_group_metadata_value(value)
    if found.protocol_type != "consumer":
        return _group_value(value)
    return _group_document(found, subscription, assignment)


def _describer(records: Mapping[int, Readers]) -> Callable[[bytes | None, bytes | None], Described]:
    """Key and value of a record in the format of kafka-dump-log."""

    def describe(key: bytes | None, value: bytes | None) -> Described:
        if key is None:
            return None, None
        kind = key_type(key)
        if kind not in records:
            return f"record type {kind}", None if value is None else f"{len(value)} bytes"
        read_key, read_value = records[kind]
        try:
            head = compact({"type": str(kind), "data": read_key(key)})
            body = None if value is None else compact({"version": str(_version(value)), "data": read_value(value)})
        except UnreadableRecord as error:
            return f"unreadable: {error}", None
        return head, body

    return describe


describe_group_record: Final = _describer(
    {
        offsets.OFFSET_COMMIT: (_offset_key, _offset_value),
        classic_groups.GROUP_METADATA: (_group_key, _decoded_group_value),
        **GROUP_RECORDS,
    }
)
describe_transaction_record: Final = _describer({transactions.TRANSACTION_LOG: (_transaction_key, _transaction_value)})
describe_share_record: Final = _describer(SHARE_STATE_RECORDS)


def _formatter(topic: str, records: Mapping[int, Readers]) -> Callable[[object], Formatter]:
    """A formatter of the console consumer: prints records of these types as JSON, and no others."""

    def show(record: Shown) -> bytes | None:
        if record.key is None or record.topic != topic:
            return None
        try:
            kind = key_type(record.key)
            if kind not in records:
                return None
            read_key, read_value = records[kind]
            head = {"type": kind, "data": read_key(record.key)}
            body = None
            if record.value is not None:
                body = {"version": _version(record.value), "data": read_value(record.value)}
        except UnreadableRecord:
            return None
        return compact({"key": head, "value": body}).encode() + b"\n"

    return lambda properties: show


FORMATTERS.update(
    {
        "OffsetsMessageFormatter": _formatter(
            GROUP_METADATA_TOPIC, {offsets.OFFSET_COMMIT: (_offset_key, _offset_value)}
        ),
        "GroupMetadataMessageFormatter": _formatter(
            GROUP_METADATA_TOPIC, {classic_groups.GROUP_METADATA: (_group_key, _group_value)}
        ),
        "TransactionLogMessageFormatter": _formatter(
            TRANSACTION_STATE_TOPIC, {transactions.TRANSACTION_LOG: (_transaction_key, _transaction_value)}
        ),
        "ShareGroupStateMessageFormatter": _formatter(SHARE_GROUP_STATE_TOPIC, SHARE_STATE_RECORDS),
    }
)
