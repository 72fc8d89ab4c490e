"""Produce, Fetch and what belongs to them. In reading order:

`produce`                   append batches; `produce_checks` checks them before their partition is looked up
`transaction_guard`         asks the transaction coordinator before the first transactional batch
`group_commit`              fsync before the acknowledgement, shared by the writers that wait
`fetch`                     read from an offset on; `fetch_keys` names a partition, `fetch_sessions` remembers them
`changed_partitions`        which partitions of a follower's session have something new
`long_poll`                 a request that waits for more data or for its deadline
`current_leaders`           where the leader of a partition is, for answers that redirect a client
`list_offsets`, `offset_for_leader_epoch`, `delete_records`
"""
