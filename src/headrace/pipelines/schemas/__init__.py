"""Rows by the schemas of a registry. In reading order:

`registry_options`   options that name a registry, a subject and a version
`decoding`           payloads of a topic to typed columns
`column_schemas`     the schema of columns, to register it
`encoding`           columns to payloads
"""
