"""Data pipelines on Spark. They talk to brokers only over the Kafka protocol.

What a pipeline's author imports or names to Spark:

`session`        a Spark session that starts fast on a laptop and runs unchanged on a cluster
`datasource`     `format("headrace")`: the data source class that Spark loads
`options`        the options of `format("headrace")`, with the names of Spark's own Kafka connector
`brokers`        the brokers of a pipeline and the credentials for them, from its configuration
`decode`         bytes to columns; rows that cannot be decoded become dead letters
`json_pattern`   JSON values that fit a schema beyond doubt, without parsing them
`expectations`   rules for rows: count, drop, quarantine, fail
`avro_values`    Avro values without a registry, resolved from the writer's schema
`foreach_batch`  exactly-once writes inside `foreachBatch`
`task_sink`      tasks of the query write their rows to topics themselves
`sql_statements` the statements of a SQL file
`errors`         the errors that a pipeline reports to its user
`failure_reasons` failures of Spark, Python and databases as one sentence: place, cause, way out

How it works:

`source`         topics as rows
`sink`           rows to topics
`schemas`        typed columns by the schemas of a registry
`flows`          pipeline directories: specification, graph, run, status, reset, replay
`auto_cdc`       changes applied to tables: current rows, or their history
`connectors`     pipelines without code: files, tables, database changes, mirrored topics
`plugins`        connectors as Python classes: S3 objects, HTTP, Redis, MQTT, and those of other packages
`connect`        configurations of Kafka Connect as connectors
`lite`           stateless connectors without Spark
`spark`          Java, jars, worker processes, checks of query plans
"""
