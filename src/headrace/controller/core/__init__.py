"""The decisions of the controller: facts in, changes out. No clock, no randomness, no I/O. In reading order:

`partition_states`   how the state of one partition changes
`elections`          which partitions change their leader when brokers start, stop or die, or on request
`isr_changes`        AlterPartition: a leader reports its in-sync replicas
`reassignments`      moves replicas while the partition serves
`topics`             new topics and more partitions; `deletions` deletes a topic in bounded steps
`config_changes`, `quotas`, `features`   overrides, client quotas, feature levels
`scram_changes`      SCRAM credentials; `token_changes` delegation tokens
`acls`               creation and deletion of ACLs
"""
