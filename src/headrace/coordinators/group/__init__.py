"""The group coordinator: who is in a group, what each member reads, and how far it has come.

core/        the state machines: pure, with time as an argument
shard        all groups of one partition of `__consumer_offsets`; replays its records
coordinator  what the handlers call
"""
