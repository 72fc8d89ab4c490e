"""One replica: who may write and read, when writes are acknowledged, what a change of role does to waiting requests."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Mapping
from dataclasses import replace

import pytest

from headrace.cluster.core.image import ClusterImage, PartitionInfo
from headrace.config import BrokerConfig
from headrace.kernel.errors import (
    ErrorCode,
    FencedLeaderEpoch,
    NotLeader,
    OffsetOutOfRange,
    Refused,
    StorageFault,
    UnknownLeaderEpoch,
)
from headrace.replication.core.isr import IsrProposal
from headrace.replication.core.leader import EpochEnd
from headrace.replication.partition import Partition
from headrace.replication.replica import Follower
from headrace.replication.throttles import Throttles
from headrace.replication.waiters import FetchWaiter
from headrace.storage.log_config import LogConfig
from headrace.testing.simulation.log import RECORD, SimulatedLog, SimulatedSlice, encode

LED = PartitionInfo(leader=1, leader_epoch=5, partition_epoch=7, isr=(1, 2), replicas=(1, 2, 3))
ALONE = PartitionInfo(leader=1, leader_epoch=5, partition_epoch=7, isr=(1,), replicas=(1,))
FOLLOWED = PartitionInfo(leader=2, leader_epoch=5, partition_epoch=7, isr=(1, 2), replicas=(1, 2, 3))


class Broker:
    """The context of a partition on broker 1."""

    broker_id = 1
    broker_epoch = 101
    serves_consumers_from_followers = False

    def __init__(self) -> None:
        self.now_ms = 0
        self.has_lease = True
        self.asked: list[IsrProposal] = []
        self.without_room: list[object] = []
        self.live_brokers: Mapping[int, int] = {1: 101, 2: 102, 3: 103}
        self.heard_at_ms: dict[int, int] = {}
        self.image = ClusterImage()
        self.throttles = Throttles(1, lambda: self.image, self.monotonic_ms)

    def monotonic_ms(self) -> int:
        return self.now_ms

    def no_room_for(self, replica: object) -> None:
        self.without_room.append(replica)

    def lease_held(self) -> bool:
        return self.has_lease

    def ask_for_isr(self, partition: Partition, proposal: IsrProposal) -> None:
        self.asked.append(proposal)

    def preferred_replica(self, partition: Partition, offset: int, client_rack: str) -> int:
        return 1


@pytest.fixture
def broker() -> Broker:
    return Broker()


def partition_on(broker: Broker, info: PartitionInfo, *, min_insync: int = 1) -> Partition:
    topic_id = uuid.uuid4()
    log = SimulatedLog("t", 0, topic_id, LogConfig(min_insync_replicas=min_insync, replica_lag_time_max_ms=100))
    partition = Partition("t", 0, topic_id, log, broker)  # type: ignore[arg-type]
    partition.update(info)
    return partition


def append(partition: Partition, *values: int, acks: int = -1) -> int:
    return partition.append(encode(list(values)), acks=acks, now_ms=0).last_offset + 1


def fetch(partition: Partition, follower: int, offset: int, last_epoch: int = 5) -> object:
    return partition.read(
        offset,
        1000,
        follower=Follower(follower, 100 + follower),
        current_leader_epoch=partition.leader_epoch,
        last_fetched_epoch=last_epoch,
    )


def values(found: object) -> list[int]:
    assert isinstance(found, SimulatedSlice)
    return [value for _, _, value in RECORD.iter_unpack(found.data)]


def test_single_replica_acknowledges_at_once(broker: Broker) -> None:
    partition = partition_on(broker, ALONE)
    end = append(partition, 1, 2)
    assert partition.committed(end) is ErrorCode.none
    assert partition.high_watermark == 2
    assert values(partition.read(0, 1000).slice) == [1, 2]


def test_full_disk_is_reported_and_a_failed_disk_is_not(broker: Broker) -> None:
    partition = partition_on(broker, LED)

    def full(*_: object, **__: object) -> None:
        raise StorageFault("no space left")

    partition.log.append_as_leader = full  # type: ignore[assignment, method-assign]
    with pytest.raises(StorageFault):
        append(partition, 1)
    assert broker.without_room == [partition]
    partition.log.offline_reason = "it failed"
    with pytest.raises(StorageFault):
        append(partition, 1)
    assert broker.without_room == [partition]


def test_acknowledgement_waits_for_the_isr(broker: Broker) -> None:
    partition = partition_on(broker, LED)
    answers: list[ErrorCode] = []
    partition.when_committed(append(partition, 1), answers.append)
    assert answers == []
    assert partition.read(0, 1000).slice is None, "not committed, so not shown"
    fetch(partition, 2, 0, last_epoch=-1)
    assert answers == []
    fetch(partition, 2, 1)
    assert answers == [ErrorCode.none]
    assert values(partition.read(0, 1000).slice) == [1]


def test_a_wait_times_out(broker: Broker) -> None:
    partition = partition_on(broker, LED)
    end = append(partition, 1)
    assert asyncio.run(partition.wait_committed(end, timeout_ms=1)) is ErrorCode.request_timed_out


def test_waiting_produce_requests_are_answered_when_leadership_ends(broker: Broker) -> None:
    partition = partition_on(broker, LED)
    answers: list[ErrorCode] = []
    partition.when_committed(append(partition, 1), answers.append)
    partition.update(replace(FOLLOWED, leader_epoch=6, partition_epoch=8))
    assert answers == [ErrorCode.not_leader_or_follower]


def test_too_few_in_sync_replicas_refuse_only_acks_all(broker: Broker) -> None:
    partition = partition_on(broker, replace(LED, isr=(1,)), min_insync=2)
    with pytest.raises(Refused) as refused:
        append(partition, 1)
    assert refused.value.code is ErrorCode.not_enough_replicas
    append(partition, 1, acks=1)
    assert partition.log_end_offset == 1
    assert partition.high_watermark == 0, "frozen below min.insync.replicas"


def test_isr_shrink_after_the_append_is_reported_to_the_producer(broker: Broker) -> None:
    partition = partition_on(broker, LED, min_insync=2)
    end = append(partition, 1)
    fetch(partition, 2, 1)
    partition.update(replace(LED, isr=(1,), partition_epoch=8))
    assert partition.committed(end) is ErrorCode.not_enough_replicas_after_append


def test_broker_without_lease_does_not_append_acknowledge_or_serve(broker: Broker) -> None:
    partition = partition_on(broker, LED)
    answers: list[ErrorCode] = []
    end = append(partition, 1)
    partition.when_committed(end, answers.append)
    broker.has_lease = False
    with pytest.raises(NotLeader):
        append(partition, 2)
    with pytest.raises(NotLeader):
        partition.read(0, 100)
    with pytest.raises(NotLeader):
        fetch(partition, 2, 1)
    assert answers == []
    assert partition.committed(end) is ErrorCode.not_leader_or_follower


def test_leader_epoch_of_requests_is_checked(broker: Broker) -> None:
    partition = partition_on(broker, LED)
    with pytest.raises(FencedLeaderEpoch):
        partition.read(0, 100, current_leader_epoch=4)
    with pytest.raises(UnknownLeaderEpoch):
        partition.read(0, 100, current_leader_epoch=6)
    with pytest.raises(FencedLeaderEpoch):
        partition.end_offset_for_epoch(3, current_leader_epoch=4)
    with pytest.raises(FencedLeaderEpoch):
        partition.offset_for(-1, 0, current_leader_epoch=4)


def test_follower_serves_no_requests(broker: Broker) -> None:
    partition = partition_on(broker, FOLLOWED)
    with pytest.raises(NotLeader):
        partition.read(0, 100)
    with pytest.raises(NotLeader):
        append(partition, 1)


def test_follower_serves_consumers_if_replica_selection_is_on(broker: Broker) -> None:
    broker.serves_consumers_from_followers = True
    partition = partition_on(broker, FOLLOWED)
    partition.append_as_follower(memoryview(RECORD.pack(0, 5, 42)), leader_high_watermark=1, leader_log_start=0)
    assert values(partition.read(0, 100).slice) == [42]


def test_offset_between_high_watermark_and_log_end_is_in_range(broker: Broker) -> None:
    partition = partition_on(broker, LED)
    append(partition, 1, 2)
    assert partition.read(1, 100).slice is None
    with pytest.raises(OffsetOutOfRange):
        partition.read(3, 100)


def test_latest_offset_is_unavailable_until_the_high_watermark_reaches_the_epoch_start(broker: Broker) -> None:
    partition = partition_on(broker, LED)
    append(partition, 1, 2)
    fetch(partition, 2, 1)
    partition.update(replace(LED, leader_epoch=6, partition_epoch=8))
    with pytest.raises(Refused) as refused:
        partition.offset_for(-1, 0)
    assert refused.value.code is ErrorCode.offset_not_available
    fetch(partition, 2, 2)
    assert partition.offset_for(-1, 0).offset == 2


def test_diverging_follower_gets_the_diverging_epoch_and_does_not_count(broker: Broker) -> None:
    partition = partition_on(broker, LED)
    append(partition, 1, 2)
    partition.update(replace(LED, leader_epoch=8, partition_epoch=8))
    append(partition, 3)
    answer = fetch(partition, 2, 3, last_epoch=6)  # three records, the last of an epoch that the leader never had
    assert answer.diverging_epoch == EpochEnd(5, 2)  # type: ignore[attr-defined]
    assert partition.high_watermark == 0


def test_epoch_without_records_does_not_diverge_forever(broker: Broker) -> None:
    partition = partition_on(broker, LED)
    append(partition, 1)
    partition.update(replace(LED, leader_epoch=6, partition_epoch=8))  # leads, writes nothing
    partition.update(replace(FOLLOWED, leader_epoch=7, partition_epoch=9))
    assert partition.last_epoch() == 6
    partition.truncate_to_agree(EpochEnd(5, 1))
    assert partition.log_end_offset == 1
    assert partition.last_epoch() == 5


def test_follower_truncates_records_that_the_leader_does_not_have(broker: Broker) -> None:
    partition = partition_on(broker, LED)
    append(partition, 1, 2, 3)
    partition.update(replace(FOLLOWED, leader_epoch=6, partition_epoch=8))
    assert partition.truncate_to_agree(EpochEnd(5, 1)) == 1


def test_diverging_follower_drops_records_below_the_leaders_log_start(broker: Broker) -> None:
    """The leader may have written and deleted other records there."""
    partition = partition_on(broker, LED)
    append(partition, 1, 2, 3)
    partition.update(replace(FOLLOWED, leader_epoch=6, partition_epoch=8))
    assert partition.truncate_to_agree(EpochEnd(5, 2), leader_log_start=2) == 2
    assert partition.log_start_offset == 2


def test_follower_takes_records_high_watermark_and_log_start(broker: Broker) -> None:
    partition = partition_on(broker, FOLLOWED)
    data = RECORD.pack(0, 5, 10) + RECORD.pack(1, 5, 11)
    partition.append_as_follower(memoryview(data), leader_high_watermark=9, leader_log_start=1)
    assert (partition.log_end_offset, partition.high_watermark, partition.log_start_offset) == (2, 2, 1)


def test_an_older_image_changes_nothing(broker: Broker) -> None:
    partition = partition_on(broker, LED)
    assert not partition.update(replace(FOLLOWED, leader_epoch=4))
    assert not partition.update(replace(LED, isr=(1,), partition_epoch=6))
    assert partition.is_leader
    assert partition.isr is not None
    assert partition.isr.stored == {1, 2}


def test_a_broker_that_stepped_down_leads_again_only_in_a_higher_epoch(broker: Broker) -> None:
    partition = partition_on(broker, LED)
    partition.step_down()
    partition.update(replace(LED, partition_epoch=9))
    assert not partition.is_leader
    partition.update(replace(LED, leader_epoch=6, partition_epoch=10))
    assert partition.is_leader


def test_caught_up_follower_is_proposed_for_the_isr_at_its_fetch(broker: Broker) -> None:
    partition = partition_on(broker, replace(LED, isr=(1,)))
    append(partition, 1)
    fetch(partition, 3, 1)
    assert [sorted(proposal.ids) for proposal in broker.asked] == [[1, 3]]
    partition.update(replace(LED, isr=(1, 3), partition_epoch=8))
    assert partition.isr is not None
    assert partition.isr.proposal is None


def test_changed_lag_time_of_the_topic_takes_effect_at_once(broker: Broker) -> None:
    partition = partition_on(broker, LED)
    append(partition, 1)
    broker.now_ms = 60
    partition.tick()
    assert broker.asked == [], "the follower has 100 ms"
    partition.log.update_config(replace(partition.log.config, replica_lag_time_max_ms=50))
    partition.config_changed()
    partition.tick()
    assert [proposal.ids for proposal in broker.asked] == [{1}]


def test_a_long_poll_wakes_when_enough_became_readable(broker: Broker) -> None:
    partition = partition_on(broker, ALONE)
    woken: list[str] = []
    waiter = FetchWaiter(2 * RECORD.size, lambda: woken.append("enough"))
    waiter.watch(partition.readers)
    append(partition, 1)
    assert woken == []
    append(partition, 2)
    assert woken == ["enough"]
    append(partition, 3)
    assert woken == ["enough"], "once"
    assert not partition.readers.waiting


def test_a_follower_long_poll_wakes_at_the_append_and_a_consumer_at_the_commit(broker: Broker) -> None:
    partition = partition_on(broker, LED)
    woken: list[str] = []
    FetchWaiter(1, lambda: woken.append("consumer")).watch(partition.readers)
    FetchWaiter(1, lambda: woken.append("follower")).watch(partition.tail_readers)
    append(partition, 1)
    assert woken == ["follower"]
    fetch(partition, 2, 1)
    assert woken == ["follower", "consumer"]


def test_a_long_poll_at_a_follower_wakes_for_the_records_of_an_earlier_fetch(broker: Broker) -> None:
    """The leader commits them when the follower fetches again, and then sends the next ones with the high watermark."""
    partition = partition_on(broker, FOLLOWED)
    woken: list[str] = []
    FetchWaiter(3 * RECORD.size, lambda: woken.append("enough")).watch(partition.readers)
    several = b"".join(RECORD.pack(offset, 5, 42) for offset in range(4))
    partition.append_as_follower(memoryview(several), leader_high_watermark=0, leader_log_start=0)
    assert woken == []
    partition.append_as_follower(memoryview(RECORD.pack(4, 5, 42)), leader_high_watermark=4, leader_log_start=0)
    assert woken == ["enough"]


def test_long_polls_wake_when_leadership_ends(broker: Broker) -> None:
    partition = partition_on(broker, LED)
    woken: list[str] = []
    FetchWaiter(1, lambda: woken.append("consumer")).watch(partition.readers)
    partition.update(replace(FOLLOWED, leader_epoch=6, partition_epoch=8))
    assert woken == ["consumer"]


def test_deleting_records_waits_for_live_followers(broker: Broker) -> None:
    partition = partition_on(broker, LED)
    append(partition, 1, 2)
    for follower in (2, 3):
        fetch(partition, follower, 2)
    with pytest.raises(OffsetOutOfRange):
        partition.delete_records_before(3)
    assert partition.delete_records_before(1) == 1
    assert partition.low_watermark == -1 or partition.low_watermark < 1
    for follower in (2, 3):
        partition.read(2, 100, follower=Follower(follower, 100 + follower), last_fetched_epoch=5, replica_log_start=1)
    assert partition.low_watermark == 1


def test_throttle_delays_only_replicas_that_are_not_in_sync(broker: Broker) -> None:
    config = BrokerConfig({})
    config.leader_replication_throttled_rate = config.follower_replication_throttled_rate = 10
    broker.throttles.set_rates(config)
    broker.image = ClusterImage(configs={("topic", "t"): {"leader.replication.throttled.replicas": "0:1"}})
    partition = partition_on(broker, LED)
    append(partition, 1, 2)
    assert values(fetch(partition, 3, 0, -1).slice) == [1, 2]  # type: ignore[attr-defined]
    assert fetch(partition, 3, 0, -1).slice is None, "the rate is spent"  # type: ignore[attr-defined]
    assert values(fetch(partition, 2, 0, -1).slice) == [1, 2], "a member is never held back"  # type: ignore[attr-defined]
    broker.now_ms = 10_000
    assert values(fetch(partition, 3, 0, -1).slice) == [1, 2]  # type: ignore[attr-defined]
