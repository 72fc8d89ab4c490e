"""Files for Prometheus and Grafana, made from declarations that use the metrics of the catalogue.

`alerts`       alert rules
`dashboards`   Grafana dashboards
`files`        both, and a configuration of Prometheus that scrapes the brokers, in a directory
"""
