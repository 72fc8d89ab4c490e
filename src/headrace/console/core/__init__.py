"""Decisions of the console without I/O. In reading order:

`formats`      numbers, sizes, durations and times as text
`listing`      filter, order and pages of a table
`text_diff`    differences of two texts
`lineage`      producers, topics, readers and targets as a picture
`drain`        a plan that empties a broker
`rebalances`   why a group rebalanced, from its generations
`lag_history`  lag of groups over a day
`demo_panels`  pictures of demos as tables, charts and maps
`schema_fields` form fields of Avro records and JSON Schema objects
`masking`      fields of records that users may not see
"""
