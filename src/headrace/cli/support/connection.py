"""The address of the cluster, and the client of a command.

The address comes from `--bootstrap`, else $HEADRACE_BOOTSTRAP, else the current context of the config file, else
127.0.0.1:9092. The name of a context is accepted in place of an address. Errors are raised as a Fault or `Failed`; the
program's `main` prints them as one sentence and exits with 1.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Final, Protocol, TypeVar

import typer

from headrace.cli.kafka_tools.support.tool import ToolFailed
from headrace.cli.support.client_settings import client_security, client_settings
from headrace.cli.support.contexts import address_of
from headrace.cli.support.output import Format
from headrace.cli.support.spelling import nearest
from headrace.client.cluster_client import ClusterClient, parse_bootstrap
from headrace.kernel.errors import ErrorCode
from headrace.kernel.ids import OTHER_SPELLINGS
from headrace.wire.apis import ApiKey

if TYPE_CHECKING:
    from headrace.wire.messages.answers.metadata import MetadataResponseTopic

T = TypeVar("T")
Failed = ToolFailed
# Completion runs while the user waits at the prompt: no suggestions are better than late ones.
_COMPLETION_TIMEOUT_S: Final = 1.5


def complete_topic(ctx: typer.Context, incomplete: str) -> list[str]:
    """Topic names for shell completion; none if no broker answers quickly."""
    return complete_live(ctx, _topic_names, incomplete)


def complete_group(ctx: typer.Context, incomplete: str) -> list[str]:
    return complete_live(ctx, _group_names, incomplete)


async def _topic_names(client: ClusterClient) -> list[str]:
    return sorted((await client.refresh(None)).topics)


async def _group_names(client: ClusterClient) -> list[str]:
    body: dict[str, list[str]] = {"states_filter": [], "types_filter": []}
    answers = await asyncio.gather(
        *(client.request(ApiKey.LIST_GROUPS, body, node=node) for node in client.metadata.nodes)
    )
    return sorted({str(group.group_id) for answer in answers for group in answer.groups})


def complete_live(
    ctx: typer.Context, names: Callable[[ClusterClient], Awaitable[list[str]]], incomplete: str
) -> list[str]:
    """Asks the cluster of the line's `--bootstrap`, else of the environment or the current context."""
    where = ctx.params.get("bootstrap") or os.environ.get("HEADRACE_BOOTSTRAP")
    try:
        found = connected(where, names, timeout=_COMPLETION_TIMEOUT_S)
    except Exception:
        # Boundary to the completing shell: an error must not appear at its prompt, so there are no suggestions.
        return []
    return [name for name in found if name.startswith(incomplete)]


Bootstrap = Annotated[
    str | None,
    typer.Option(
        "--bootstrap",
        "-b",
        envvar="HEADRACE_BOOTSTRAP",
        metavar="HOST:PORT",
        help="Addresses of brokers (host:port,…), or the name of a context.",
    ),
]
Timeout = Annotated[float, typer.Option("--timeout", min=0.1, help="Seconds to wait for an answer.")]
Output = Annotated[Format, typer.Option("--output", "-o", help="Output format: table, json or yaml.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would happen; change nothing.")]


def _meant(named: str | list[str] | None) -> str | list[str] | None:
    if isinstance(named, str):
        return OTHER_SPELLINGS.get(named, named)
    return None if named is None else [OTHER_SPELLINGS.get(name, name) for name in named]


Topic = Annotated[str, typer.Argument(help="Name of the topic.", autocompletion=complete_topic, callback=_meant)]
Topics = Annotated[
    list[str] | None,
    typer.Argument(help="Names of topics. Default: all topics.", autocompletion=complete_topic, callback=_meant),
]
SomeTopics = Annotated[
    list[str], typer.Argument(help="Names of topics.", autocompletion=complete_topic, callback=_meant)
]
Group = Annotated[str, typer.Argument(help="Name of the group.", autocompletion=complete_group)]


def bootstrap_address(given: str | None) -> str:
    """The checked address. Raises BadParameter if it is not an address."""
    address = given if given is not None else client_settings(None).get("bootstrap.servers")
    address = address_of(address)
    try:
        parse_bootstrap(address)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    return address


def connected(where: str | None, action: Callable[[ClusterClient], Awaitable[T]], *, timeout: float = 10.0) -> T:
    """Runs `action` with a client of the cluster."""
    address, security = bootstrap_address(where), client_security(where)

    async def run() -> T:
        async with ClusterClient(address, client_id="headrace-cli", timeout=timeout, security=security) as client:
            return await action(client)

    return asyncio.run(run())


class Answer(Protocol):
    """A part of an answer with its own error code."""

    error_code: int


def check_answer(result: Answer, what: str) -> None:
    """Raises the error of an answer, with the broker's message if there is one."""
    if result.error_code:
        code = ErrorCode(result.error_code)
        raise Failed(f"{what}: {getattr(result, 'error_message', None) or code.name.replace('_', ' ')}")


async def existing_topics(client: ClusterClient, names: Sequence[str] | None) -> list[MetadataResponseTopic]:
    """Metadata of these topics, or of all if no name is given, sorted. An unknown topic raises with the nearest
    name."""
    known = (await client.refresh(None)).topics
    for name in names or ():
        if name not in known:
            raise Failed(await missing_topic(client, name, known))
    return [known[name] for name in sorted(names or known)]


async def missing_topic(client: ClusterClient, name: str, known: Iterable[str], advice: str = "") -> str:
    """Why a topic is not in the list of all topics: brokers omit topics that the user may not describe."""
    absent = f"topic {name!r} does not exist.{nearest(name, known)}{advice}"
    found = (await client.refresh([name])).topics.get(name)
    if found is not None and found.error_code == ErrorCode.topic_authorization_failed:
        return (
            f"topic {name!r}: this user has no right on it, or it does not exist. An administrator sees the reason "
            f"with headrace acl explain --principal User:NAME --operation DESCRIBE --resource topic/{name}"
        )
    return absent


def sure(question: str, yes: bool, facts: Sequence[str] = ()) -> None:
    """Shows the consequences and asks for confirmation, unless `--yes` was given. "no" exits with code 1."""
    if yes:
        return
    for fact in facts:
        print(fact, file=sys.stderr)
    if typed(f"{question} [y/N]: ").lower() not in ("y", "yes"):
        raise typer.Abort()


def typed(question: str) -> str:
    """Asks the user and returns the answer. The question goes to standard error: standard output is for the result."""
    # asyncio delivers the first Ctrl-C to its task, but no task runs while the question blocks. The handler is set
    # before the question is shown: the user may press Ctrl-C at once.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        print(question, end="", file=sys.stderr, flush=True)
        return sys.stdin.readline().strip()
    except KeyboardInterrupt:
        raise typer.Abort() from None
    finally:
        signal.signal(signal.SIGINT, before)


def key_values(pairs: Sequence[str] | None, option: str) -> dict[str, str]:
    found = {}
    for pair in pairs or ():
        name, equals, value = pair.partition("=")
        if not equals or not name.strip():
            raise typer.BadParameter(f"{option} {pair!r}: must be NAME=VALUE")
        found[name.strip()] = value
    return found
