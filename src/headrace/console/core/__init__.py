"""Decisions of the console without I/O. In reading order:

`formats`      numbers, sizes, durations and times as text
`listing`      filter, order and pages of a table
`text_diff`    differences of two texts
`lineage`      topics and their readers as a picture
`drain`        a plan that empties a broker
`lag_history`  lag of groups over a day
`demo_panels`  pictures of demos as tables, charts and maps
`masking`      fields of records that users may not see
"""
