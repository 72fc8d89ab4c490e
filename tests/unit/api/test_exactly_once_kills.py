"""A copy in transactions is complete and has no doubles, although its process is killed with SIGKILL."""

from __future__ import annotations

import subprocess
import sys

import headrace
from headrace.testing.in_process import broker
from tests.support.clock import wait_for
from tests.support.effort import is_long

RECORDS = 3000
COPIER = """
import sys, headrace
cluster = headrace.connect(sys.argv[1], settings={"log_level": 0})
source, target = cluster.topic("source", str), cluster.topic("target", str)
with cluster.transactions("copy") as transactions, source.read(group="c", guarantee="exactly-once", idle=3) as reader:
    for batch in reader.batches():
        for at in range(0, len(batch), 20):
            with transactions.begin(reader) as transaction:
                for record in batch[at : at + 20]:
                    transaction.send(target, record.value)
                    reader.done(record)
"""


def test_a_killed_copy_continues_without_loss_and_without_doubles() -> None:
    with broker() as running, headrace.connect(running.bootstrap, settings={"log_level": 0}) as cluster:
        for name in ("source", "target"):
            cluster.topics.create(name)
        source, target = cluster.topic("source", str), cluster.topic("target", str)
        source.send_all(str(number) for number in range(RECORDS))

        def end_offset() -> int:
            log = running.broker.log_dirs.log("target", 0)
            return 0 if log is None else log.log_end_offset

        def start() -> subprocess.Popen[bytes]:
            return subprocess.Popen([sys.executable, "-c", COPIER, running.bootstrap])

        for _ in range(4 if is_long() else 2):
            before = end_offset()
            copier = start()
            wait_for(lambda before=before: end_offset() > before + 50, "the copier to write")
            assert copier.poll() is None, "killed in the middle of its work"
            copier.kill()
            copier.wait(30)
            running.clock.advance(seconds=61)  # its transaction and its session are over
        assert start().wait(120) == 0
        read = target.read(group="check", guarantee="exactly-once", idle=1)
        copied = sorted(int(record.value or "") for record in read)
    assert copied == list(range(RECORDS))
