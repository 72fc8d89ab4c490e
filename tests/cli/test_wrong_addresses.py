"""Every command with an address without a broker, or a missing topic: an error on stderr that names it, exit code 1,
within seconds. The tables list all commands; a new command without an entry fails.
"""

from __future__ import annotations

import http.server
import json
import os
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from headrace.cli.kafka import TOOLS
from headrace.cli.support.reference import commands
from headrace.net.free_ports import free_port
from headrace.testing import RunningBroker, broker
from tests.cli.conftest import Ran, environment
from tests.support.clock import Stopwatch
from tests.support.programs import Programs
from tests.support.zookeeper import ZooKeeperServer, available

MISSING = "no-such-topic"
# Kafka's tools that connect to brokers, by module: {t} is a topic, {f} a file that names its partition 0.
KAFKA = {
    "acls": "--list",
    "broker_api_versions": "",
    "client_metrics": "--list",
    "cluster": "cluster-id",
    "configs": "--describe --topic {t}",
    "console_consumer": "--topic {t} --from-beginning --timeout-ms 3000",
    "console_share_consumer": "--topic {t} --timeout-ms 1000",
    "console_producer": "--topic {t} --max-block-ms 1000",
    "schema_consoles.avro_console_producer": "--topic {t} --max-block-ms 1000 --reader-property value.schema=x",
    "schema_consoles.avro_console_consumer": "--topic {t} --timeout-ms 1000",
    "schema_consoles.json_schema_console_producer": "--topic {t} --max-block-ms 1000 --reader-property value.schema=x",
    "schema_consoles.json_schema_console_consumer": "--topic {t} --timeout-ms 1000",
    "schema_consoles.protobuf_console_producer": "--topic {t} --max-block-ms 1000 --reader-property value.schema=x",
    "schema_consoles.protobuf_console_consumer": "--topic {t} --timeout-ms 1000",
    "consumer_groups": "--describe --all-groups",
    "consumer_perf": "--topic {t} --num-records 1 --timeout 3000",
    "delegation_tokens": "--describe",
    "delete_records": "--offset-json-file {f}",
    "e2e_latency": "--topic {t} --num-records 1 --producer-acks all --record-size 10",
    "features": "describe",
    "get_offsets": "--topic {t}",
    "groups": "--list",
    "leader_election": "--election-type preferred --topic {t} --partition 0",
    "log_dirs": "--describe --topic-list {t}",
    "producer_perf": "--topic {t} --num-records 2 --record-size 10 --throughput -1",
    "reassign_partitions": "--reassignment-json-file {f} --verify",
    "replica_verification": "--topics-include {t} --once",
    "share_groups": "--list",
    "streams_groups": "--list",
    "topics": "--describe --topic {t}",
    "transactions": "find-hanging --topic {t}",
    "verifiable_consumer": "--topic {t} --group-id g --max-messages 1",
    "verifiable_producer": "--topic {t} --max-messages 1",
}
WITHOUT_BROKERS = {
    "dump_log", "run_class", "server_start", "server_stop", "storage",
    "zookeeper_start", "zookeeper_stop", "zookeeper_shell",
}  # fmt: skip
# Creates its topic, as Kafka's tool does.
CREATES_ITS_TOPIC = {"e2e_latency"}
HEADRACE = {
    "acl ls": "",
    "acl add": "User:ann READ topic/orders",
    "acl rm": "topic/orders --yes",
    "acl explain": "--principal User:ann --operation READ --resource topic/orders",
    "acl for-producer": "orders --principal User:ann --apply",
    "acl for-group": "g orders --principal User:ann --apply",
    "acl role ls": "",
    "acl role add": "analysts User:ann",
    "acl role rm": "analysts User:ann --yes",
    "bench produce": "-n 2",
    "bench consume": "-n 2",
    "bench latency": "-n 2",
    "cluster status": "",
    "cluster brokers": "",
    "cluster disks": "",
    "configs get": "topic/{t}",
    "configs set": "topic/{t} retention.ms=1",
    "configs unset": "topic/{t} retention.ms",
    "consume": "{t}",
    "doctor": "--timeout 5",
    "groups ls": "",
    "groups describe": "g",
    "groups lag": "",
    "groups reset": "g --to end --topic {t} --yes",
    "datagen run": "orders --count 1",
    "groups rm": "g --yes",
    "pipeline ls": "",
    "pipeline status": "",
    "pipeline dlq ls": "",
    "pipeline dlq retry": "{t}",
    "pipeline dlq show": "{t}",
    "pipeline dlq edit": "{t} --offset 0 --value x",
    "pipeline dlq drop": "{t} --yes",
    "produce": "{t} value",
    "quotas ls": "",
    "quotas set": "client-id/c producer_byte_rate=1",
    "quotas unset": "client-id/c producer_byte_rate",
    "sql": "-c SELECT",
    "tables create": "{t}",
    "tables ls": "",
    "topics ls": "",
    "topics describe": "{t}",
    "topics create": "{t}",
    "topics grow": "{t} -p 9 --yes",
    "topics rm": "{t} --yes",
    "topics empty": "{t} --yes",
    "transactions ls": "",
    "transactions describe": "t",
    "transactions end": "t --yes",
}
# They start Spark, or check a pipeline without a cluster. `context add` only stores an address.
ON_SPARK = {
    "demo wordcount", "demo run", "pipeline run", "pipeline check", "pipeline reset", "pipeline replay", "context add",
    "pipeline rename", "pipeline forget",
    # These read a pipeline's files first, run until they are stopped, or need a terminal.
    "acl for-pipeline", "tables show", "tables run", "tables repair", "registry start", "console start", "http start",
    "top", "connect serve",
}  # fmt: skip
CREATES = {"topics create"}


