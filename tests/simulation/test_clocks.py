"""Frozen and resumed processes, clocks that run fast and slow, one-way connections to the store.

Acknowledged records survive these faults, too. If a leader resumes after its session ended, another broker leads and
its lease is over. If a controller does, its writes are fenced.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest

from headrace.testing.simulation.history import InvariantBroken
from headrace.testing.simulation.modes import Modes
from headrace.testing.simulation.scenario import run_seed
from tests.simulation.sabotage import acknowledged_after_the_lease, zombie_controller_writes
from tests.support.effort import rounds

pytestmark = pytest.mark.simulation

RULES = (acknowledged_after_the_lease, zombie_controller_writes)
SEEDS = int(os.environ.get("SEEDS") or 0) or rounds(short=3, long=1000)


@pytest.mark.timeout(60 + 5 * SEEDS)
def test_no_acknowledged_record_is_lost_with_unreliable_clocks() -> None:
    acknowledged = frozen = 0
    for seed in range(SEEDS):
        try:
            outcome = run_seed(seed, Modes(disturbs_clocks=True))
        except BaseException as error:
            raise AssertionError(f"seed {seed}: {error}") from error
        acknowledged += outcome.acknowledged
        frozen += sum("freeze" in line for line in outcome.trace)
    assert acknowledged > 100 * SEEDS
    assert frozen > SEEDS


@pytest.mark.timeout(300)
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_simulation_finds_missing_fencing_rules(rule: Callable[[], AbstractContextManager[None]]) -> None:
    with rule(), pytest.raises((InvariantBroken, AssertionError)):
        for seed in range(20):
            run_seed(seed, Modes(disturbs_clocks=True))
