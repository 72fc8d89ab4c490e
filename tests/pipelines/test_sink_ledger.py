"""The ledger of the exactly-once sink: which batch a slot has written, found by every later attempt, and no group."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator

import pyarrow as pa
import pytest
from confluent_kafka.admin import AdminClient, ConfigResource

from headrace.client.blocking.produce import BatchProducer, Transaction
from headrace.kernel.ids import partition_for_key
from headrace.pipelines.options import SinkOptions
from headrace.pipelines.sink import ledger
from headrace.pipelines.sink.ledger import LEDGER_TOPIC, SinkLedger, create_ledger, old_group
from headrace.pipelines.sink.writer import write_slot
from tests.pipelines.conftest import Cluster
from tests.pipelines.test_sink import values_of

_prefixes = (f"ledger{number}" for number in itertools.count())


@pytest.fixture
def options(cluster: Cluster) -> SinkOptions:
    return SinkOptions.parse(cluster.options(topic=cluster.topic(1)))


def rows(*values: bytes) -> Iterator[pa.RecordBatch]:
    return iter([pa.RecordBatch.from_arrays([pa.array(values, pa.binary())], names=["value"])])


def sink_groups(cluster: Cluster, prefix: str) -> list[str]:
    """As every tool that shows groups finds them."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    found = admin.list_consumer_groups(request_timeout=20).result().valid
    return sorted(group.group_id for group in found if prefix in group.group_id)


def entry(cluster: Cluster, options: SinkOptions, prefix: str, slot: int = 0) -> int | None:
    """The entry as a new worker finds it."""
    ledger._views.clear()
    return SinkLedger(cluster.client, options.cluster, prefix, slot, options.topic or "").last_batch()


def slots_of_one_partition(prefix: str) -> tuple[int, int]:
    partitions = [partition_for_key(f"{prefix}.{slot}".encode(), ledger._PARTITIONS) for slot in range(20)]
    shared = next(partition for partition, count in Counter(partitions).items() if count > 1)
    first, second = [slot for slot, partition in enumerate(partitions) if partition == shared][:2]
    return first, second


def test_a_written_batch_leaves_an_entry_and_no_consumer_group(cluster: Cluster, options: SinkOptions) -> None:
    prefix = next(_prefixes)
    assert entry(cluster, options, prefix) is None
    for batch in range(3):
        write_slot(options, rows(b"row"), prefix, 0, batch)
    assert entry(cluster, options, prefix) == 2
    assert sink_groups(cluster, prefix) == []


def test_an_open_transaction_of_another_slot_does_not_hide_an_entry(cluster: Cluster, options: SinkOptions) -> None:
    prefix = next(_prefixes)
    mine, other = slots_of_one_partition(prefix)
    create_ledger(cluster.client)
    transaction = Transaction(cluster.client, f"{prefix}-{other}", timeout_ms=60_000)
    transaction.begin()
    producer = BatchProducer(cluster.client, transaction=transaction)
    SinkLedger(cluster.client, options.cluster, prefix, other, "").write(producer, 9, 1)
    producer.flush()
    assert not write_slot(options, rows(b"once"), prefix, mine, 0).skipped
    ledger._views.clear()
    assert write_slot(options, rows(b"once"), prefix, mine, 0).skipped
    transaction.abort()
    # A view that was read while the transaction was open learns of the abort, and so does a new one.
    assert not write_slot(options, rows(b"other"), prefix, other, 9).skipped
    assert values_of(cluster, str(options.topic)) == {b"once": 1, b"other": 1}


@pytest.mark.parametrize("keeps_view", [True, False])
def test_an_aborted_attempt_leaves_no_entry(cluster: Cluster, options: SinkOptions, keeps_view: bool) -> None:
    prefix = next(_prefixes)

    def failing() -> Iterator[pa.RecordBatch]:
        yield next(rows(b"lost"))
        raise ValueError("bad row")

    write_slot(options, rows(b"a"), prefix, 0, 0)
    for _ in range(2):
        with pytest.raises(ValueError, match="bad row"):
            write_slot(options, failing(), prefix, 0, 1)
        if not keeps_view:
            ledger._views.clear()
    # The entry itself is in an aborted transaction, too.
    transaction = Transaction(cluster.client, f"{prefix}-0", timeout_ms=60_000)
    transaction.begin()
    producer = BatchProducer(cluster.client, transaction=transaction)
    SinkLedger(cluster.client, options.cluster, prefix, 0, "").write(producer, 1, 1)
    producer.flush()
    transaction.abort()
    assert not write_slot(options, rows(b"b"), prefix, 0, 1).skipped
    assert values_of(cluster, str(options.topic)) == {b"a": 1, b"b": 1}


def test_an_attempt_that_dies_before_its_commit_leaves_no_entry(cluster: Cluster, options: SinkOptions) -> None:
    prefix = next(_prefixes)
    create_ledger(cluster.client)
    transaction = Transaction(cluster.client, f"{prefix}-0", timeout_ms=60_000)
    transaction.begin()
    producer = BatchProducer(cluster.client, transaction=transaction)
    SinkLedger(cluster.client, options.cluster, prefix, 0, "").write(producer, 0, 1)
    producer.flush()
    assert not write_slot(options, rows(b"a"), prefix, 0, 0).skipped
    assert values_of(cluster, str(options.topic)) == {b"a": 1}


def test_ledger_of_an_earlier_version_moves_to_the_topic(cluster: Cluster, options: SinkOptions) -> None:
    prefix = next(_prefixes)
    group, topic = old_group(prefix, 0), str(options.topic)
    cluster.client.commit_offsets(group, {(topic, 0): (4, "rows=1")})
    assert sink_groups(cluster, prefix) == [group]
    assert write_slot(options, rows(b"repeated"), prefix, 0, 4).skipped
    assert not write_slot(options, rows(b"new"), prefix, 0, 5).skipped
    assert entry(cluster, options, prefix) == 5
    assert sink_groups(cluster, prefix) == []
    assert values_of(cluster, topic) == {b"new": 1}


def test_ledger_topic_is_compacted_and_never_expires(cluster: Cluster, options: SinkOptions) -> None:
    """A group's offsets expire after seven days without members. Compaction keeps the last entry of a slot."""
    write_slot(options, rows(b"a"), next(_prefixes), 0, 0)
    admin, topic = AdminClient({"bootstrap.servers": cluster.bootstrap}), ConfigResource("topic", LEDGER_TOPIC)
    (described,) = admin.describe_configs([topic]).values()
    assert described.result(20)["cleanup.policy"].value == "compact"


def test_ledger_is_found_again_after_its_topic_was_recreated(headrace: Cluster) -> None:
    options = SinkOptions.parse(headrace.options(topic=headrace.topic(1)))
    prefix = next(_prefixes)
    for batch in range(3):
        write_slot(options, rows(b"row"), prefix, 0, batch)
    headrace.delete_topic(LEDGER_TOPIC)
    create_ledger(headrace.client)
    assert not write_slot(options, rows(b"row"), prefix, 0, 3).skipped
    assert write_slot(options, rows(b"row"), prefix, 0, 3).skipped
