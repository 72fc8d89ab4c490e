"""Runs a tool: options, connection, errors, exit code.

Exit codes as in Kafka's tools: 0 success, 1 failure or wrong usage. An error is one sentence on stderr.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from headrace import __version__
from headrace.cli.kafka_tools.support.options import (
    Arguments,
    HelpWanted,
    Option,
    UsageError,
    VersionWanted,
    help_table,
    parse,
)
from headrace.cli.support.broken_pipe import ignore_closed_pipe
from headrace.cli.support.user_errors import EXPECTED, sentence
from headrace.client.cluster_client import ClusterClient
from headrace.client.security import ClientSecurity
from headrace.kernel.errors import ErrorCode, Fault

BOOTSTRAP = Option(
    "bootstrap-server", "The broker to connect to; several as host:port,host:port.", "host:port", also=("broker-list",)
)
ZOOKEEPER = Option(
    "zookeeper", "Where brokers are looked up the old way; --bootstrap-server is preferred.", "host:port/chroot"
)
COMMAND_CONFIG = Option(
    "command-config", "A properties file with client settings.", "file", also=("consumer.config", "producer.config")
)
CONNECTION = (BOOTSTRAP, ZOOKEEPER, COMMAND_CONFIG)


def connection_with(*older_spellings: str) -> tuple[Option, ...]:
    """The options of a connection, for a tool that spells `--command-config` in another way too."""
    return BOOTSTRAP, ZOOKEEPER, replace(COMMAND_CONFIG, also=(*COMMAND_CONFIG.also, *older_spellings))


class ToolFailed(Exception):
    """The operation failed. The tool prints only the message."""


@dataclass(frozen=True)
class Tool:
    """One tool: description, options, and the action to run with a connection."""

    about: str
    options: tuple[Option, ...]
    action: Callable[[Arguments, ClusterClient], Awaitable[int | None]]
    # Prefix of errors, different in each of Kafka's tools ("Error while executing topic command : …").
    failure_prefix: str = "Error: "
    check: Callable[[Arguments], None] | None = None
    allow_rest: bool = False

    def main(self, argv: Sequence[str] | None = None) -> int:
        return guarded(
            self.about, self.options, self.run_connected, argv, self.failure_prefix, self.check, self.allow_rest
        )

    def run_connected(self, arguments: Arguments) -> int:
        address, security = bootstrap_address(arguments), tool_security(arguments)

        async def connected() -> int:
            async with ClusterClient(address, client_id=client_id(), timeout=30.0, security=security) as client:
                return await self.action(arguments, client) or 0

        return asyncio.run(connected())


def guarded(
    about: str,
    options: Sequence[Option],
    run: Callable[[Arguments], int],
    argv: Sequence[str] | None = None,
    failure_prefix: str = "Error: ",
    check: Callable[[Arguments], None] | None = None,
    allow_rest: bool = False,
) -> int:
    """Parses and runs. Turns every expected error into one sentence and an exit code."""
    with ignore_closed_pipe():
        return _explained(about, options, run, argv, failure_prefix, check, allow_rest)
    return 0


def _explained(
    about: str,
    options: Sequence[Option],
    run: Callable[[Arguments], int],
    argv: Sequence[str] | None,
    failure_prefix: str,
    check: Callable[[Arguments], None] | None,
    allow_rest: bool,
) -> int:
    try:
        arguments = parse(options, sys.argv[1:] if argv is None else argv, allow_rest=allow_rest)
        if check is not None:
            check(arguments)
        return run(arguments)
    except HelpWanted:
        print(f"{about}\n{help_table(options)}")
        return 0
    except VersionWanted:
        print(f"{__version__} (speaks Kafka 4.3)")
        return 0
    except UsageError as error:
        print(f"{error}\n{help_table(options)}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        raise  # the reader has closed the pipe: no error
    except (ToolFailed, Fault, ValueError, *EXPECTED) as error:
        print(f"{failure_prefix}{sentence(error)}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def client_id() -> str:
    return Path(sys.argv[0]).stem or "headrace-tool"


def bootstrap_address(arguments: Arguments) -> str:
    """`--bootstrap-server`, or the brokers registered in the ZooKeeper of the old option `--zookeeper`."""
    if arguments.given("bootstrap-server"):
        return str(arguments["bootstrap-server"])
    if arguments.given("zookeeper"):
        found = brokers_in_zookeeper(str(arguments["zookeeper"]))
        print(
            f"--zookeeper is the old way: found {found} there; --bootstrap-server {found} is preferred today.",
            file=sys.stderr,
        )
        return found
    raise UsageError('Missing required argument "[bootstrap-server]"')


def brokers_in_zookeeper(connect: str) -> str:
    """The addresses registered under /brokers/ids, as host:port,host:port."""
    import json
    import logging

    from kazoo.client import KazooClient
    from kazoo.exceptions import NoNodeError
    from kazoo.handlers.threading import KazooTimeoutError

    logging.getLogger("kazoo").setLevel(logging.CRITICAL)
    client = KazooClient(hosts=connect, timeout=6.0, read_only=True)
    try:
        client.start(timeout=10)
        addresses = []
        for broker in sorted(client.get_children("/brokers/ids"), key=int):
            data, _ = client.get(f"/brokers/ids/{broker}")
            endpoint = str(json.loads(data)["endpoints"][0])
            addresses.append(endpoint.split("://", 1)[1])
    except KazooTimeoutError as error:
        raise ToolFailed(f"no ZooKeeper answered at {connect} within 10 s: is it running?") from error
    except NoNodeError as error:
        raise ToolFailed(f"no broker is registered in the ZooKeeper at {connect}") from error
    finally:
        client.stop()
        client.close()
    if not addresses:
        raise ToolFailed(f"no broker is registered in the ZooKeeper at {connect}")
    return ",".join(addresses)


def tool_security(arguments: Arguments) -> ClientSecurity | None:
    """TLS and SASL settings from `--command-config`; None for plain text."""
    settings = command_properties(arguments)
    if settings.get("security.protocol", "PLAINTEXT").upper() == "PLAINTEXT":
        return None
    return ClientSecurity.from_settings(settings)


def command_properties(arguments: Arguments) -> dict[str, str]:
    """The settings in the file of `--command-config`; empty without it."""
    if not arguments.given("command-config"):
        return {}
    from headrace.config import parse_properties

    path = Path(str(arguments["command-config"]))
    try:
        return dict(parse_properties(path.read_text()))
    except OSError as error:
        raise ToolFailed(f"cannot read {path}: {error.strerror}") from error


class Refusal(Protocol):
    """An answer, or a part of one, with an error code."""

    error_code: int


def answer_error(answer: Refusal) -> str:
    """The error message of an answer, or the name of its error code."""
    return str(getattr(answer, "error_message", None) or code_text(answer.error_code))


def code_text(code: int) -> str:
    """Text of an error code: Kafka's message if scripts rely on it, else the code's name in words."""
    known = ErrorCode(code)
    sentences = {
        ErrorCode.unknown_topic_or_partition: "This server does not host this topic-partition.",
        ErrorCode.group_id_not_found: "The group id does not exist.",
        ErrorCode.non_empty_group: "The group is not empty.",
    }
    return sentences.get(known) or known.name.replace("_", " ")