def test_the_tables_hold_every_command() -> None:
    assert {*KAFKA, *WITHOUT_BROKERS} == set(TOOLS.values())
    assert {*HEADRACE, *ON_SPARK} == {
        name for name, command in commands() if any(p.name == "bootstrap" for p in command.params)
    }


class _Prompt(socketserver.BaseRequestHandler):
    """A web server that rejects a request at its first byte."""

    def handle(self) -> None:
        self.request.recv(4096)
        self.request.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")


class _Patient(http.server.BaseHTTPRequestHandler):
    """A web server that waits for a whole line."""

    def do_HEAD(self) -> None:
        self.send_response(200)
        self.end_headers()

    def log_message(self, *args: object) -> None:
        pass


@contextmanager
def serving(handler: type[socketserver.BaseRequestHandler]) -> Iterator[str]:
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_address[1]}"
        server.shutdown()


@pytest.fixture(scope="module")
def web_server() -> Iterator[str]:
    with serving(_Prompt) as address:
        yield address


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if not available():
        pytest.skip("needs Java and a ZooKeeper server")
    with ZooKeeperServer(tmp_path_factory.mktemp("zookeeper")) as server:
        yield server.connect


@pytest.fixture(scope="module")
def dead_port() -> str:
    return f"127.0.0.1:{free_port()}"


@pytest.fixture(scope="module")
def creates_nothing() -> Iterator[RunningBroker]:
    """A broker without automatic topic creation."""
    with broker({"auto.create.topics.enable": "false"}) as started:
        yield started


def run_tool(programs: Programs, directory: Path, tool: str, address: str, topic: str) -> Ran:
    file = directory / "partitions.json"
    entry = {"topic": topic, "partition": 0, "offset": 1, "replicas": [0]}
    file.write_text(json.dumps({"version": 1, "partitions": [entry]}))
    words = KAFKA[tool].format(t=topic, f=file).split()
    # A subcommand comes first, except in tools with options before it.
    head = 1 if tool == "cluster" else 0
    words = [*words[:head], "--bootstrap-server", address, *words[head:]]
    module = f"headrace.cli.kafka_tools.{tool}"
    done = programs.run(module, words, env=os.environ, cwd=directory, stdin=b"a\nb\n", timeout=30)
    return Ran(done.returncode, done.stdout.decode(), done.stderr.decode())


def run_headrace(programs: Programs, directory: Path, command: str, address: str, topic: str) -> Ran:
    words = [*command.split(), *HEADRACE[command].format(t=topic).split()]
    env = environment(directory, address)
    done = programs.run("headrace.cli:main", words, env=env, cwd=directory, timeout=30)
    return Ran(done.returncode, done.stdout.decode(), done.stderr.decode())


def check(ran: Ran, *names: str) -> None:
    said = ran.err
    if not said:
        # The doctor prints its table even if no broker answers.
        said = ran.out
    assert ran.code == 1, ran
    assert "Traceback" not in ran.err, ran.err
    for name in names:
        assert name in said, ran


