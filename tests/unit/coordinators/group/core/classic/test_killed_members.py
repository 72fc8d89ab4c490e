"""A static member that is killed at any moment leaves no group stuck, also if the coordinator moves.

Processes run against a shard of groups on virtual time. One with an instance id is killed after each number of steps:
while it joins, waits for its assignment, or reads. The rules are Kafka's: a process with the same instance id takes the
place at once; otherwise the group goes on without it after its session timeout, and a rebalance that waits for it ends
after the rebalance timeout.
"""

from __future__ import annotations

import itertools
from typing import Final

import pytest

from headrace.coordinators.group.core.classic.group import ClassicState
from headrace.coordinators.group.core.settings import GroupSettings
from headrace.kernel.errors import ErrorCode, Fault, Refused
from tests.support.group_driver import GroupDriver
from tests.unit.coordinators.group.core.classic.test_classic_groups import group

STEP_MS: Final = 250
SESSION_MS, REBALANCE_MS, INITIAL_DELAY_MS = 10_000, 15_000, 1_000
_names: Final = itertools.count()


class Process:
    """A consumer that does one thing at each step: joins, asks for its assignment, or sends a heartbeat."""

    def __init__(self, driver: GroupDriver, instance: str | None = None) -> None:
        self._driver = driver
        self._instance = instance
        self._restart()

    def _restart(self) -> None:
        self._member_id, self.generation, self._waits, self._syncs = "", -1, "", False
        self.reads = False

    def step(self) -> None:
        try:
            if self._waits:
                self._answered(self._driver.answers.pop(self._waits, None))
            elif self.reads:
                self._failed(self._driver.heartbeat(self._member_id, self.generation, instance=self._instance))
            elif self._syncs:
                self._sync()
            else:
                self._join()
        except Refused as refused:
            self._failed(refused.code)

    def _join(self) -> None:
        self._waits = f"join {next(_names)}"
        self._driver.join(
            self._waits,
            member=self._member_id,
            instance_id=self._instance,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
        )

    def _sync(self) -> None:
        members = group(self._driver).members
        given = [(each, b"some") for each in members] if group(self._driver).is_leader(self._member_id) else []
        self._waits = f"sync {next(_names)}"
        self._driver.sync(self._waits, self._member_id, self.generation, assignments=given, instance_id=self._instance)

    def _answered(self, answer: object) -> None:
        if answer is None:
            return
        asked_for_assignment, self._waits = self._waits.startswith("sync"), ""
        if isinstance(answer, Fault):
            self._failed(answer.code)
            return
        error = getattr(answer, "error")  # noqa: B009 - either kind of answer
        if not asked_for_assignment and error in (ErrorCode.none, ErrorCode.member_id_required):
            self._member_id = getattr(answer, "member_id")  # noqa: B009
        if error is not ErrorCode.none:
            self._failed(error)
        elif asked_for_assignment:
            self.reads, self._syncs = True, False
        else:
            self.generation, self._syncs = getattr(answer, "generation"), True  # noqa: B009

    def _failed(self, error: ErrorCode) -> None:
        """What Kafka's clients do after each error."""
        self._waits = ""
        if error in (ErrorCode.unknown_member_id, ErrorCode.fenced_instance_id):
            # A fenced client ends, and its program starts again.
            self._restart()
        elif error in (ErrorCode.rebalance_in_progress, ErrorCode.illegal_generation):
            self.reads = self._syncs = False
        else:
            retried = (ErrorCode.none, ErrorCode.not_coordinator, ErrorCode.coordinator_load_in_progress)
            assert error in (*retried, ErrorCode.member_id_required), error


def seconds_until_all_read(driver: GroupDriver, alive: list[Process]) -> float:
    began = driver.now_ms
    while driver.now_ms - began < 4 * (SESSION_MS + REBALANCE_MS):
        found = driver.shard.groups.get("g")
        ids = [one.generation for one in alive]
        if found is not None and all(one.reads for one in alive) and len(set(ids)) <= 1:
            state = group(driver)
            if len(state.members) == len(alive) and state.state in (ClassicState.STABLE, ClassicState.EMPTY):
                return (driver.now_ms - began) / 1000
        for one in alive:
            one.step()
        driver.advance(STEP_MS)
    raise AssertionError(f"the group is stuck: {group(driver)}")


@pytest.mark.parametrize("coordinator_moves", [False, True])
@pytest.mark.parametrize("has_partner", [False, True])
@pytest.mark.parametrize("returns", [False, True])
def test_no_group_waits_longer_than_its_timeouts(returns: bool, has_partner: bool, coordinator_moves: bool) -> None:
    slowest = 0.0
    for steps in range(1, 24):
        driver = GroupDriver(GroupSettings(initial_rebalance_delay_ms=INITIAL_DELAY_MS))
        partners = [Process(driver)] if has_partner else []
        doomed = Process(driver, "one")
        # Half of the time the partner is there first, half of the time both join together.
        if steps % 2:
            for _ in range(12):
                for one in partners:
                    one.step()
                driver.advance(STEP_MS)
        for _ in range(steps):
            for one in (*partners, doomed):
                one.step()
            driver.advance(STEP_MS)
        if coordinator_moves:
            driver.reload()
        alive = [*partners, Process(driver, "one")] if returns else partners
        slowest = max(slowest, seconds_until_all_read(driver, alive))
    if returns:
        # The same instance takes its place: its join ends the wait, not the end of a session.
        assert slowest * 1000 < SESSION_MS, slowest
    else:
        assert slowest * 1000 <= SESSION_MS + REBALANCE_MS + 10 * STEP_MS, slowest
