"""The whole cluster on virtual time: acknowledged records survive all faults, and replicas converge afterwards.

`make simulate SEEDS=1000` runs more seeds; `python -m headrace.testing.simulation SEED` shows the trace of one.
"""

from __future__ import annotations

import os

import pytest

from headrace.testing.simulation.history import InvariantBroken
from headrace.testing.simulation.scenario import run_seed
from tests.simulation.sabotage import SABOTAGES, Sabotage
from tests.support.effort import rounds

pytestmark = pytest.mark.simulation

SEEDS = int(os.environ.get("SEEDS") or 0) or rounds(short=40, long=1000)
FOUND_WITHIN_SEEDS = 200


@pytest.mark.timeout(60 + 5 * SEEDS)
def test_no_acknowledged_record_is_lost_and_replicas_converge() -> None:
    acknowledged = faults = 0
    for seed in range(SEEDS):
        try:
            outcome = run_seed(seed)
        except BaseException as error:
            raise AssertionError(f"seed {seed}: {error}") from error
        acknowledged += outcome.acknowledged
        faults += outcome.faults
    # A run with very few acknowledged records would prove nothing.
    assert acknowledged > 100 * SEEDS
    assert faults > 8 * SEEDS


def test_the_same_seed_gives_the_same_trace() -> None:
    first, second = run_seed(7), run_seed(7)
    assert first.trace == second.trace
    assert first.digest != run_seed(8).digest


@pytest.mark.timeout(600)
@pytest.mark.parametrize("sabotage", SABOTAGES, ids=lambda sabotage: sabotage.rule.__name__)
def test_simulation_finds_each_disabled_rule(sabotage: Sabotage) -> None:
    """The search starts at a seed that finds it soon. Any seed of the first 200 would do."""
    order = sorted(range(FOUND_WITHIN_SEEDS), key=lambda seed: (seed < sabotage.first_seed, seed))
    with sabotage.rule():
        for seed in order:
            try:
                run_seed(seed, sabotage.modes)
            except InvariantBroken:
                return
            except AssertionError:
                return  # an assertion in the code itself
    raise AssertionError(f"{sabotage.rule.__name__} was not found within {FOUND_WITHIN_SEEDS} seeds")
