"""What a seed varies besides the faults of every run: cluster size, administration, settings."""

from __future__ import annotations

import random
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Modes:
    brokers: int = 3
    moves_settings: bool = False  # the operator changes min.insync.replicas
    disturbs_clocks: bool = False  # processes freeze, clocks run fast or slow, answers of the store are lost
    operates: bool = False  # the operator reassigns replicas, adds partitions, recreates topics, deletes records
    breaks_disks: bool = False  # disks of running brokers fail and are replaced by empty ones
    allows_unclean: bool = False  # one topic allows unclean elections
    reads_from_followers: bool = False  # consumers fetch from followers (KIP-392)
    balances: bool = False  # the controller elects preferred leaders by itself

    @classmethod
    def drawn(cls, seed: int) -> Modes:
        """A third of the seeds have only faults: a bug is easier to find if little else happens."""
        chance = random.Random(f"modes {seed}")
        if chance.random() < 0.34:
            return cls(reads_from_followers=chance.random() < 0.5)
        return cls(
            brokers=chance.choice((3, 3, 4, 5)),
            moves_settings=chance.random() < 0.25,
            disturbs_clocks=chance.random() < 0.2,
            operates=chance.random() < 0.7,
            breaks_disks=chance.random() < 0.3,
            allows_unclean=chance.random() < 0.25,
            reads_from_followers=chance.random() < 0.5,
            balances=chance.random() < 0.3,
        )
