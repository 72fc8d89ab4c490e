"""From a frame to its handler and back. In reading order:

`handler`              what every handler offers: read, serve, refuse
`context`              what a handler knows about a request besides its body
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
