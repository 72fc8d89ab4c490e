"""Writes that fail, are refused or never committed: the errors of waiting callers, and the state afterwards."""

from __future__ import annotations

import asyncio

import pytest

from headrace.coordinators.runtime.runtime import Result, Timer, settled
from headrace.kernel.errors import ErrorCode, Refused, StorageFault
from headrace.records.builder import Record, build_writable_batch
from tests.support.clock import Stopwatch
from tests.support.coordinator_logs import MemoryLog
from tests.support.counting_shard import Counters, on_loop, put, runtime_on


def test_losing_leadership_answers_all_waiting_callers() -> None:
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


def test_a_failed_write_of_a_group_in_memory_reloads_the_shard() -> None:
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


def test_a_log_that_rejects_writes_refuses_before_the_operation_runs() -> None:
    async def scenario() -> None:
        log = MemoryLog()
        runtime = runtime_on(log)
        log.refuses_with = Refused(ErrorCode.not_enough_replicas, "one replica left")
        with pytest.raises(Refused) as refused:
            runtime.submit("a", put(b"k", b"1"))
        assert refused.value.code is ErrorCode.coordinator_not_available
        assert runtime.hosted(0).shard.values == {}

    on_loop(scenario)


def test_records_too_large_for_one_batch_are_all_refused() -> None:
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


def test_an_uncommitted_write_times_out_with_a_retriable_error() -> None:
    async def scenario() -> None:
        log = MemoryLog(commits_at_once=False)
        runtime = runtime_on(log, write_timeout_ms=20)
        with pytest.raises(Refused) as refused:
            await runtime.run("a", put(b"k", b"1"))
        assert refused.value.code is ErrorCode.coordinator_not_available

    on_loop(scenario)


def test_all_waiting_callers_time_out_when_the_commit_does_not_come() -> None:
    async def scenario() -> None:
        log = MemoryLog(commits_at_once=False)
        runtime = runtime_on(log, write_timeout_ms=500)
        watch = Stopwatch()
        replies = [asyncio.ensure_future(runtime.run("a", put(b"k%d" % i, b"1"))) for i in range(40)]
        answers = await asyncio.gather(*replies, return_exceptions=True)
        assert all(isinstance(a, Refused) and a.code is ErrorCode.coordinator_not_available for a in answers)
        watch.at_most(40 * 0.5, because="each write waits half a second, all of them at once")
        log.commit()
        assert await settled(runtime.read("a", lambda shard, now_ms: shard.values[b"k39"])) == b"1", (
            "written all the same"
        )

    on_loop(scenario)


def test_a_replaced_leader_answers_all_waiting_callers_at_once() -> None:
    async def scenario() -> None:
        log = MemoryLog(commits_at_once=False)
        runtime = runtime_on(log)
        replies = [asyncio.ensure_future(runtime.run("a", put(b"k%d" % i, b"1"))) for i in range(5)]
        await asyncio.sleep(0.01)
        log.lose_leadership()
        answers = await asyncio.gather(*replies, return_exceptions=True)
        assert all(isinstance(a, Refused) and a.code is ErrorCode.not_coordinator for a in answers)

    on_loop(scenario)


def test_a_timer_fires_again_until_its_records_are_written() -> None:
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


def test_a_heartbeat_counts_while_the_log_rejects_writes() -> None:
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
def test_non_atomic_records_are_written_in_several_batches(gathers: bool) -> None:
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
