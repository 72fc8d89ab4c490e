"""Formats of tables: Delta, Iceberg and plain Parquet. Each keeps the topic's offsets in its own log. In reading order:

`table_log`     what every format does: snapshots, commits with offsets, conflicts of writers, checks of identity
`table_files`   Parquet files that the tasks of a batch write, and the file systems of paths
`packed_headers` headers of records as JSON on their way from Spark to these tasks
`hadoop_uris`   addresses of files in Hadoop's file systems
`hadoop_client` Hadoop's own client in a JVM, which writes to HDFS
`new_files`     files of a table's log on a local disk: whole, and only once
`delta_log`     Delta tables
`delta_append`  commits that only add files to a local Delta table
`staged_delta`  commits to Delta tables in HDFS
`iceberg_log`   Iceberg tables in a SQL or REST catalog
`iceberg_upkeep` joins small files of Iceberg tables, and removes snapshots and files that no reader needs
`iceberg_files` files of Iceberg tables in HDFS
`parquet_log`   directories of Parquet files with a small log beside them
`file_set`      data files with their smallest and largest values as an Arrow dataset
`evolution`     the columns that a table gets from a newer schema, and the changes that it refuses
"""
