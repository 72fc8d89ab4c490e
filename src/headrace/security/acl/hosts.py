"""Which client addresses the host of an ACL covers: one address, a CIDR range (KIP-1276), or every address (`*`).

Addresses are compared in one spelling: IPv6 in its shortest form, and an IPv4 address that a dual-stack socket shows as
`::ffff:10.0.0.1` as `10.0.0.1`. A range includes its first and last address. A host that is neither an address nor a
range (Kafka stores any text) is compared as text, so it covers no client.
"""

from __future__ import annotations

from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from headrace.security.acl.model import WILDCARD


@lru_cache(maxsize=10_000)
def parsed_address(host: str) -> IPv4Address | IPv6Address | None:
    try:
        address = ip_address(host)
    except ValueError:
        return None
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address


@lru_cache(maxsize=10_000)
def parsed_range(host: str) -> IPv4Network | IPv6Network | None:
    """The range, or None for anything else. Bits behind the prefix are ignored: `10.1.2.3/8` is `10.0.0.0/8`."""
    address, slash, length = host.partition("/")
    if not slash or not (length.isascii() and length.isdecimal()):  # ip_network also takes masks, Kafka does not
        return None
    try:
        return ip_network(f"{address}/{length}", strict=False)
    except ValueError:
        return None


def covers(pattern: str, host: str) -> bool:
    """Whether an ACL with this host covers a client at `host`."""
    if pattern in (WILDCARD, host):
        return True
    client = parsed_address(host)
    if client is None:
        return False
    if "/" in pattern:
        network = parsed_range(pattern)
        return network is not None and client.version == network.version and client in network
    return parsed_address(pattern) == client
