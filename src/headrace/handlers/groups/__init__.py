"""Consumer groups and their offsets. In reading order:

`find_coordinator`
`join_group`, `sync_group`, `heartbeat`, `leave_group`           classic groups
`consumer_group_heartbeat`, `consumer_group_describe`            consumer groups (KIP-848)
`heartbeat_answers`                                              the answer that both heartbeats write
`described_topics`                                               topics in a description that a client may not see
`offset_commit`, `offset_fetch`, `offset_delete`                 committed offsets
`describe_groups`, `list_groups`, `delete_groups`                administration
"""
