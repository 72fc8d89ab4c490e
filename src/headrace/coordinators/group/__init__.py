"""The group coordinator: the members of each group, their assignments and their committed offsets.

core/        the state machines: pure, with time as an argument
shard        all groups of one partition of `__consumer_offsets`; replays its records
coordinator  the interface for the handlers
"""
