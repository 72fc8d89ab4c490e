"""Group, share and transaction coordinators: state machines over their own compacted topics. In reading order:

`runtime`   hosts one shard of state per partition of an internal topic that this broker leads
`group`     consumer groups, share groups' members, committed offsets
`share`     records of share groups: acquisition, acknowledgement, and their durable state
`txn`       producer ids and transactions
`peers`     the port to other brokers
`topic_writer`   writes records of the broker itself to any topic
`codec`     the records of the internal topics, in Kafka's formats
"""
