"""Share groups (KIP-932): a topic as a queue, each record to one member at a time, acknowledged one by one.

core/runs             offsets in runs of the same state
core/share_partition  what of a partition is out with whom, for one group: the queue itself
core/share_state      the durable state of queues: one shard of `__share_group_state`
core/sessions         which partitions a member reads, remembered between its fetches
state_coordinator     the share coordinator: shards, and what other brokers ask of them
persister             reads and writes the state of a queue wherever its coordinator is
queues                the queues of the partitions that this broker leads: fetch, acknowledge, expire

The group's members are kept by the group coordinator (`coordinators/group/core/share/group`).
"""
