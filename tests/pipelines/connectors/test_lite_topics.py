"""Topics that lose records or are created again, read without Spark."""

from __future__ import annotations

import pytest

from headrace.client.blocking.client import LATEST
from headrace.client.blocking.fetch import FetchSettings, fetched_records
from headrace.pipelines.connect import connector_offsets
from headrace.pipelines.errors import PipelineError
from headrace.pipelines.flows.reset import reset
from headrace.pipelines.lite.topic_target import TopicTarget
from headrace.pipelines.source.stream_state import StreamNotes
from headrace.records.builder import Record
from tests.pipelines.conftest import Cluster
from tests.pipelines.connectors.conftest import Connect


def copy_of(source: str, target: str, *, fail_on_data_loss: bool = True) -> str:
    options = "" if fail_on_data_loss else ", options: {failOnDataLoss: 'false'}"
    select = "select: SELECT key, value FROM source\n"
    return f"from:\n  topic: {{name: {source}{options}}}\n{select}to:\n  topic: {{name: {target}}}\n"


def send(cluster: Cluster, topic: str, *values: str) -> None:
    cluster.write(topic, [Record(b"k", value.encode(), timestamp_ms=1_700_000_000_000) for value in values])


def values_of(cluster: Cluster, topic: str) -> list[str]:
    end = cluster.client.list_offsets({(topic, 0): LATEST})[(topic, 0)]
    found = fetched_records(cluster.client, (topic, 0), 0, end, FetchSettings(isolation=1, stall_timeout_s=10))
    return [(record.value or b"").decode() for record in found]


def create_again(cluster: Cluster, topic: str) -> None:
    cluster.delete_topic(topic)
    while topic in cluster.client.topics([topic]):
        pass
    cluster.client.create_topic(topic, 1, configs={"retention.ms": "-1"})


@pytest.fixture
def source(headrace: Cluster) -> str:
    return headrace.topic()


@pytest.fixture
def target(headrace: Cluster) -> str:
    return headrace.topic()


def test_a_longer_topic_of_the_same_name_stops_the_connector(
    headrace: Cluster, connect: Connect, source: str, target: str
) -> None:
    send(headrace, source, "old0", "old1", "old2")
    text = copy_of(source, target)
    spec = connect(text).spec.pipeline()
    create_again(headrace, source)
    send(headrace, source, "new0", "new1", "new2", "new3", "new4")
    for _ in range(2):
        with pytest.raises(PipelineError, match=f"topic '{source}' was deleted and created again"):
            connect(text)
    assert values_of(headrace, target) == ["old0", "old1", "old2"]
    reset(spec, "earliest", flow=None, bootstrap=None)
    connect(text)
    assert values_of(headrace, target)[3:] == ["new0", "new1", "new2", "new3", "new4"]


def test_altered_offsets_are_those_of_the_topic_that_is_there_now(
    headrace: Cluster, connect: Connect, source: str, target: str
) -> None:
    send(headrace, source, "old0", "old1", "old2")
    text = copy_of(source, target)
    spec = connect(text).spec
    create_again(headrace, source)
    send(headrace, source, "new0", "new1", "new2", "new3", "new4")
    place = {"kafka_topic": source, "kafka_partition": 0}
    connector_offsets.alter(spec, [{"partition": place, "offset": {"kafka_offset": 1}}])
    connect(text)
    assert values_of(headrace, target)[3:] == ["new1", "new2", "new3", "new4"]


@pytest.mark.parametrize("count", [2, 5])
def test_a_new_topic_is_read_from_its_beginning_without_fail_on_data_loss(
    headrace: Cluster, connect: Connect, source: str, target: str, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    send(headrace, source, "old0", "old1", "old2")
    text = copy_of(source, target, fail_on_data_loss=False)
    connect(text)
    create_again(headrace, source)
    new = [f"new{number}" for number in range(count)]
    send(headrace, source, *new)

    def dies(*_: object) -> int:
        raise KeyboardInterrupt

    # The run dies in the batch that begins again: the next one repeats exactly this batch.
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(TopicTarget, "_send", dies)
        connect(text)
    connect(text)
    assert values_of(headrace, target) == ["old0", "old1", "old2", *new]
    send(headrace, source, "last")
    connect(text)
    assert values_of(headrace, target)[3:] == [*new, "last"]


def test_records_that_retention_removed_stop_the_connector_or_are_counted(
    headrace: Cluster, connect: Connect, source: str, target: str
) -> None:
    send(headrace, source, "a", "b")
    connect(copy_of(source, target))
    send(headrace, source, "c", "d", "e")
    headrace.delete_records(source, 0, 4)
    with pytest.raises(PipelineError, match="records are lost"):
        connect(copy_of(source, target))
    done = connect(copy_of(source, target, fail_on_data_loss=False))
    assert values_of(headrace, target) == ["a", "b", "e"]
    (query_id,) = [one.flow.log.query_id() for one in done._flows]
    assert StreamNotes(headrace.client).missed(query_id) == 2
