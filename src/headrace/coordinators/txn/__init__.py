"""Transactions: the coordinator of transactional ids, and what partition leaders do for it.

`core` decides (pure). `coordinator` runs it over `__transaction_state` and is what handlers call. `marker_sender`
brings the outcome to every partition, `marker_writer` writes it where this broker leads. `verification` asks the
coordinator before a batch opens a transaction in a partition, `verification_guards` keep that from racing with its
end. `producer_ids` gives out producer ids from the block of this broker.
"""
