"""References to secrets in the configuration: `${file:PATH}`, `${file:PATH:KEY}` and `${env:NAME}`.

    listener.name.external.ssl.key.password=${file:/etc/headrace/key.password}
    …sasl.jaas.config=… password="${file:/etc/headrace/secrets.properties:admin}";

The broker replaces them once, when it reads a file or a command-line option. It never replaces them in values from a
client: such a value in AlterConfigs stays text (CVE-2019-12399, CVE-2024-31141). It refuses a file that every user of
the machine may read or change. With `KEY`, the file is a properties file, as for Kafka's FileConfigProvider.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Final

from headrace.config.key import ConfigError
from headrace.config.properties import read_properties

_REFERENCE: Final = re.compile(r"\$\{(?P<provider>file|env):(?P<what>[^}]*)\}")


def with_secrets(properties: Mapping[str, str]) -> dict[str, str]:
    """The properties with every reference replaced. `ConfigError` names the key and the file or variable, never a
    value.
    """
    return {
        name: _REFERENCE.sub(partial(_secret, name), text) if "${" in text else text
        for name, text in properties.items()
    }


def _secret(name: str, found: re.Match[str]) -> str:
    what, reference = found["what"], found[0]
    if found["provider"] == "env":
        value = os.environ.get(what)
        if value is None:
            raise ConfigError(name, reference, f"the environment has no variable {what!r}")
        return value
    path, colon, key = what.partition(":")
    if not path:
        raise ConfigError(name, reference, "must name a file: ${file:/path} or ${file:/path:key}")
    try:
        if not colon:
            file = Path(path)
            check_private(file, name, reference)
            return file.read_text().rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        raise _unreadable(error, name, reference) from None
    held = read_secrets(Path(path), name, reference)
    if key not in held:
        raise ConfigError(name, reference, f"{path} has no key {key!r}")
    return held[key]


def read_secrets(file: Path, name: str, reference: str) -> dict[str, str]:
    """A properties file that only its owner may read. `ConfigError` names the key and the reference, never a value."""
    try:
        check_private(file, name, reference)
        return read_properties(file)
    except OSError as error:
        raise _unreadable(error, name, reference) from None


def check_private(file: Path, name: str, reference: str) -> None:
    """Raises ConfigError if other users of the machine can read or change the file."""
    if file.stat().st_mode & (stat.S_IROTH | stat.S_IWOTH | stat.S_IWGRP):
        raise ConfigError(name, reference, f"other users can read or change {file}: run chmod 600 {file}")


def _unreadable(error: OSError | UnicodeDecodeError, name: str, reference: str) -> ConfigError:
    why = error.strerror if isinstance(error, OSError) else "it is not text"
    return ConfigError(name, reference, f"the file cannot be read: {why}")
