"""Committed offsets. In reading order:

`committed`   the offsets of one shard, and transactional ones until their transaction ends
`rules`       which member may commit, fetch and delete, and when offsets expire
`requests`    OffsetCommit, OffsetFetch, OffsetDelete and TxnOffsetCommit checked against their group
"""
