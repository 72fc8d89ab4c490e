"""Tools reject a wrong JSON file with its name, the field and the value."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headrace.cli.kafka_tools.reassign_partitions import read_plan
from headrace.cli.kafka_tools.support.json_files import partitions, topic_partition, whole_number
from headrace.cli.kafka_tools.support.tool import ToolFailed
from headrace.kernel.ids import TopicPartition


def written(path: Path, *entries: object) -> str:
    path.write_text(json.dumps({"version": 1, "partitions": entries}))
    return str(path)


def test_partitions_may_be_written_as_numbers_or_as_text(tmp_path: Path) -> None:
    path = written(tmp_path / "a.json", {"topic": "orders", "partition": 3}, {"topic": "orders", "partition": "4"})
    found = [topic_partition(path, entry) for entry in partitions(path, "topic", "partition")]
    assert found == [TopicPartition("orders", 3), TopicPartition("orders", 4)]


@pytest.mark.parametrize("value", [[0], None, "first", {"number": 1}, 1.5])
def test_value_that_is_not_an_integer_is_refused(value: object) -> None:
    with pytest.raises(ToolFailed, match=r"plan.json: partition must be a whole number, not "):
        whole_number("plan.json", "partition", value)


@pytest.mark.parametrize("replicas", [3, "1,2", {"1": 2}])
def test_replicas_that_are_not_a_list_are_refused(replicas: object, tmp_path: Path) -> None:
    path = written(tmp_path / "plan.json", {"topic": "orders", "partition": 0, "replicas": replicas})
    with pytest.raises(ToolFailed, match=r"replicas of orders-0 must be a list of broker ids, not "):
        read_plan(path)
