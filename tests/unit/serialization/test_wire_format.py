from __future__ import annotations

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.serialization import wire_format
from headrace.serialization.errors import SerializationError
from headrace.serialization.subjects import SubjectStrategy, subject_of

GUID = "0123abcd-0000-4000-8000-0123456789ab"


def test_prefix_holds_the_id_in_big_endian() -> None:
    data = wire_format.prefixed(258, b"payload")
    assert data == b"\x00\x00\x00\x01\x02payload"
    assert wire_format.framed(data) == wire_format.Framed(258, b"payload", None)


def test_header_holds_the_guid_and_wins_over_the_prefix() -> None:
    header = ("__value_schema_id", wire_format.guid_header(GUID, b"\x00"))
    assert header[1][:17] == b"\x01" + uuid.UUID(GUID).bytes
    data = wire_format.prefixed(1, b"")
    assert wire_format.framed(data, [header]) == wire_format.Framed(GUID, data, b"\x00")
    assert wire_format.framed(data, [header], is_key=True).schema == 1


def test_header_may_hold_an_id() -> None:
    found = wire_format.framed(b"payload", [("__key_schema_id", b"\x00\x00\x00\x00\x07")], is_key=True)
    assert found == wire_format.Framed(7, b"payload", b"")


@pytest.mark.parametrize(
    ("data", "headers", "why"),
    [
        (b"", [], "0 bytes"),
        (b"\x00\x00\x00\x01", [], "4 bytes"),
        (b"{json}", [], "0x7b"),
        (b"", [("__value_schema_id", b"\x01\x02")], "0102"),
        (b"", [("__value_schema_id", b"\x02" + bytes(16))], "must be 01 and a GUID"),
    ],
)
def test_a_record_without_a_schema_is_an_error(data: bytes, headers: list[tuple[str, bytes]], why: str) -> None:
    with pytest.raises(SerializationError, match=why):
        wire_format.framed(data, headers)


@given(st.lists(st.integers(0, 2**31), min_size=1, max_size=100).map(tuple), st.binary())
def test_message_indexes_are_read_as_written(path: tuple[int, ...], rest: bytes) -> None:
    assert wire_format.split_message_indexes(wire_format.message_indexes(path) + rest) == (path, rest)


def test_the_first_message_is_one_byte() -> None:
    assert wire_format.message_indexes([0]) == b"\x00"
    assert wire_format.message_indexes([1, 0]) == b"\x04\x02\x00"


@pytest.mark.parametrize("data", [b"", b"\x04\x02", b"\xff" * 12, b"\x01", b"\xff\xff\x03"])
def test_broken_message_indexes_are_an_error(data: bytes) -> None:
    with pytest.raises(SerializationError, match="message indexes"):
        wire_format.split_message_indexes(data)


def test_subjects_by_strategy() -> None:
    assert subject_of("orders") == "orders-value"
    assert subject_of("orders", is_key=True) == "orders-key"
    assert subject_of("orders", SubjectStrategy.RECORD, "shop.Order") == "shop.Order"
    assert subject_of("orders", SubjectStrategy.TOPIC_RECORD, "shop.Order") == "orders-shop.Order"
    with pytest.raises(SerializationError, match="no record name"):
        subject_of("orders", SubjectStrategy.RECORD)
    with pytest.raises(SerializationError, match="topic, record, topic-record"):
        SubjectStrategy.parse("other")
