"""Reads, filters and converts records for commands. In reading order:

`reader`             reads partitions from one position to another, or follows them
`filter`             the language of `headrace consume --where`
`text`               keys and values as text, JSON documents and templates
`lines`              records from lines of text and from JSON documents
`schema_records`     records encoded and decoded by a schema registry
`files`              records to and from NDJSON, CSV and Parquet
`unreadable_batch`   explains which batch stops a reader
"""
