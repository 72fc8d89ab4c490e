"""Consumer groups and their offsets. In reading order:

`find_coordinator`
`join_group`, `sync_group`, `heartbeat`, `leave_group`           classic groups
`consumer_group_heartbeat`, `consumer_group_describe`            consumer groups (KIP-848)
`streams_group_heartbeat`, `streams_group_describe`              streams groups (KIP-1071)
`streams_internal_topics`                                        repartition and changelog topics of their applications
`heartbeat_answers`                                              the answer that consumer and share heartbeats write
`described_topics`                                               topics in a description that a client may not see
`offset_commit`, `offset_fetch`, `offset_delete`                 committed offsets
`describe_groups`, `list_groups`, `delete_groups`                administration
"""
