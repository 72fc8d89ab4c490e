"""Random damage to a broker's small files, random interruptions of its move to ZooKeeper, then any start: no record is
lost.

test_starts.py enumerates the states. This test searches for states that are missing there."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from headrace.broker.broker import CannotStart
from tests.support.effort import rounds
from tests.support.start_states import LONE_ID, MEMBER_ID, RECORDS, Place, Templates, produce, records
from tests.support.zookeeper import available

pytestmark = [
    pytest.mark.fuzz,
    pytest.mark.skipif(not available(), reason="needs Java and a ZooKeeper server (pyspark carries one)"),
]

RIGHT: Final = {"lone": (True, LONE_ID), "member": (False, MEMBER_ID), "moved": (False, LONE_ID)}


def damage(chance: random.Random, file: Path) -> str:
    data = bytearray(file.read_bytes())
    kind = chance.choice(("flip", "cut", "zeros", "garbage behind", "empty", "gone"))
    at = chance.randrange(len(data)) if data else 0
    if kind == "gone":
        file.unlink()
        return f"{file} {kind}"
    if kind == "flip" and data:
        data[at] ^= 1 << chance.randrange(8)
    elif kind == "cut":
        del data[at:]
    elif kind == "zeros":
        data[at : at + 64] = bytes(len(data[at : at + 64]))
    elif kind == "garbage behind":
        data += chance.randbytes(30)
    else:
        data.clear()
    file.write_bytes(data)
    return f"{file} {kind} at {at}"


def small_files(place: Place) -> list[Path]:
    """Files that name the owner and the topics. (A log whose partition.metadata names another topic is set aside.)"""
    found = [place.data / "meta.properties", *sorted((place.data / ".coordination").glob("[cjs]*"))]
    return [file for file in found if file.exists()]


@pytest.mark.parametrize("seed", range(rounds(short=12, long=400)))
def test_a_broker_with_a_damaged_small_file_refuses_to_start_or_loses_no_record(
    templates: Templates, seed: int
) -> None:
    chance = random.Random(seed)
    place = templates.place()
    template = chance.choice(sorted(RIGHT))
    place.take(template)
    whole = shutil.copytree(place.data, place.directory / "whole")
    what = damage(chance, chance.choice(small_files(place)))
    alone, own_id = RIGHT[template]
    written = RECORDS
    try:
        broker = place.start(alone=chance.random() < 0.5, broker_id=chance.choice((own_id, None, 7)))
    except CannotStart as refusal:
        assert len(str(refusal)) > 20 and "Traceback" not in str(refusal), what
        nodes = place.ensemble.nodes(place.chroot)
        shutil.rmtree(place.data)
        whole.rename(place.data)
        assert nodes.keys() == place.ensemble.nodes(f"/template-{template}").keys(), what
    else:
        alone = broker.broker.config.stands_alone
        written = (*written, b"while it was damaged")
        produce(broker.bootstrap, written[-1])
        assert records(broker.bootstrap) == written, what
        broker.stop()
    broker = place.start(alone=alone, broker_id=own_id)
    produce(broker.bootstrap, b"again")
    assert records(broker.bootstrap) == (*written, b"again"), what
    broker.stop()


@pytest.mark.parametrize("seed", range(rounds(short=3, long=60)))
def test_a_broker_killed_during_its_move_to_zookeeper_keeps_all_records(templates: Templates, seed: int) -> None:
    """SIGKILL at a random moment of the start, repeatedly. Then the start may finish."""
    chance = random.Random(seed)
    place = templates.place()
    place.take("lone")
    command = [sys.executable, "-m", "headrace.cli", "start", "--data", str(place.data), "--listen", "127.0.0.1:0"]
    command += ["--set", f"zookeeper.connect={place.connect}", "--quiet"]
    for _ in range(3):
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as starting:
            try:
                starting.wait(chance.uniform(0.15, 1.0))
            except subprocess.TimeoutExpired:
                starting.kill()
        try:
            place.start(alone=True, broker_id=LONE_ID).stop()
        except CannotStart as refusal:
            assert "half moved" in str(refusal) or "whose topics are in ZooKeeper" in str(refusal)
    broker = place.start(alone=False, broker_id=LONE_ID)
    produce(broker.bootstrap, b"again")
    assert records(broker.bootstrap) == (*RECORDS, b"again")
    broker.stop()
