"""Every API with a top-level error code has an error answer in every version, from its schema alone."""

from __future__ import annotations

import pytest
from kio.schema.index import api_key_map, schema_name_map

from headrace.handlers.dispatch.error_answers import error_answer
from headrace.wire import codec

CASES = sorted((key, version) for key, name in api_key_map.items() for version in schema_name_map[name])


@pytest.mark.parametrize(("api_key", "version"), CASES)
def test_a_refusal_can_be_written_and_read_back(api_key: int, version: int) -> None:
    answer = error_answer(api_key, version, 42, "because")
    if answer is None:
        return
    frame = codec.encode_response(api_key, version, 1, answer)
    read = codec.read_response(api_key, version, frame[4:])[1]
    assert read.error_code == 42
    assert getattr(read, "error_message", "because") == "because"
