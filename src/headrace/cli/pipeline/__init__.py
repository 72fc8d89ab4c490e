"""`headrace pipeline`: creates, checks, runs, monitors and moves pipelines. In reading order:

`command`        the group of commands: init, run, check, stop, jars
`flow_tests`     test
`offsets`        reset, replay
`snapshots`      snapshot: change capture reads its tables again
`flow_names`     rename, forget
`status`         ls, status
`dead_letters`   `headrace pipeline dlq`: rows that a pipeline could not decode
"""
