"""Named clusters: a YAML file with addresses and the current context. `headrace context …` edits it, commands and
`headrace.connect` read it.

    current: local
    contexts:
      local: {bootstrap: "127.0.0.1:9092"}
      production: {bootstrap: "kafka.example:9093", command_config: /home/erin/client.properties,
                   registry: "https://registry.example:8081"}

The file is $HEADRACE_CONFIG, else headrace/config.yaml in $XDG_CONFIG_HOME or ~/.config.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

DEFAULT_ADDRESS: Final = "127.0.0.1:9092"


class ContextError(Exception):
    """The file of the contexts cannot be used. The message says where and why."""


@dataclass(slots=True)
class Contexts:
    current: str | None = None
    addresses: dict[str, str] = field(default_factory=dict)
    command_configs: dict[str, str] = field(default_factory=dict)
    """Files with client settings, of the contexts that have one."""
    registries: dict[str, str] = field(default_factory=dict)
    """Addresses of schema registries, of the contexts that have one."""


def config_file() -> Path:
    given = os.environ.get("HEADRACE_CONFIG")
    if given:
        return Path(given).expanduser()
    base = os.environ.get("XDG_CONFIG_HOME")
    return (Path(base) if base else Path.home() / ".config") / "headrace" / "config.yaml"


def load() -> Contexts:
    """Reads the file; a missing file has no contexts. Raises ContextError with the place of an error."""
    file = config_file()
    try:
        text = file.read_text()
    except FileNotFoundError:
        return Contexts()
    except OSError as error:
        raise ContextError(f"cannot read {file}: {error.strerror}") from error
    import yaml

    try:
        found = yaml.safe_load(text) or {}
        entries = {str(name): entry for name, entry in (found.get("contexts") or {}).items()}
        addresses = {name: str(entry["bootstrap"]) for name, entry in entries.items()}
        files = {name: str(entry["command_config"]) for name, entry in entries.items() if entry.get("command_config")}
        registries = {name: str(entry["registry"]) for name, entry in entries.items() if entry.get("registry")}
        current = found.get("current")
    except yaml.YAMLError as error:
        raise ContextError(f"{file} is not YAML: {error}") from error
    except (AttributeError, KeyError, TypeError) as error:
        raise ContextError(f"{file}: must be `contexts:` with NAME: {{bootstrap: HOST:PORT}} entries") from error
    return Contexts(None if current is None else str(current), addresses, files, registries)


def save(contexts: Contexts) -> None:
    import yaml

    document = {
        "current": contexts.current,
        "contexts": {name: _entry(contexts, name) for name in sorted(contexts.addresses)},
    }
    file = config_file()
    file.parent.mkdir(parents=True, exist_ok=True)
    # Written to a temporary file and renamed, so that a crash leaves the old file.
    fresh = file.with_suffix(".new")
    fresh.write_text(yaml.safe_dump(document, sort_keys=False))
    fresh.replace(file)


def _entry(contexts: Contexts, name: str) -> dict[str, str]:
    entry = {"bootstrap": contexts.addresses[name]}
    if name in contexts.command_configs:
        entry["command_config"] = contexts.command_configs[name]
    if name in contexts.registries:
        entry["registry"] = contexts.registries[name]
    return entry


def command_config_of(given: str | None) -> str | None:
    """The client settings file of the context that the user named, or of the current context."""
    contexts, name = _named(given)
    return contexts.command_configs.get(name)


def registry_of(given: str | None) -> str | None:
    """The schema registry of the context that the user named, or of the current context."""
    contexts, name = _named(given)
    return contexts.registries.get(name)


def _named(given: str | None) -> tuple[Contexts, str]:
    """The contexts, and the name of the chosen one; an address is in no context."""
    if given is not None and (":" in given or "," in given):
        return Contexts(), ""
    contexts = load()
    return contexts, given or contexts.current or ""


def address_of(given: str | None) -> str:
    """The bootstrap address for an address, the name of a context, or nothing."""
    if given is not None and (":" in given or "," in given):
        return given
    contexts = load()
    if given is not None:
        return contexts.addresses.get(given, given)
    if contexts.current is None:
        return DEFAULT_ADDRESS
    if contexts.current not in contexts.addresses:
        raise ContextError(f"{config_file()}: the current context {contexts.current!r} is not among its contexts")
    return contexts.addresses[contexts.current]
