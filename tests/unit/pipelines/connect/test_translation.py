"""Configurations of Kafka Connect as connector files, or refusals with everything that is missing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from headrace.pipelines.connect.connect_config import Missing, config_of, read_config
from headrace.pipelines.connect.translation import as_yaml, class_of, translated
from headrace.pipelines.connectors.connector import load_connector
from headrace.pipelines.errors import OptionError

FILE_SOURCE = {"connector.class": "FileStreamSource", "tasks.max": "1", "file": "/var/log/app.log", "topic": "log"}
JDBC_SOURCE = {
    "connector.class": "io.confluent.connect.jdbc.JdbcSourceConnector",
    "connection.url": "jdbc:postgresql://db:5433/shop",
    "connection.user": "reader",
    "connection.password": "p@ss",
    "mode": "incrementing",
    "incrementing.column.name": "id",
    "table.whitelist": "orders, public.items",
    "topic.prefix": "pg-",
    "poll.interval.ms": "1000",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
}
JDBC_SINK = {
    "connector.class": "io.confluent.connect.jdbc.JdbcSinkConnector",
    "connection.url": "jdbc:sqlite:/tmp/x.db",
    "topics": "orders",
    "insert.mode": "upsert",
    "pk.mode": "record_value",
    "pk.fields": "id",
    "table.name.format": "copy_of_${topic}",
    "auto.evolve": "true",
    "value.converter": "io.confluent.connect.avro.AvroConverter",
    "value.converter.schema.registry.url": "http://registry:8081",
}
DEBEZIUM = {
    "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
    "plugin.name": "pgoutput",
    "database.hostname": "db",
    "database.port": "5432",
    "database.user": "${env:PG_USER}",
    "database.password": "${env:PG_PASSWORD}",
    "database.dbname": "shop",
    "topic.prefix": "shop",
    "table.include.list": "public.orders",
    "slot.name": "shop_slot",
    "snapshot.mode": "initial",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
}


def translate(settings: dict[str, Any], schema: str | None = None, **more: str) -> dict[str, dict[str, Any]]:
    config = config_of({"name": "c", "config": {**settings, **more}}, "test")
    return translated(config, schema)


def test_file_connectors() -> None:
    assert translate(FILE_SOURCE) == {
        "c": {"name": "c", "from": {"lines": {"path": "/var/log/app.log"}}, "to": {"topic": {"name": "log"}}}
    }
    sink = {"connector.class": "FileStreamSinkConnector", "file": "out.txt", "topics": "a,b"}
    (document,) = translate(sink).values()
    assert document["from"] == {"topic": {"name": "a,b"}}
    assert document["to"] == {"lines": {"path": "out.txt"}}


def test_jdbc_source_becomes_one_file_per_table_and_its_password_a_variable() -> None:
    config = config_of({"name": "shop", "config": JDBC_SOURCE}, "test")
    files = translated(config)
    assert list(files) == ["shop-orders", "shop-public.items"]
    assert files["shop-public.items"]["from"] == {
        "jdbc": {
            "url": "postgresql://reader:$SHOP_PASSWORD@db:5433/shop",
            "table": "public.items",
            "column": "id",
        }
    }
    assert files["shop-public.items"]["to"] == {"topic": {"name": "pg-items"}}
    assert files["shop-orders"]["trigger"] == "1000 milliseconds"
    assert "set the environment variable SHOP_PASSWORD to the value of connection.password" in config.notes
    assert "p@ss" not in json.dumps(files)


def test_jdbc_sink_uses_the_registry_or_given_columns() -> None:
    assert translate(JDBC_SINK) == {
        "c": {
            "name": "c",
            "from": {"topic": {"name": "orders", "decode": "registry", "registry": "http://registry:8081"}},
            "to": {"jdbc": {"url": "sqlite:////tmp/x.db", "table": "copy_of_orders", "keys": ["id"], "evolve": True}},
        }
    }
    plain = {
        **JDBC_SINK,
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "false",
        "delete.enabled": "true",
    }
    del plain["value.converter.schema.registry.url"]
    (document,) = translate(plain, "id int, price decimal(10,2)").values()
    assert document["select"] == "SELECT id, price, _deleted, _source FROM source"
    with pytest.raises(Missing, match="give them with --schema 'id int, name string'"):
        translate(plain)


def test_debezium_keeps_topics_slot_and_envelope() -> None:
    (document,) = translate(DEBEZIUM).values()
    assert document["from"] == {
        "cdc": {
            "url": "postgresql://$PG_USER:$PG_PASSWORD@db:5432/shop",
            "tables": ["public.orders"],
            "slot": "shop_slot",
            "snapshot": "initial",
        }
    }
    assert document["to"] == {"topic": {"name": "shop.public.orders", "envelope": "debezium"}}
    unwrapped = {"transforms": "unwrap", "transforms.unwrap.type": "io.debezium.transforms.ExtractNewRecordState"}
    (document,) = translate({**DEBEZIUM, **unwrapped}).values()
    assert document["select"] == "SELECT key, after AS value FROM source"
    many = translate({**DEBEZIUM, "table.include.list": "public.a,public.b"})
    assert [file["from"]["cdc"]["slot"] for file in many.values()] == ["shop_slot_public_a", "shop_slot_public_b"]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"connector.class": "io.confluent.connect.s3.S3SinkConnector"}, ["'io.confluent.connect.s3.S3SinkConnector'"]),
        (
            {**FILE_SOURCE, "frobnicate": "1", "file": ""},
            ["file is missing", "the setting frobnicate is not supported"],
        ),
        ({**FILE_SOURCE, "transforms": "a", "transforms.a.type": "x.Y$Value"}, ["the transform 'x.Y$Value'"]),
        ({**FILE_SOURCE, "producer.override.acks": "1"}, ["producer.override.acks: put client settings under kafka:"]),
        ({**JDBC_SOURCE, "mode": "bulk"}, ["mode=bulk is not supported"]),
        ({**JDBC_SOURCE, "query": "SELECT 1"}, ["query: make a view of it"]),
        ({**JDBC_SOURCE, "connection.url": "jdbc:oracle:thin:@x"}, ["databases are postgresql and sqlite, not oracle"]),
        ({**JDBC_SOURCE, "value.converter.schemas.enable": "true"}, ["value.converter.schemas.enable=true"]),
        ({**JDBC_SINK, "auto.create": "true"}, ["auto.create: create the table"]),
        ({**JDBC_SINK, "pk.mode": "kafka"}, ["pk.mode=kafka with insert.mode=upsert"]),
        ({**DEBEZIUM, "plugin.name": "wal2json"}, ["plugin.name=wal2json: use pgoutput"]),
        ({**DEBEZIUM, "table.include.list": "public.*"}, ["name the tables one by one"]),
        ({**DEBEZIUM, "snapshot.mode": "always"}, ["snapshot.mode=always"]),
        ({**DEBEZIUM, "database.password": "${file:/x:y}"}, ["uses the configuration provider 'file'"]),
        ({**DEBEZIUM, "column.exclude.list": "public.orders.note"}, ["column.exclude.list is not supported"]),
    ],
)
def test_refusal_names_everything_that_is_missing(settings: dict[str, str], words: list[str]) -> None:
    with pytest.raises(Missing) as refusal:
        translate(settings)
    for word in words:
        assert any(word in sentence for sentence in refusal.value.sentences), refusal.value.sentences


def test_files_are_connectors_that_load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("C_PASSWORD", "secret")
    for settings in (FILE_SOURCE, JDBC_SOURCE, JDBC_SINK, DEBEZIUM):
        for name, document in translate(settings).items():
            file = tmp_path / f"{name}.yml"
            file.write_text(as_yaml(document))
            assert yaml.safe_load(file.read_text()) == document
            spec = load_connector(file, "localhost:9092")
            assert spec.name == name
            if spec.source.kind == "jdbc":
                assert "reader:secret@" in spec.source.text("url")


def test_forms_of_configuration_files(tmp_path: Path) -> None:
    file = tmp_path / "c.json"
    file.write_text(json.dumps([{"name": "a", "config": {"tasks.max": 2, "x": True}}, {"name": "b", "y": "z"}]))
    first, second = read_config(file)
    assert (first.name, first.values) == ("a", {"tasks.max": "2", "x": "true"})
    assert (second.name, second.values) == ("b", {"y": "z"})
    for text, words in (("{", "not JSON"), ("[]", "has no connector"), ('{"config": {}}', '"name" is missing')):
        file.write_text(text)
        with pytest.raises(OptionError, match=words):
            read_config(file)
    assert class_of("FileStreamSink") == class_of("FileStreamSinkConnector")
    assert class_of("nothing") is None
