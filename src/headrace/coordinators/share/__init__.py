"""Records of share groups (KIP-932): each record goes to one member at a time and is acknowledged. In reading order:

`settings`               settings of the broker, overridden by those of the group
`core`                   share partitions, their durable state, sessions
`reading`                which batches of a read a ShareFetch returns
`led_share_partitions`   the share partitions that this broker leads: fetch, acknowledge, expiry of locks
`consumption`            ShareFetch and ShareAcknowledge, without wire versions
`dead_letters`           records that no member could process, written to a topic of the group's choice
`outbox`                 writes the changes of one share partition to the share coordinator
`persister`              reads and writes the state of a share partition at its coordinator
`state_coordinator`      the share coordinator: shards of `__share_group_state`
`initializer`            initialises the share partitions of a group
`membership`             heartbeats of members
`administration`         start offsets and deletion, for administrators

The group coordinator keeps the members (`coordinators/group/core/share`).
"""
