"""A configuration of Kafka Connect. Every setting that a translation uses is taken out; the rest is not understood.

A setting that would be ignored in silence could change what the connector does. So a translation ends with the names
that were not taken, and `Missing` lists them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from headrace.pipelines.errors import OptionError, PipelineError

_ENVIRONMENT: Final = re.compile(r"\$\{env:([A-Za-z_]\w*)\}")
_PROVIDER: Final = re.compile(r"\$\{(\w+):[^}]*\}")


class Missing(PipelineError):
    """What a configuration asks for and Headrace does not do, one sentence each."""

    def __init__(self, name: str, sentences: Iterable[str]) -> None:
        self.sentences = list(sentences)
        super().__init__(f"connector {name!r} cannot be translated: {'; '.join(self.sentences)}")


@dataclass
class ConnectConfig:
    name: str
    values: dict[str, str]
    # What keeps the configuration from being translated.
    missing: list[str] = field(default_factory=list)
    # What a person should know about the translation.
    notes: list[str] = field(default_factory=list)
    # A worker keeps passwords in files that only its user can read.
    keeps_secrets: bool = False
    _taken: set[str] = field(default_factory=set)

    def take(self, key: str, default: str | None = None) -> str | None:
        self._taken.add(key)
        value = self.values.get(key)
        if value is None or value == "":
            return default
        return self._expanded(key, value)

    def _expanded(self, key: str, value: str) -> str:
        text = _ENVIRONMENT.sub(lambda match: f"${match[1]}", value)
        if other := _PROVIDER.search(text):
            self.missing.append(f"{key} uses the configuration provider {other[1]!r}: use ${{env:NAME}}")
        return text

    def need(self, key: str) -> str:
        value = self.take(key)
        if value is None:
            self.missing.append(f"{key} is missing")
        return value or ""

    def names(self, key: str) -> list[str]:
        return [part.strip() for part in (self.take(key) or "").split(",") if part.strip()]

    def is_on(self, key: str, *, default: bool = False) -> bool:
        return (self.take(key) or str(default)).lower() == "true"

    def secret(self, key: str, variable: str) -> str | None:
        """A password stays out of the connector file: it becomes an environment variable."""
        value = self.take(key)
        if value is None or value.startswith("$") or self.keeps_secrets:
            return value
        name = re.sub(r"\W", "_", f"{self.name}_{variable}").upper()
        self.notes.append(f"set the environment variable {name} to the value of {key}")
        return f"${name}"

    def ignore(self, *keys: str) -> None:
        self._taken.update(keys)

    def ignore_prefix(self, *prefixes: str) -> None:
        self._taken.update(key for key in self.values if key.startswith(prefixes))

    def finish(self) -> None:
        """Raises Missing if something was not understood."""
        unknown = sorted(key for key in self.values if key not in self._taken)
        self.missing += [f"the setting {key} is not supported" for key in unknown]
        if self.missing:
            raise Missing(self.name, self.missing)


def config_of(document: object, place: str) -> ConnectConfig:
    """From `{"name": …, "config": {…}}`, as POST /connectors takes it, or from the settings alone."""
    if not isinstance(document, dict):
        raise OptionError(f"{place}: must be a JSON object with name and config")
    given = document.get("config", document)
    if not isinstance(given, dict):
        raise OptionError(f"{place}: config must be a JSON object")
    if wrong := next((key for key, value in given.items() if isinstance(value, (dict, list))), None):
        raise OptionError(f"{place}: {wrong}: must be a text, as in every configuration of Kafka Connect")
    values = {str(key): _text(value) for key, value in given.items() if value is not None}
    name = document.get("name") or values.get("name")
    if not isinstance(name, str) or not name:
        raise OptionError(f'{place}: "name" is missing')
    return ConnectConfig(name, {key: value for key, value in values.items() if key != "name"})


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def read_config(file: Path) -> list[ConnectConfig]:
    """One configuration, or a list of them."""
    try:
        document = json.loads(file.read_text())
    except (ValueError, UnicodeDecodeError) as error:
        raise OptionError(f"{file}: not JSON: {error}") from error
    except OSError as error:
        raise OptionError(f"{file}: {error.strerror}") from error
    many = document if isinstance(document, list) else [document]
    if not many:
        raise OptionError(f"{file}: has no connector")
    return [config_of(one, str(file)) for one in many]


def as_document(name: str, values: Mapping[str, str]) -> dict[str, object]:
    return {"name": name, "config": {"name": name, **values}}
