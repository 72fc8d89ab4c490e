"""kafka-delegation-tokens: create, renew, expire and describe delegation tokens (KIP-48)."""

from __future__ import annotations

import base64
import binascii
import sys
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from headrace.cli.kafka_tools.support.options import Arguments, Option, UsageError
from headrace.cli.kafka_tools.support.tool import CONNECTION, Tool, ToolFailed, code_text
from headrace.client.cluster_client import ClusterClient
from headrace.wire.apis import ApiKey

OPTIONS = (
    *CONNECTION,
    Option("create", "Create a delegation token."),
    Option("renew", "Renew a delegation token."),
    Option("expire", "Expire a delegation token."),
    Option("describe", "Describe the tokens of the given owners, or all that you may see."),
    Option("owner-principal", "Owner of the token, as User:name.", "principal", repeated=True),
    Option("renewer-principal", "Who may renew the token, as User:name.", "principal", repeated=True),
    Option("max-life-time-period", "Longest life of the token in milliseconds. -1: the broker's limit.", "ms", int),
    Option("renew-time-period", "Period in milliseconds. -1: the broker's setting.", "ms", int),
    Option("expiry-time-period", "Period in milliseconds. -1 expires the token now.", "ms", int),
    Option("hmac", "HMAC of the token.", "hmac"),
)
_ROW = "{:<15} {:<30} {:<15} {:<15} {:<25} {:<15} {:<15} {:<15}"
_HEADINGS = ("TOKENID", "HMAC", "OWNER", "REQUESTER", "RENEWERS", "ISSUEDATE", "EXPIRYDATE", "MAXDATE")


def check(arguments: Arguments) -> None:
    action = arguments.exactly_one("create", "renew", "expire", "describe")
    needed = {
        "create": ("max-life-time-period",),
        "renew": ("hmac", "renew-time-period"),
        "expire": ("hmac", "expiry-time-period"),
        "describe": (),
    }
    for name in needed[action]:
        if not arguments.given(name):
            raise UsageError(f'Missing required argument "[{name}]"')


def _principals(texts: Iterable[str]) -> list[dict[str, str]]:
    found = []
    for text in texts:
        kind, colon, name = text.strip().partition(":")
        if not colon or not name:
            raise ToolFailed(f"{text!r} is not in the form User:name")
        found.append({"principal_type": kind, "principal_name": name})
    return found


def _digest(arguments: Arguments) -> bytes:
    try:
        return base64.b64decode(arguments["hmac"], validate=True)
    except binascii.Error:
        raise ToolFailed("--hmac is not base64") from None


def _checked(answer: Any) -> Any:
    if answer.error_code:
        raise ToolFailed(code_text(answer.error_code))
    return answer


async def run(arguments: Arguments, client: ClusterClient) -> None:
    if arguments["create"]:
        await _create(arguments, client)
    elif arguments["describe"]:
        await _describe(arguments, client)
    elif arguments["renew"]:
        body = {"hmac": _digest(arguments), "renew_period": arguments["renew-time-period"]}
        answer = _checked(await client.to_controller(ApiKey.RENEW_DELEGATION_TOKEN, body))
        print(f"Completed renew operation. New expiry date : {_date(answer.expiry_timestamp)}")
    else:
        body = {"hmac": _digest(arguments), "expiry_time_period": arguments["expiry-time-period"]}
        answer = _checked(await client.to_controller(ApiKey.EXPIRE_DELEGATION_TOKEN, body))
        print(f"Completed expire operation. New expiry date : {_date(answer.expiry_timestamp)}")


async def _create(arguments: Arguments, client: ClusterClient) -> None:
    owners = _principals(arguments["owner-principal"])
    owner = owners[0] if owners else {"principal_type": None, "principal_name": None}
    body = {
        "renewers": _principals(arguments["renewer-principal"]),
        "max_lifetime": arguments["max-life-time-period"],
        "owner_principal_type": owner["principal_type"],
        "owner_principal_name": owner["principal_name"],
    }
    token = _checked(await client.to_controller(ApiKey.CREATE_DELEGATION_TOKEN, body))
    print(f"Created delegation token with tokenId : {token.token_id}")
    _print_rows([(token, body["renewers"])])


async def _describe(arguments: Arguments, client: ClusterClient) -> None:
    owners = _principals(arguments["owner-principal"])
    answer = _checked(await client.request(ApiKey.DESCRIBE_DELEGATION_TOKEN, {"owners": owners or None}))
    rows = []
    for token in answer.tokens:
        renewers = [{"principal_type": o.principal_type, "principal_name": o.principal_name} for o in token.renewers]
        rows.append((token, renewers))
    print(f"Total number of tokens : {len(rows)}")
    _print_rows(rows)


def _print_rows(rows: Iterable[tuple[Any, list[dict[str, str]]]]) -> None:
    print("\n" + _ROW.format(*_HEADINGS).rstrip())
    for token, renewers in rows:
        print(
            _ROW.format(
                token.token_id,
                base64.b64encode(token.hmac).decode(),
                f"{token.principal_type}:{token.principal_name}",
                f"{token.token_requester_principal_type}:{token.token_requester_principal_name}",
                "[" + ", ".join(f"{one['principal_type']}:{one['principal_name']}" for one in renewers) + "]",
                _date(token.issue_timestamp),
                _date(token.expiry_timestamp),
                _date(token.max_timestamp),
            ).rstrip()
        )


def _date(at: Any) -> str:
    """kio reads a time as a number of milliseconds or as a datetime."""
    when = at if isinstance(at, datetime) else datetime.fromtimestamp(int(at) / 1000)
    return f"{when:%Y-%m-%dT%H:%M}"


TOOL = Tool("Create, renew, expire and describe delegation tokens.", OPTIONS, run, failure_prefix="", check=check)

if __name__ == "__main__":
    sys.exit(TOOL.main())
