"""Produce, Fetch, ListOffsets, OffsetForLeaderEpoch, DeleteRecords, DescribeProducers, ApiVersions, Metadata."""

from __future__ import annotations

import struct
import uuid
from typing import Any

from headrace.records.builder import Record, build_batch
from headrace.records.compression import Codec
from tests.differential.servers import Server
from tests.differential.table import Body, Variant, create_topic, each_version
from tests.support.clock import PATIENCE_S

STAMP = 1_700_000_000_000
UNKNOWN_ID = uuid.UUID(int=0x1234)


def batch(count: int = 1, *, key: bytes | None = b"k", value: bytes = b"v", stamp: int = STAMP, **more: Any) -> bytes:
    records = [Record(key, value, timestamp_ms=stamp + n) for n in range(count)]
    return build_batch(records, **more)


def produce_body(partition: int, records: bytes | None, *, topic: str = "orders", acks: int = 1, **more: Any) -> Body:
    return {
        "transactional_id": None,
        "acks": acks,
        "timeout": 5000,
        "topic_data": [{"name": topic, "partition_data": [{"index": partition, "records": records}]}],
        **more,
    }


def by_id(body: Body) -> Any:
    """The same with the topic id, which differs between the servers."""

    def make(server: Server) -> Body:
        topics = [{**topic, "topic_id": server.known.get(topic["name"], UNKNOWN_ID)} for topic in body["topic_data"]]
        return {**body, "topic_data": topics}

    return make


def produce(name: str, body: Body, versions: range = range(3, 14), patience: float = PATIENCE_S) -> list[Variant]:
    return [Variant(name, 0, v, body if v < 13 else by_id(body), patience=patience) for v in versions]


def flipped(data: bytes, at: int) -> bytes:
    changed = bytearray(data)
    changed[at] ^= 0xFF
    return bytes(changed)


def with_attributes(data: bytes, attributes: int) -> bytes:
    """Other attributes, with a corrected checksum."""
    from crc32c import crc32c

    changed = bytearray(data)
    struct.pack_into(">h", changed, 21, attributes)
    struct.pack_into(">I", changed, 17, crc32c(bytes(changed[21:])))
    return bytes(changed)


WHOLE = batch(2)
SOME = range(3, 14, 2)


def with_field(data: bytes, at: int, fmt: str, value: int) -> bytes:
    """Another value in the header, with a corrected checksum."""
    changed = bytearray(data)
    struct.pack_into(fmt, changed, at, value)
    return with_attributes(bytes(changed), struct.unpack_from(">h", changed, 21)[0])


