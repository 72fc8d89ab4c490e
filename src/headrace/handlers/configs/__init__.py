"""Configurations and client quotas. In reading order:

`describe_configs`, `alter_configs`, `incremental_alter_configs`, `list_config_resources`
`config_resources`   the kinds of resources that have a configuration
`broker_loggers`     log levels of this broker as a configuration
`describe_client_quotas`, `alter_client_quotas`
"""
