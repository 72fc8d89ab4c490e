"""The state of the registry on the topic `_schemas`. In reading order:

`topic`          the topic over the wire
`reader`         replays it into the state
`election`       elects the instance that writes
`fenced_writer`  appends in transactions that fence older writers
`store`          combines them: reads from memory, writes by the leader
"""
