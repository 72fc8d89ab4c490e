"""Dead letters keep the whole record; a retry, an edit or a drop takes exactly the letters it names."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headrace.client.blocking.client import LATEST, READ_COMMITTED, BlockingClient
from headrace.client.blocking.fetch import FetchSettings, fetched_records
from headrace.client.blocking.produce import Transaction, write_records
from headrace.kernel.errors import ErrorCode
from headrace.pipelines.errors import PipelineError
from headrace.pipelines.flows import dead_letters
from headrace.pipelines.flows.dead_letters import (
    LetterFilter,
    drop_dead_letters,
    list_dead_letters,
    retry_dead_letters,
    value_from_text,
    waiting_letters,
)
from headrace.records.builder import Record
from headrace.testing.process import broker_process


@pytest.fixture(scope="module")
def client() -> Iterator[BlockingClient]:
    with broker_process() as broker, BlockingClient(broker.bootstrap) as connected:
        yield connected


@pytest.fixture
def topic(client: BlockingClient, request: pytest.FixtureRequest) -> str:
    name = f"t{abs(hash(request.node.name)) % 10**9}"
    client.create_topic(name, 3, configs={"retention.ms": "-1"})
    client.create_topic(f"{name}.dlq", 2, configs={"retention.ms": "-1"})
    return name


def letter(topic: str, number: int, *, error: str = "bad", value: bytes | None = None, **more: bytes) -> Record:
    ours = {
        "headrace.error": error.encode(), "headrace.topic": topic.encode(), "headrace.partition": b"2",
        "headrace.offset": b"%d" % number, "headrace.timestamp": b"%d" % (1_600_000_000_000 + number),
    }  # fmt: skip
    headers = (("trace", b"\xff%d" % number), *ours.items(), *((k.replace("_", "."), v) for k, v in more.items()))
    body = b"v%d" % number if value is None else value
    return Record(b"k%d" % number, body, headers, timestamp_ms=1_700_000_000_000 + number)


def records_of(client: BlockingClient, topic: str, partitions: int = 3) -> list[tuple[int, Record]]:
    found = []
    for index in range(partitions):
        end = client.list_offsets({(topic, index): LATEST}, isolation=READ_COMMITTED)[(topic, index)]
        settings = FetchSettings(isolation=READ_COMMITTED, stall_timeout_s=10)
        found += [(index, record) for record in fetched_records(client, (topic, index), 0, end, settings)]
    return found


def test_retry_writes_the_original_record_and_counts(client: BlockingClient, topic: str) -> None:
    write_records(client, (f"{topic}.dlq", 0), [letter(topic, 1), letter(topic, 2, headrace_retries=b"4")])
    assert retry_dead_letters(client, topic) == 2
    assert retry_dead_letters(client, topic) == 0
    (one, first), (two, second) = records_of(client, topic)
    assert (one, two) == (2, 2)
    assert (first.key, first.value, first.timestamp_ms) == (b"k1", b"v1", 1_600_000_000_001)
    assert first.headers == (("trace", b"\xff1"), ("headrace.retries", b"1"))
    assert second.headers == (("trace", b"\xff2"), ("headrace.retries", b"5"))


@pytest.mark.parametrize("at_once", [1, 2, 500])
def test_filtered_retry_skips_no_letter(
    client: BlockingClient, topic: str, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr(dead_letters, "_LETTERS_AT_ONCE", at_once)
    for partition in (0, 1):
        numbers = range(10 * partition, 10 * partition + 5)
        some = [letter(topic, number, error="odd" if number % 2 else "even") for number in numbers]
        write_records(client, (f"{topic}.dlq", partition), some)
    assert retry_dead_letters(client, topic, LetterFilter(error="odd")) == 4
    assert {record.value for _, record in records_of(client, topic)} == {b"v1", b"v3", b"v11", b"v13"}
    waiting = waiting_letters(client, topic)
    assert sorted(str(one.value) for one in waiting) == ["v0", "v10", "v12", "v14", "v2", "v4"]
    assert retry_dead_letters(client, topic) == 6
    every = sorted(record.value or b"" for _, record in records_of(client, topic))
    assert every == sorted(b"v%d" % number for number in (0, 1, 2, 3, 4, 10, 11, 12, 13, 14))


def test_binary_letter_is_shown_edited_and_sent_back(client: BlockingClient, topic: str) -> None:
    write_records(client, (f"{topic}.dlq", 1), [letter(topic, 0), letter(topic, 1, value=b"\x00\xff")])
    shown = waiting_letters(client, topic, LetterFilter(offset=1))[0]
    assert (shown.partition, shown.offset, shown.key, shown.value) == (1, 1, "k1", "base64:AP8=")
    assert shown.headers == {"trace": "base64:/zE="} and (shown.error, shown.from_offset) == ("bad", 1)
    assert value_from_text("base64:AP8=") == b"\x00\xff"
    chosen = LetterFilter(partition=1, offset=1)
    assert retry_dead_letters(client, topic, chosen, value=value_from_text("base64:AQI=")) == 1
    assert [record.value for _, record in records_of(client, topic)] == [b"\x01\x02"]
    assert [one.value for one in waiting_letters(client, topic)] == ["v0"]
    assert retry_dead_letters(client, topic, chosen, value=b"again") == 0
    with pytest.raises(PipelineError, match="is not base64"):
        value_from_text("base64:*")


def test_dropped_letters_are_gone_and_the_others_wait(client: BlockingClient, topic: str) -> None:
    write_records(client, (f"{topic}.dlq", 0), [letter(topic, number) for number in range(3)])
    assert drop_dead_letters(client, topic, LetterFilter(key="k1")) == 1
    assert [one.value for one in waiting_letters(client, topic)] == ["v0", "v2"]
    (listed,) = [one for one in list_dead_letters(client) if one.topic == f"{topic}.dlq"]
    assert listed.waiting == 2
    assert records_of(client, topic) == []
    assert drop_dead_letters(client, topic) == 2
    assert waiting_letters(client, topic) == []


def test_settled_letters_do_not_depend_on_a_group(client: BlockingClient, topic: str) -> None:
    write_records(client, (f"{topic}.dlq", 0), [letter(topic, number) for number in range(3)])
    assert retry_dead_letters(client, topic, LetterFilter(key="k1")) == 1
    assert drop_dead_letters(client, topic, LetterFilter(key="k2")) == 1
    # As after offsets.retention.minutes.
    group = f"headrace-dlq.{topic}.dlq"
    (deleted,) = client.coordinator(group, 0).call("delete_groups", {"groups_names": [group]}).results
    assert deleted.error_code is ErrorCode.none
    write_records(client, (f"{topic}.dlq", 0), [letter(topic, 3)])
    (listed,) = [one for one in list_dead_letters(client) if one.topic == f"{topic}.dlq"]
    assert listed.waiting == 2
    assert sorted(str(one.value) for one in waiting_letters(client, topic)) == ["v0", "v3"]
    assert retry_dead_letters(client, topic) == 2
    assert sorted(record.value or b"" for _, record in records_of(client, topic)) == [b"v0", b"v1", b"v3"]


def test_offsets_that_an_earlier_version_committed_count(client: BlockingClient, topic: str) -> None:
    write_records(client, (f"{topic}.dlq", 1), [letter(topic, number) for number in range(3)])
    transaction = Transaction(client, "earlier", timeout_ms=60_000)
    transaction.begin()
    transaction.commit(f"headrace-dlq.{topic}.dlq", {(f"{topic}.dlq", 1): (2, "")})
    assert [one.value for one in waiting_letters(client, topic)] == ["v2"]
    assert retry_dead_letters(client, topic) == 1


def test_letters_of_a_topic_that_was_created_again_wait(client: BlockingClient, topic: str) -> None:
    name = f"{topic}.dlq"
    write_records(client, (name, 0), [letter(topic, number) for number in range(3)])
    assert drop_dead_letters(client, topic) == 3
    client.refresh()
    controller = client.broker(client._map.controller)
    controller.call("delete_topics", {"topic_names": [name], "timeout": 30_000})
    while name in client.topics([name]):
        pass
    client.create_topic(name, 2, configs={"retention.ms": "-1"})
    write_records(client, (name, 0), [letter(topic, number) for number in range(5)])
    assert retry_dead_letters(client, topic) == 5


def test_letter_without_headers_goes_to_the_topic_of_its_name(client: BlockingClient, topic: str) -> None:
    write_records(client, (f"{topic}.dlq", 0), [Record(b"k", b"v", (("x", None),), timestamp_ms=1_700_000_000_000)])
    assert retry_dead_letters(client, topic) == 1
    ((_, record),) = records_of(client, topic)
    assert (record.value, record.headers) == (b"v", (("x", None), ("headrace.retries", b"1")))


def test_letter_of_a_deleted_topic_stops_the_retry_and_stays(client: BlockingClient, topic: str) -> None:
    write_records(client, (f"{topic}.dlq", 0), [letter("gone", 0)])
    with pytest.raises(PipelineError, match=r"topic 'gone' .* does not exist any more: create it, or drop"):
        retry_dead_letters(client, topic)
    assert [one.value for one in waiting_letters(client, topic)] == ["v0"]
