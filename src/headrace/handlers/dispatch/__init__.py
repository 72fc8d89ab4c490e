"""Reads a frame, calls its handler, writes the answer. In reading order:

`handler`              interface of handlers: read, serve, refuse
`context`              client, listener and header of a request
`authorization`        the rights that an API needs, and whether the client of a request has them
`audit`                the log of denied requests
`table`                the handlers that are served; ApiVersions and COMPATIBILITY.md are derived from it
`dispatcher`           a frame to its handler, and the handler's answer to bytes
`login`                frames of connections that are not authenticated yet
`error_answers`        the answer that carries only an error code
`replica_only`         which requests only brokers may send
`forwarded_requests`   requests inside an envelope or a fallback request
`fallback_requests`    requests that brokers send to the controller through the coordination store
`metering`             usage of clients, counted for metrics and held against quotas
`request_metrics`      requests served and waiting, by API
`compatibility`        writes the table in COMPATIBILITY.md
`rights_page`          writes docs/reference/rights.md, the rights that each API needs
"""
