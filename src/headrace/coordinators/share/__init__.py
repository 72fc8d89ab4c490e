"""Records of share groups (KIP-932): each record goes to one member at a time and is acknowledged. In reading order:

`settings`            settings of the broker with those of the group laid over them
`core`                share partitions, their durable state, sessions
`reading`             which of the bytes read for a ShareFetch count
`queues`              the share partitions that this broker leads: fetch, acknowledge, expiry of locks
`consumption`         ShareFetch and ShareAcknowledge, free of wire versions
`outbox`              changes of one share partition on their way to the share coordinator
`persister`           reads and writes the state of a share partition wherever its coordinator is
`state_coordinator`   the share coordinator: shards of `__share_group_state`
`beginning`           initialises share partitions that a group has noted
`membership`          heartbeats of members
`administration`      start offsets and deletion, for administrators

The group coordinator keeps the members (`coordinators/group/core/share`).
"""
