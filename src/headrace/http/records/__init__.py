"""Records of the HTTP API. In reading order:

`schemas`       the schema registry as the caller sees it
`encoding`      keys and values of a request to bytes
`decoding`      keys and values to JSON
`json_stream`   splits a body into JSON documents while it arrives
`produce`       records of a request to partitions, and the offset of each
`filters`       which records a reader wants: search, fields, CEL
`stream`        a topic as server-sent events or NDJSON
"""
