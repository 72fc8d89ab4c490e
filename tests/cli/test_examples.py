"""Every example in the help works in a shell, in the order of docs/cli.md. The page is up to date."""

from __future__ import annotations

import subprocess
import uuid
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest
from confluent_kafka import Producer

from headrace.cli.support.reference import commands, examples, main
from headrace.testing import RunningBroker, broker
from tests.cli.conftest import environment
from tests.support.logs import NOW_MS, a_batch, append, open_at, open_dirs

# Run elsewhere: a cluster in test_up.py, `top` in test_top.py, a registry in test_schemas.py, what needs Spark in
# tests/pipelines/test_help_examples.py and tests/tables, what needs ZooKeeper in tests/cluster/test_standalone.py, and
# what needs a data directory or an application in test_test_kit.py; `connect` in docs/how-to/kafka-connect.md.
ELSEWHERE = (
    "tables run", "up", "pipeline", "mirror", "demo", "registry", "schemas", "console", "http", "top", "snapshot",
    "chaos", "connect",
)  # fmt: skip
EXAMPLES = [
    (name, example)
    for name, command in commands()
    if not {name, name.split()[0]} & set(ELSEWHERE)
    for example in examples(command)
    if "--zookeeper" not in example
]


# Commands before an example, and what a person types at its questions.
BEFORE = {
    "context use": ["context add local 127.0.0.1:9092"],
    "context rm": ["context add local 127.0.0.1:9092"],
    "acl for-pipeline": ["pipeline init wordcount"],
    **{f"tables {verb}": ["tables create orders"] for verb in ("show", "pause", "resume", "compact", "repair", "drop")},
    "acl rm": ["acl add User:ann READ topic/orders", "acl add User:left-the-company READ topic/orders"],
    "acl role rm": ["acl role add analysts User:bob"],
}
ANSWERS = {"acl rm": "y\n", "acl role rm": "y\n", "security add-user": "sesame\n"}
AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


def test_every_command_has_an_example() -> None:
    without = [name for name, command in commands() if not examples(command)]
    assert without == []


def test_cli_page_is_up_to_date() -> None:
    assert main(["--check"]) == 0


# These change objects of other examples, so each runs alone. The others run in parallel.
ALONE = {"topics create", "topics rm", "topics grow", "groups reset", "groups rm", "transactions end"}


@pytest.fixture(scope="module")
def prepared() -> Iterator[RunningBroker]:
    with broker({"authorizer.class.name": AUTHORIZER, "super.users": "User:ANONYMOUS"}) as running:
        yield running


@pytest.fixture(scope="module")
def together(
    prepared: RunningBroker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Future[subprocess.CompletedProcess[str]]]]:
    for name in ("topics", "groups", "transactions"):
        prepare(prepared, name)
    with ThreadPoolExecutor(3) as pool:
        yield {
            example: pool.submit(run, example, name, prepared.bootstrap, tmp_path_factory.mktemp("home"))
            for name, example in EXAMPLES
            if name not in ALONE
        }


@pytest.mark.parametrize(
    ("name", "example"),
    sorted(EXAMPLES, key=lambda pair: pair[0] in ALONE),  # type: ignore[index]
    ids=lambda text: text,
)
def test_help_example_works(
    prepared: RunningBroker,
    together: dict[str, Future[subprocess.CompletedProcess[str]]],
    tmp_path: Path,
    name: str,
    example: str,
) -> None:
    if name in ALONE:
        prepare(prepared, name)
        done = run(example, name, prepared.bootstrap, tmp_path)
    else:
        done = together[example].result(120)
    assert done.returncode == 0, done.stderr + done.stdout


def run(example: str, name: str, bootstrap: str, home: Path) -> subprocess.CompletedProcess[str]:
    env = environment(home, bootstrap)
    if name.startswith("log "):
        log = open_at(home / "data" / "orders-0")
        append(log, a_batch(3))
        log.close()
    if name.startswith("log strays"):
        dirs = open_dirs(home / "data")
        append(dirs.create("payments", 0, uuid.uuid4()), a_batch(3))
        dirs.set_aside("payments", 0, "a test needs it", now_ms=NOW_MS)
        dirs.close()
    for words in BEFORE.get(name, ()):
        subprocess.run(["headrace", *words.split()], env=env, cwd=home, check=True, capture_output=True)
    if name == "security add-user":
        (home / "admin.password").write_text("sesame\n")
        (home / "admin.password").chmod(0o600)
        (home / "server.properties").write_text("log.dirs=data\n")
    if name == "start":
        # It prints a line when it serves, runs until SIGTERM, and exits with 0.
        stop = "server=$!; until grep -q . out; do sleep 0.1; done; kill $server; wait $server"
        example = f"{example} > out & {stop}"
    return subprocess.run(
        ["bash", "-c", example.replace("localhost:9092", bootstrap)],
        env=env,
        cwd=home,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        input=ANSWERS.get(name),
    )


def prepare(running: RunningBroker, name: str) -> None:
    """Creates the objects of the examples: orders with records, the group billing, the transactional id payments-1."""
    from confluent_kafka import Consumer, TopicPartition
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": running.bootstrap})
    known = admin.list_topics(timeout=60).topics
    wanted = {"orders", "payments"} - set(known)
    if name == "topics create":
        wanted.discard("payments")
        for future in admin.delete_topics(["payments"] if "payments" in known else []).values():
            future.result(60)
    for future in admin.create_topics([NewTopic(topic, 4, 1) for topic in wanted]).values() if wanted else ():
        future.result(60)
    producer = Producer({"bootstrap.servers": running.bootstrap})
    for number in range(3):
        producer.produce("orders", f'{{"amount": {number + 4}}}', key=str(number))
    producer.flush()
    if name.startswith("groups"):
        consumer = Consumer({"bootstrap.servers": running.bootstrap, "group.id": "billing"})
        consumer.commit(offsets=[TopicPartition("orders", 0, 0)], asynchronous=False)
        consumer.close()
    if name.startswith("transactions"):
        sender = Producer({"bootstrap.servers": running.bootstrap, "transactional.id": "payments-1"})
        sender.init_transactions(10)
