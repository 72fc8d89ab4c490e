"""Connectors: pipelines without code, described by a YAML file or a command. In reading order:

`connector`      a connector file: source, SELECT, target
`settings`       the settings of its source and its target
`sources`        topic, directory, table, changes of a database
`targets`        topic, files, Delta table, database table, console
`staged_rows`    rows into PostgreSQL, copied by the tasks of a batch
`delta_files`    rows into a Delta table, as files written by the tasks of a batch
`evolution`      new and wider columns of a database table
`databases`      PostgreSQL and SQLite through their Python drivers
`table_source`   new rows of a table, by a column that only grows
`cdc_source`     `format("headrace_cdc")`: inserts, updates and deletes of a database as a stream
`change_logs`    PostgreSQL's logical slot and SQLite's trigger table
`pgoutput`       PostgreSQL's logical replication messages
`change_records` changes as records with the schema of their table
`mirror`         topics copied from one cluster to another
"""
