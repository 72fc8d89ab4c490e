"""The coordinator runtime: a reply never comes before its records are committed, and the state equals the log."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from headrace.cluster.core.image import ClusterImage, PartitionInfo, TopicInfo
from headrace.coordinators.runtime.internal_topic import InternalTopic
from headrace.coordinators.runtime.runtime import CoordinatorRuntime, LedPartitions, Result, Timer, settled
from headrace.kernel.errors import ErrorCode, Refused
from headrace.kernel.ids import new_topic_id
from headrace.records.batch import batches
from headrace.records.compression import Codec
from tests.support.clock import wait_on_loop
from tests.support.coordinator_logs import MemoryLog
from tests.support.counting_shard import Counters, OnePartition, on_loop, put, runtime_on


def test_operations_of_one_turn_see_each_other_and_share_one_batch() -> None:
    async def scenario() -> None:
        log = MemoryLog()
        runtime = runtime_on(log)
        first, second = runtime.submit("a", put(b"k", b"1")), runtime.submit("a", put(b"k", b"2"))
        assert await settled(first) == (None, b"1")
        assert await settled(second) == (b"1", b"2")
        await asyncio.sleep(0)
        written = len(log.stored)
        replies = [runtime.submit("a", put(b"k", b"%d" % i)) for i in range(3, 9)]
        assert await settled(replies[-1]) == (b"7", b"8")
        assert len(log.stored) == written + 1, "the shard has seen that they come together"

    on_loop(scenario)


def test_a_reply_waits_until_its_records_are_committed() -> None:
    async def scenario() -> None:
        log = MemoryLog(commits_at_once=False)
        runtime = runtime_on(log)
        reply = asyncio.ensure_future(runtime.run("a", put(b"k", b"1")))
        await wait_on_loop(lambda: log.stored, "the write")
        assert not reply.done()
        log.commit()
        assert await reply == (None, b"1")

    on_loop(scenario)


def test_a_read_waits_until_the_state_it_saw_is_committed() -> None:
    async def scenario() -> None:
        log = MemoryLog(commits_at_once=False)
        runtime = runtime_on(log)
        write = runtime.submit("a", put(b"k", b"1"))
        read = runtime.read("a", lambda shard, now_ms: shard.values[b"k"])
        await asyncio.sleep(0.01)
        assert isinstance(read, asyncio.Future) and not read.done()
        log.commit()
        assert await read == b"1"
        await write

    on_loop(scenario)


def test_answers_to_waiting_callers_wait_for_the_commit() -> None:
    async def scenario() -> None:
        log = MemoryLog(commits_at_once=False)
        runtime = runtime_on(log)
        token: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        runtime.submit("a", put(b"k", b"1", answers=[(token, "joined")]))
        await asyncio.sleep(0.01)
        assert not token.done()
        log.commit()
        assert await token == "joined"

    on_loop(scenario)


def test_a_continuation_runs_after_the_commit() -> None:
    async def scenario() -> None:
        log = MemoryLog()
        runtime = runtime_on(log)
        token: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        def then(error: ErrorCode, now_ms: int) -> Result:
            assert error is ErrorCode.none
            return Result(answers=[(token, "stable")])

        await runtime.run("a", put(b"k", b"1", then=then))
        assert await token == "stable"

    on_loop(scenario)


def test_a_restart_loads_committed_records_and_answers_load_in_progress_meanwhile() -> None:
    async def scenario() -> None:
        log = MemoryLog()
        runtime = runtime_on(log)
        await asyncio.gather(*(settled(runtime.submit("a", put(b"k%d" % i, b"v"))) for i in range(100)))
        await runtime.run("a", put(b"t", b"1", producer=(7, 0)))
        await runtime.complete_transaction(0, 7, 0, 5, True)
        await runtime.run("a", put(b"u", b"1", producer=(8, 0)))
        await runtime.complete_transaction(0, 8, 0, 5, False)
        before = runtime.hosted(0).shard.values
        again = runtime_on(log)
        with pytest.raises(Refused) as refused:
            again.submit("a", put(b"k", b"2"))
        assert refused.value.code is ErrorCode.coordinator_load_in_progress
        await again.wait_loaded()
        assert again.hosted(0).shard.values == before
        assert before[b"t"] == b"1" and b"u" not in before

    on_loop(scenario)


def test_transactional_records_wait_for_their_marker() -> None:
    async def scenario() -> None:
        log = MemoryLog()
        runtime = runtime_on(log)
        plain = runtime.submit("a", put(b"k", b"1"))
        await runtime.run("a", put(b"t", b"1", producer=(7, 3)))
        await settled(plain)
        shard = runtime.hosted(0).shard
        assert b"t" not in shard.values and shard.values[b"k"] == b"1"
        await runtime.complete_transaction(0, 7, 3, 5, True)
        assert shard.values[b"t"] == b"1"
        assert len(log.stored) == 3, "plain records, the transaction's own batch, its marker"

    on_loop(scenario)


def test_timers_fire_once_and_can_be_moved_and_cancelled() -> None:
    async def scenario() -> None:
        runtime = runtime_on(MemoryLog())
        fired: list[str] = []
        last = asyncio.Event()

        def timer(name: str, delay_ms: int) -> Timer:
            def fire(now_ms: int) -> Result:
                fired.append(name)
                if len(fired) == 4:
                    last.set()
                return Result()

            return Timer(name, delay_ms, fire)

        runtime.submit("a", lambda shard, now_ms: Result(timers=[timer("a", 20), timer("b", 20), timer("c", 20)]))
        runtime.submit("a", lambda shard, now_ms: Result(timers=[timer("b", 80), Timer("c"), timer("d", 1)]))
        runtime.submit("a", lambda shard, now_ms: Result(timers=[timer("between", 50)]))
        await last.wait()
        # Timers that a stalled loop finds overdue together may fire in any order.
        assert sorted(fired) == ["a", "b", "between", "d"]
        assert fired.index("a") < fired.index("b"), "it was moved"

    on_loop(scenario)


def test_shards_follow_leadership() -> None:
    async def scenario() -> None:
        log = MemoryLog()
        runtime = runtime_on(log)

        def image(leader: int, epoch: int) -> ClusterImage:
            partition = PartitionInfo(leader, epoch, 0, (leader,), (1, 2))
            topic = TopicInfo("__state", new_topic_id(), (partition,), is_internal=True)
            return ClusterImage(version=epoch, topics={"__state": topic})

        runtime.follow(image(leader=2, epoch=6))
        with pytest.raises(Refused):
            runtime.leader_epoch(0)
        runtime.follow(image(leader=1, epoch=7))
        assert runtime.leader_epoch(0) == 7
        first = runtime.hosted(0)
        runtime.follow(image(leader=1, epoch=7))
        assert runtime.hosted(0) is first, "the same epoch is the same leadership"
        runtime.follow(image(leader=1, epoch=8))
        assert runtime.hosted(0) is not first

    on_loop(scenario)


def test_a_topic_that_one_image_deletes_and_creates_again_gets_new_shards() -> None:
    """A broker that was behind gets both changes in one image, and leader epochs of a new topic begin at 0 again."""

    async def scenario() -> None:
        old, new = MemoryLog(), MemoryLog()
        replicas = OnePartition(old)
        runtime: CoordinatorRuntime[Counters] = CoordinatorRuntime(
            InternalTopic("__state", 1),
            cast("LedPartitions", replicas),
            1,
            lambda _: Counters(),
            make_log=lambda replica, _: cast("MemoryLog", replica),
        )
        info = PartitionInfo(1, 0, 0, (1,), (1,))

        def follow(version: int) -> None:
            topic = TopicInfo("__state", new_topic_id(), (info,), is_internal=True)
            runtime.follow(ClusterImage(version=version, topics={"__state": topic}))

        follow(1)
        await runtime.run("a", put(b"k", b"1"))
        old.is_led, replicas.log = False, new
        follow(2)
        assert await runtime.run("a", put(b"k", b"2")) == (None, b"2")
        assert len(new.stored) == 1

    on_loop(scenario)


def test_a_compressed_log_is_read_after_the_codec_setting_changed() -> None:
    async def scenario() -> None:
        log = MemoryLog()
        for codec in Codec:
            runtime = runtime_on(log, codec=codec)
            await runtime.wait_loaded()
            key = codec.name.encode()
            for _ in range(3):
                await asyncio.gather(*(settled(runtime.submit("a", put(key, b"x" * 500))) for _ in range(3)))
            await runtime.run("a", put(b"t" + key, b"1", producer=(7, 0)))
            await runtime.complete_transaction(0, 7, 0, 5, True)
        assert {batch.codec for data in log.stored for batch in batches(memoryview(data))} == set(Codec)
        again = runtime_on(log)
        await again.wait_loaded()
        assert again.hosted(0).shard.values == runtime.hosted(0).shard.values
        assert len(again.hosted(0).shard.values) == 2 * len(Codec)

    on_loop(scenario)
