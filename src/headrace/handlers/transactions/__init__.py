"""Producer ids and transactions. In reading order:

`init_producer_id`, `allocate_producer_ids`
`add_partitions_to_txn`, `add_offsets_to_txn`, `txn_offset_commit`, `end_txn`
`write_txn_markers`
`describe_transactions`, `list_transactions`, `describe_producers`
`fencing`   the older error code for a fenced producer
"""
