"""What the registry decides, without any I/O. In reading order:

`errors`            error codes
`subjects`          subjects and contexts
`json_text`         JSON as Jackson prints it
`content`           a schema apart from its place; MD5 and GUID
`records`           records of `_schemas`
`state`             what replaying them gives
`settings`          compatibility levels and modes, and where they come from
`incompatibility`   one reason why two schemas do not fit
`schema_types`      one interface for all types of schemas
`avro`              Avro
`json_schema`       JSON Schema
`protobuf`          Protobuf
`requests`          bodies of requests
`lookups`           references, look-ups by content, compatibility with a history
`data_contracts`    metadata and rules, merged
`operations`        writes: state in, records and reply out
"""
