"""`headrace configs get|set|unset|init`: configurations of topics, brokers and groups, named as `topic/orders`."""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, TypedDict

import typer

from headrace.cli.support.change_report import Row, report, verb
from headrace.cli.support.connection import (
    Bootstrap,
    DryRun,
    Failed,
    Output,
    Timeout,
    Yes,
    check_answer,
    complete_group,
    complete_topic,
    connected,
    existing_topics,
    key_values,
    sure,
)
from headrace.cli.support.output import Format, show
from headrace.cli.support.spelling import nearest
from headrace.client.cluster_client import ClusterClient
from headrace.wire.apis import ApiKey

if TYPE_CHECKING:
    from headrace.wire.messages.answers.describe_configs import DescribeConfigsResourceResult

SET, DELETE = 0, 1
KINDS: Final = {"topic": 2, "broker": 4, "group": 32, "client-metrics": 16}
SOURCES: Final = {
    1: "topic", 2: "broker", 3: "cluster default", 4: "broker's file", 5: "default", 6: "broker logger",
    7: "client metrics", 8: "group",
}  # fmt: skip
_UNCHANGED: Final = (4, 5)
# For a topic, values set on brokers or on the cluster count as defaults.
_TOPIC: Final = 1

app = typer.Typer(no_args_is_help=True, help="Read and change configurations of topics, brokers and groups.")


def complete_resource(ctx: typer.Context, incomplete: str) -> list[str]:
    kind, slash, name = incomplete.partition("/")
    if not slash:
        return [f"{known}/" for known in KINDS if known.startswith(kind)]
    names = {"topic": complete_topic, "group": complete_group}.get(kind)
    return [] if names is None else [f"{kind}/{found}" for found in names(ctx, name)]


class ConfigChange(TypedDict):
    """One change as IncrementalAlterConfigs takes it."""

    name: str
    config_operation: int
    value: str | None


Resource = Annotated[
    str,
    typer.Argument(
        help="topic/NAME, group/NAME, broker/ID, or broker/ for the default of all brokers.",
        autocompletion=complete_resource,
    ),
]


async def _resource(client: ClusterClient, text: str) -> tuple[dict[str, object], int | None]:
    """The resource in the form of requests, and the broker that serves it."""
    kind, slash, name = text.partition("/")
    if not slash:
        kind, name = "topic", text
    if kind not in KINDS:
        raise Failed(f"{text!r}: must begin with {', '.join(f'{known}/' for known in KINDS)}.{nearest(kind, KINDS)}")
    node = None
    if kind == "topic":
        await existing_topics(client, [name])
    if kind == "broker" and name:
        if not name.isdecimal() or int(name) not in client.metadata.nodes:
            raise Failed(f"there is no broker {name!r}: the cluster has {sorted(client.metadata.nodes)}")
        node = int(name)
    return {"resource_type": KINDS[kind], "resource_name": name}, node


async def _entries(
    client: ClusterClient, text: str, *, documentation: bool = False
) -> list[DescribeConfigsResourceResult]:
    resource, node = await _resource(client, text)
    body = {
        "resources": [{**resource, "configuration_keys": None}],
        "include_synonyms": False,
        "include_documentation": documentation,
    }
    result = (await client.request(ApiKey.DESCRIBE_CONFIGS, body, node=node)).results[0]
    check_answer(result, text)
    return sorted(result.configs, key=lambda entry: str(entry.name))


@app.command()
def get(
    resource: Resource,
    names: Annotated[list[str] | None, typer.Argument(help="Show only these keys.")] = None,
    everything: Annotated[bool, typer.Option("--all", "-a", help="Show the defaults, too.")] = False,
    docs: Annotated[bool, typer.Option("--docs", help="Show the meaning of each key.")] = False,
    bootstrap: Bootstrap = None,
    output: Output = Format.TABLE,
    timeout: Timeout = 10.0,
) -> None:
    """Show the settings that were changed; with --all also the defaults.

    $ headrace configs get topic/orders --all

    $ headrace configs get topic/orders retention.ms --docs -o json
    """

    async def action(client: ClusterClient) -> list[DescribeConfigsResourceResult]:
        return await _entries(client, resource, documentation=docs)

    entries = connected(bootstrap, action, timeout=timeout)
    of_topic = "/" not in resource or resource.startswith("topic/")
    known = {str(entry.name): entry for entry in entries}
    for name in names or ():
        if name not in known:
            raise Failed(f"{resource} has no key {name!r}.{nearest(name, known)}")
    rows = []
    for name, entry in known.items():
        source = int(entry.config_source)
        was_set = source == _TOPIC if of_topic else source not in _UNCHANGED
        if name in names if names else everything or was_set:
            row = {
                "name": name,
                "value": None if entry.is_sensitive else entry.value,
                "source": SOURCES.get(source, "unknown"),
                "read_only": bool(entry.read_only),
            }
            rows.append({**row, "documentation": entry.documentation} if docs else row)
    show(rows, output, empty="nothing was set; --all shows the defaults")


