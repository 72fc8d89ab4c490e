"""Decisions of a unit. `processes`: settings of each process. `balance`: which partitions move."""
