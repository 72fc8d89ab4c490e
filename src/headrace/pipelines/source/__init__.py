"""Topics as rows: `spark.read` and `spark.readStream`. In reading order:

`reader`         batch and stream readers, one partition of Spark per range of offsets
`planning`       asks the brokers for partitions, topic ids and offsets
`offsets`        the offset options, and how ranges are split and limits are shared
`stream_state`   topic ids and missed records of a streaming query, kept in the topic `__streams`
"""
