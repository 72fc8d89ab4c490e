"""Pure state machines of groups. In reading order:

`effects`             results of an operation: records, answers, timers
`settings`            the configuration values that groups depend on
`classic`             classic groups: join, sync, heartbeat, leave, rebalance
`consumer`            consumer groups (KIP-848), and their migration from and to classic groups
`share`               members of share groups (KIP-932)
`streams`             streams groups of Kafka Streams applications (KIP-1071)
`groups`              the groups of one partition by id, which the state machines share
`heartbeat_messages`  heartbeats of consumer and share groups: request, answer, validation
`offsets`             committed offsets
`descriptions`        answers of the describe and list requests
`replay`              replays the records of `__consumer_offsets`
`shard`               all groups of one partition of `__consumer_offsets`
"""
