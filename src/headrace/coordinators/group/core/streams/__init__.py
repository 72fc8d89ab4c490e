"""Streams groups (KIP-1071): Kafka Streams applications that let the group coordinator assign their tasks. In reading
order:

`group`             one group: topology, members, tasks
`messages`          StreamsGroupHeartbeat: request, answer, validation
`heartbeat`         join, stay, change, reconcile, leave; the first target waits for more members
`member_checks`     a heartbeat against the known epoch and tasks of its member
`internal_topics`   the topology with the topics of the cluster: tasks, missing and unfit topics
`partition_counts`  the number of partitions of repartition and changelog topics
`sticky_assignor`   the target of every member
`java_queue`        the order of equally loaded candidates in Kafka's heap
`reconciliation`    one member's step towards its target: revoke first, then get what is free
`endpoints`         partitions by endpoint, for interactive queries
`replay`            replays the records of streams groups
"""
