"""Options of format("headrace"): defaults, and the errors of wrong ones."""

from __future__ import annotations

import pytest

from headrace.client.blocking.client import READ_COMMITTED, READ_UNCOMMITTED
from headrace.pipelines.errors import OptionError
from headrace.pipelines.options import SinkOptions, SourceOptions
from headrace.pipelines.source.offsets import AtTimestamp, Earliest, Latest, Specific

_CLUSTER = {"kafka.bootstrap.servers": "localhost:9092"}


def source(streaming: bool = False, **options: str) -> SourceOptions:
    return SourceOptions.parse({**_CLUSTER, "subscribe": "t", **options}, streaming=streaming)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"subscrib": "t"}, 'option "subscrib" is unknown (did you mean "subscribe"?)'),
        ({"startingOffset": "earliest", "subscribe": "t"}, '(did you mean "startingOffsets"?)'),
        ({"subscribe": "t", "assign": '{"t":[0]}'}, 'found "subscribe" and "assign"'),
        ({}, "found none"),
        ({"subscribe": " , "}, "name at least one topic"),
        ({"subscribePattern": "a(b"}, "not a pattern at position 1"),
        ({"subscribe": "t", "startingOffsets": '{"t":{"0":}}'}, "not JSON at position 10"),
        ({"subscribe": "t", "startingOffsets": '{"t":{"0":"1"}}'}, "'0': '1'"),
        ({"subscribe": "t", "startingOffsets": "first"}, 'must be "earliest", "latest" or JSON'),
        ({"subscribe": "t", "startingOffsets": "latest"}, "would read nothing"),
        ({"subscribe": "t", "endingOffsets": '{"t":{"0":-2}}'}, "-2 (earliest) is not allowed"),
        ({"subscribe": "t", "maxOffsetsPerTrigger": "0"}, "must be a whole number above 0"),
        ({"subscribe": "t", "failOnDataLoss": "maybe"}, 'must be "true" or "false"'),
        ({"subscribe": "t", "kafka.isolation.level": "snapshot"}, "read_committed or read_uncommitted"),
        ({"subscribe": "t", "kafka.auto.offset.reset": "earliest"}, "use startingOffsets"),
        ({"subscribe": "t", "startingTimestamp": "yesterday"}, "milliseconds since 1970"),
        ({"subscribe": "t", "maxTriggerDelay": "soon"}, "a duration such as"),
        ({"assign": '{"t":0}'}, "must list partitions by topic"),
        ({"subscribe": "t", "backend": "jvm"}, 'use format("kafka") in a session made with its jars'),
        ({"subscribe": "t", "backend": "scala"}, 'must be "auto", "python" or "jvm"'),
        ({"subscribe": "t", "kafka.security.protocol": "TLS"}, "must be one of PLAINTEXT"),
    ],
)
def test_a_wrong_option_is_one_readable_sentence(given: dict[str, str], words: str) -> None:
    with pytest.raises(OptionError) as refusal:
        SourceOptions.parse({**_CLUSTER, **given}, streaming=False)
    assert words in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_brokers_must_be_named() -> None:
    with pytest.raises(
        OptionError, match=r'kafka.bootstrap.servers" is missing \("kafka.bootstrap.server" is not it\)'
    ):
        SourceOptions.parse({"subscribe": "t", "kafka.bootstrap.server": "x:1"}, streaming=False)
    with pytest.raises(OptionError, match="'nowhere': write host:port"):
        SourceOptions.parse({"subscribe": "t", "kafka.bootstrap.servers": "nowhere"}, streaming=False)


def test_defaults_are_those_of_spark_s_connector() -> None:
    batch, stream = source(), source(streaming=True)
    assert (batch.starting, batch.ending) == (Earliest(), Latest())
    assert stream.starting == Latest()
    assert batch.fail_on_data_loss and not batch.include_headers
    assert batch.poll_timeout_s == 120 and batch.max_trigger_delay_s == 900


def test_names_ignore_case_and_the_timestamp_takes_precedence() -> None:
    given = {"STARTINGOFFSETS": '{"t":{"0":7}}'}
    assert source(**given).starting == Specific({("t", 0): 7}, "startingOffsets")  # type: ignore[arg-type]
    given |= {"startingOffsetsByTimestamp": '{"t":{"0":1000}}', "startingTimestamp": "2000"}
    assert source(**given).starting == AtTimestamp(2000, {}, False, "startingTimestamp")  # type: ignore[arg-type]


def test_stream_rejects_ending_offsets() -> None:
    with pytest.raises(OptionError, match='"endingOffsets" is for batch queries'):
        source(streaming=True, endingOffsets="latest")


def test_sink_options() -> None:
    assert SinkOptions.parse(_CLUSTER).exactly_once
    assert not SinkOptions.parse({**_CLUSTER, "mode": "at-least-once", "kafka.acks": "1"}).exactly_once
    for wrong, words in (
        ({"mode": "twice"}, '"exactly-once" or "at-least-once"'),
        ({"kafka.acks": "1"}, '"all" for exactly-once'),
        ({"kafka.compression.type": "rar"}, "none, gzip, snappy, lz4 or zstd"),
        ({"topics": "t"}, '(did you mean "topic"?)'),
    ):
        with pytest.raises(OptionError) as refusal:
            SinkOptions.parse({**_CLUSTER, **wrong})
        assert words in str(refusal.value)


def test_source_reads_committed_records_unless_it_is_asked_for_others() -> None:
    given = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "t"}
    assert SourceOptions.parse(given, streaming=True).isolation == READ_COMMITTED
    others = {**given, "kafka.isolation.level": "read_uncommitted"}
    assert SourceOptions.parse(others, streaming=True).isolation == READ_UNCOMMITTED
