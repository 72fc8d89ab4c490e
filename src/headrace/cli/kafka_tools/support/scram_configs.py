"""SCRAM credentials in kafka-configs: `--entity-type users --add-config 'SCRAM-SHA-256=[password=…]'`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from headrace.cli.kafka_tools.support.config_entities import Entity
from headrace.cli.kafka_tools.support.tool import ToolFailed, answer_error
from headrace.client.cluster_client import ClusterClient
from headrace.client.scram_users import MECHANISMS, BadUser, described, options_of, user_from_options
from headrace.wire.apis import ApiKey


def names_scram(added: Mapping[str, str], deleted: Sequence[str]) -> bool:
    return any(name in MECHANISMS for name in (*added, *deleted))


async def alter_credentials(
    client: ClusterClient, chosen: list[Entity], added: Mapping[str, str], deleted: Sequence[str]
) -> None:
    """Raises ToolFailed."""
    if any(name not in MECHANISMS for name in (*added, *deleted)):
        raise ToolFailed(
            "Cannot alter both quota and SCRAM credential configs simultaneously for 'users' using --bootstrap-server."
        )
    if len(chosen) != 1 or chosen[0].kind != "users":
        raise ToolFailed("Only quota configs can be added for 'clients' using --bootstrap-server.")
    user = chosen[0].name
    if not user:
        raise ToolFailed(
            "The use of --entity-default or --user-defaults is not allowed with User SCRAM Credentials using "
            "--bootstrap-server."
        )
    try:
        users = [user_from_options(user, mechanism, options_of(text)) for mechanism, text in added.items()]
    except BadUser as bad:
        raise ToolFailed(str(bad)) from None
    deletions = [{"name": user, "mechanism": MECHANISMS.index(name) + 1} for name in deleted]
    body = {"deletions": deletions, "upsertions": [one.upsertion() for one in users]}
    answer = await client.to_controller(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, body)
    for result in answer.results:
        if result.error_code:
            raise ToolFailed(answer_error(result))


async def describe_credentials(client: ClusterClient, chosen: list[Entity]) -> None:
    """Prints the credentials of one user or of all users."""
    if len(chosen) != 1 or chosen[0].kind != "users" or chosen[0].name == "":
        return
    named = chosen[0].name
    body = {"users": None if named is None else [{"name": named}]}
    answer = await client.to_controller(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, body)
    for user, credentials in described(answer):
        text = ", ".join(f"{mechanism}=iterations={iterations}" for mechanism, iterations in credentials)
        print(f"SCRAM credential configs for user-principal '{user}' are {text}")
