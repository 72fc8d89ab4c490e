"""Pipelines run with the rights that `headrace acl for-pipeline` prints for them, and need each of them.

The broker has TLS, SCRAM logins and an authorizer. A run and a restart with new rows must write their rows, publish
progress, note the topics that they read and commit offsets without one denied request, and must use every right.
The long effort removes the rights one at a time: then something of that is missing. Some rights are needed only by
the restart, because the first run finds no ledger to read.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from headrace.cli.facts.pipeline_rights import rights_of_mirror, rights_of_pipeline
from headrace.cli.facts.pipeline_topics import is_mirror
from headrace.client.acls import create_acls
from headrace.client.blocking.client import LATEST, BlockingClient
from headrace.client.blocking.fetch import FetchSettings, fetched_records
from headrace.client.cluster_client import ClusterClient
from headrace.client.security import ClientSecurity
from headrace.handlers.dispatch.audit import Audit
from headrace.kernel.errors import Fault
from headrace.pipelines.brokers import as_options
from headrace.pipelines.connectors.connector import load_pipeline, pipeline_run
from headrace.pipelines.connectors.databases import Database
from headrace.pipelines.connectors.mirror import load_mirror, mirror_run
from headrace.pipelines.errors import PipelineError
from headrace.pipelines.sink.ledger import LEDGER_TOPIC
from headrace.pipelines.source.stream_state import NOTES_TOPIC
from headrace.records.builder import Record
from headrace.security.acl import least_rights
from headrace.security.acl.authorizer import Authorizer, Decision
from headrace.security.acl.least_rights import Right
from headrace.security.acl.model import Operation, ResourceType
from headrace.testing.secured import SecuredBroker, make_certificates, secured_broker
from tests.pipelines.conftest import Cluster
from tests.pipelines.test_sink import values_of
from tests.support.clock import wait_for
from tests.support.effort import is_long
from tests.support.names import unique

# The sink looks for a ledger of earlier versions. Without the right it goes on without one.
OLD_LEDGERS = "headrace-sink."
INTERNAL = ("__pipelines", NOTES_TOPIC, LEDGER_TOPIC)


@dataclass
class Watched:
    """A secured broker, what its authorizer allowed by which ACL, and what it denied."""

    broker: SecuredBroker
    cluster: Cluster
    used: set[tuple[str, Right]] = field(default_factory=set)
    denied: set[tuple[str, str, str, str]] = field(default_factory=set)

    def user(self) -> str:
        name = unique("user")
        self.broker.add_user(name, "secret")
        return name

    def login(self, user: str) -> dict[str, str]:
        given = self.broker.client(user)
        return {name: value for name, value in given.items() if name != "bootstrap.servers"}

    def grant(self, user: str, rights: list[Right]) -> None:
        async def create() -> None:
            security = ClientSecurity.from_settings(self.login("admin"))
            client = ClusterClient(self.broker.bootstrap, security=security)
            try:
                await create_acls(client, least_rights.acls(rights, f"User:{user}"))
            finally:
                await client.close()

        self.broker.run(create())


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    certificates = tmp_path_factory.mktemp("secured") / "setup"
    make_certificates(certificates)
    patch = pytest.MonkeyPatch()
    with secured_broker(certificates) as broker:
        security = ClientSecurity.from_settings({k: v for k, v in broker.client().items() if k != "bootstrap.servers"})
        with BlockingClient(broker.bootstrap, security=security) as client:
            found = Watched(broker, Cluster("headrace", broker.bootstrap, client))
            _watch(found, patch)
            yield found
    patch.undo()


def _watch(found: Watched, patch: pytest.MonkeyPatch) -> None:
    decide, decided = Authorizer.decide, Audit.decided

    def watched_decide(self: Authorizer, principal: str, *asked: Any) -> Decision:
        decision = decide(self, principal, *asked)
        if decision.acl is not None and decision.allowed:
            found.used.add((principal, (decision.acl.pattern, decision.acl.entry.operation)))
        return decision

    def watched_decided(
        self: Audit, decision: Decision, principal: str, host: str, operation: Operation, kind: ResourceType,
        name: str, api_key: int,
    ) -> None:  # fmt: skip
        if not decision.allowed and not name.startswith(OLD_LEDGERS):
            found.denied.add((principal, operation.name, kind.name, name))
        decided(self, decision, principal, host, operation, kind, name, api_key)

    patch.setattr(Authorizer, "decide", watched_decide)
    patch.setattr(Audit, "decided", watched_decided)


@dataclass
class Subject:
    """A pipeline, connector or mirror that runs, and runs again with new rows. `grants`: a user and its rights for each
    cluster. `reads`: the topics that it must note. `wanted`: the values that must arrive in topics."""

    grants: list[tuple[str, list[Right]]]
    runs: Sequence[Callable[[], None]]
    reports: list[str]
    reads: list[str]
    wanted: dict[str, dict[bytes, int]]


def kafka_block(settings: dict[str, str], indent: str) -> str:
    return "".join(f"{indent}{name}: '{value}'\n" for name, value in settings.items())


def run_of(file: Path, spark: Any, reports: list[str]) -> None:
    if is_mirror(file):
        run = mirror_run(load_mirror(file), spark, once=True, report=reports.append)
    else:
        run = pipeline_run(file, load_pipeline(file), spark, once=True, report=reports.append)
    run.start()
    run.supervise()


def connector(watched: Watched, spark: Any, directory: Path) -> Subject:
    """Topic to topic, with a row that cannot be decoded."""
    user, name = watched.user(), unique("copy")
    source, target = watched.cluster.topic(), unique("target")
    watched.cluster.write(source, [Record(None, b'{"id": 1}', timestamp_ms=1), Record(None, b"?", timestamp_ms=2)])
    file = directory / f"{name}.yml"
    file.write_text(
        f"bootstrap: {watched.broker.bootstrap}\nkafka:\n{kafka_block(watched.login(user), '  ')}"
        f"from:\n  topic: {{name: {source}, schema: id int}}\nto:\n  topic: {{name: {target}}}\n"
    )
    wanted = {target: {b'{"id":1}': 1, b'{"id":2}': 1}, f"{source}.dlq": {b"?": 1}}
    second = [Record(None, b'{"id": 2}', timestamp_ms=3)]
    return _subject(file, spark, [user], [source], wanted, lambda: watched.cluster.write(source, second))


def mirror(watched: Watched, spark: Any, directory: Path) -> Subject:
    """Two users: one in the source, one in the target. Both clusters are this broker."""
    reader, writer, name = watched.user(), watched.user(), unique("mirror")
    source = watched.cluster.topic()
    watched.cluster.write(source, [Record(b"k", b"mirrored", timestamp_ms=1)])
    sides = "".join(
        f"{side}:\n  bootstrap: {watched.broker.bootstrap}\n{kafka_block(watched.login(user), '  ')}"
        for side, user in (("source", reader), ("target", writer))
    )
    file = directory / f"{name}.yml"
    file.write_text(f"{sides}topics: '{source}'\nrename: '{name}.{{topic}}'\n")
    wanted = {f"{name}.{source}": {b"mirrored": 1, b"later": 1}}
    second = [Record(b"k", b"later", timestamp_ms=2)]
    return _subject(file, spark, [reader, writer], [source], wanted, lambda: watched.cluster.write(source, second))


def changes(watched: Watched, spark: Any, directory: Path) -> Subject:
    """Change data capture of an SQLite table into a topic."""
    user, name, target = watched.user(), unique("changes"), unique("target")
    url = f"sqlite:///{directory / name}.db"
    with Database(url).connect() as connection:
        connection.execute("CREATE TABLE accounts (id INTEGER PRIMARY KEY, name TEXT)")
    file = directory / f"{name}.yml"
    file.write_text(
        f"bootstrap: {watched.broker.bootstrap}\nkafka:\n{kafka_block(watched.login(user), '  ')}"
        f"from:\n  cdc: {{url: '{url}', tables: [accounts]}}\nselect: SELECT op AS value FROM source\n"
        f"to:\n  topic: {{name: {target}}}\n"
    )

    def insert() -> None:
        with Database(url).connect() as connection:
            connection.execute("INSERT INTO accounts (name) VALUES ('ann')")

    # The first run only begins to capture.
    return _subject(file, spark, [user], [], {target: {b"insert": 2}}, insert, insert)


def directory_pipeline(watched: Watched, spark: Any, directory: Path) -> Subject:
    """A pipeline of Python files: one flow appends, one aggregates."""
    user, name, target = watched.user(), unique("files"), unique("target")
    source = watched.cluster.topic()
    watched.cluster.write(source, [Record(b"k", b"x", timestamp_ms=1)])
    place = directory / name
    (place / "transformations").mkdir(parents=True)
    settings = {f"headrace.kafka.{key}": value for key, value in watched.login(user).items()}
    (place / "spark-pipeline.yml").write_text(
        f"name: {name}\nstorage: {place}/storage\nconfiguration:\n"
        f"  headrace.bootstrap.servers: '{watched.broker.bootstrap}'\n{kafka_block(settings, '  ')}"
        "libraries:\n  - glob:\n      include: transformations/**\n"
    )
    (place / "transformations" / "flows.py").write_text(_FLOWS.format(source=source, target=target))
    wanted = {f"{target}-copied": {b"x": 2}, f"{target}-counted": {b"1": 1, b"2": 1}}
    second = [Record(b"k", b"x", timestamp_ms=2)]
    return _subject(place, spark, [user], [source], wanted, lambda: watched.cluster.write(source, second))


_FLOWS = """from pyspark import pipelines as dp
from pyspark.sql import SparkSession