KINDS = {"dead_port": "nothing listens on", "web_server": "is a web server", "zookeeper": "is a ZooKeeper server"}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("tool", KAFKA)
def test_kafka_tool_names_the_server_at_a_wrong_address(
    tool: str, kind: str, request: pytest.FixtureRequest, programs: Programs, tmp_path: Path
) -> None:
    address: str = request.getfixturevalue(kind)
    watch = Stopwatch()
    ran = run_tool(programs, tmp_path, tool, address, MISSING)
    check(ran, address, KINDS[kind])
    assert ran.out == ""
    watch.at_most(15, because="half of the shortest time-out of a tool that has none of its own")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("command", HEADRACE)
def test_headrace_names_the_server_at_a_wrong_address(
    command: str, kind: str, request: pytest.FixtureRequest, programs: Programs, tmp_path: Path
) -> None:
    address: str = request.getfixturevalue(kind)
    check(run_headrace(programs, tmp_path, command, address, MISSING), address, KINDS[kind])


@pytest.mark.parametrize("tool", ["topics", "console_producer"])
def test_web_server_that_waits_for_a_whole_line_is_recognised(tool: str, programs: Programs, tmp_path: Path) -> None:
    with serving(_Patient) as address:
        check(run_tool(programs, tmp_path, tool, address, MISSING), address, KINDS["web_server"])


@pytest.mark.parametrize("tool", [t for t, words in KAFKA.items() if {"{t}", "{f}"} & set(words.split())])
def test_kafka_tool_names_a_missing_topic(
    tool: str, creates_nothing: RunningBroker, programs: Programs, tmp_path: Path
) -> None:
    if tool in CREATES_ITS_TOPIC:
        assert run_tool(programs, tmp_path, tool, creates_nothing.bootstrap, f"new-{tool}").code == 0
        return
    ran = run_tool(programs, tmp_path, tool, creates_nothing.bootstrap, MISSING)
    # Two of Kafka's own messages do not contain the name.
    nameless = {"get_offsets": "Could not match any", "replica_verification": "No topics found"}
    check(ran, nameless.get(tool, MISSING))
    assert ran.err


@pytest.mark.parametrize("command", [name for name, words in HEADRACE.items() if "{t}" in words])
def test_headrace_names_a_missing_topic(
    command: str, creates_nothing: RunningBroker, programs: Programs, tmp_path: Path
) -> None:
    if command in CREATES:
        assert run_headrace(programs, tmp_path, command, creates_nothing.bootstrap, "new-topic").code == 0
        return
    ran = run_headrace(programs, tmp_path, command, creates_nothing.bootstrap, MISSING)
    check(ran, MISSING)
    assert ran.out == ""


def test_consumer_waits_for_its_topic_and_reads_it_when_it_is_created(
    creates_nothing: RunningBroker, programs: Programs, tmp_path: Path
) -> None:
    from confluent_kafka import Producer
    from confluent_kafka.admin import AdminClient, NewTopic

    def write() -> None:
        admin = AdminClient({"bootstrap.servers": creates_nothing.bootstrap})
        admin.create_topics([NewTopic("late", 1)])["late"].result(10)
        producer = Producer({"bootstrap.servers": creates_nothing.bootstrap})
        producer.produce("late", "hello")
        producer.flush(10)

    writer = threading.Timer(0.5, write)
    writer.start()
    words = ["--topic", "late", "--from-beginning", "--timeout-ms", "20000", "--max-messages", "1"]
    done = programs.run(
        "headrace.cli.kafka_tools.console_consumer",
        ["--bootstrap-server", creates_nothing.bootstrap, *words],
        env=os.environ,
        cwd=tmp_path,
        timeout=40,
    )
    writer.join()
    assert (done.returncode, done.stdout) == (0, b"hello\n"), done
    assert b"topic 'late' does not exist. Waiting for it." in done.stderr


def test_consumer_does_not_create_its_topic(running: RunningBroker, programs: Programs, tmp_path: Path) -> None:
    """The broker has automatic topic creation, but a misspelled topic of a consumer must not create one."""
    ran = run_tool(programs, tmp_path, "console_consumer", running.bootstrap, "typing-error")
    check(ran, "topic 'typing-error' does not exist.")
    assert "typing-error" not in run_tool(programs, tmp_path, "topics", running.bootstrap, ".*").out


def test_producer_reports_that_the_broker_created_its_topic(
    running: RunningBroker, programs: Programs, tmp_path: Path
) -> None:
    ran = run_tool(programs, tmp_path, "console_producer", running.bootstrap, "made-on-request")
    assert (ran.code, ran.err) == (0, "topic 'made-on-request' does not exist. The broker created it now.\n")
