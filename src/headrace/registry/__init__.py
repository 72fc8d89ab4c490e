"""Schema registry: schemas with ids and versions, compatibility checks, over HTTP as Confluent's registry.

It reaches brokers by the wire only. In reading order:

`core`          pure: schemas, canonical text, compatibility, the state and its operations
`store`         the compacted topic `_schemas`, and which instance writes it
`app`           the HTTP interface
`rest_client`   a small client of that interface
"""