PRODUCE = [
    *produce("one-batch", produce_body(2, WHOLE)),
    *produce("all-replicas", produce_body(2, WHOLE, acks=-1), SOME),
    *produce("no-acks-nothing-wrong", produce_body(2, WHOLE, acks=0), range(9, 10), patience=1),
    *produce("no-acks-unknown-topic", produce_body(2, WHOLE, acks=0, topic="nowhere"), range(9, 10)),
    *produce("wrong-acks", produce_body(2, WHOLE, acks=7), SOME),
    *produce("unknown-topic", produce_body(0, WHOLE, topic="nowhere")),
    *produce("unknown-partition", produce_body(17, WHOLE)),
    *produce("negative-partition", produce_body(-1, WHOLE), SOME),
    *produce("no-records", produce_body(2, b""), SOME),
    *produce("two-batches", produce_body(2, WHOLE + WHOLE), SOME),
    *produce("half-a-batch", produce_body(2, WHOLE[:-5]), SOME),
    *produce("wrong-checksum", produce_body(2, flipped(WHOLE, len(WHOLE) - 1)), SOME),
    *produce("old-magic", produce_body(2, flipped(WHOLE, 16)), SOME),
    *produce("magic-1", produce_body(2, WHOLE[:16] + b"\1" + WHOLE[17:]), SOME),
    *produce("magic-0", produce_body(2, WHOLE[:16] + b"\0" + WHOLE[17:]), SOME),
    *produce("control-batch", produce_body(2, with_attributes(WHOLE, 0x20)), SOME),
    *produce("unknown-codec", produce_body(2, with_attributes(WHOLE, 5)), SOME),
    *produce("broken-gzip", produce_body(0, with_attributes(WHOLE, 1), topic="scratch"), range(9, 10)),
    *produce("no-topics", {**produce_body(2, WHOLE), "topic_data": []}, range(3, 13, 3)),
    *produce("torn-rest", produce_body(2, WHOLE + b"x"), SOME),
    *produce("rubbish-behind", produce_body(2, WHOLE + b"x" * 20), SOME),
    *produce("length-too-small", produce_body(2, with_field(WHOLE, 8, ">i", len(WHOLE) - 15)), range(9, 10)),
    *produce("length-too-large", produce_body(2, with_field(WHOLE, 8, ">i", len(WHOLE) + 100)), range(9, 10)),
    *produce("length-negative", produce_body(2, with_field(WHOLE, 8, ">i", -1)), range(9, 10)),
    *produce("no-record-counted", produce_body(2, with_field(WHOLE, 57, ">i", 0)), range(9, 10)),
    *produce("one-record-too-many", produce_body(2, with_field(WHOLE, 57, ">i", 3)), range(9, 10)),
    *produce("last-offset-too-high", produce_body(2, with_field(WHOLE, 23, ">i", 9)), range(9, 10)),
    *produce("begins-at-seven", produce_body(2, with_field(WHOLE, 0, ">q", 7)), range(9, 10)),
    *produce("newest-time-wrong", produce_body(2, with_field(WHOLE, 35, ">q", 5)), range(9, 10)),
    *produce("transactional-without-id", produce_body(2, with_attributes(WHOLE, 0x10)), SOME),
    *produce("id-without-transaction", produce_body(2, WHOLE, transactional_id="none"), range(9, 10)),
    *produce("times-before-1970", produce_body(2, batch(1, stamp=-5)), range(9, 10)),
    *produce("no-time", produce_body(2, WHOLE, acks=-1, timeout=0), range(9, 10)),
    *produce("too-large", produce_body(0, batch(1, value=b"x" * 600), topic="small"), SOME),
    *produce("no-key-in-compacted", produce_body(0, batch(2, key=None), topic="compacted"), SOME),
    *produce("append-time", produce_body(0, WHOLE, topic="stamped"), SOME),
    *produce("time-too-far-ahead", produce_body(2, batch(1, stamp=4_000_000_000_000)), SOME),
    *produce("internal-topic", produce_body(0, WHOLE, topic="__consumer_offsets"), range(9, 10)),
    *produce("zstd", produce_body(2, batch(3, codec=Codec.ZSTD)), range(3, 9)),
    *produce("gzip", produce_body(2, batch(3, codec=Codec.GZIP)), range(9, 10)),
    *produce("first-sequence-not-zero", produce_body(1, batch(1, producer_id=900, producer_epoch=0, base_sequence=5)), range(9, 10)),
    *produce("sequence", produce_body(1, batch(2, producer_id=901, producer_epoch=0, base_sequence=0)), range(9, 10)),
    *produce("sequence-again", produce_body(1, batch(2, producer_id=901, producer_epoch=0, base_sequence=0)), range(9, 11)),
    *produce("sequence-with-a-gap", produce_body(1, batch(1, producer_id=901, producer_epoch=0, base_sequence=7)), range(9, 10)),
    *produce("older-epoch", produce_body(1, batch(1, producer_id=902, producer_epoch=3, base_sequence=0)), range(9, 10)),
    *produce("stale-epoch", produce_body(1, batch(1, producer_id=902, producer_epoch=1, base_sequence=1)), range(9, 11)),
]  # fmt: skip


def fetch_body(partitions: list[tuple[int, int]], *, topic: str = "orders", **more: Any) -> Any:
    def make(server: Server) -> Body:
        asked = [
            {
                "partition": index,
                "current_leader_epoch": more.get("leader_epoch", -1),
                "fetch_offset": offset,
                "last_fetched_epoch": more.get("last_epoch", -1),
                "log_start_offset": -1,
                "partition_max_bytes": more.get("partition_max_bytes", 1 << 20),
            }
            for index, offset in partitions
        ]
        topic_id = server.known.get(topic, UNKNOWN_ID)
        return {
            "replica_id": -1,
            "max_wait": more.get("max_wait", 50),
            "min_bytes": more.get("min_bytes", 1),
            "max_bytes": more.get("max_bytes", 10 << 20),
            "isolation_level": more.get("isolation", 0),
            "session_id": more.get("session_id", 0),
            "session_epoch": more.get("session_epoch", -1),
            "topics": [{"topic": topic, "topic_id": topic_id, "partitions": asked}],
            "forgotten_topics_data": [],
            "rack_id": "",
        }

    return make


def fetch(name: str, partitions: list[tuple[int, int]], versions: range = range(4, 19), **more: Any) -> list[Variant]:
    return [Variant(name, 1, v, fetch_body(partitions, **more)) for v in versions]


