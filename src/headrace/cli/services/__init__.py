"""Commands that start HTTP services beside the brokers.

`console`    the web console
`http_api`   the HTTP API
"""
