"""Schema registry: schemas with ids and versions, and compatibility checks, over the HTTP API of Confluent's registry.

It talks to brokers only over the Kafka protocol. In reading order:

`core`          pure: schemas, canonical text, compatibility, the state and its operations
`store`         the compacted topic `_schemas`, and which instance writes it
`app`           the HTTP interface
"""
