"""The transaction state machine, pure: facts in, the next transaction and the answer out. In reading order:

`transaction`      the state of one transactional id, and its valid transitions
`initialisation`   InitProducerId
`membership`       which partitions belong to the open transaction
`ending`           EndTxn, aborts by the coordinator, completion, expiry
`queries`          ListTransactions
`log_records`      transactions as records of `__transaction_state`
`shard`            all transactional ids of one partition of `__transaction_state`
"""
