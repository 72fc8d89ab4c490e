"""Addresses of files in Hadoop's file systems."""

from __future__ import annotations

from typing import Final

SCHEMES: Final = ("hdfs://", "viewfs://")


def is_hadoop(path: str) -> bool:
    return path.startswith(SCHEMES)


def split_uri(uri: str) -> tuple[str, str]:
    """`hdfs://node:8020/lake/orders` is (`hdfs://node:8020/`, `lake/orders`)."""
    scheme, _, rest = uri.partition("://")
    server, _, inside = rest.partition("/")
    return f"{scheme}://{server}/", inside
