"""Validators for configuration values, each with its error message."""

from __future__ import annotations

import re

from headrace.config.key import Rule

_REPLICAS = re.compile(r"\d+:\d+\Z")
_PER_ADDRESS = re.compile(r"\s*\S+\s*:\s*\d+\s*\Z")
_SERVER = re.compile(r"(\[[0-9A-Fa-f:.%]+\]|[\w.-]+)(:(?P<port>\d{1,5}))?\Z")
_NODE_PATH = re.compile(r"[^/,\s]+(/[^/,\s]+)*\Z")
_CLIENT_FACTS = (
    "client_instance_id",
    "client_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
)
_DURATION = re.compile(r"by_duration:P(?=.)(\d+D)?(T(?=.)(\d+H)?(\d+M)?(\d+(\.\d+)?S)?)?\Z", re.IGNORECASE)


def at_least(low: float) -> Rule:
    return Rule(f"must be at least {low}", lambda value: value >= low)


def between(low: float, high: float) -> Rule:
    return Rule(f"must be between {low} and {high}", lambda value: low <= value <= high)


def one_of(*choices: str) -> Rule:
    return Rule(f"must be one of {', '.join(choices)}", lambda value: value in choices, choices)


def one_of_any_case(*choices: str) -> Rule:
    return Rule(f"must be one of {', '.join(choices)}", lambda value: value.lower() in choices)


def each_of(*choices: str) -> Rule:
    return Rule(f"may hold only {', '.join(choices)}", lambda value: all(item in choices for item in value))


def some_of(*choices: str) -> Rule:
    return Rule(
        f"must hold one or more of {', '.join(choices)}",
        lambda value: bool(value) and all(item in choices for item in value),
    )


def not_zero_unlimited_below() -> Rule:
    return Rule("must be -1 (without limit) or at least 1", lambda value: value != 0)


def _are_servers(value: str) -> bool:
    servers, slash, path = value.partition("/")
    names_a_path = not slash or not path or _NODE_PATH.match(path) is not None
    found = [_SERVER.match(server.strip()) for server in servers.split(",")]
    return names_a_path and all(one is not None and int(one["port"] or 1) in range(1, 65536) for one in found)


def _is_match(item: str) -> bool:
    name, equals, pattern = (part.strip() for part in item.partition("="))
    try:
        re.compile(pattern)
    except re.error:
        return False
    return bool(equals) and "=" not in pattern and name in _CLIENT_FACTS


CLIENT_MATCH = Rule(
    f"must be a list of name=pattern with the names {', '.join(_CLIENT_FACTS)}",
    lambda value: all(_is_match(item) for item in value),
)
SERVERS_AND_PATH = Rule(
    "must be host:port, separated by commas, with at most one /path at the end that does not end in /",
    lambda value: not value or _are_servers(value),
)
# DescribeConfigs and logs show addresses, but not values of the type PASSWORD.
NO_LOGIN_IN_URL = Rule(
    "must not hold a user name and password: set schema.registry.user.info",
    lambda value: "@" not in value.partition("://")[2].partition("/")[0],
)
NO_EMPTY_NAMES = Rule("must not hold empty names", all)
CONNECTIONS_OF_ADDRESSES = Rule(
    "must be a list of address:count", lambda value: not value or all(_PER_ADDRESS.match(i) for i in value.split(","))
)
GZIP_LEVEL = Rule("must be -1 or between 1 and 9", lambda value: value == -1 or 1 <= value <= 9)
THROTTLED_REPLICAS = Rule(
    "must be * or a list of partition:broker",
    lambda value: value == ["*"] or all(not item or _REPLICAS.match(item) for item in value),
)
SHARE_OFFSET_RESET = Rule(
    "must be latest, earliest or by_duration:PnDTnHnMn.nS",
    lambda value: value in ("latest", "earliest") or bool(_DURATION.match(value)),
)
