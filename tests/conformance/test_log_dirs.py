"""A broker with two disks of which one fails: it serves the other disk, and the failed one again after a repair."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from headrace.records.builder import Record, build_batch
from headrace.testing import broker_process
from tests.conformance.test_crashes import produce_code
from tests.reference.kafka import ROOT
from tests.support.clock import wait_for

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")

TOPICS = [f"topic-{number}" for number in range(4)]
BATCH = build_batch([Record(b"k", b"v" * 100)])


def until_all_take(port: int, topics: list[str]) -> None:
    left = list(topics)

    def none_left() -> bool:
        left[:] = [topic for topic in left if produce_code(port, topic, BATCH) != 0]
        return not left

    wait_for(none_left, lambda: f"a broker that accepts records for {left}")


def test_a_failed_disk_takes_only_its_own_partitions_offline(tmp_path: Path) -> None:
    bad, good = tmp_path / "bad", tmp_path / "good"
    bad.mkdir()
    settings = {"log.dirs": f"{bad},{good}", "replica.high.watermark.checkpoint.interval.ms": "100"}
    with broker_process(settings, data_dir=good) as running:
        admin = AdminClient({"bootstrap.servers": running.bootstrap})
        for future in admin.create_topics([NewTopic(topic, 1, 1) for topic in TOPICS]).values():
            future.result(60)
        until_all_take(running.port, TOPICS)
        lost = [topic for topic in TOPICS if (bad / f"{topic}-0").exists()]
        assert len(lost) == 2, "the emptiest directory is chosen"
        # From now on the broker cannot write below the directory.
        subprocess.run(["mount", "-t", "tmpfs", "-o", "ro,size=1m", "tmpfs", str(bad)], check=True)
        try:
            wait_for(lambda: produce_code(running.port, lost[0], BATCH) != 0, "the directory to go offline")
            for topic in TOPICS:
                # KAFKA_STORAGE_ERROR until the controller knows, then NOT_LEADER_OR_FOLLOWER, because the partition has
                # no leader.
                assert produce_code(running.port, topic, BATCH) in ((56, 6) if topic in lost else (0,))
            tool = [str(ROOT / "bin" / "kafka-log-dirs.sh"), "--bootstrap-server", running.bootstrap, "--describe"]
            told = subprocess.run(tool, capture_output=True, text=True, check=True).stdout
            (broker,) = json.loads(told[told.index("{") :])["brokers"]
            errors = {Path(found["logDir"]).name: found["error"] for found in broker["logDirs"]}
            assert errors["bad"] is not None and errors["good"] is None
            admin.create_topics([NewTopic("later", 1, 1)])["later"].result(60)
            until_all_take(running.port, ["later"])
            assert (good / "later-0").exists()
            assert running.stop() == 0
        finally:
            subprocess.run(["umount", str(bad)], check=True)
    assert not (bad / ".kafka_cleanshutdown").exists() and (good / ".kafka_cleanshutdown").exists()
    with broker_process(settings, data_dir=good) as running:
        until_all_take(running.port, TOPICS)
