"""The logic of the registry, without I/O. In reading order:

`errors`            error codes
`subjects`          subjects and contexts
`json_text`         JSON as Jackson prints it
`content`           a schema without subject and version; MD5 and GUID
`records`           records of `_schemas`
`state`             the state that replaying the records builds
`settings`          compatibility levels and modes, and their inheritance
`incompatibility`   one reason why two schemas are not compatible
`tags`              tags of records and fields
`schema_types`      one interface for all types of schemas
`avro`              Avro
`json_schema`       JSON Schema
`protobuf`          Protobuf
`xml_schema`        XML Schema, where it is turned on
`requests`          bodies of requests
`lookups`           references, look-ups by content, compatibility with a history
`data_contracts`    metadata and rules, merged
`operations`        writes: state in, records and reply out
"""
