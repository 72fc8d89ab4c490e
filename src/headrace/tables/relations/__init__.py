"""Topics and tables as relations of DuckDB, and what a query fetches of them. In reading order:

`relation_rows`   the rows of a topic, of its table, and of both with an exact seam
`row_shapes`      records as rows with Kafka's columns, or typed by the registry
`topic_relation`  one topic as a relation: DuckDB asks it for columns and rows, it asks the brokers
`pruning`         the offsets and times that a filter of DuckDB can match
`topic_ranges`    the offset ranges that a query must fetch: by filter, or the last rows only
`topic_scan`      fetches and decodes offset ranges in threads
`last_rows`       recognises `ORDER BY "offset" DESC LIMIT n`, which needs the end of the topic only
"""
