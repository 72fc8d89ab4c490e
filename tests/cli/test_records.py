"""`headrace produce` and `consume`: lines, keys, JSON documents, files, templates, filters, offsets and times."""

from __future__ import annotations

import os
import subprocess
import threading
from pathlib import Path

import pytest

from headrace.testing import RunningBroker
from tests.cli.conftest import Run, environment


def test_produced_lines_and_keyed_lines_are_consumed(headrace: Run, topic: str) -> None:
    assert "sent 2 records" in headrace("produce", topic, "-p", "1", stdin="one\ntwo\n").err
    assert headrace("produce", topic, "-K", "\\t", "-p", "1", stdin="alice\tten\n").code == 0
    assert headrace("consume", topic).out == "one\ntwo\nten\n"
    assert headrace("consume", topic, "-F", "%p/%o %k=%s\\n").out == "1/0 =one\n1/1 =two\n1/2 alice=ten\n"


@pytest.mark.parametrize("options", [(), ("--acks", "-1")])
def test_a_lost_answer_doubles_no_record(
    headrace: Run, running: RunningBroker, topic: str, options: tuple[str, ...]
) -> None:
    lost = running.fail("Produce", drop_answer=True, topic=topic)
    assert headrace("produce", topic, "-p", "1", *options, stdin="one\ntwo\n").code == 0
    assert lost.hits == 1
    assert headrace("consume", topic).out == "one\ntwo\n"


@pytest.mark.parametrize("acks", ["0", "1"])
def test_records_without_all_acknowledgements(headrace: Run, topic: str, acks: str) -> None:
    assert headrace("produce", topic, "one", "--acks", acks).code == 0
    assert headrace("consume", topic).out == "one\n"


def test_json_documents_have_key_headers_timestamp_and_partition(headrace: Run, topic: str) -> None:
    record = '{"key": "k", "value": {"n": 7}, "headers": {"h": "x"}, "timestamp": 1700000000000, "partition": 2}\n'
    assert headrace("produce", topic, "-F", "json", stdin=record).code == 0
    [found] = headrace("consume", topic, "-o", "json").lines
    assert (found["partition"], found["timestamp"]) == (2, 1700000000000)
    assert (found["key"], found["value"], found["headers"]) == ("k", '{"n":7}', [["h", "x"]])
    shown = headrace("consume", topic, "-F", "{key} {value.n} {header.h} {time}\\n").out
    assert shown == "k 7 x 2023-11-14T22:13:20.000Z\n"
    assert headrace("consume", topic, "--value", "json", "-o", "json").lines[0]["value"] == {"n": 7}
    assert headrace("consume", topic, "--value", "hex").out == "7b226e223a377d\n"


def test_documents_keep_headers_that_are_no_text(headrace: Run, topic: str) -> None:
    record = '{"value": "v", "headers": [["h", "x"], {"key": "id", "base64": "/wA="}, ["h", null]], "partition": 1}\n'
    assert headrace("produce", topic, "-F", "json", stdin=record).code == 0
    first = headrace("consume", topic, "-o", "json")
    assert headrace("produce", topic, "-F", "json", stdin=first.out).code == 0
    [one, copy] = headrace("consume", topic, "-o", "json").lines
    assert one["headers"] == copy["headers"] == [["h", "x"], {"key": "id", "base64": "/wA="}, ["h", None]]


def test_wrong_document_is_reported_with_line_and_column(headrace: Run, topic: str) -> None:
    ran = headrace("produce", topic, "-F", "json", stdin='{"value": "fine"}\n{"value": oops}\n')
    assert ran.code == 1
    assert "standard input line 2 column 11: not JSON" in ran.err
    ran = headrace("produce", topic, "-F", "json", stdin='{"valeu": 1}\n')
    assert "line 1: unknown field 'valeu'" in ran.err


def test_large_values_of_a_csv_file_are_imported(headrace: Run, topic: str) -> None:
    large = "x" * 200_000
    assert headrace("produce", topic, "-p", "0", stdin=f"small\n{large}\n").code == 0
    assert headrace("consume", topic, "--to", "large.csv").code == 0
    ran = headrace("produce", topic, "--file", "large.csv")
    assert ran.code == 0, ran.err
    assert headrace("consume", topic).out.split() == ["small", large, "small", large]


