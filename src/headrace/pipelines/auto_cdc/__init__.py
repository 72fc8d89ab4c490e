"""AUTO CDC: changes applied to a target table, as its current rows (SCD type 1) or as their history (SCD type 2).

`history`      what a row is after its changes, and which versions it had: pure
`change_rows`  rows of a stream as changes with key, sequence and kind
`applying`     one batch of changes into a store
`delta_store`  a Delta table and the table of its changes
`table_store`  a database table and the table of its changes
`writers`      writers of `foreachBatch` for both
`flows`        `dp.create_auto_cdc_flow` of Spark's pipelines API
"""
