"""Change data capture of databases. In reading order:

`source`         `format("headrace_cdc")`: inserts, updates and deletes of a database as a stream
`change_logs`    PostgreSQL's logical slot and SQLite's trigger table
`binlog`         the binary log of MariaDB and MySQL
`pgoutput`       PostgreSQL's logical replication messages
`snapshots`      the existing rows, exact at a position of the change log
`change_topics`  changes as records of a topic: keys, tombstones, Debezium's envelope
`change_records` changes as records with the schema of their table
"""
