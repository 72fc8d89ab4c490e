"""The HTTP API: Confluent's REST Proxy (v3 and v2), and topics as streams for curl and browsers.

It talks to brokers only over the Kafka protocol, and it acts as its caller (`headrace.web`). In reading order:

`call`          one request: its caller, parameters and answers
`endpoint`      one row of the table of endpoints: route and OpenAPI description
`records`       keys and values to bytes and back, the producer, filters, streams
`v3`            clusters, topics, configs, partitions, groups, ACLs, records
`v2`            topics, produce, consumer instances, the stateless partition read
`openapi`       the OpenAPI document, derived from the table of endpoints
`service`       what the endpoints share, and the application
"""
