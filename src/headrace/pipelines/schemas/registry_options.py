"""Options that name a schema registry, for reading and writing."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from headrace.pipelines.errors import OptionError
from headrace.serialization.registry_client import RegistryClient

REGISTRY_OPTIONS: Final = (
    "registry",
    "registry.user",
    "registry.password",
    "registry.token",
    "registry.ca",
    "subject",
    "schemaVersion",
    "message",
)
_ENVIRONMENT: Final = "HEADRACE_REGISTRY"


@dataclass(frozen=True)
class RegistryAccess:
    """Hashable, because workers keep one client for each."""

    url: str
    user: str | None = None
    password: str | None = None
    token: str | None = None
    ca_file: str | None = None

    @classmethod
    def from_options(cls, options: Mapping[str, str]) -> RegistryAccess:
        url = options.get("registry") or os.environ.get(_ENVIRONMENT)
        if not url:
            raise OptionError(f'option "registry" is missing: give http://HOST:PORT, or set {_ENVIRONMENT}')
        found = cls(url, *(options.get(f"registry.{name}") for name in ("user", "password", "token", "ca")))
        try:
            found.client()
        except ValueError as error:
            raise OptionError(str(error)) from error
        return found

    def client(self) -> RegistryClient:
        # A forked worker must not share the lock of its parent's client.
        return _client(self, os.getpid())


@lru_cache(maxsize=16)
def _client(access: RegistryAccess, _pid: int) -> RegistryClient:
    return RegistryClient(
        access.url, user=access.user, password=access.password, token=access.token, ca_file=access.ca_file
    )


def version_of(options: Mapping[str, str]) -> int | None:
    """The number in `schemaVersion`; None means the latest."""
    text = options.get("schemaVersion", "latest").strip().lower()
    if text == "latest":
        return None
    if not text.isdigit() or int(text) == 0:
        raise OptionError(f"schemaVersion={text!r}: must be latest, or a number above 0")
    return int(text)
