"""Records encoded and decoded by the schemas of a schema registry. No event loop, no Spark. In reading order:

`errors`            what can go wrong
`schema`            a registered schema and its references
`schema_text`       the text of a schema for readers
`registry_client`   the registry over HTTP, with a cache
`registry_login`    the same, logged in as a user of the brokers
`wire_format`       the schema id in front of a payload or in a header
`subjects`          the subject of a topic's schema by strategy
`plain_values`      Python values as JSON values
`avro`              Avro payloads
`patterns`          regular expressions of JSON Schemas, in linear time
`json_validation`   validators of JSON Schema that fetch nothing
`json_schema`       JSON payloads
`protobuf`          Protobuf payloads
`xml_schema`        XML payloads
`codecs`            all formats behind one interface
`cel_budget`        how much an expression may cost for one record
`cel`               CEL expressions: filters and conditions
`rules`             conditions of data contracts
`record_decoder`    bytes to values
`record_encoder`    values to bytes
`arrow_records`     record batches to Arrow columns with numpy
`columns`           payloads as Arrow columns
`arrow_decoder`     a column of payloads of mixed versions to the columns of one schema
"""
