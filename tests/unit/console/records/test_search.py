"""CEL searches are bounded in each record and in each step."""

from __future__ import annotations

import json
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from headrace.console.protection import Rejected
from headrace.console.records import search
from headrace.console.records.decoding import Decoding
from headrace.console.records.search import CelFilter, Step, TextFilter, search_step
from headrace.records.batch import BatchView
from headrace.records.builder import Record, build_batch
from headrace.records.compression import Codec

DECODING = Decoding("t", None)


def step(filter_: Any, records: list[Record], monkeypatch: pytest.MonkeyPatch, clock: Any) -> Step:
    batch = BatchView(memoryview(build_batch(records)))
    chunk = SimpleNamespace(batches=lambda *_: iter([batch]), next_offset=len(records))
    monkeypatch.setattr(search, "FetchStream", lambda *_: iter([chunk]))
    return search_step(cast("Any", None), DECODING, filter_, {0: 0}, {0: len(records)}, clock)


def test_an_expression_with_too_many_steps_for_a_record_ends_the_search() -> None:
    wanted = CelFilter("value.a.all(x, value.a.all(y, x + y >= 0))", DECODING)
    assert wanted.matches(0, Record(None, b'{"a": [1, 2]}', offset=4))
    long = Record(None, json.dumps({"a": list(range(9000))}).encode(), offset=5)
    with pytest.raises(Rejected, match=r"more than 400,000 steps .*\(partition 0, offset 5\)") as refused:
        wanted.matches(0, long)
    assert refused.value.status == 400


def test_a_long_expression_is_refused() -> None:
    with pytest.raises(Rejected, match="at most 2000 are allowed"):
        CelFilter("value == '" + "x" * 2000 + "'", DECODING)


def test_a_step_ends_within_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    def ticks() -> Iterator[float]:
        now = 0.0
        while True:
            yield now
            now += 0.3

    records = [Record(None, b'{"n": 1}') for _ in range(20)]
    found = step(CelFilter("value.n == 1", DECODING), records, monkeypatch, ticks().__next__)
    assert not found.is_done and len(found.matches) == found.scanned == found.positions[0] == 4


@pytest.mark.parametrize("text", ["Ärger", "ärger", "ÄRGER", "x-ÜBER"])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_text_beyond_ascii_is_found_in_any_case(text: str, codec: Codec, monkeypatch: pytest.MonkeyPatch) -> None:
    # A length before the text and a value that is no UTF-8 must not hide it.
    records = [
        Record(None, b"no"),
        Record(None, b"\xc3" * 200 + "viel Ärger".encode(), (("x-über", "x-Über".encode()),)),
        Record("Ärger x-über".encode(), None),
    ]
    batch = BatchView(memoryview(build_batch(records, codec=codec)))
    wanted = TextFilter(text, "anywhere", DECODING)
    assert wanted.may_match(batch)
    found = step(wanted, records, monkeypatch, lambda: 0.0)
    assert [shown.offset for shown in found.matches] == [1, 2]
    assert not TextFilter("Ärgernis", "anywhere", DECODING).may_match(batch)
