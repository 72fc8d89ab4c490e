"""Kafka Connect's interface in front of brokers with login: who may drive connectors, and where it may listen."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from headrace.client.blocking.client import BlockingClient
from headrace.client.security import ClientSecurity
from headrace.pipelines.connect.connector_store import ConnectorStore
from headrace.pipelines.connect.service import ConnectService, connect_server
from headrace.pipelines.connect.worker import Worker
from headrace.pipelines.lite.run import LiteRun
from headrace.testing.secured import make_certificates, secured_broker
from headrace.web.address import ListenAddress
from headrace.web.listener import bound_socket
from headrace.web.login import Brokers
from tests.support.clock import wait_for
from tests.support.web import ask, basic, running_server

_ROOT = Path(__file__).resolve().parents[3]


def test_only_callers_who_may_alter_the_cluster_drive_connectors(tmp_path: Path) -> None:
    make_certificates(tmp_path / "certificates")
    (tmp_path / "data").mkdir()
    (tmp_path / "in.txt").write_text("line\n")
    with secured_broker(tmp_path / "certificates") as broker:
        broker.add_user("ann", "of-ann")
        settings = {name: value for name, value in broker.client().items() if name != "bootstrap.servers"}
        with BlockingClient(broker.bootstrap, security=ClientSecurity.from_settings(settings)) as client:
            client.create_topic("lines", 1)
            brokers = Brokers.from_settings(broker.bootstrap, settings)
            store = ConnectorStore(tmp_path / "data", broker.bootstrap)
            worker = Worker(store, lambda spec: LiteRun(spec, lambda _: None), settings, lambda _: None)
            listener = bound_socket(ListenAddress("127.0.0.1", 0))
            service = ConnectService(brokers, worker)
            with running_server(lambda ready: connect_server(listener, service, ready=ready)) as url:
                admin = basic("admin", settings["sasl.password"])
                assert ask(url, "GET", "/connectors")[0] == 401
                assert ask(url, "GET", "/connectors", Authorization=basic("admin", "wrong"))[0] == 401
                status, answer = ask(url, "GET", "/connectors", Authorization=basic("ann", "of-ann"))
                assert (status, answer["message"]) == (
                    403,
                    "User:ann needs the right ALTER on the cluster to drive connectors",
                )
                text = f"from:\n  lines: {{path: {tmp_path}/in.txt}}\nto:\n  topic: {{name: lines}}\n"
                config = {"connector.class": "headrace", "connector.yaml": text}
                body = {"name": "in", "config": config}
                assert ask(url, "POST", "/connectors", body, Authorization=admin)[0] == 201
                path = "/connectors/in/offsets"
                wait_for(lambda: ask(url, "GET", path, Authorization=admin)[1]["offsets"], "the line to be copied")
                assert ask(url, "GET", "/", Authorization=admin)[0] == 200
    files = [file for file in (tmp_path / "data").rglob("*") if file.name in ("connect.json", "in.yml")]
    assert [oct(file.stat().st_mode & 0o777) for file in files] == ["0o600", "0o600"]


def test_listener_beyond_this_machine_needs_tls_and_login(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "headrace.cli", "connect", "serve", "--lite", "--listen", "0.0.0.0:0"]
    environment = {**os.environ, "PYTHONPATH": str(_ROOT / "src")}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2
    assert "Kafka Connect's interface" in " ".join(done.stderr.replace("│", " ").split())
