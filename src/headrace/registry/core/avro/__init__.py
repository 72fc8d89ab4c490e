"""Avro schemas. In reading order:

`schema`          the tree
`parsing`         text to tree
`printing`        tree to Apache Avro's text
`tags`            tags of records and fields
`defaults`        checks of default values
`compatibility`   whether a reader reads what a writer wrote
`parsed`          all of them behind the interface of `schema_types`
"""
