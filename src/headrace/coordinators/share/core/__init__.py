"""Pure parts of share groups. In reading order:

`runs`              neighbouring offsets of the same state, kept as one run
`share_partition`   one share partition: which records are acquired, by which member, until when, how often
`starting`          start offset of a new share partition
`portions`          records that were acquired together (Kafka's in-flight batches)
`acquisition`       which records of one read a fetch acquires
`sessions`          share sessions: the partitions that a member reads
`share_state`       the durable state: one shard of `__share_group_state`
"""
