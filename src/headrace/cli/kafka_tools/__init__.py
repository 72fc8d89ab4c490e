"""Look-alikes of Kafka's own commands, one file per tool, started by `bin/kafka-*.sh`.

    options    what a tool accepts: one declaration gives the parser, the checks and the help table
    running    the frame every tool runs in: connect, do, answer with an exit code instead of a stack trace
    topics (its work is in topic_command), configs, console_producer, console_consumer, …    the tools

Flags, output and exit codes are those of Kafka 4.3; older spellings of the documents are taken too.
"""
