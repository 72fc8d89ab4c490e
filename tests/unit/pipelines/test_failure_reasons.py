"""Failures of Spark, Python, databases and file systems, as a user reads them. The texts are those of real failures."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Final

import pyspark
import pytest

from headrace.pipelines.errors import PipelineError
from headrace.pipelines.failure_reasons import HADOOP_VERSION, failure_reason, raised_reason, user_place

_FAILURES: Final[dict[str, dict[str, str]]] = json.loads((Path(__file__).parent / "failure_texts.json").read_text())
# Their texts follow the form of the systems that write them; the failures cannot be provoked here.
_OTHERS: Final = {
    "An error occurred while calling o7.start.\n: java.io.IOException: No space left on device": (
        "the disk is full (No space left on device); free space, or put storage and spark.local.dir on another disk"
    ),
    "An error occurred while calling o7.start.\n: java.lang.OutOfMemoryError: Java heap space": (
        "Java is out of memory (Java heap space); give Spark more memory with --set spark.driver.memory=4g"
    ),
    "headrace.pipelines.errors.PipelineError: writing orders-0: message_too_large": (
        "writing orders-0: message_too_large; make the rows smaller, or raise max.message.bytes of the topic"
    ),
}


@pytest.mark.parametrize("name", _FAILURES)
def test_failure_is_one_sentence_with_cause_place_and_way_out(name: str) -> None:
    assert failure_reason(Exception(_FAILURES[name]["text"])) == _FAILURES[name]["sentence"]


@pytest.mark.parametrize("text", _OTHERS)
def test_failure_of_memory_disk_and_brokers(text: str) -> None:
    assert failure_reason(Exception(text)) == _OTHERS[text]


@pytest.mark.parametrize("name", _FAILURES)
def test_sentence_has_no_trace_of_spark_or_java(name: str) -> None:
    sentence = failure_reason(Exception(_FAILURES[name]["text"]))
    for trace in ("\n", "Traceback", "Py4J", "SQLSTATE", "org.apache.spark", "STREAM_FAILED", "calling o"):
        assert trace not in sentence


def test_error_that_was_caught_where_it_was_raised_names_its_system() -> None:
    with pytest.raises(sqlite3.Error) as error:
        sqlite3.connect(":memory:").execute("SELECT * FROM orders")
    assert raised_reason(error.value) == "SQLite: no such table: orders; create the table before the flow starts"
    assert raised_reason(KeyError("id")) == "KeyError: 'id'"
    assert raised_reason(ValueError()) == "ValueError"
    assert raised_reason(PipelineError("as it is")) == "as it is"


def test_our_own_errors_stay_as_they_are() -> None:
    assert failure_reason(PipelineError("topic 'a' does not exist: create it")) == "topic 'a' does not exist: create it"


def test_place_is_the_last_line_of_the_users_code() -> None:
    try:
        json.loads("{")
    except ValueError as error:
        assert user_place(error) == f"test_failure_reasons.py:{error.__traceback__.tb_lineno}"  # type: ignore[union-attr]


def test_hadoop_version_is_the_one_in_pysparks_jars() -> None:
    assert list((Path(pyspark.__file__).parent / "jars").glob(f"hadoop-client-api-{HADOOP_VERSION}.jar"))
