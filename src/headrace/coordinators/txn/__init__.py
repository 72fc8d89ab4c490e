"""Transactions: the coordinator of transactional ids, and what partition leaders do for it.

`core` decides (pure). `coordinator` runs it over `__transaction_state` and is the interface for handlers.
`marker_sender` sends the outcome to every partition; `marker_writer` writes it where this broker leads. `verification`
asks the coordinator before a batch opens a transaction in a partition; `verification_guards` prevent a race with the
end of that transaction. `producer_ids` allocates producer ids from the block of this broker.
"""
