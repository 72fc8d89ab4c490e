"""kafka-storage: formats log directories and adds the first users of a cluster.

Headrace formats a log directory when a broker starts with it, so `format` is needed only for `--add-scram`. It takes
the options that Kafka's tool has for KRaft and ignores them. It never prints a key.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from headrace.cli.kafka_tools.support.options import Arguments, Option, UsageError
from headrace.cli.kafka_tools.support.tool import ToolFailed, guarded

OPTIONS = (
    Option("config", "The properties file of the broker.", "file"),
    Option("cluster-id", "The id of the cluster.", "id"),
    Option("add-scram", "SCRAM-SHA-256=[name=NAME,password=PASSWORD]", "credential", repeated=True),
    Option("ignore-formatted", "Do not fail if a log directory is formatted already."),
    Option("release-version", "Accepted and ignored.", "version"),
    Option("feature", "Accepted and ignored.", "name=level", repeated=True),
    Option("standalone", "Accepted and ignored."),
    Option("no-initial-controllers", "Accepted and ignored."),
    Option("initial-controllers", "Accepted and ignored.", "voters"),
)
_ABOUT = "Prepare log directories: storage (format|info|random-uuid) [OPTION]..."
_COMMANDS = ("format", "info", "random-uuid")
_SHORT = {
    "-c": "--config", "-t": "--cluster-id", "-S": "--add-scram", "-g": "--ignore-formatted", "-r": "--release-version",
    "-f": "--feature", "-s": "--standalone", "-N": "--no-initial-controllers", "-I": "--initial-controllers",
}  # fmt: skip


def main(argv: list[str] | None = None) -> int:
    words = list(sys.argv[1:] if argv is None else argv)
    command = words.pop(0) if words and words[0] in _COMMANDS else None
    if command == "random-uuid":
        from headrace.kernel.ids import new_topic_id, uuid_to_text

        print(uuid_to_text(new_topic_id()))
        return 0

    def run(arguments: Arguments) -> int:
        if command is None:
            raise UsageError(f"name a command: {', '.join(_COMMANDS)}")
        if not arguments.given("config"):
            raise UsageError("--config is required")
        if command == "format":
            _format(arguments)
        else:
            _info(arguments)
        return 0

    return guarded(_ABOUT, OPTIONS, run, [_SHORT.get(word, word) for word in words], failure_prefix="")


def _format(arguments: Arguments) -> None:
    from headrace.broker.first_users import write_users
    from headrace.client.scram_users import BadUser, user_from_argument
    from headrace.config import load_broker_config, read_properties

    if not arguments.given("cluster-id"):
        raise UsageError("--cluster-id is required")
    config = load_broker_config(read_properties(Path(arguments["config"])))
    for directory in config.log_dirs:
        if (Path(directory) / "meta.properties").exists() and not arguments["ignore-formatted"]:
            raise ToolFailed(
                f"Log directory {directory} is already formatted. Use --ignore-formatted to ignore this directory and "
                "format the others."
            )
    try:
        users = [user_from_argument(text) for text in arguments["add-scram"]]
    except BadUser as bad:
        raise ToolFailed(str(bad)) from None
    cluster_id = asyncio.run(write_users(config, users, str(arguments["cluster-id"])))
    for directory in config.log_dirs:
        print(f"Formatting {directory} for cluster {cluster_id}.")
    for user in users:
        print(f"Added the {user.mechanism} credential of user {user.name}.")


def _info(arguments: Arguments) -> None:
    from headrace.config import load_broker_config, read_properties

    config = load_broker_config(read_properties(Path(arguments["config"])))
    for directory in config.log_dirs:
        file = Path(directory) / "meta.properties"
        print(f"{directory}: {'formatted' if file.exists() else 'not formatted'}")
        if file.exists():
            print("".join(f"  {line}\n" for line in file.read_text().splitlines() if not line.startswith("#")), end="")


if __name__ == "__main__":
    sys.exit(main())
