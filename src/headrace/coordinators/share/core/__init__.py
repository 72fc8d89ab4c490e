"""Pure parts of share groups. In reading order:

`runs`              neighbouring offsets of one state are kept as one run
`share_partition`   one share partition: which records are acquired, by which member, until when, how often
`starting`          where a share partition begins that no member has read
`portions`          records that were handed out together (Kafka's in-flight batches)
`handing_out`       which records of one read are handed out
`sessions`          which partitions a member reads, remembered between its fetches
`share_state`       the durable state: one shard of `__share_group_state`
"""
