"""Reads, filters and converts records for commands. In reading order:

`times`              parses offsets and times: "10 minutes ago"
`positions`          the offsets of many partitions at such a time
`reader`             reads partitions from one position to another, or follows them
`filter`             the language of `headrace consume --where`
`text`               keys and values as text, JSON documents and templates
`lines`              records from lines of text and from JSON documents
`files`              records to and from NDJSON, CSV and Parquet
`unreadable_batch`   explains which batch stops a reader
"""
