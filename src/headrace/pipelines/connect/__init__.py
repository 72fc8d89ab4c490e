"""Kafka Connect's place: its configurations translated to connector files, and its REST interface. In reading order:

`connect_config`   a configuration of Kafka Connect: values, and which of them were understood
`translation`      the connector files of a configuration, or what is missing
`common_settings`  settings that every connector of Kafka Connect has
`file_configs`     FileStreamSource, FileStreamSink
`jdbc_configs`     JDBC source and sink
`debezium_configs` Debezium's connector for PostgreSQL
`connector_store`  the connectors of a worker on disk
`connector_task`   one connector file in a thread of its own
`connector_offsets` offsets of a stopped connector: read, altered, reset
`worker`           many connectors in one process: start, pause, stop, restart, delete
`validation`       PUT …/config/validate
`routes`           the requests of Kafka Connect's REST interface
`service`          the HTTP service: routes behind login and rights
"""
