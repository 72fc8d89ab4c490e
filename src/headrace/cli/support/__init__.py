"""Code that commands share. In reading order:

`connection`           the address of the cluster, and the client of a command
`client_settings`      TLS and SASL settings from `--command-config`
`contexts`             named clusters in the configuration file of the user
`registry_address`     the schema registry of a command
`http_service`         options of the commands that start an HTTP service
`kafka_client`         types of confluent-kafka's objects
`output`               tables for people; JSON or YAML documents for programs
`change_report`        the report of a command that changed something
`progress`             one line on stderr about the progress of long work
`user_errors`          expected errors as one sentence
`broken_pipe`          a closed output pipe (`… | head`) ends a command without an error
`spelling`             "Did you mean 'orders'?"
`option_values`        values of options without a validation library
`keyboard`             single keys while a live view runs
`child_broker`         a broker as a child process of a command
`pipeline_options`     options of all commands on pipelines
`development_cluster`  the processes of `headrace up`
`cluster_security`     certificates, users and settings of `headrace up --secure`
`service_security`     certificate and users of its HTTP services
`reference`            writes docs/cli.md
"""
