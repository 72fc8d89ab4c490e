"""The reference page and the sample files agree with the declarations."""

from __future__ import annotations

from pathlib import Path

from headrace.config import BROKER_KEYS, TOPIC_KEYS, load_broker_config, read_properties, resolve_listeners
from headrace.config.reference import page

ROOT = Path(__file__).resolve().parents[3]


def test_reference_page_is_up_to_date_and_has_every_key() -> None:
    text = (ROOT / "docs/reference/configuration.md").read_text()
    assert text == page()
    for key in (*BROKER_KEYS.values(), *TOPIC_KEYS.values()):
        assert key.internal or f"| `{key.name}` |" in text


def test_the_sample_file_for_brokers_starts_a_broker_without_a_warning() -> None:
    config = load_broker_config(read_properties(ROOT / "config/server.properties"))
    assert config.warnings == []
    assert resolve_listeners(config).bound


def test_keys_that_the_sample_file_shows_commented_out_exist() -> None:
    for line in (ROOT / "config/server.properties").read_text().splitlines():
        name, equals, _ = line.removeprefix("#").partition("=")
        if equals and " " not in name:
            assert name in BROKER_KEYS, name
