"""The environment of Spark: Java, jars, plans, workers. In reading order:

`java`             finds a Java that Spark can run on
`spark_home`       the home of Spark without the zipped copy of PySpark
`jvm_process`      the start of Spark's JVM: SIGTERM, a file for its output
`connector_jars`   Spark's own Kafka connector, chosen by `backend`
`realtime`         Spark's real-time mode
`plan_guard`       rejects a checkpoint that does not fit the changed flow
`worker_daemon`    Spark's daemon of Python workers, quiet when a session ends
`closed_session`   the other Python processes of Spark, quiet when their socket is closed
`worker_clients`   the clients that a Python worker process keeps between its tasks
`running_batch`    the micro-batch that a task belongs to
`source_environment`  the environment of the data source's processes, for streams that start together
"""
