"""Console tools for records with schemas, as Confluent's distribution has them.

`console`   encodes and decodes; the six tools call it
`avro_console_producer`, `avro_console_consumer`
`json_schema_console_producer`, `json_schema_console_consumer`
`protobuf_console_producer`, `protobuf_console_consumer`
"""
