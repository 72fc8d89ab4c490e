"""What a seed brings beside the faults that every run has: how large the cluster is, what is asked of it, what it
allows.
"""

from __future__ import annotations

import random
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Modes:
    brokers: int = 3
    moves_settings: bool = False  # somebody changes min.insync.replicas
    disturbs_clocks: bool = False  # processes are frozen, clocks run fast and slow, the store hears without being heard
    operates: bool = False  # replicas move, topics grow, go and come again, records are deleted
    breaks_disks: bool = False  # disks fail under a running broker, and are replaced by empty ones
    allows_unclean: bool = False  # one topic prefers a leader to its records
    reads_from_followers: bool = False  # KIP-392
    balances: bool = False  # leadership goes back to the preferred replicas by itself

    @classmethod
    def drawn(cls, seed: int) -> Modes:
        """A third of the seeds have nothing but faults: a bug shows best where little else happens."""
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
