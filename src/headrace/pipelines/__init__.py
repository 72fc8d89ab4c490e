"""Data pipelines on Spark. They reach brokers by the wire only.

What a pipeline's author imports or names to Spark:

`session`        a Spark session that starts fast on a laptop and runs unchanged on a cluster
`datasource`     `format("headrace")`: Spark's entrance to the source and the sink
`options`        the options of `format("headrace")`, with the names of Spark's own Kafka connector
`brokers`        the brokers of a pipeline and the credentials for them, from its configuration
`decode`         bytes to columns; rows that cannot be decoded become dead letters
`foreach_batch`  exactly-once writes inside `foreachBatch`
`task_sink`      rows written to topics by the tasks that make them
`errors`         the errors that a pipeline reports to its user

How it works:

`source`         topics as rows
`sink`           rows to topics
`flows`          pipeline directories: specification, graph, run, status, reset, replay
`connectors`     pipelines without code: files, tables, database changes, mirrored topics
`spark`          what Spark needs around it: Java, jars, worker processes, checks of plans
"""
