"""Records of topics: read, decoded, searched, exported, produced. In reading order:

`positions`   places in a topic as an address holds them
`reading`     pages of records, newest first or from a place
`decoding`    keys, values and headers as people read them
`search`      a scan in steps that can be stopped, resumed and linked
`tail`        new records as they arrive
`export`      many records as NDJSON or CSV
`parquet`     many records as Parquet
`producing`   one record from a form
`schema_form` the inputs of this form by the schema of the topic
"""
