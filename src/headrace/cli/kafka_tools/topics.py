"""kafka-topics: entry point. It serves a plain --list, which scripts run often, without importing the rest. Everything
else, including the errors of --list, is in `topic_command`.
"""

from __future__ import annotations

import sys

from headrace.cli.support.broken_pipe import ignore_closed_pipe


def plain_list(argv: list[str]) -> tuple[str, int] | None:
    """Host and port if the arguments are just `--bootstrap-server HOST:PORT --list`, in either order."""
    words = [word for word in argv if word != "--list"]
    if len(words) != len(argv) - 1 or len(words) != 2 or words[0] != "--bootstrap-server":
        return None
    host, colon, port = words[1].rpartition(":")
    return (host.strip("[]"), int(port)) if colon and host and port.isdecimal() and "," not in host else None


def main(argv: list[str]) -> int:
    where = plain_list(argv)
    if where is not None:
        from headrace.client.topic_names import topic_names

        try:
            names = topic_names(*where, client_id="kafka-topics", timeout_s=10.0)
        except (OSError, ValueError):
            pass  # `topic_command` gets the same error and reports it
        else:
            with ignore_closed_pipe():
                print("".join(f"{name}\n" for name in names), end="")
            return 0
    from headrace.cli.kafka_tools.topic_command import TOOL

    return TOOL.main(argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
