"""Commands name a batch with unreadable records, and `headrace log skip` replaces it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from headrace.records.compression import Codec
from headrace.testing import RunningBroker
from tests.cli.conftest import Run
from tests.differential.data_variants import produce_body
from tests.differential.servers import Server
from tests.support.logs import a_batch, append, open_at
from tests.support.unreadable_batches import Damage, unreadable_batch


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Offsets 0 and 1, an unreadable batch of 2 to 4, 5 and 6, another of 7 to 9, 10 and 11."""
    log = open_at(tmp_path / "data" / "orders-0")
    for batch in (
        a_batch(2),
        unreadable_batch(Codec.ZSTD, Damage.GARBAGE),
        a_batch(2),
        unreadable_batch(Codec.LZ4, Damage.NOISE),
        a_batch(2),
    ):
        append(log, batch)
    log.close()
    return tmp_path / "data"


def offsets_in(headrace: Run, data: Path) -> list[int]:
    dumped = headrace("log", "dump", str(data), "--records", "-o", "json")
    return [row["offset"] for row in dumped.json["orders-0"]["batches"]]


def test_verify_and_recover_name_the_same_batches_and_recover_cuts_nothing(headrace: Run, data: Path) -> None:
    verified = headrace("log", "verify", str(data), "-o", "json")
    recovered = headrace("log", "recover", str(data), "--yes", "-o", "json")
    assert (verified.code, recovered.code) == (1, 1)
    problems = [problem["what"] for problem in verified.json[0]["problems"]]
    assert ["offsets 2 to 4" in problems[0], "offsets 7 to 9" in problems[1], len(problems)] == [True, True, 2]
    (row,) = recovered.json
    assert (row["cut"], row["end_offset"]) == ("nothing", 12)
    assert "offsets 2 to 4" in row["unreadable"] and "offsets 7 to 9" in row["unreadable"]
    assert f"headrace log skip {data}" in recovered.err
    assert offsets_in(headrace, data) == [0, 1, 5, 6, 10, 11]


def test_dry_run_reports_the_loss_and_changes_nothing(headrace: Run, data: Path) -> None:
    before = {path: path.read_bytes() for path in data.rglob("*") if path.is_file()}
    shown = headrace("log", "skip", str(data), "--dry-run", "-o", "json")
    assert shown.code == 0
    lost = [(row["partition"], row["first_offset"], row["last_offset"], row["records"]) for row in shown.json]
    assert lost == [("orders-0", 2, 4, 3), ("orders-0", 7, 9, 3)]
    assert {path: path.read_bytes() for path in data.rglob("*") if path.is_file()} == before


def test_one_batch_is_replaced_and_its_bytes_are_kept(headrace: Run, data: Path) -> None:
    skipped = headrace("log", "skip", str(data / "orders-0"), "--offset", "3", "--yes")
    assert skipped.code == 0 and "orders-0: replaced 1 batch; the bytes are kept in " in skipped.err
    problems = headrace("log", "verify", str(data / "orders-0"), "-o", "json").json[0]["problems"]
    assert ["offsets 7 to 9" in problem["what"] for problem in problems] == [True]
    (stray,) = headrace("log", "strays", "ls", str(data), "-o", "json").json
    assert (stray["topic"], stray["first_offset"], stray["last_offset"], stray["records"]) == ("orders", 2, 4, 3)


def test_all_unreadable_batches_of_a_directory_are_replaced_and_verify_and_recover_agree(
    headrace: Run, data: Path
) -> None:
    shutil.copytree(data / "orders-0", data / "orders-1")
    assert headrace("log", "skip", str(data), "--yes").code == 0
    assert headrace("log", "verify", str(data)).code == 0
    recovered = headrace("log", "recover", str(data), "--yes", "-o", "json")
    assert recovered.code == 0
    assert {(row["cut"], row["unreadable"], row["end_offset"]) for row in recovered.json} == {
        ("nothing", "nothing", 12)
    }
    assert offsets_in(headrace, data) == [0, 1, 5, 6, 10, 11]
    again = headrace("log", "skip", str(data), "--yes")
    assert again.code == 0 and "no unreadable batches" in again.out


def test_without_yes_the_command_asks(headrace: Run, data: Path) -> None:
    refused = headrace("log", "skip", str(data), stdin="n\n")
    assert refused.code == 1 and "Replace 2 batches with 6 records by empty ones?" in refused.out + refused.err
    assert headrace("log", "verify", str(data)).code == 1
    assert headrace("log", "skip", str(data), stdin="y\n").code == 0
    assert headrace("log", "verify", str(data)).code == 0


def test_readable_batch_is_never_replaced(headrace: Run, data: Path) -> None:
    refused = headrace("log", "skip", str(data / "orders-0"), "--offset", "5", "--yes")
    assert refused.code == 1 and "--offset 5: no unreadable batch" in refused.err
    assert offsets_in(headrace, data) == [0, 1, 5, 6, 10, 11]


def test_log_with_other_damage_must_be_recovered_first(headrace: Run, data: Path) -> None:
    segment = next((data / "orders-0").glob("*.log"))
    with segment.open("ab") as file:
        file.write(b"torn")
    refused = headrace("log", "skip", str(data), "--yes")
    assert refused.code == 1 and f"run headrace log recover {data / 'orders-0'} first" in refused.err
    assert headrace("log", "recover", str(data), "--yes").code == 1  # the unreadable batches stay
    assert headrace("log", "skip", str(data), "--yes").code == 0


def test_log_of_a_running_broker_is_not_changed(headrace: Run, running: RunningBroker, topic: str) -> None:
    assert headrace("produce", topic, "-p", "0", "a value").code == 0
    refused = headrace("log", "skip", str(running.data_dir), "--yes")
    assert refused.code == 1 and "is in use by headrace broker" in refused.err


@pytest.mark.parametrize("damage", [Damage.GARBAGE, Damage.NOISE])
def test_consume_names_the_unreadable_batch_and_the_remedy(
    headrace: Run, running: RunningBroker, topic: str, damage: Damage
) -> None:
    server = Server("headrace", running.port)
    for batch in (bytes(a_batch(2)), unreadable_batch(Codec.GZIP, damage), bytes(a_batch(2))):
        server.ask(0, 9, produce_body(1, batch, topic=topic))
    read = headrace("consume", topic, "-F", "%o\\n")
    assert (read.code, read.out) == (1, "0\n1\n")
    assert f"{topic}-1: the batch of offsets 2 to 4 cannot be read: " in read.err
    assert f"headrace log skip LOG_DIR/{topic}-1 --offset 2" in read.err
    behind = headrace("consume", topic, "--partition", "1", "--from", "5", "-F", "%o\\n")
    assert (behind.code, behind.out) == (0, "5\n6\n")
