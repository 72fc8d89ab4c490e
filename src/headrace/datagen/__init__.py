"""Test data: records from templates or schemas, the same for the same seed. In reading order:

`plan`        a plan as a YAML file: topics, fields, shares of late, duplicate and malformed records
`errors`      what is wrong in a plan, and where
`settings`    the settings of one field, checked
`skew`        skewed choices
`fields`      values of one field: distributions, sequences, choices, times
`linked`      fields that depend on other fields or records: references, sessions, random walks
`schemas`     fields for a record schema (Avro or JSON Schema)
`arrivals`    event times: rate, day curve, bursts
`generator`   the records of all topics in the order of their event times
`encoding`    values by the schemas of a registry
`sending`     sends the records at the planned rate
`examples`    plans that come with Headrace
"""