FETCH = [
    *fetch("from-the-start", [(0, 0)]),
    *fetch("mid-batch", [(0, 4)], range(4, 19, 3)),
    *fetch("at-the-end", [(0, 10)], range(4, 19, 3)),
    *fetch("beyond-the-end", [(0, 11)]),
    *fetch("negative-offset", [(0, -5)], range(4, 19, 3)),
    *fetch("unknown-topic", [(0, 0)], topic="nowhere"),
    *fetch("unknown-partition", [(9, 0)], range(4, 19, 2)),
    *fetch("read-committed", [(0, 0)], range(4, 19, 3), isolation=1),
    *fetch("small-partition-limit", [(0, 0)], range(4, 19, 4), partition_max_bytes=1),
    *fetch("small-limit-two-partitions", [(0, 0), (1, 0)], range(4, 19, 4), max_bytes=1),
    *fetch("no-bytes-at-all", [(0, 0)], range(11, 12), partition_max_bytes=0, max_bytes=0),
    *fetch("leader-epoch-too-new", [(0, 0)], range(9, 19, 2), leader_epoch=9),
    *fetch("leader-epoch-right", [(0, 0)], range(9, 19, 3), leader_epoch=0),
    *fetch("last-epoch-unknown", [(0, 3)], range(12, 19, 3), last_epoch=7),
    *fetch("unknown-session", [(0, 0)], range(7, 19, 3), session_id=12345, session_epoch=3),
    *fetch("new-session", [(0, 0)], range(7, 19, 3), session_epoch=0),
]


def list_offsets(name: str, timestamp: int, versions: range = range(1, 12), **more: Any) -> list[Variant]:
    partition = {
        "partition_index": more.get("partition", 0),
        "current_leader_epoch": more.get("leader_epoch", -1),
        "timestamp": timestamp,
    }
    body = {
        "replica_id": more.get("replica_id", -1),
        "isolation_level": more.get("isolation", 0),
        "topics": [{"name": more.get("topic", "orders"), "partitions": [partition] * more.get("times", 1)}],
        "timeout": 1000,
    }
    return each_version(name, 2, versions, body)


LIST_OFFSETS = [
    *list_offsets("latest", -1),
    *list_offsets("earliest", -2),
    *list_offsets("max-timestamp", -3),
    *list_offsets("earliest-local", -4),
    *list_offsets("latest-tiered", -5),
    *list_offsets("earliest-pending-upload", -6),
    *list_offsets("no-such-special", -7, range(1, 12, 3)),
    *list_offsets("by-time", STAMP + 1, range(1, 12, 2)),
    *list_offsets("after-everything", STAMP + 10**9, range(1, 12, 3)),
    *list_offsets("time-zero", 0, range(1, 12, 5)),
    *list_offsets("committed", -1, range(2, 12, 4), isolation=1),
    *list_offsets("debugger", -1, range(1, 12, 5), replica_id=-2),
    *list_offsets("unknown-topic", -1, range(1, 12, 3), topic="nowhere"),
    *list_offsets("unknown-partition", -1, range(1, 12, 3), partition=9),
    *list_offsets("asked-twice", -1, range(1, 12, 5), times=2),
    *list_offsets("illegal-topic", -1, range(1, 12, 5), topic="no/good"),
    *list_offsets("negative-partition", -1, range(1, 12, 5), partition=-1),
    *list_offsets("by-a-replica", -1, range(1, 12, 5), replica_id=5),
    *list_offsets("longest-ago", -(2**63), range(1, 12, 5)),
    *list_offsets("furthest-ahead", 2**63 - 1, range(1, 12, 5)),
    *list_offsets("leader-epoch-too-new", -1, range(4, 12, 3), leader_epoch=5),
]


def epoch_body(leader_epoch: int, current: int = -1, topic: str = "orders", partition: int = 0) -> Body:
    asked = {"partition": partition, "current_leader_epoch": current, "leader_epoch": leader_epoch}
    return {"replica_id": -1, "topics": [{"topic": topic, "partitions": [asked]}]}


EPOCHS = [
    *each_version("current", 23, range(2, 5), epoch_body(0)),
    *each_version("later", 23, range(2, 5), epoch_body(5)),
    *each_version("none", 23, range(2, 5), epoch_body(-1)),
    *each_version("before-all", 23, range(2, 5), epoch_body(-5)),
    *each_version("negative-partition", 23, range(2, 5), epoch_body(0, partition=-1)),
    *each_version("asker-ahead", 23, range(2, 5), epoch_body(0, current=3)),
    *each_version("unknown-topic", 23, range(2, 5), epoch_body(0, topic="nowhere")),
    *each_version("unknown-partition", 23, range(2, 5), epoch_body(0, partition=9)),
]


def deletion(topic: str, partition: int, offset: int) -> Body:
    asked = [{"partition_index": partition, "offset": offset}]
    return {"topics": [{"name": topic, "partitions": asked}], "timeout": 5000}


def _trimmed(server: Server) -> None:
    create_topic(server, "trimmed")
    server.ask(0, 9, produce_body(0, batch(5), topic="trimmed"))


