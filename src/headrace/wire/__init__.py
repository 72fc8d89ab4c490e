"""Kafka's requests and responses as bytes and as types. In reading order:

`apis`            every API by key and name
`codec`           request and response bodies: bytes to kio's entities, plain mappings to bytes
`entities`        types of messages whose API is known only when the program runs
`messages`        the types of requests and responses, generated from kio's schemas
`schema_writer`   writers compiled from kio's schemas
`extents`         checks that the lengths in a request stay within its frame
`bounds`, `strings`, `node_endpoints`   fields that the hand-written codecs share
`produce`, `fetch`, `fetch_request`, `replica_fetch`, `offset_commit`   hand-written codecs of the most frequent APIs
"""
