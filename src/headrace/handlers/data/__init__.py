"""Produce, Fetch and what belongs to them. In reading order:

`produce`                   append batches; `produce_checks` checks them before their partition is looked up
`transaction_guard`         asks the transaction coordinator before the first transactional batch
`schema_guard`              rejects records without a known schema id; `registry_schemas` asks the schema registry
`group_commit`              fsync before the acknowledgement, shared by waiting writers
`fetch`                     read from an offset on; `fetch_keys` identifies partitions, `fetch_sessions` keeps them
`changed_partitions`        partitions of a session with new data
`long_poll`                 a request that waits for more data or for its deadline
`current_leaders`           leader of a partition, for answers that redirect a client
`list_offsets`, `offset_for_leader_epoch`, `delete_records`
"""
