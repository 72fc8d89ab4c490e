"""Commands for the services beside the brokers.

`console`    the web console
`http_api`   the HTTP API
`monitoring` files for Prometheus and Grafana
"""
