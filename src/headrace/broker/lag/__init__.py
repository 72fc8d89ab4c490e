"""Lag of consumer groups and reports of Spark flows, as metrics of a broker. In reading order:

`figures`        lag from committed offsets and ends, states of flows; pure
`group_lag`      measures the groups that this broker coordinates, in the background
`flow_reports`   reads the topic `__pipelines` if this broker leads it
"""
