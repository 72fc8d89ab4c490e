"""The connectors of a worker on disk: one directory each, with the configuration and the connector files.

    DIR/<name>/connect.json          configuration, and the state that a person asked for
    DIR/<name>/<name>.yml            the connector file, or several, with their storage beside them

Configurations may have passwords, so only the user of the worker can read the directory. A file is replaced as a whole.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import yaml

from headrace.pipelines.connect.connect_config import ConnectConfig, Missing
from headrace.pipelines.connect.translation import OWN, as_yaml, translated
from headrace.pipelines.connectors.connector import ConnectorSpec, load_connector
from headrace.pipelines.errors import OptionError

RUNNING: Final = "RUNNING"
PAUSED: Final = "PAUSED"
STOPPED: Final = "STOPPED"
_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._ -]{0,199}")
_FILE: Final = "connect.json"


@dataclass(frozen=True)
class StoredConnector:
    name: str
    config: Mapping[str, str]
    state: str


def documents_of(name: str, config: Mapping[str, str]) -> dict[str, dict[str, object]]:
    """The connector files of a configuration. Raises Missing and OptionError."""
    if config.get("connector.class") == OWN:
        return {name: _own_document(name, config)}
    return translated(ConnectConfig(name, dict(config), keeps_secrets=True), config.get("headrace.schema"))


def _own_document(name: str, config: Mapping[str, str]) -> dict[str, object]:
    unknown = [key for key in config if key not in ("connector.class", "connector.yaml", "name", "tasks.max")]
    if unknown:
        raise Missing(name, [f"the setting {key} is not supported: write it into connector.yaml" for key in unknown])
    try:
        document = yaml.safe_load(config.get("connector.yaml", ""))
    except yaml.YAMLError as error:
        raise OptionError(f"connector.yaml: not YAML: {' '.join(str(error).split())}") from error
    if not isinstance(document, dict):
        raise OptionError("connector.yaml: must be the text of a connector file, with from and to")
    return {**document, "name": name, "storage": f"storage/{name}"}


@dataclass(frozen=True)
class ConnectorStore:
    directory: Path
    bootstrap: str

    def load(self) -> list[StoredConnector]:
        found = []
        for file in sorted(self.directory.glob(f"*/{_FILE}")):
            content = json.loads(file.read_text())
            found.append(StoredConnector(content["name"], content["config"], content["state"]))
        return found

    def check_name(self, name: str) -> None:
        if not _NAME.fullmatch(name):
            raise OptionError(f"connector name {name!r}: must be letters, digits, '.', '_', '-' and spaces")

    def _folder(self, name: str) -> Path:
        self.check_name(name)
        return self.directory / name

    def save(self, connector: StoredConnector) -> None:
        """Writes configuration and connector files. The checkpoints of files that stay are kept."""
        folder = self._folder(connector.name)
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        documents = documents_of(connector.name, connector.config)
        for name, document in documents.items():
            _write(folder / f"{name}.yml", as_yaml({"bootstrap": self.bootstrap, **document}))
        for file in folder.glob("*.yml"):
            if file.stem not in documents:
                file.unlink()
        content = {"name": connector.name, "config": dict(connector.config), "state": connector.state}
        _write(folder / _FILE, json.dumps(content, indent=1))

    def specs(self, name: str, kafka: Mapping[str, str]) -> list[ConnectorSpec]:
        """The connectors of the files, with the client settings of the worker."""
        from dataclasses import replace

        from headrace.pipelines.brokers import in_configuration

        found = [load_connector(file, self.bootstrap) for file in sorted(self._folder(name).glob("*.yml"))]
        settings = in_configuration(kafka)
        return [replace(spec, configuration={**settings, **spec.configuration}) for spec in found]

    def check(self, name: str, config: Mapping[str, str]) -> None:
        """Raises what is wrong with a configuration, without storing it."""
        import tempfile

        self.check_name(name)
        with tempfile.TemporaryDirectory(prefix="headrace-connect-") as folder:
            for file, document in documents_of(name, config).items():
                path = Path(folder) / f"{file.replace('/', '_')}.yml"
                path.write_text(as_yaml({"bootstrap": self.bootstrap, **document}))
                load_connector(path, self.bootstrap)

    def remove(self, name: str) -> None:
        """Removes the configuration. The checkpoints stay, as offsets do in Kafka Connect: a connector that is created
        again under the same name continues."""
        folder = self._folder(name)
        for file in (folder / _FILE, *folder.glob("*.yml")):
            file.unlink(missing_ok=True)


def _write(file: Path, text: str) -> None:
    fresh = file.with_name(f".{file.name}.new")
    fresh.touch(mode=0o600)
    fresh.write_text(text)
    fresh.replace(file)
