"""Offsets of a stopped connector are those that its target has, and a person who moves it loses no other rows."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.pipelines.connect.connector_offsets import alter, offsets_of
from headrace.pipelines.connectors.connector import ConnectorSpec, load_connector
from headrace.pipelines.errors import OptionError
from headrace.pipelines.flows.checkpoint import Checkpoint
from headrace.pipelines.lite.batch_log import BatchLog


@pytest.fixture
def spec(tmp_path: Path) -> ConnectorSpec:
    """A connector that was stopped in its third batch."""
    file = tmp_path / "c.yml"
    file.write_text(f"bootstrap: 127.0.0.1:1\nstorage: {tmp_path / 'storage'}\nfrom: {{topic: t}}\nto: {{topic: u}}\n")
    loaded = load_connector(file)
    log = BatchLog(loaded.checkpoint)
    for zero, one in ((0, 0), (4, 5)):
        log.finish(log.begin({"t": {"0": zero, "1": one}}))
    log.begin({"t": {"0": 8, "1": 9}})
    return loaded


def entry(partition: int, offset: int) -> dict[str, object]:
    place = {"kafka_topic": "t", "kafka_partition": partition}
    return {"partition": place, "offset": {"kafka_offset": offset}}


def test_rows_of_an_unfinished_batch_are_not_read_yet(spec: ConnectorSpec) -> None:
    assert offsets_of(spec) == [entry(0, 4), entry(1, 5)]
    BatchLog(spec.checkpoint).finish(2)
    assert offsets_of(spec) == [entry(0, 8), entry(1, 9)]


def test_partitions_that_are_not_altered_keep_the_rows_of_an_unfinished_batch(spec: ConnectorSpec) -> None:
    checkpoint = Checkpoint(spec.checkpoint)
    with pytest.raises(OptionError, match=r"batch 2 is not finished.*t-1"):
        alter(spec, [entry(0, 6)])
    assert (checkpoint.last_batch(), checkpoint.is_unfinished()) == (2, True)
    alter(spec, [entry(0, 6), entry(1, 5)])
    assert checkpoint.offsets() == [{"t": {"0": 6, "1": 5}}]
    assert not checkpoint.is_unfinished()
    alter(spec, [entry(0, 7)])
    assert checkpoint.offsets() == [{"t": {"0": 7, "1": 5}}]
