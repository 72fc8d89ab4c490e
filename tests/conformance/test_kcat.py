"""kcat (an older librdkafka): produce and consume from the shell."""

from __future__ import annotations

import json
import subprocess

import pytest

pytestmark = pytest.mark.needs("kcat")


def kcat(bootstrap: str, *arguments: str, stdin: str = "") -> str:
    done = subprocess.run(
        ["kcat", "-b", bootstrap, *arguments], input=stdin, capture_output=True, text=True, timeout=30, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "not compressing" not in done.stderr, "the broker's version ranges made it give up compression"
    return done.stdout


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_produced_lines_are_consumed(bootstrap: str, topic: str, codec: str) -> None:
    lines = "".join(f"key{n}:value {n}\n" for n in range(500))
    kcat(bootstrap, "-P", "-t", topic, "-K:", "-z", codec, "-H", "source=test", stdin=lines)
    found = kcat(bootstrap, "-C", "-t", topic, "-e", "-q", "-J").splitlines()
    messages = [json.loads(line) for line in found]
    assert [(m["key"], m["payload"]) for m in messages] == [(f"key{n}", f"value {n}") for n in range(500)]
    assert messages[0]["headers"] == ["source", "test"]


def test_metadata_is_listed(bootstrap: str, topic: str) -> None:
    kcat(bootstrap, "-P", "-t", topic, stdin="x\n")
    listed = json.loads(kcat(bootstrap, "-L", "-J"))
    assert [broker["name"] for broker in listed["brokers"]] == [bootstrap]
    assert topic in {known["topic"] for known in listed["topics"]}


def test_a_group_consumes(bootstrap: str, topic: str) -> None:
    kcat(bootstrap, "-P", "-t", topic, stdin="a\nb\nc\n")
    found = kcat(bootstrap, "-G", f"g-{topic}", "-e", "-q", "-X", "auto.offset.reset=earliest", topic)
    assert found == "a\nb\nc\n"


def test_offsets_are_queried_by_time(bootstrap: str, topic: str) -> None:
    kcat(bootstrap, "-P", "-t", topic, stdin="a\nb\n")
    assert kcat(bootstrap, "-Q", "-t", f"{topic}:0:-1").strip() == f"{topic} [0] offset 2"
    assert kcat(bootstrap, "-Q", "-t", f"{topic}:0:-2").strip() == f"{topic} [0] offset 0"
