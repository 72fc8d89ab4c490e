"""What the HTTP services share: the schema registry, the HTTP API and the console. In reading order:

`address`       `--listen`: HOST:PORT, and which addresses need TLS and login
`tls`           TLS of the listener, from the `ssl.*` keys that brokers have
`listener`      binds the socket and runs uvicorn until a signal
`browser_guard` rejects requests that a foreign web page sends through a user's browser
`errors`        problems as JSON answers, and the HTTP status of every Kafka error
`body`          reads a request body up to a limit
`login`         the caller of a request: Basic, Bearer, client certificate
`delegation`    delegation tokens for callers with a client certificate
`connections`   broker connections of each caller, opened with the caller's own credentials
"""
