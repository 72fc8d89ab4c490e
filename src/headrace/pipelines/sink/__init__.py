"""Rows to topics: `df.write` and `df.writeStream`, exactly once by default. In reading order:

`writer`            the writer: transactions, fencing of older attempts
`ledger`            the ledger of finished tasks in a compacted topic
`settled_letters`   which dead letters were retried or dropped, in the same topic
`arrow_writer`      Arrow columns to record batches
`stable_tasks`      the same tasks each time Spark repeats a micro-batch
"""
