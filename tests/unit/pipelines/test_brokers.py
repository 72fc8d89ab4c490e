"""The settings of a pipeline reach every client of its brokers."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from headrace.cli.pipeline.command import app
from headrace.cli.support.connection import bootstrap_address
from headrace.cli.support.pipeline_options import pipeline_spec
from headrace.pipelines.brokers import client_of, kafka_settings
from headrace.pipelines.connectors.connector import load_connector
from headrace.pipelines.connectors.mirror import load_mirror
from headrace.pipelines.errors import OptionError

_SPEC = """name: orders
storage: storage
configuration:
  headrace.bootstrap.servers: "kafka:9093"
  headrace.kafka.security.protocol: "SASL_SSL"
  headrace.kafka.sasl.mechanism: "PLAIN"
  headrace.kafka.sasl.username: "orders"
  headrace.kafka.sasl.password: "$ORDERS_PASSWORD"
"""


def test_a_password_comes_from_the_environment_and_a_file_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "spark-pipeline.yml").write_text(_SPEC)
    monkeypatch.setenv("ORDERS_PASSWORD", "secret")
    with client_of(pipeline_spec(tmp_path, None, None)) as client:
        assert (client.security.username, client.security.password) == ("orders", "secret")
    file = tmp_path / "client.properties"
    file.write_text("sasl.username=somebody\n")
    with client_of(pipeline_spec(tmp_path, None, "other:9094", file)) as client:
        assert (client.security.username, client.bootstrap) == ("somebody", [("other", 9094)])
    wrong = pipeline_spec(tmp_path, ["headrace.kafka.sasl.mechanism=GSSAPI"], None)
    with pytest.raises(OptionError, match=r"sasl\.mechanism='GSSAPI'"):
        client_of(wrong)


def test_context_name_is_accepted_as_brokers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "spark-pipeline.yml").write_text(_SPEC)
    config = tmp_path / "config.yaml"
    config.write_text('current: far\ncontexts:\n  far: {bootstrap: "127.0.0.1:1"}\n')
    monkeypatch.setenv("HEADRACE_CONFIG", str(config))
    assert pipeline_spec(tmp_path, None, "far").bootstrap == "127.0.0.1:1"
    # A pipeline has its own brokers. A command without a pipeline uses the current context.
    assert pipeline_spec(tmp_path, None, None).bootstrap == "kafka:9093"
    assert bootstrap_address(None) == "127.0.0.1:1"


def test_connectors_and_mirrors_use_the_settings_for_source_and_target(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ORDERS_PASSWORD", "secret")
    guarded = "security.protocol: SASL_SSL, sasl.password: $ORDERS_PASSWORD"
    file = tmp_path / "c.yml"
    file.write_text(f"bootstrap: kafka:9093\nkafka: {{{guarded}}}\nfrom: {{topic: a}}\nto: {{topic: b}}\n")
    assert load_connector(file).brokers == {
        "kafka.bootstrap.servers": "kafka:9093",
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.password": "secret",
    }
    file.write_text(f'source: {{bootstrap: "a:1", {guarded}}}\ntarget: {{bootstrap: "b:1"}}\ntopics: orders\n')
    spec = load_mirror(file).pipeline()
    assert kafka_settings(spec.configuration) == {"security.protocol": "SASL_SSL", "sasl.password": "secret"}


def test_missing_settings_file_is_named(tmp_path: Path) -> None:
    asked = CliRunner().invoke(app, ["ls", "--command-config", str(tmp_path / "no.properties")])
    assert asked.exit_code == 1
    assert "no.properties: No such file" in asked.output
