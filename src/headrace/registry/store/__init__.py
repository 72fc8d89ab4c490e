"""The state of the registry on the topic `_schemas`. In reading order:

`topic`          the topic over the wire
`reader`         replays it into the state
`election`       which instance writes
`fenced_writer`  appends in transactions that an older writer cannot complete
`store`          all of them together: reads from memory, writes by the leader
"""