DELETE_RECORDS = [
    Variant("up-to-three", 21, 2, deletion("trimmed", 0, 3), before=_trimmed),
    Variant("again", 21, 1, deletion("trimmed", 0, 3)),
    Variant("to-the-high-watermark", 21, 0, deletion("trimmed", 0, -1)),
    *each_version("beyond-the-end", 21, range(3), deletion("orders", 0, 1000)),
    *each_version("before-the-start", 21, range(3), deletion("orders", 0, -2)),
    *each_version("furthest", 21, range(3), deletion("orders", 0, 2**63 - 1)),
    *each_version("illegal-topic", 21, range(3), deletion("no/good", 0, 1)),
    *each_version("negative-partition", 21, range(3), deletion("orders", -1, 1)),
    *each_version("unknown-topic", 21, range(3), deletion("nowhere", 0, 1)),
    *each_version("unknown-partition", 21, range(3), deletion("orders", 9, 1)),
    *each_version("compacted", 21, range(3), deletion("compacted", 0, 0)),
    *each_version("internal", 21, range(3), deletion("__consumer_offsets", 0, 0)),
]


def metadata(name: str, topics: list[str] | None, versions: range = range(14), **more: Any) -> list[Variant]:
    body = {
        "topics": None if topics is None else [{"topic_id": None, "name": topic} for topic in topics],
        "allow_auto_topic_creation": more.get("create", False),
        "include_cluster_authorized_operations": more.get("operations", False),
        "include_topic_authorized_operations": more.get("operations", False),
    }
    return each_version(name, 3, versions, body)


def _metadata_by_id(known: bool) -> Any:
    def make(server: Server) -> Body:
        topic_id = server.known["orders"] if known else UNKNOWN_ID
        return {
            "topics": [{"topic_id": topic_id, "name": None}],
            "allow_auto_topic_creation": False,
            "include_topic_authorized_operations": False,
        }

    return make


METADATA = [
    *metadata("one-topic", ["orders"]),
    *metadata("unknown-topic", ["nowhere"], range(4, 14)),
    *metadata("illegal-name", ["no/good"], range(0, 14, 3)),
    *metadata("empty-name", [""], range(4, 14, 4)),
    *metadata("no-topics", [], range(1, 14, 2)),
    *metadata("operations", ["orders"], range(8, 14), operations=True),
    *metadata("internal", ["__consumer_offsets"], range(1, 14, 4)),
    *each_version("by-id", 3, range(12, 14), _metadata_by_id(True)),
    *each_version("unknown-id", 3, range(12, 14), _metadata_by_id(False)),
    *each_version("id-too-early", 3, range(10, 12), lambda server: {**_metadata_by_id(True)(server), "include_cluster_authorized_operations": False, "topics": [{"topic_id": server.known["orders"], "name": "orders"}]}),
]  # fmt: skip

SOFTWARE = {"client_software_name": "a-client", "client_software_version": "1.0"}


def _features_only(answer: Any) -> Any:
    """The table of APIs compares the version ranges. This compares the rest of the answer."""
    supported = [
        f
        for f in answer.get("supported_features", [])
        if f["name"] in ("transaction.version", "group.version", "metadata.version")
    ]
    finalized = [
        f
        for f in answer.get("finalized_features", [])
        if f["name"] in ("transaction.version", "group.version", "metadata.version")
    ]
    produce_range = [key for key in answer["api_keys"] if key["api_key"] in (0, 1, 2, 3, 11, 18, 22)]
    return {**answer, "api_keys": produce_range, "supported_features": supported, "finalized_features": finalized}


API_VERSIONS = [
    *each_version("asked", 18, range(5), SOFTWARE, only=_features_only),
    Variant("bad-software-name", 18, 3, {**SOFTWARE, "client_software_name": "bad name!"}),
    Variant("bad-software-version", 18, 4, {**SOFTWARE, "client_software_version": ""}),
]


DESCRIBE_PRODUCERS = [
    Variant("a-partition", 61, 0, {"topics": [{"name": "orders", "partition_indexes": [1]}]}),
    Variant("nobody", 61, 0, {"topics": [{"name": "orders", "partition_indexes": [0]}]}),
    Variant("unknown", 61, 0, {"topics": [{"name": "orders", "partition_indexes": [9]}, {"name": "nowhere", "partition_indexes": [0]}]}),
]  # fmt: skip

VARIANTS = [
    *FETCH,
    *LIST_OFFSETS,
    *EPOCHS,
    *PRODUCE,
    *DELETE_RECORDS,
    *METADATA,
    *API_VERSIONS,
    *DESCRIBE_PRODUCERS,
]
