"""Records for commands: where to start, reading, filters, text and files. In reading order:

`times`              offsets and times as people write them: "10 minutes ago"
`positions`          the offsets of many partitions at such a time
`reader`             reads partitions from one position to another, or follows them
`filter`             the language of `headrace consume --where`
`text`               keys and values as text, JSON documents and templates
`lines`              records from lines of text and from JSON documents
`files`              records to and from NDJSON, CSV and Parquet
`unreadable_batch`   the batch that stops a reader
"""