@pytest.mark.parametrize("ending", ["ndjson", "csv", "parquet"])
def test_exported_records_are_imported_unchanged(headrace: Run, topic: str, ending: str) -> None:
    stdin = (
        '{"key": "a", "value": "text, \\"marks\\" and\\nlines", "headers": [["h", "1"], ["h", null]], "partition": 1}\n'
        '{"key": null, "value_base64": "/wA=", "timestamp": 1700000000123, "partition": 1}\n'
        '{"key": "", "value": null, "partition": 2}\n'
    )
    assert headrace("produce", topic, "-F", "json", stdin=stdin).code == 0
    assert headrace("consume", topic, "--to", f"all.{ending}").code == 0
    first = headrace("consume", topic, "-o", "json").lines
    copy = f"{topic}-copy"
    headrace("topics", "create", copy, "-p", "3")
    assert headrace("produce", copy, "--file", f"all.{ending}").code == 0
    second = headrace("consume", copy, "-o", "json").lines
    assert [{**row, "topic": copy} for row in first] == second
    assert len(second) == 3


def test_filters_select_by_key_value_and_header(headrace: Run, topic: str) -> None:
    rows = [f'{{"key": "k{n}", "value": {{"n": {n}}}, "headers": {{"odd": "{n % 2}"}}}}' for n in range(6)]
    headrace("produce", topic, "-F", "json", "-p", "0", stdin="\n".join(rows))

    def keys(where: str) -> str:
        return headrace("consume", topic, "--where", where, "-F", "{key} ").out.strip()

    assert keys('value.n >= 2 and header.odd == "1"') == "k3 k5"
    assert keys('not (key startswith "k1" or value.n > 1)') == "k0"
    wrong = headrace("consume", topic, "--where", "__import__('os')")
    assert (wrong.code, "is expected at column" in wrong.err) == (2, True)


def test_start_and_end_may_be_offsets_or_times(headrace: Run, topic: str) -> None:
    rows = [f'{{"value": "v{n}", "timestamp": {1700000000000 + n * 60000}, "partition": 0}}' for n in range(5)]
    headrace("produce", topic, "-F", "json", stdin="\n".join(rows))

    def values(*words: str) -> str:
        return headrace("consume", topic, "-p", "0", "-F", "%s ", *words).out.strip()

    assert values("--from", "3") == "v3 v4"
    assert values("--from", "-1") == "v4"
    assert values("--from", "1", "--until", "3") == "v1 v2"
    assert values("--from", "2023-11-14T22:15:00Z", "--until", "@1700000180000") == "v2"
    assert values("--from", "10 minutes ago") == ""
    assert headrace("consume", topic, "-c").out == "5\n"
    assert headrace("consume", topic, "--from", "whenever").code == 2


def test_follow_stops_after_the_count_or_when_idle(headrace: Run, topic: str) -> None:
    headrace("produce", topic, "a", "b", "c", "-p", "0")
    assert headrace("consume", topic, "-f", "--from", "beginning", "-n", "2").out == "a\nb\n"
    assert headrace("consume", topic, "-f", "--from", "beginning", "--idle", "0.5").out == "a\nb\nc\n"


def test_tombstones_and_dry_runs(headrace: Run, topic: str) -> None:
    assert "would send 1 record" in headrace("produce", topic, "x", "--dry-run").err
    headrace("produce", topic, "NULL", "--null", "NULL", "-k", "gone")
    [found] = headrace("consume", topic, "-o", "json").lines
    assert (found["key"], found["value"]) == ("gone", None)


def test_misspelled_topic_is_not_created(headrace: Run, topic: str) -> None:
    ran = headrace("produce", topic[:-1], "x")
    assert ran.code == 1
    assert f"Did you mean {topic!r}?" in ran.err
    assert headrace("consume", topic[:-1]).code == 1