from headrace.pipelines.brokers import broker_options

spark = SparkSession.active()
BROKERS = broker_options(spark)
dp.create_sink("copied", "headrace", {{**BROKERS, "topic": "{target}-copied"}})
dp.create_sink("counted", "headrace", {{**BROKERS, "topic": "{target}-counted"}})


def rows():
    stream = spark.readStream.format("headrace").options(**BROKERS)
    return stream.option("subscribe", "{source}").option("startingOffsets", "earliest").load()


@dp.append_flow(target="copied")
def copy():
    return rows().select("value")


@dp.append_flow(target="counted")
def count():
    return rows().groupBy("key").count().selectExpr("key", "string(count) AS value")
"""


def _subject(
    place: Path,
    spark: Any,
    users: list[str],
    reads: list[str],
    wanted: dict[str, dict[bytes, int]],
    *between_runs: Callable[[], None],
) -> Subject:
    parts = (
        rights_of_mirror(place, frozenset())
        if is_mirror(place)
        else rights_of_pipeline(place, frozenset(), frozenset())
    )
    reports: list[str] = []

    def again(prepare: Callable[[], None]) -> None:
        prepare()
        run_of(place, spark, reports)

    runs = [partial(again, prepare) for prepare in (lambda: None, *between_runs)]

    grants = [(user, part.rights) for user, part in zip(users, parts, strict=True)]
    return Subject(grants, runs, reports, reads, wanted)


def exactly_once_sink(watched: Watched, spark: Any, directory: Path) -> Subject:
    """The sink in a query of Spark, without a pipeline: rights of the sink only."""
    user, name, target = watched.user(), unique("sink"), unique("target")
    options = {
        **as_options(watched.broker.bootstrap, watched.login(user)),
        "topic": target,
        "transactionalIdPrefix": name,
    }
    rows = directory / f"{name}-rows"
    rows.mkdir()

    def run_with(text: str) -> None:
        (rows / f"{text}.txt").write_text(f"{text}\n")
        stream = spark.readStream.format("text").load(str(rows)).writeStream.format("headrace").options(**options)
        query = stream.option("checkpointLocation", str(directory / f"{name}-c")).trigger(availableNow=True).start()
        try:
            query.awaitTermination()
        except Exception as error:
            # Spark raises its own and py4j's errors.
            raise PipelineError(str(error)) from error

    rights = least_rights.of_sink([target], [f"{name}-"])
    return Subject(
        [(user, rights)], [partial(run_with, text) for text in ("one", "two")], [], [], {target: {b"one": 1, b"two": 1}}
    )


SUBJECTS = [connector, mirror, changes, directory_pipeline, exactly_once_sink]
Make = Callable[[Watched, Any, Path], Subject]


def remove_internal_topics(watched: Watched) -> None:
    """Otherwise only the first subject would need the right to create them."""
    for topic in INTERNAL:
        if topic in watched.cluster.client.topics([topic]):
            watched.cluster.delete_topic(topic)
    wait_for(lambda: not watched.cluster.client.topics(INTERNAL), "the topics are deleted")


def problems(watched: Watched, subject: Subject, output: pytest.CaptureFixture[str]) -> list[str]:
    """What is missing after the runs, or after the first one that has a problem."""
    found: list[str] = []
    output.readouterr()
    for run in subject.runs:
        try:
            run()
        except (PipelineError, Fault) as error:
            # A Fault is an answer of a broker; commands print both as one sentence.
            found.append(str(error))
        found += [line for line in (*subject.reports, *output.readouterr().err.splitlines()) if "cannot be" in line]
        found += [f"no note of {topic}" for topic in subject.reads if topic not in noted_topics(watched)]
        if found:
            return found
    client = watched.cluster.client
    for topic, values in subject.wanted.items():
        if topic not in client.topics([topic]) or values_of(watched.cluster, topic) != values:
            found.append(f"{topic} lacks its rows")
    return found


def noted_topics(watched: Watched) -> set[str]:
    """The topics in notes of the source. Without the notes a query does not notice that a topic was created again while
    the query was stopped."""
    client = watched.cluster.client
    if NOTES_TOPIC not in client.topics([NOTES_TOPIC]):
        return set()
    notes = NOTES_TOPIC, 0
    end = client.list_offsets({notes: LATEST})[notes]
    return {
        json.loads(record.key or b"")["topic"] for record in fetched_records(client, notes, 0, end, FetchSettings())
    }


@pytest.mark.parametrize("make", SUBJECTS)
def test_a_pipeline_uses_exactly_the_rights_that_are_printed_for_it(
    watched: Watched, spark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], make: Make
) -> None:
    remove_internal_topics(watched)
    subject = make(watched, spark, tmp_path)
    for user, rights in subject.grants:
        watched.grant(user, rights)
    assert problems(watched, subject, capsys) == []
    assert denied(watched, subject) == set()
    granted = {(f"User:{user}", right) for user, rights in subject.grants for right in rights}
    assert granted - watched.used == set(), "rights that were printed and not used"


@pytest.mark.skipif(not is_long(), reason="one run of Spark for each right: HEADRACE_EFFORT=long")
@pytest.mark.parametrize("make", SUBJECTS)
def test_a_pipeline_fails_without_any_one_of_its_rights(
    watched: Watched, spark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], make: Make
) -> None:
    for number in itertools.count():
        remove_internal_topics(watched)
        subject = make(watched, spark, tmp_path)
        rights = [(user, right) for user, granted in subject.grants for right in granted]
        if number == len(rights):
            return
        for user, granted in subject.grants:
            watched.grant(user, [right for right in granted if (user, right) != rights[number]])
        assert problems(watched, subject, capsys), f"nothing is missing without {rights[number]}"


def denied(watched: Watched, subject: Subject) -> set[tuple[str, str, str, str]]:
    users = {f"User:{user}" for user, _ in subject.grants}
    return {one for one in watched.denied if one[0] in users}
