"""A damaged meta.properties is detected and never read as another owner."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from headrace.storage.dirs.checkpoints import CorruptFile
from headrace.storage.dirs.identity import ZOOKEEPER, Identity, StoreOwner, read_identity, write_identity

IDENTITY = Identity(
    1, "niOVuzKLRcCadrykU9cuFw", uuid.UUID(int=7), StoreOwner(ZOOKEEPER, "2026-01-01T00:00:00Z", "h:1/c")
)


def test_every_flipped_bit_is_detected(tmp_path: Path) -> None:
    write_identity(tmp_path, IDENTITY)
    file = tmp_path / "meta.properties"
    data = file.read_bytes()
    noticed = 0
    for position in range(len(data)):
        for bit in range(8):
            changed = bytearray(data)
            changed[position] ^= 1 << bit
            file.write_bytes(changed)
            try:
                found = read_identity(tmp_path)
            except CorruptFile as wrong:
                assert str(file) in str(wrong)
                noticed += 1
            else:
                # The flip is in the comment or in the name of the checksum: the checked lines are intact.
                assert found == IDENTITY
    assert noticed > len(data) * 6


def test_every_truncated_file_is_detected(tmp_path: Path) -> None:
    write_identity(tmp_path, IDENTITY)
    file = tmp_path / "meta.properties"
    data = file.read_bytes().rstrip()
    for length in range(len(data)):
        file.write_bytes(data[:length])
        with pytest.raises(CorruptFile):
            read_identity(tmp_path)
    file.write_bytes(data)
    assert read_identity(tmp_path) == IDENTITY


@pytest.mark.parametrize("text", ["version=1\nnode.id=1\ncluster.id=C\n", "version=0\nbroker.id=1\ncluster.id=C\n"])
def test_files_without_a_checksum_are_accepted(tmp_path: Path, text: str) -> None:
    (tmp_path / "meta.properties").write_text(text)
    found = read_identity(tmp_path)
    assert found is not None and (found.node_id, found.cluster_id, found.home) == (1, "C", None)


def test_error_for_an_edited_file_names_the_line_to_remove(tmp_path: Path) -> None:
    write_identity(tmp_path, IDENTITY)
    file = tmp_path / "meta.properties"
    file.write_text(file.read_text().replace("node.id=1", "node.id=2"))
    with pytest.raises(CorruptFile, match=r"headrace\.checksum does not match \(remove that line if you changed"):
        read_identity(tmp_path)
