"""Avro payloads. In reading order:

`schema`          the text of a schema and its references, parsed
`logical_types`   dates, decimals and others as what Avro writes
`writer`          values to bytes
`defaults`        defaults of fields as values
`codec`           both directions behind the interface of `codecs`
"""
