"""Apache Kafka opens a log directory that contains our strays and does not change them. Headrace lists Kafka's strays.

This decided the layout: Kafka refuses a whole log directory that contains a directory with any other name.
"""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from headrace.storage.dirs.log_dirs import LogDirs, StorageSettings
from headrace.storage.dirs.strays import StrayKind, strays_in
from tests.reference import kafka as reference
from tests.support.logs import NOW_MS, a_batch, append, read_batches

pytestmark = pytest.mark.skipif(not reference.available(), reason="Apache Kafka needs Java 17 (and Maven once)")


def make_strays(log_dir: Path) -> None:
    """A cleanly stopped directory with a log that was set aside and with the bytes that recovery cut from another
    log.
    """
    dirs = LogDirs.open(StorageSettings([log_dir], node_id=1), now_ms=NOW_MS)
    precious = dirs.create("precious", 0, uuid.uuid4())
    append(precious, a_batch(100))
    dirs.set_aside("precious", 0, "a test says so", now_ms=NOW_MS)
    damaged = dirs.create("damaged", 0, uuid.uuid4())
    for _ in range(3):
        append(damaged, a_batch(5))
    second = read_batches(damaged)[0].size_bytes * 2
    dirs.close(clean=False)
    path = log_dir / "damaged-0" / f"{0:020d}.log"
    data = bytearray(path.read_bytes())
    data[second - 1] ^= 1
    path.write_bytes(data)
    dirs = LogDirs.open(StorageSettings([log_dir], node_id=1), now_ms=NOW_MS)
    dirs.delete("damaged", 0)
    dirs.close()
    assert {stray.kind for stray in strays_in(log_dir)} == {StrayKind.LOG, StrayKind.CUT}


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir() if path.suffix in (".log", ".cut", ".json")}


@pytest.mark.parametrize("clean", [True, False], ids=["clean stop", "crash"])
def test_kafka_opens_a_directory_with_strays_and_keeps_them(tmp_path: Path, clean: bool) -> None:
    kafka = reference.ReferenceKafka(tmp_path, heap="256m")
    kafka.format()
    make_strays(kafka.log_dir)
    if not clean:
        (kafka.log_dir / ".kafka_cleanshutdown").unlink()
    before = {stray.path.name: contents(stray.path) for stray in strays_in(kafka.log_dir)}
    with kafka:
        served = AdminClient({"bootstrap.servers": kafka.bootstrap}).list_topics(timeout=30)
        assert not served.topics, "a stray is no topic"
    after = {stray.path.name: contents(stray.path) for stray in strays_in(kafka.log_dir)}
    assert before.keys() == after.keys()
    for name, files in before.items():
        for file, data in files.items():
            assert after[name][file] == data, f"{name}/{file}"
    assert sorted(stray.count_records() for stray in strays_in(kafka.log_dir)) == [5, 100]


def test_a_stray_of_kafka_is_listed_with_its_records(tmp_path: Path) -> None:
    """Kafka, too, sets aside a log that belongs to no topic, in a directory with such a name."""
    kafka = reference.ReferenceKafka(tmp_path, heap="256m")
    kafka.format()
    dirs = LogDirs.open(StorageSettings([kafka.log_dir], node_id=1))
    append(dirs.create("ghost", 0, uuid.uuid4()), a_batch(100))
    dirs.close()
    with kafka:
        pass
    [stray] = strays_in(kafka.log_dir)
    assert (stray.topic, stray.partition, stray.note, stray.count_records()) == ("ghost", 0, None, 100)


def test_kafka_refuses_a_directory_with_another_name(tmp_path: Path) -> None:
    kafka = reference.ReferenceKafka(tmp_path, heap="256m")
    kafka.format()
    (kafka.log_dir / "strays").mkdir()
    with pytest.raises(Exception, match=r"not in the form of topic-partition"), kafka:
        pass
