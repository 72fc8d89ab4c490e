from __future__ import annotations

import json

import pytest

from headrace.http.records.json_stream import JsonStream

DOCUMENTS = [{"a": [1, -2.5e3, 'x"}{\\u00e9é']}, {}, {"b": {"c": None, "d": True, "e": "\U0001f600"}}]


@pytest.mark.parametrize("separator", ["", "\n", " \r\n\t"])
@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 1000])
def test_every_cut_of_a_body_gives_the_same_documents(separator: str, size: int) -> None:
    body = separator.join(json.dumps(one, ensure_ascii=False) for one in DOCUMENTS).encode()
    stream, found = JsonStream(), []
    for at in range(0, len(body), size):
        documents, problem = stream.fed(body[at : at + size])
        assert problem is None
        found += documents
    documents, problem = stream.fed(b"", is_last=True)
    assert problem is None and found + documents == DOCUMENTS


@pytest.mark.parametrize(
    "tail", [b"}", b'{"a":}' + b" " * 20, b'{"a":1', b"\xff", b"NaN", b"{'a':1}" + b" " * 20, b'{"a"']
)
def test_a_mistake_ends_the_stream_after_the_documents_before_it(tail: bytes) -> None:
    stream = JsonStream()
    documents, problem = stream.fed(b'{"a":1}' + tail)
    more, later = stream.fed(b"", is_last=True) if problem is None else ([], None)
    assert (problem or later) is not None and (problem or later).status == 400  # type: ignore[union-attr]
    assert documents + more in ([{"a": 1}], [])


def test_a_document_has_a_limit() -> None:
    stream = JsonStream()
    _, problem = stream.fed(b'{"a":"' + b"x" * (5 << 20))
    assert problem is not None and problem.status == 413