@app.command("set")
def set_(
    resource: Resource,
    settings: Annotated[list[str], typer.Argument(help="Settings NAME=VALUE …")],
    dry_run: DryRun = False,
    yes: Yes = False,
    bootstrap: Bootstrap = None,
    output: Output = Format.TABLE,
    timeout: Timeout = 10.0,
) -> None:
    """Set keys and keep the others. Asks before it changes brokers.

    $ headrace configs set topic/orders retention.ms=86400000
    """
    wanted = key_values(settings, "setting")
    changes: list[ConfigChange] = [
        {"name": name, "config_operation": SET, "value": value} for name, value in wanted.items()
    ]
    _alter(resource, changes, bootstrap, timeout, output, dry_run=dry_run, yes=yes)


@app.command()
def unset(
    resource: Resource,
    names: Annotated[list[str], typer.Argument(help="Keys to return to their defaults.")],
    dry_run: DryRun = False,
    yes: Yes = False,
    bootstrap: Bootstrap = None,
    output: Output = Format.TABLE,
    timeout: Timeout = 10.0,
) -> None:
    """Return keys to their defaults.

    $ headrace configs unset topic/orders retention.ms
    """
    changes: list[ConfigChange] = [{"name": name, "config_operation": DELETE, "value": None} for name in names]
    _alter(resource, changes, bootstrap, timeout, output, dry_run=dry_run, yes=yes)


def _alter(
    text: str,
    changes: list[ConfigChange],
    bootstrap: str | None,
    timeout: float,
    output: Format,
    *,
    dry_run: bool,
    yes: bool,
) -> None:
    async def action(client: ClusterClient) -> list[dict[str, object]]:
        before = {str(entry.name): entry.value for entry in await _entries(client, text)}
        resource, node = await _resource(client, text)
        if text.startswith("broker/") and not dry_run:
            sure(f"Change {', '.join(c['name'] for c in changes)} of {text}?", yes)
        body = {"resources": [{**resource, "configs": changes}], "validate_only": dry_run}
        result = (await client.request(ApiKey.INCREMENTAL_ALTER_CONFIGS, body, node=node)).responses[0]
        check_answer(result, text)
        return [
            {
                "resource": text, "name": change["name"], "from": before.get(change["name"]), "to": change["value"],
                "done": not dry_run,
            }
            for change in changes
        ]  # fmt: skip

    report(connected(bootstrap, action, timeout=timeout), output, _change)


def _change(row: Row) -> str:
    new = "its default" if row["to"] is None else row["to"]
    return f"{verb(row, 'changed', 'change')} {row['name']} of {row['resource']}: {row['from']} → {new}"


@app.command()
def init(
    directory: Annotated[Path, typer.Argument(help="Directory for the files. It is created if it does not exist.")],
    output: Output = Format.TABLE,
) -> None:
    """Write the default configuration files of a broker, ZooKeeper, a producer and a consumer.

    It never overwrites an existing file.

    $ headrace configs init config
    """
    shipped = [file for file in resources.files("headrace.config").joinpath("files").iterdir() if file.is_file()]
    targets = {directory / file.name: file for file in sorted(shipped, key=lambda file: file.name)}
    for path in targets:
        if path.exists():
            raise Failed(f"{path} exists already: choose another directory, or move the file away")
    directory.mkdir(parents=True, exist_ok=True)
    for path, file in targets.items():
        path.write_bytes(file.read_bytes())
    report([{"file": str(path), "done": True} for path in targets], output, lambda row: f"wrote {row['file']}")
