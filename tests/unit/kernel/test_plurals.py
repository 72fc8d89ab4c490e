"""Messages use `counted` for numbers, so that they never say "1 records"."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import headrace
from headrace.kernel.plurals import counted

SOURCE = Path(headrace.__file__).parent
# Packages with most messages. Tools that copy Kafka's print Kafka's text, even "Processed a total of 1 messages".
FOLDERS = ("cli", "pipelines", "broker")
NOUNS = (
    "partitions", "records", "topics", "groups", "members", "positions", "segments", "batches", "brokers", "replicas",
    "rows", "files", "messages", "strays", "logs", "problems", "transactions", "consumers", "entries", "flows", "keys",
    "letters", "bytes", "jars", "directories", "checks", "findings", "APIs", "words", "lines", "settings", "warnings",
    "clients", "connections", "processes", "tables", "versions", "sources", "checkpoints", "seconds", "minutes", "days",
)  # fmt: skip
# With an adjective or without: "1 log directories".
PLURAL = re.compile(rf" (?:log |dead |open )?({'|'.join(NOUNS)})\b")


def plurals_without_a_choice(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """`f"{count} records"`: a value and right behind it a noun that is always plural."""
    for text in ast.walk(tree):
        if isinstance(text, ast.JoinedStr):
            for value, after in zip(text.values, text.values[1:], strict=False):
                if isinstance(value, ast.FormattedValue) and isinstance(after, ast.Constant):
                    found = PLURAL.match(str(after.value))
                    # A value with a format spec is a rate or a size and not a count.
                    if found and value.format_spec is None:
                        yield text.lineno, found[1]


@pytest.mark.parametrize("folder", FOLDERS)
def test_no_message_has_a_fixed_plural(folder: str) -> None:
    found = [
        f"{path.relative_to(SOURCE)}:{line}: {noun}"
        for path in sorted((SOURCE / folder).rglob("*.py"))
        if "kafka_tools" not in path.parts
        for line, noun in plurals_without_a_choice(ast.parse(path.read_text()))
    ]
    assert found == []


def test_a_count_and_its_noun_agree() -> None:
    assert [counted(n, "record") for n in (0, 1, 2)] == ["0 records", "1 record", "2 records"]
    assert [counted(n, "entry", "entries") for n in (1, 2)] == ["1 entry", "2 entries"]


def test_a_fixed_plural_is_found() -> None:
    assert list(plurals_without_a_choice(ast.parse('f"{count} records of {topic}"'))) == [(1, "records")]
    assert not list(plurals_without_a_choice(ast.parse('f"{rate:.1f} records/s, {what} recordings"')))
