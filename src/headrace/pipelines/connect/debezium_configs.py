"""Debezium's connector for PostgreSQL: the changes of each table to a topic of its own."""

from __future__ import annotations

import re
from typing import Final

from headrace.pipelines.connect.common_settings import encoding, take_common, take_transforms
from headrace.pipelines.connect.connect_config import ConnectConfig
from headrace.pipelines.connect.jdbc_configs import postgres_url

_IGNORED: Final = (
    "publication.autocreate.mode",
    "heartbeat.interval.ms",
    "max.batch.size",
    "max.queue.size",
    "poll.interval.ms",
    "slot.max.retries",
    "slot.retry.delay.ms",
    "status.update.interval.ms",
    "snapshot.fetch.size",
    "snapshot.max.threads",
    "database.server.id",
    "database.tcpKeepAlive",
    "schema.include.list",
    "provide.transaction.metadata",
)
_SNAPSHOTS: Final = {
    "initial": "initial",
    "always": None,
    "never": "never",
    "no_data": "never",
}
_DEFAULTS: Final = {
    "decimal.handling.mode": ("string", "double"),
    "time.precision.mode": ("adaptive", "connect"),
    "hstore.handling.mode": ("json",),
    "binary.handling.mode": ("bytes",),
}


def debezium_postgres(config: ConnectConfig, _schema: str | None) -> dict[str, dict[str, object]]:
    take_common(config)
    unwraps = take_transforms(config)
    config.ignore(*_IGNORED)
    _check_modes(config)
    port = config.take("database.port", "5432")
    user, password = config.need("database.user"), config.secret("database.password", "password")
    host, database = config.need("database.hostname"), config.need("database.dbname")
    url = postgres_url(host, int(port or 5432), database, user or None, password)
    prefix = config.take("topic.prefix") or config.take("database.server.name")
    config.ignore("topic.prefix", "database.server.name")
    if prefix is None:
        config.missing.append("topic.prefix is missing")
    tables = config.names("table.include.list") or config.names("table.whitelist")
    if not tables or any(re.search(r"[*\\\[(|]", table) for table in tables):
        config.missing.append("table.include.list: name the tables one by one (schema.table)")
    slot = config.take("slot.name", "debezium")
    snapshot = _snapshot(config)
    written = _written(config, unwraps=unwraps)
    files: dict[str, dict[str, object]] = {}
    for table in tables:
        several = len(tables) > 1
        name = f"{config.name}-{table}" if several else config.name
        own = re.sub(r"\W", "_", f"{slot}_{table}") if several else slot
        source = {"url": url, "tables": [table], "slot": own, "snapshot": snapshot}
        schema, _, bare = table.rpartition(".")
        topic = {"name": f"{prefix}.{schema or 'public'}.{bare}", **written}
        files[name] = {"from": {"cdc": source}, "to": {"topic": topic}}
        if unwraps:
            files[name] |= {"select": "SELECT key, after AS value FROM source"}
    if len(files) > 1:
        config.notes.append(f"every table has its own file and its own replication slot ({slot}_…)")
    return files


def _check_modes(config: ConnectConfig) -> None:
    plugin = config.take("plugin.name", "decoderbufs")
    if plugin != "pgoutput":
        config.missing.append(f"plugin.name={plugin}: use pgoutput, which every PostgreSQL has")
    if (publication := config.take("publication.name")) is not None:
        config.notes.append(f"the publication {publication} is not used: Headrace makes one with the slot's name")
    for key, allowed in _DEFAULTS.items():
        value = config.take(key)
        if value is not None and value not in allowed:
            config.missing.append(f"{key}={value} is not supported: values are as PostgreSQL prints them")
    for key in ("column.include.list", "column.exclude.list", "message.key.columns", "table.exclude.list"):
        if config.take(key):
            config.missing.append(f"{key} is not supported: choose columns with select in the file")


def _snapshot(config: ConnectConfig) -> str:
    mode = config.take("snapshot.mode", "initial") or "initial"
    found = _SNAPSHOTS.get(mode)
    if found is None:
        config.missing.append(f"snapshot.mode={mode}: use initial, or no_data")
    return found or "initial"


def _written(config: ConnectConfig, *, unwraps: bool) -> dict[str, object]:
    encoded = encoding(config)
    tombstones = config.is_on("tombstones.on.delete", default=True)
    if unwraps:
        if encoded:
            config.missing.append("ExtractNewRecordState with a schema registry")
        return {}
    if encoded:
        return {**encoded, **({} if tombstones else {"tombstones": False})}
    return {"envelope": "debezium", **({} if tombstones else {"tombstones": False})}
