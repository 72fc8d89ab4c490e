"""The JDBC source and sink of Confluent and Aiven."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import parse_qsl, quote, urlsplit

from headrace.pipelines.connect.common_settings import decoding, encoding, take_common, take_transforms
from headrace.pipelines.connect.connect_config import ConnectConfig

_IGNORED: Final = (
    "dialect.name",
    "connection.attempts",
    "connection.backoff.ms",
    "batch.max.rows",
    "batch.size",
    "max.retries",
    "retry.backoff.ms",
    "validate.non.null",
    "numeric.mapping",
    "numeric.precision.mapping",
    "quote.sql.identifiers",
    "schema.pattern",
    "catalog.pattern",
    "table.types",
    "table.poll.interval.ms",
    "timestamp.delay.interval.ms",
    "db.timezone",
)


def jdbc_source(config: ConnectConfig, _schema: str | None) -> dict[str, dict[str, object]]:
    """One connector file per table: each has its own offset."""
    take_common(config)
    take_transforms(config)
    config.ignore(*_IGNORED)
    url = database_url(config)
    target = encoding(config)
    tables = config.names("table.whitelist") or config.names("table.include.list")
    if config.take("query"):
        config.missing.append("query: make a view of it and name the view in table.whitelist")
    elif not tables:
        config.missing.append("table.whitelist is missing: name the tables")
    if config.take("table.blacklist") or config.take("table.exclude.list"):
        config.missing.append("table.blacklist: name the wanted tables in table.whitelist")
    column = _growing_column(config)
    prefix = config.take("topic.prefix", "") or ""
    every = config.take("poll.interval.ms", "5000")
    files: dict[str, dict[str, object]] = {}
    for table in tables:
        name = config.name if len(tables) == 1 else f"{config.name}-{table}"
        bare = table.rpartition(".")[2]
        files[name] = {
            "from": {"jdbc": {"url": url, "table": table, "column": column}},
            "to": {"topic": {"name": f"{prefix}{bare}", **target}},
            "trigger": f"{every} milliseconds",
        }
    return files


def _growing_column(config: ConnectConfig) -> str:
    mode = config.need("mode")
    incrementing, timestamps = config.take("incrementing.column.name"), config.names("timestamp.column.name")
    if mode == "incrementing":
        if not incrementing:
            config.missing.append("incrementing.column.name is missing: Headrace does not guess the column")
        return incrementing or ""
    if mode == "timestamp" and len(timestamps) == 1:
        config.notes.append("rows whose transaction commits late, with an older timestamp, are not seen: prefer cdc")
        return timestamps[0]
    ways = "use mode=incrementing, or a Debezium connector (cdc), which sees every change"
    config.missing.append(f"mode={mode} is not supported: {ways}")
    return ""


def jdbc_sink(config: ConnectConfig, schema: str | None) -> dict[str, dict[str, object]]:
    """One connector file per topic."""
    take_common(config)
    take_transforms(config)
    config.ignore(*_IGNORED)
    url = database_url(config)
    source = decoding(config, schema)
    topics = config.names("topics")
    if config.take("topics.regex") or not topics:
        config.missing.append("topics is missing: name the topics")
    keys = _keys(config)
    form = config.take("table.name.format", "${topic}") or ""
    if config.is_on("auto.create"):
        config.missing.append("auto.create: create the table")
    evolves = config.is_on("auto.evolve")
    deletes = config.is_on("delete.enabled")
    fields = config.names("fields.whitelist") or config.names("fields.include.list")
    files: dict[str, dict[str, object]] = {}
    for topic in topics:
        name = config.name if len(topics) == 1 else f"{config.name}-{topic}"
        target: dict[str, object] = {"url": url, "table": form.replace("${topic}", topic)}
        if keys:
            target["keys"] = keys
        if evolves:
            target["evolve"] = True
        document: dict[str, object] = {"from": {"topic": {"name": topic, **source}}}
        chosen = _selected(fields, source, deletes=deletes)
        if chosen is not None:
            document["select"] = chosen
        files[name] = {**document, "to": {"jdbc": target}}
    return files


def _selected(fields: list[str], source: dict[str, object], *, deletes: bool) -> str | None:
    names = list(fields)
    schema = str(source.get("schema") or "")
    if not names and schema:
        names = [part.split()[0] for part in re.split(r",(?![^(<]*[)>])", schema) if part.strip()]
    if not names:
        # Columns of the registry. Without select, tombstones delete rows.
        return None
    return f"SELECT {', '.join([*names, *(['_deleted', '_source'] if deletes else [])])} FROM source"


def _keys(config: ConnectConfig) -> list[str]:
    mode, where = config.take("insert.mode", "insert"), config.take("pk.mode", "none")
    keys = config.names("pk.fields")
    if mode == "update":
        config.missing.append("insert.mode=update: use upsert")
    if mode != "upsert":
        return []
    if where == "record_key" and len(keys) == 1:
        config.notes.append(f"the column {keys[0]} must be in the value, too: Headrace takes keys from columns")
    elif where != "record_value":
        config.missing.append(f"pk.mode={where} with insert.mode=upsert: use record_value and name pk.fields")
    if not keys:
        config.missing.append("pk.fields is missing: name the key columns")
    return keys


def database_url(config: ConnectConfig) -> str:
    """`postgresql://` or `sqlite://` from `jdbc:…`, with the user and without the password."""
    given = config.need("connection.url")
    user = config.take("connection.user")
    password = config.secret("connection.password", "password")
    if given.startswith("jdbc:sqlite:"):
        return f"sqlite:///{given.removeprefix('jdbc:sqlite:')}"
    if not given.startswith("jdbc:postgresql:"):
        if given:
            kind = given.removeprefix("jdbc:").split(":")[0]
            config.missing.append(f"connection.url: databases are postgresql and sqlite, not {kind}")
        return ""
    parts = urlsplit(given.removeprefix("jdbc:"))
    options = dict(parse_qsl(parts.query))
    user = user or options.pop("user", None)
    if "password" in options:
        config.missing.append("connection.url has a password: put it into connection.password")
        options.pop("password")
    if options:
        config.missing.append(f"connection.url has the parameters {', '.join(options)}")
    return postgres_url(parts.hostname or "localhost", parts.port, parts.path.lstrip("/"), user, password)


def postgres_url(host: str, port: int | None, database: str, user: str | None, password: str | None) -> str:
    login = ""
    if user is not None:
        secret = "" if password is None else f":{password if password.startswith('$') else quote(password, safe='')}"
        login = f"{quote(user, safe='$')}{secret}@"
    return f"postgresql://{login}{host}{f':{port}' if port else ''}/{database}"
