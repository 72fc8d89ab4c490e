"""Connectors: pipelines without code, described by a YAML file or a command. In reading order:

`connector`      a connector file: source, SELECT, target
`settings`       the settings of its source and its target
`sources`        topic, directory, table, changes of a database
`targets`        topic, files, Delta table, database table, console
`staged_rows`    rows into PostgreSQL, copied by the tasks of a batch
`delta_files`    rows into a Delta table, as files written by the tasks of a batch
`scd_targets`    tables kept by changes: current rows, or their history
`evolution`      new and wider columns of a database table
`delta_evolution` new and wider columns of a Delta table
`databases`      PostgreSQL and SQLite through their Python drivers
`mysql_connection` MariaDB and MySQL, as sources
`table_source`   new rows of a table, by a column that only grows
`cdc`            changes of a database as a stream
`mirror`         topics copied from one cluster to another
"""
