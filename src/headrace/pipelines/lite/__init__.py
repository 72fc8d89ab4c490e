"""Stateless connectors in plain Python, without Spark: `headrace pipeline run FILE --lite`. In reading order:

`run`             a connector and its flows: rows, dead letters
`flow`            one flow: batches from its source to its target
`batch_log`       batches in the checkpoint, in Spark's format
`rows`            rows, and the parts of a flow that read, change and write them
`topic_rows`      records of topics
`file_rows`       lines of new files
`table_rows`      new rows of a database table
`journal_rows`    rows of a plugin
`json_values`     JSON by a schema, as Spark reads it
`selection`       SELECT: columns, or an expression that DuckDB computes as Spark does
`spark_text`      values as text, as Spark writes them
`topic_target`    records in transactions, with the ledger of Spark's tasks
`other_targets`   database table, console, plugin

Checkpoints, ledgers, locks and progress are those of Spark's runner. So a connector changes between the two by the flag
alone, also in the middle of a batch.
"""
