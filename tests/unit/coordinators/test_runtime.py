"""What the runtime promises: a reply never before its records are committed, and a state that is what the log says."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from headrace.cluster.core.image import ClusterImage, PartitionInfo, TopicInfo
from headrace.coordinators.runtime import CoordinatorRuntime, Result, Timer, settled
from headrace.kernel.errors import ErrorCode, Refused, StorageFault
from headrace.kernel.ids import new_topic_id
from headrace.records.batch import batches
from headrace.records.builder import Record, build_writable_batch
from headrace.records.compression import Codec
from tests.support.coordinator_logs import MemoryLog


class Counters:
    """A shard that counts: the value of each key is the last one written."""

    def __init__(self) -> None:
        self.values: dict[bytes, bytes | None] = {}
        self.pending: dict[int, list[tuple[bytes, bytes | None]]] = {}
        self.waiting: list[Any] = []
        self.loads = 0

    def replay(self, key: bytes, value: bytes | None, offset: int, producer_id: int, producer_epoch: int) -> None:
        if producer_id >= 0:
            self.pending.setdefault(producer_id, []).append((key, value))
        else:
            self.values[key] = value

    def replay_end_marker(self, producer_id: int, producer_epoch: int, commit: bool) -> None:
        for key, value in self.pending.pop(producer_id, []):
            if commit:
                self.values[key] = value

    def loaded(self, now_ms: int) -> Result:
        self.loads += 1
        return Result()

    def unloaded(self) -> list[tuple[Any, Any]]:
        return [(token, Refused(ErrorCode.not_coordinator, "gone")) for token in self.waiting]


class OnePartition:
    def __init__(self, log: MemoryLog) -> None:
        self.log = log

    def get(self, topic: str, index: int) -> MemoryLog | None:
        return self.log if index == 0 else None


def runtime_on(log: MemoryLog, **more: Any) -> CoordinatorRuntime[Counters]:
    runtime: CoordinatorRuntime[Counters] = CoordinatorRuntime(
        "__state", OnePartition(log), 1, lambda _: Counters(), partition_count=1, make_log=lambda p: p, **more
    )
    runtime.elect(0, leader_epoch=5)
    return runtime


def put(key: bytes, value: bytes, **more: Any) -> Callable[[Counters, int], Result]:
    def operation(shard: Counters, now_ms: int) -> Result:
        seen = shard.values.get(key)
        return Result([Record(key, value)], reply=(seen, value), **more)

    return operation


def on_loop(scenario: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        await asyncio.wait_for(_as_coroutine(scenario), 10)

    asyncio.run(bounded())


async def _as_coroutine(scenario: Callable[[], Awaitable[None]]) -> None:
    await scenario()


def test_operations_see_each_other_and_those_that_come_together_share_one_batch() -> None:
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
        await asyncio.sleep(0.01)
        assert log.stored and not reply.done()
        log.commit()
        assert await reply == (None, b"1")

    on_loop(scenario)


def test_a_reader_waits_for_what_it_has_seen() -> None:
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


def test_an_answer_to_others_leaves_with_the_commit_too() -> None:
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


def test_what_follows_a_commit_happens_after_it() -> None:
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


def test_losing_leadership_tells_everyone_who_waits() -> None:
    async def scenario() -> None:
        log = MemoryLog(commits_at_once=False)
        runtime = runtime_on(log)
        token = asyncio.get_running_loop().create_future()
        runtime.hosted(0).shard.waiting.append(token)
        reply = asyncio.ensure_future(runtime.run("a", put(b"k", b"1")))
        await asyncio.sleep(0.01)
        runtime.resign(0)
        for waiting in (reply, token):
            with pytest.raises(Refused) as refused:
                await waiting
            assert refused.value.code is ErrorCode.not_coordinator
        with pytest.raises(Refused) as refused:
            runtime.submit("a", put(b"k", b"2"))
        assert refused.value.code is ErrorCode.not_coordinator

    on_loop(scenario)


@pytest.mark.parametrize("gathers", [False, True])
def test_a_failed_write_changes_nothing(gathers: bool) -> None:
    async def scenario() -> None:
        log = MemoryLog()
        runtime = runtime_on(log)
        for _ in range(3):
            runtime.submit("a", put(b"k", b"1"))
            if gathers:
                runtime.submit("a", put(b"k", b"1"))
            await asyncio.sleep(0)
        await runtime.run("a", put(b"k", b"1"))
        if gathers:
            runtime.submit("a", put(b"k", b"1"))
            runtime.submit("a", put(b"k", b"1"))
            await asyncio.sleep(0)
        log.fails_with = StorageFault("no space")
        with pytest.raises(Refused) as refused:
            await runtime.run("a", put(b"k", b"2"))
        assert refused.value.code is ErrorCode.not_coordinator
        log.fails_with = None
        await runtime.wait_loaded()
        assert await settled(runtime.read("a", lambda shard, now_ms: shard.values[b"k"])) == b"1"

    on_loop(scenario)


def test_a_failed_write_of_what_lives_in_memory_builds_the_memory_anew() -> None:
    async def scenario() -> None:
        log = MemoryLog()
        runtime = runtime_on(log)
        await runtime.run("a", put(b"k", b"1"))

        def changes_memory(shard: Counters, now_ms: int) -> Result:
            shard.values[b"k"] = b"2"
            return Result([Record(b"k", b"2")], replay=False)

        log.fails_with = StorageFault("no space")
        with pytest.raises(Refused):
            await runtime.run("a", changes_memory)
        log.fails_with = None
        await runtime.wait_loaded()
        assert runtime.read("a", lambda shard, now_ms: shard.values[b"k"]) == b"1"

    on_loop(scenario)


def test_a_log_that_takes_no_writes_refuses_before_anything_is_decided() -> None:
    async def scenario() -> None:
        log = MemoryLog()
        runtime = runtime_on(log)
        log.refuses_with = Refused(ErrorCode.not_enough_replicas, "one replica left")
        with pytest.raises(Refused) as refused:
            runtime.submit("a", put(b"k", b"1"))
        assert refused.value.code is ErrorCode.coordinator_not_available
        assert runtime.hosted(0).shard.values == {}

    on_loop(scenario)


def test_records_that_fit_in_no_batch_are_refused_whole() -> None:
    async def scenario() -> None:
        log = MemoryLog()
        log.max_batch_bytes = 200
        runtime = runtime_on(log)
        with pytest.raises(Refused) as refused:
            runtime.submit("a", put(b"k", b"x" * 500))
        assert refused.value.code is ErrorCode.unknown_server_error
        assert runtime.hosted(0).shard.values == {}
        await asyncio.gather(*(settled(runtime.submit("a", put(b"k%d" % i, b"x" * 50))) for i in range(5)))
        assert len(log.stored) == 5, "each fits alone, no two together"
        largest = [Record(b"k%d" % i, b"x" * 53, timestamp_ms=5) for i in range(2)]
        log.max_batch_bytes = len(build_writable_batch(largest))
        await runtime.run("a", lambda shard, now_ms: Result(largest))
        assert len(log.stored[-1]) == log.max_batch_bytes, "to the last byte"
        waiting, told = asyncio.get_running_loop().create_future(), []

        def gave_up(error: ErrorCode, now_ms: int) -> Result:
            told.append(error)
            return Result(answers=[(waiting, "somebody else's answer")])

        with pytest.raises(Refused):
            runtime.submit("a", lambda shard, now_ms: Result([Record(b"k", b"x" * 500)], then=gave_up, replay=False))
        assert (told, waiting.result()) == ([ErrorCode.unknown_server_error], "somebody else's answer")

    on_loop(scenario)


def test_a_restart_finds_what_was_committed_and_answers_loading_meanwhile() -> None:
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


def test_timers_fire_once_move_and_can_be_cancelled() -> None:
    async def scenario() -> None:
        runtime = runtime_on(MemoryLog())
        fired: list[str] = []
        last = asyncio.Event()

        def timer(name: str, delay_ms: int) -> Timer:
            def fire(now_ms: int) -> Result:
                fired.append(name)
                if name == "b":
                    last.set()
                return Result()

            return Timer(name, delay_ms, fire)

        runtime.submit("a", lambda shard, now_ms: Result(timers=[timer("a", 20), timer("b", 20), timer("c", 20)]))
        runtime.submit("a", lambda shard, now_ms: Result(timers=[timer("b", 80), Timer("c"), timer("d", 1)]))
        runtime.submit("a", lambda shard, now_ms: Result(timers=[timer("between", 50)]))
        await last.wait()
        assert fired == ["d", "a", "between", "b"]

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


def test_an_uncommitted_write_times_out_with_an_error_that_clients_retry() -> None:
    async def scenario() -> None:
        log = MemoryLog(commits_at_once=False)
        runtime = runtime_on(log, write_timeout_ms=20)
        with pytest.raises(Refused) as refused:
            await runtime.run("a", put(b"k", b"1"))
        assert refused.value.code is ErrorCode.coordinator_not_available

    on_loop(scenario)


def test_all_who_wait_for_a_commit_that_does_not_come_are_told_in_time() -> None:
    async def scenario() -> None:
        log = MemoryLog(commits_at_once=False)
        runtime = runtime_on(log, write_timeout_ms=50)
        began = asyncio.get_running_loop().time()
        replies = [asyncio.ensure_future(runtime.run("a", put(b"k%d" % i, b"1"))) for i in range(40)]
        answers = await asyncio.gather(*replies, return_exceptions=True)
        assert all(isinstance(a, Refused) and a.code is ErrorCode.coordinator_not_available for a in answers)
        assert asyncio.get_running_loop().time() - began < 40 * 0.05, "one after the other"
        log.commit()
        assert await settled(runtime.read("a", lambda shard, now_ms: shard.values[b"k39"])) == b"1", (
            "written all the same"
        )

    on_loop(scenario)


def test_a_leader_that_is_replaced_tells_all_who_wait_at_once() -> None:
    async def scenario() -> None:
        log = MemoryLog(commits_at_once=False)
        runtime = runtime_on(log)
        replies = [asyncio.ensure_future(runtime.run("a", put(b"k%d" % i, b"1"))) for i in range(5)]
        await asyncio.sleep(0.01)
        log.lose_leadership()
        answers = await asyncio.gather(*replies, return_exceptions=True)
        assert all(isinstance(a, Refused) and a.code is ErrorCode.not_coordinator for a in answers)

    on_loop(scenario)


def test_a_timer_whose_records_are_refused_fires_again_until_they_are_written() -> None:
    async def scenario() -> None:
        log = MemoryLog()
        runtime = runtime_on(log)
        tries: list[int] = []
        told: list[ErrorCode] = []
        written = asyncio.Event()

        def fire(now_ms: int) -> Result:
            tries.append(now_ms)
            if len(tries) == 2:
                log.fails_with = Refused(ErrorCode.not_enough_replicas, "lost in between")
                log.refuses_with = None
            elif len(tries) == 3:
                log.fails_with = None
                written.set()
            return Result([Record(b"gone", b"1")], then=lambda error, _: told.append(error))

        log.refuses_with = Refused(ErrorCode.not_enough_replicas, "one replica left")
        runtime.hosted(0).submit(lambda shard, now_ms: Result(timers=[Timer("t", 1, fire, 1)]), asks_first=False)
        await written.wait()
        await asyncio.sleep(0)
        assert runtime.read("a", lambda shard, now_ms: shard.values) == {b"gone": b"1"}
        assert told == [ErrorCode.not_enough_replicas, ErrorCode.not_enough_replicas, ErrorCode.none]
        await asyncio.sleep(0.01)
        assert len(tries) == 3, "and then no more"

    on_loop(scenario)


def test_a_sign_of_life_counts_while_the_log_takes_no_writes() -> None:
    async def scenario() -> None:
        log = MemoryLog()
        runtime = runtime_on(log)
        log.refuses_with = Refused(ErrorCode.not_enough_replicas, "one replica left")
        assert runtime.submit("a", lambda shard, now_ms: Result(reply="alive"), asks_first=False) == "alive"
        with pytest.raises(Refused) as refused:
            runtime.submit("a", put(b"k", b"1"), asks_first=False)
        assert refused.value.code is ErrorCode.coordinator_not_available
        assert runtime.hosted(0).shard.values == {}

    on_loop(scenario)


@pytest.mark.parametrize("gathers", [False, True])
def test_records_that_need_not_stand_together_are_written_in_several_batches(gathers: bool) -> None:
    async def scenario() -> None:
        log = MemoryLog()
        log.max_batch_bytes = 1_000
        runtime = runtime_on(log)
        for _ in range(3 * gathers):
            runtime.submit("a", put(b"a", b"1"))
            await settled(runtime.submit("a", put(b"a", b"1")))
        many = {b"k%d" % i: b"x" * 50 for i in range(100)}
        result = Result([Record(key, value) for key, value in many.items()], "done", atomic=False)
        assert await settled(runtime.submit("a", lambda shard, now_ms: result)) == "done"
        stored = {record.key: record.value for record in log.records()}
        assert many.items() <= stored.items() and max(map(len, log.stored)) <= 1_000
        assert runtime.hosted(0).shard.values == stored

    on_loop(scenario)


def test_a_log_written_with_a_codec_is_read_back_whatever_the_codec_is_now() -> None:
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
