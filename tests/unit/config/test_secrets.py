"""`${file:…}` and `${env:…}` are replaced in the broker's configuration file, and nowhere else."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.config import ConfigError, load_broker_config
from headrace.config.secrets import with_secrets

KEY = "zookeeper.digest.password"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "secret"
    path.write_text("s3cret\n")
    path.chmod(0o600)
    return path


def test_a_file_gives_its_text_without_the_last_line_break(file: Path) -> None:
    assert load_broker_config({KEY: f"${{file:{file}}}"})[KEY] == "s3cret"


def test_a_properties_file_gives_the_value_of_a_key_in_the_middle_of_a_text(file: Path) -> None:
    file.write_text("erin=one\nfay=two\n")
    assert with_secrets({"x": f'password="${{file:{file}:fay}}";'}) == {"x": 'password="two";'}


def test_the_environment_gives_a_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STORE_PASSWORD", "${env:HOME}")
    # References inside a secret are not replaced.
    assert with_secrets({KEY: "${env:STORE_PASSWORD}"}) == {KEY: "${env:HOME}"}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("${file:/nowhere/at/all}", "the file cannot be read: No such file"),
        ("${file:}", "must name a file"),
        ("${env:NOT_SET_ANYWHERE}", "the environment has no variable 'NOT_SET_ANYWHERE'"),
    ],
)
def test_unresolvable_reference_stops_the_start(text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words) as error:
        load_broker_config({KEY: text})
    assert error.value.key == KEY


def test_error_names_a_key_that_is_missing_in_the_file(file: Path) -> None:
    file.write_text("erin=one\n")
    with pytest.raises(ConfigError, match="has no key 'fay'") as error:
        with_secrets({KEY: f"${{file:{file}:fay}}"})
    assert "one" not in error.value.message


@pytest.mark.parametrize("mode", [0o644, 0o604, 0o620, 0o602])
def test_a_file_that_other_users_can_read_or_change_is_refused(file: Path, mode: int) -> None:
    file.chmod(mode)
    with pytest.raises(ConfigError, match=f"run chmod 600 {file}") as error:
        with_secrets({KEY: f"${{file:{file}}}"})
    assert "s3cret" not in error.value.message


def test_cve_2019_12399_and_2024_31141_what_a_client_sends_stays_text(file: Path) -> None:
    text = f"${{file:{file}}}"
    config = load_broker_config({}).with_dynamic({"metric.reporters": text}, {"metric.reporters": text})
    assert config["metric.reporters"] == [text]


def test_other_text_with_a_dollar_sign_is_unchanged() -> None:
    assert with_secrets({"a": "${x}", "b": "$1", "c": "${dir:/etc}"}) == {"a": "${x}", "b": "$1", "c": "${dir:/etc}"}
