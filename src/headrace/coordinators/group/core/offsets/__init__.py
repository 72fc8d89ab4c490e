"""Committed offsets. In reading order:

`committed`   the offsets of one shard, and transactional ones that wait for their transaction to end
`rules`       which member may commit, fetch and delete, and when offsets expire
`requests`    OffsetCommit, OffsetFetch, OffsetDelete and TxnOffsetCommit against the group they name
"""
