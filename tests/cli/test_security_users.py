"""Commands that add users before the first start and on a running broker, and the logins of these users."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from headrace.testing import broker
from headrace.testing.in_process import RunningBroker
from tests.reference.kafka import run_tool
from tests.support.clock import PATIENCE_S
from tests.support.sasl import LISTENERS, SaslBroker

ROOT = Path(__file__).resolve().parents[2]
SETTINGS = {**LISTENERS, "listener.name.clients.sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512"}


def ran(*command: str | Path, stdin: str = "") -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "HEADRACE_PYTHON": sys.executable}
    return subprocess.run(
        list(map(str, command)), input=stdin, capture_output=True, text=True, check=False, env=environment
    )


def add_user(*arguments: str | Path, stdin: str = "sesame\n") -> subprocess.CompletedProcess[str]:
    return ran(sys.executable, "-m", "headrace.cli", "security", "add-user", *arguments, stdin=stdin)


def storage(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return ran(ROOT / "bin/kafka-storage.sh", *arguments)


def properties(tmp_path: Path) -> Path:
    file = tmp_path / "server.properties"
    lines = {**SETTINGS, "log.dirs": str(tmp_path / "data")}
    file.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
    return file


def logs_in(running: RunningBroker, user: str, password: str, mechanism: str = "SCRAM-SHA-256") -> bool:
    settings = SaslBroker(running).settings(mechanism, user, password)
    try:
        return bool(AdminClient({**settings, "log_level": 0}).list_topics(timeout=3).brokers)
    except Exception:
        return False


def test_add_user_works_on_a_new_and_on_a_used_directory(tmp_path: Path) -> None:
    data = tmp_path / "data"
    done = add_user("admin", "--data", data)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "added user admin with SCRAM-SHA-256 and SCRAM-SHA-512\n"
    with broker(SETTINGS, data_dir=data) as running:
        assert logs_in(running, "admin", "sesame")
        assert logs_in(running, "admin", "sesame", "SCRAM-SHA-512")
        busy = add_user("late", "--data", data)
        assert busy.returncode == 1
        assert "in use" in busy.stderr
    (tmp_path / "password").write_text("other\n")
    (tmp_path / "password").chmod(0o644)
    refused = add_user("bert", "--data", data, "--password-file", tmp_path / "password")
    assert refused.returncode == 1 and "run chmod 600" in refused.stderr
    (tmp_path / "password").chmod(0o600)
    add_user("bert", "--data", data, "--password-file", tmp_path / "password", "--mechanism", "SCRAM-SHA-256")
    with broker(SETTINGS, data_dir=data) as running:
        assert logs_in(running, "admin", "sesame")
        assert logs_in(running, "bert", "other")
        assert not logs_in(running, "bert", "other", "SCRAM-SHA-512")
        assert not logs_in(running, "late", "sesame")


@pytest.mark.parametrize(
    ("arguments", "stdin", "words"),
    [
        (("a\nb",), "x\n", "line breaks"),
        (("",), "x\n", "must not be empty"),
        (("anna",), "\n", "password of 'anna' must not be empty"),
        (("anna", "--iterations", "1000"), "x\n", "between 4096 and 16384"),
    ],
)
def test_invalid_user_is_one_sentence_and_writes_nothing(
    tmp_path: Path, arguments: tuple[str, ...], stdin: str, words: str
) -> None:
    done = add_user(*arguments, "--data", tmp_path / "data", stdin=stdin)
    assert done.returncode == 1
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "data").exists()


def test_kafka_storage_format_adds_users(tmp_path: Path) -> None:
    file = properties(tmp_path)
    cluster_id = storage("random-uuid").stdout.strip()
    assert len(cluster_id) == 22
    credentials = [
        "SCRAM-SHA-256=[name=admin,password=sesame]",
        'SCRAM-SHA-512=[name="anna",password="p",iterations=8192]',
    ]
    command: list[str | Path] = ["format", "-t", cluster_id, "-c", file]
    command += ["--add-scram", credentials[0], "--add-scram", credentials[1]]
    done = storage(*command)
    assert done.returncode == 0, done.stderr
    assert "sesame" not in done.stdout
    assert "key" not in done.stdout
    again = storage(*command)
    assert again.returncode == 1
    assert "is already formatted" in again.stderr
    with broker(SETTINGS, data_dir=tmp_path / "data") as running:
        assert logs_in(running, "admin", "sesame")
        assert logs_in(running, "anna", "p", "SCRAM-SHA-512")
        admin = AdminClient({"bootstrap.servers": SaslBroker(running).local})
        assert admin.list_topics(timeout=PATIENCE_S).cluster_id == cluster_id
    assert (tmp_path / "data/.coordination").stat().st_mode & 0o077 == 0, "others must not read the credentials"


@pytest.mark.parametrize(
    "credential",
    [
        "SCRAM-SHA-256",
        "SCRAM-SHA-256=[password=s3cret]",
        "SCRAM-SHA-256=[name=x]",
        "SCRAM-MD5=[name=x,password=s3cret]",
        "SCRAM-SHA-256=[name=x,password=s3cret,iterations=1]",
        "SCRAM-SHA-256=[name=x,password=s3cret,salt=*]",
        "SCRAM-SHA-256=[name=x,password=s3cret,what=y]",
        "SCRAM-SHA-256=[name=x,password=s3cret,saltedpassword=AAAA]",
    ],
)
def test_invalid_credential_formats_nothing_and_is_not_printed(tmp_path: Path, credential: str) -> None:
    done = storage("format", "-t", "x" * 22, "-c", properties(tmp_path), "--add-scram", credential)
    assert done.returncode == 1
    assert "s3cret" not in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "data").exists()


@pytest.mark.needs("kafka")
def test_headrace_and_kafka_versions_of_kafka_configs_manage_users(tmp_path: Path) -> None:
    def ours(*arguments: str) -> str:
        return ran(ROOT / "bin/kafka-configs.sh", *arguments).stdout

    def kafkas(*arguments: str) -> str:
        return run_tool("kafka.admin.ConfigCommand", *arguments).stdout

    with broker(SETTINGS, data_dir=tmp_path / "data") as running:
        for number, configs in enumerate((ours, kafkas)):
            user = f"user-{number}"
            to = ["--bootstrap-server", SaslBroker(running).local, "--entity-type", "users", "--entity-name", user]
            added = configs(*to, "--alter", "--add-config", "SCRAM-SHA-256=[iterations=8192,password=sesame]")
            assert added == f"Completed updating config for user {user}.\n"
            assert logs_in(running, user, "sesame")
            for describe in (ours, kafkas):
                shown = describe(*to, "--describe")
                expected = f"SCRAM credential configs for user-principal '{user}' are SCRAM-SHA-256=iterations=8192\n"
                assert shown == expected
            configs(*to, "--alter", "--delete-config", "SCRAM-SHA-256")
            assert not logs_in(running, user, "sesame")
