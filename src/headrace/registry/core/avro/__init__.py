"""Avro schemas. In reading order:

`schema`          the tree
`parsing`         text to tree
`printing`        tree to Apache Avro's text
`compatibility`   whether a reader reads what a writer wrote
"""
