"""Connectors as Python classes: the ones for other systems that come with Headrace, and those of other packages.

`api`             what the author of a connector imports: `Source`, `Sink`, `Batch`, `Ledger`
`columns`         the columns of a source, and their values as JSON
`catalogue`       classes by their name in a connector file; entry points of other packages
`journal`         rows that a source has read, on disk until the target has them
`journaled_reads` one read of a source into its journal
`batch_ledger`    which batch a target has, and how far it is in the current one
`journal_source`  `format("headrace_plugin")`: a source in Spark
`plugin_target`   a sink in Spark
`extras`          libraries of the extra `connectors`
`plain_json`      a row as JSON text
`objects`         S3-compatible objects: source and sink
`http_requests`   requests with retries
`http_polling`    an HTTP address that is polled: source
`webhook`         rows as HTTP requests: sink
`redis_sink`      rows in Redis, in transactions: sink
`mqtt_source`     messages of an MQTT broker: source
`line_file`       one text file that grows: source and sink

The author imports `from headrace.pipelines.plugins.api import Chunk, Sink, Source`. None of these modules needs Spark,
except the two that say so.
"""
