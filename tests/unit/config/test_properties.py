"""Headrace reads a server.properties file like Java."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.config import ConfigError, format_properties, parse_properties, read_properties

FILE = r"""# a comment
! another
a=1
b : two words
c three
d=
e
 f = \u00e9t\u00e9 \ud83d\ude00
g=one,\
    two,\
    three
h\ with\=signs=tab\there
i=c:\\data\\new
j=not # a comment
a=last wins
k=ends with two backslashes\\
l=plain
# a comment does not continue \
m=13
"""
MEANING = {
    "a": "last wins",
    "b": "two words",
    "c": "three",
    "d": "",
    "e": "",
    "f": "été 😀",
    "g": "one,two,three",
    "h with=signs": "tab\there",
    "i": "c:\\data\\new",
    "j": "not # a comment",
    "k": "ends with two backslashes\\",
    "l": "plain",
    "m": "13",
}


def test_every_form_of_a_line_is_parsed() -> None:
    assert parse_properties(FILE) == MEANING
    assert parse_properties(FILE.replace("\n", "\r\n")) == MEANING


@given(st.dictionaries(st.text(min_size=1).filter(lambda s: _clean(s)), st.text().filter(lambda s: _clean(s))))
def test_what_is_written_reads_back_the_same(properties: dict[str, str]) -> None:
    assert parse_properties(format_properties(properties)) == properties


def _clean(text: str) -> bool:
    return not any(0xD800 <= ord(char) < 0xE000 for char in text)


def test_error_for_a_broken_escape_names_the_line() -> None:
    with pytest.raises(ConfigError, match=r"line 2='\\u12': must be"):
        parse_properties("a=1\nb=\\u12")


def test_a_file_in_latin_1_is_read_as_java_reads_it(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_bytes("name=caf\xe9\n".encode("latin-1"))
    assert read_properties(file) == {"name": "café"}


@pytest.mark.needs("jshell")
def test_java_reads_the_same_file_the_same_way(tmp_path: Path) -> None:
    file = tmp_path / "all.properties"
    file.write_text(FILE, encoding="utf-8")
    program = (
        "var p = new java.util.Properties();"
        f'p.load(java.nio.file.Files.newBufferedReader(java.nio.file.Path.of("{file}")));'
        "for (var k : new java.util.TreeSet<>(p.stringPropertyNames()))"
        '  System.out.println(k + "->" + p.getProperty(k));'
        "\n/exit\n"
    )
    done = subprocess.run(
        ["jshell", "-s", "-R-Dfile.encoding=UTF-8", "-R-Dstdout.encoding=UTF-8", "-"],
        input=program,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert [line for line in done.stdout.splitlines() if line] == [f"{key}->{MEANING[key]}" for key in sorted(MEANING)]
