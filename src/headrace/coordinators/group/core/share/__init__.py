"""Members of share groups (KIP-932). In reading order:

`group`             one group: its members and their assignments
`heartbeat`         ShareGroupHeartbeat
`simple_assignor`   every partition has readers, every member has partitions
`initialization`    which share partitions are initialised: the record of type 15
`replay`            replays the records of share groups
"""