def test_follow_of_a_deleted_topic_ends_with_an_error(headrace: Run, running: RunningBroker, topic: str) -> None:
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": running.bootstrap})
    deleted = threading.Timer(1.0, lambda: admin.delete_topics([topic])[topic].result(60))
    deleted.start()
    ran = headrace("consume", topic, "--follow")
    deleted.join()
    assert (ran.code, ran.err) == (1, f"headrace: topic {topic!r} is no longer there\n")


def test_too_large_record_and_closed_pipe_give_no_stack_trace(
    headrace: Run, running: RunningBroker, topic: str, tmp_path: Path
) -> None:
    (tmp_path / "large").write_text("x" * 2_000_000)
    ran = headrace("produce", topic, "--file", "large")
    assert ran.code == 1
    assert ran.err == (
        f"headrace: {topic}: Broker: Message size too large. See headrace configs get topic/{topic} max.message.bytes "
        "--all\n"
    )
    headrace("produce", topic, "-p", "0", stdin="\n".join(f"line {n}" for n in range(5000)))
    line = f"set -o pipefail; headrace consume {topic} --partition 0 | head -1"
    piped = subprocess.run(
        ["bash", "-c", line], env=environment(tmp_path, running.bootstrap), capture_output=True, text=True, timeout=30
    )
    assert (piped.returncode, piped.stdout, piped.stderr) == (0, "line 0\n", "")


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_help_into_a_closed_pipe_is_no_error(unbuffered: str, tmp_path: Path) -> None:
    """With and without buffering: the write fails at once, or when the output is flushed."""
    environ = {**environment(tmp_path, None), "PYTHONUNBUFFERED": unbuffered}
    kafka_topics = str(Path(__file__).parents[2] / "bin" / "kafka-topics.sh")
    nobody, output = os.pipe()
    os.close(nobody)
    try:
        for words in (["headrace", "--help"], ["headrace", "start", "--help"], [kafka_topics, "--help"]):
            ran = subprocess.run(words, env=environ, stdout=output, stderr=subprocess.PIPE, text=True, timeout=30)
            assert (ran.returncode, ran.stderr) == (0, ""), words
    finally:
        os.close(output)


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&- <&-"])
def test_closed_standard_streams_are_no_error(closed: str, running: RunningBroker, topic: str, tmp_path: Path) -> None:
    tools = Path(__file__).parents[2] / "bin"
    where = f"--bootstrap-server {running.bootstrap} --topic {topic}"
    consume = f"kafka-console-consumer.sh {where} --from-beginning --max-messages 1 --timeout-ms 20000"
    for line in (f"headrace produce {topic} a", f"headrace consume {topic}", f"{tools}/{consume}",
                 f"{tools}/kafka-topics.sh {where} --describe"):  # fmt: skip
        ran = subprocess.run(
            ["bash", "-c", f"{line} {closed}"], env=environment(tmp_path, running.bootstrap), capture_output=True,
            text=True, timeout=30,
        )  # fmt: skip
        assert (ran.returncode, "Traceback" in ran.stderr) == (0, False), (line, ran)


def test_start_beyond_the_end_is_reported(headrace: Run, topic: str) -> None:
    headrace("produce", topic, "one", "two", "-p", "0")
    ran = headrace("consume", topic, "--from", "500")
    assert (ran.code, ran.out) == (0, "")
    assert ran.err == f"--from 500 is beyond the end: {topic}-0 ends at offset 2, {topic}-1 at 0, {topic}-2 at 0\n"
    assert headrace("consume", topic, "-p", "0", "--from", "2").err == "there is no record at or after --from 2\n"
    assert (
        headrace("consume", topic, "--from", "2100-01-01").err == "there is no record at or after --from 2100-01-01\n"
    )
    waited = headrace("consume", topic, "-p", "0", "--from", "3", "--follow", "--idle", "0.5").err
    assert waited == f"--from 3 is beyond the end: {topic}-0 ends at offset 2; waiting for new records\n"
    assert headrace("consume", topic, "-p", "0", "--from", "1").err == ""
    moved = headrace("groups", "reset", f"g-{topic}", "--to", "9", "--topic", topic, "--dry-run")
    assert "--to 9 is beyond the end, which is taken instead" in moved.err
