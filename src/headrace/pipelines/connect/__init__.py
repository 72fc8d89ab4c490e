"""Kafka Connect's place: its configurations translated to connector files, and its REST interface. In reading order:

`connect_config`   a configuration of Kafka Connect: values, and which of them were understood
`translation`      the connector files of a configuration, or what is missing
`common_settings`  settings that every connector of Kafka Connect has
`file_configs`     FileStreamSource, FileStreamSink
`jdbc_configs`     JDBC source and sink
`debezium_configs` Debezium's connector for PostgreSQL
"""
