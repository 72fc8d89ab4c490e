"""Wrong usage of `headrace` and Kafka's tools: one sentence, an exit code, no traceback, within seconds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.testing import RunningBroker
from tests.cli.conftest import Run, environment
from tests.support.programs import Programs

HUGE = "99999999999999999999"
HEADRACE = [
    "topics describe ''", f"topics create big -p {HUGE}", "topics create big -p 10000000", "topics create a/b",
    "topics create x -p two", "topics create x -c novalue", "topics plan --tb-per-day -5", "topics ls --nope", "nope",
    "topics ls -o xml", "topics ls -b host:99999", "topics ls -b no.such.host.invalid:9092 --timeout 2",
    "topics describe \udcff\udcfe", "produce x --file nowhere", "produce x --file folder",
    "produce x --file bad.parquet", "produce x --file bad.csv", "produce x --file list.json -F json",
    "produce x -p 99 v", "produce x \udcff",
    "consume x --where (((", "consume x -F {nope", "consume x --to out.xls", "consume x --to /nowhere/out.csv",
    "consume x -n -1", "groups reset nobody --to end --yes", "groups lag --watch --every 0", "configs get topic/",
    "configs set broker/abc a=b", "quotas set client-id/q producer_byte_rate=fast", "transactions end nope --yes",
    "bench produce -n 0",
    "sql -o xml", "sql -f nowhere", "sql -f folder", "sql -f binary", "sql -c SELEC", "sql -c x -f y",
    "log dump nowhere", "log verify binary", "log dump unreadable", "context use nope",
    "snapshot save folder x", "snapshot save nowhere x", "snapshot load nowhere x", "snapshot load binary x",
    "chaos run nowhere", "chaos run binary", "chaos run list.json",
    "doctor --config folder", "up --brokers 0", "pipeline init unreadable/x", "mirror run binary",
    "start --set security.inter.broker.protocol=SSL", "start --set ssl.client.auth=required",
    "start --set listener.name.plaintext.ssl.keystore.location=k.jks", "start --set cordoned.log.dirs=elsewhere",
    "start --set authorizer.class.name=com.example.Authorizer",
]  # fmt: skip
KAFKA = [
    f"topics --create --topic big --partitions {HUGE}", "topics --describe --topic [", "topics --list --topic (a",
    "topics --create --topic x --replica-assignment a:b", "configs --alter --topic x --add-config-file nowhere",
    "configs --alter --topic x --add-config-file folder", "configs --alter --topic x --add-config-file binary",
    "console_producer --topic x --command-config nowhere", "console_producer --topic x --command-property no.such=1",
    "console_consumer --include (", "console_consumer --topic x --formatter no.such",
    "console_consumer --topic x --formatter-config nowhere", "console_consumer --topic x --offset 5",
    "consumer_groups --reset-offsets --group g --from-file nowhere --execute",
    "consumer_groups --reset-offsets --group g --from-file binary --execute",
    "delete_records --offset-json-file list.json", "delete_records --offset-json-file binary",
    "reassign_partitions --execute --reassignment-json-file folder",
    "get_offsets --topic [", f"get_offsets --time {HUGE}",
    "log_dirs --describe --broker-list a", "features upgrade --feature group.version=99999999999",
    "producer_perf --topic x --num-records 5 --payload-file nowhere --throughput -1",
    "leader_election --election-type preferred --path-to-json-file list.json",
]  # fmt: skip


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, running: RunningBroker, programs: Programs) -> Iterator[Path]:
    """The files of the calls, and the topic x."""
    directory = tmp_path_factory.mktemp("wrong")
    (directory / "folder").mkdir()
    for name, data in {
        "binary": b"\xff\xfe\x00\x80", "bad.parquet": b"PAR1nope", "bad.csv": b"a,b\n1", "list.json": b"[1, 2]"
    }.items():  # fmt: skip
        (directory / name).write_bytes(data)
    # Not a directory, so that even root cannot open a path below it.
    (directory / "unreadable").write_bytes(b"")
    env = environment(directory, running.bootstrap)
    programs.run("headrace.cli:main", ["topics", "create", "x"], env=env, cwd=directory)
    yield directory
    programs.run("headrace.cli:main", ["topics", "rm", "x", "--yes"], env=env, cwd=directory)


def _fails_in_a_sentence(programs: Programs, module: str, words: list[str], env: dict[str, str], cwd: Path) -> int:
    done = programs.run(module, words, env=env, cwd=cwd, timeout=60)
    err = done.stderr.decode()
    assert "Traceback" not in err, err
    assert err.strip()
    return done.returncode


@pytest.mark.parametrize("line", HEADRACE, ids=ascii)
def test_headrace_explains_wrong_usage(line: str, place: Path, running: RunningBroker, programs: Programs) -> None:
    words = [word.strip("'") for word in line.split(" ")]
    env = environment(place, running.bootstrap)
    assert _fails_in_a_sentence(programs, "headrace.cli:main", words, env, place) in (1, 2)


@pytest.mark.parametrize("line", KAFKA)
def test_kafka_tools_explain_wrong_usage(line: str, place: Path, running: RunningBroker, programs: Programs) -> None:
    tool, *words = line.split(" ")
    words = ["--bootstrap-server", running.bootstrap, *words]
    env = environment(place, running.bootstrap)
    assert _fails_in_a_sentence(programs, f"headrace.cli.kafka_tools.{tool}", words, env, place) == 1


def test_file_that_is_not_text_is_reported_with_its_first_invalid_byte(headrace: Run, tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00\x80")
    ran = headrace("mirror", "run", "binary")
    assert (ran.code, "0xff" in ran.err) == (1, True), ran.err
