"""A unit: several broker processes on one host, started, watched and stopped together (`headrace start --cores N`).

One Python process uses one core. The processes of a unit are ordinary brokers with ids and ports in a row. Without
ZooKeeper the supervisor holds the embedded coordination store and serves it to them. docs/clusters.md explains the unit
for operators, ADR 22 the decisions. In reading order:

`core`           decides: the settings of each process, and which partitions move when the unit grows or shrinks
`directories`    checks before a start which unit owns the log directories
`supervisor`     starts the processes, starts dead ones again, stops all
`child`          one process, as the supervisor sees it
`channel`        the messages between supervisor and process
`process`        the program of a process: a broker on the store of its unit
`moves`          moves partitions between the processes, with progress
`metrics`        one endpoint with the sums of all processes
"""
