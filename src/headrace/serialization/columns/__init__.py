"""Payloads as Arrow columns, for `arrow_decoder`. Needs pyarrow. In reading order:

`lists`            list types as Spark names them
`avro_types`       the columns of an Avro schema
`avro_walk`        many Avro payloads at once, field by field with numpy
`avro_projection`  columns of a writer's schema as those of a reader's
`json_types`       the columns of a JSON Schema
`python_values`    Python values of an array
`protobuf_types`   the columns of a Protobuf message
"""
