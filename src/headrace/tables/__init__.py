"""Topics as tables, and SQL over topics and tables. It talks to brokers only over the Kafka protocol. In reading order:

Topics as tables:

`lake_table`      the definition of a table, in a Python file
`definitions`     the pipeline directory of all tables of a cluster
`formats`         Delta, Iceberg and Parquet: each commits rows and offsets together, so the table is the checkpoint
`table_logs`      the log and the files of a table, by its format
`first_columns`   the columns of a new table
`typed_rows`      typed columns by the schema registry
`latest_rows`     the latest row of each key, for the mode upsert-by-key
`small_rows`      small rows on their way from Spark to the tasks that write files
`table_sink`      the rows of a topic for its table, and the sink of a batch
`table_run`       what happens before Spark runs the tables
`table_repair`    lost files leave the table, and their records come from the topic again
`spark_history`   `option("history", "table")` of `format("headrace")`
`table_state`     rows, offsets and lag of a table

SQL over topics:

`sql_session`     a DuckDB connection whose relations are topics: `headrace sql` and `headrace.sql`
`relations`       topics and tables as relations of DuckDB, and what a query fetches of them
`spark_sql`       the same statements on Spark, and as streams
`sql_errors`      errors of DuckDB as a sentence with line and column
`sql_results`     rows as a table, JSON, CSV or Parquet
`sql_prompt`      the interactive prompt: history and completion
`library`         `headrace.sql` for Python programs
"""
