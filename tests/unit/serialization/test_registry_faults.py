"""An answer of the registry that says nothing about a schema makes no record bad."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from headrace.serialization.arrow_decoder import ArrowDecoder
from headrace.serialization.errors import RegistryError, RegistryUnreachable
from headrace.serialization.record_decoder import RecordDecoder
from headrace.serialization.registry_client import RegistryClient
from headrace.serialization.schema import AVRO, RegisteredSchema
from headrace.serialization.wire_format import prefixed

_RECORD = prefixed(7, b"\x02a")


class _Registry(RegistryClient):
    def __init__(self, code: int | None) -> None:
        super().__init__("http://127.0.0.1:1")
        self.code = code

    def call(self, method: str, path: str, body: Any = None) -> Any:
        if self.code is not None:
            raise RegistryError(self.code, "no")
        return {"schema": '"string"'}


@pytest.mark.parametrize("code", [500, 50002, 50003, 503, 408, 429, 42901, 301])
def test_an_answer_that_another_request_may_not_get_is_no_error_of_the_record(code: int) -> None:
    client = _Registry(code)
    decoder = RecordDecoder(client)
    columns = ArrowDecoder(client, RegisteredSchema(1, None, "t-value", 1, AVRO, '"string"'))
    with pytest.raises(RegistryUnreachable):
        decoder.decode("t", _RECORD)
    with pytest.raises(RegistryUnreachable):
        columns.decode(pa.array([_RECORD]))
    client.code = None
    assert decoder.decode("t", _RECORD).value == "a"
    assert columns.decode(pa.array([_RECORD])).rows.to_pylist() == [{"value": "a"}]


@pytest.mark.parametrize("code", [401, 40101])
def test_columns_are_not_read_with_a_login_that_is_refused(code: int) -> None:
    columns = ArrowDecoder(_Registry(code), RegisteredSchema(1, None, "t-value", 1, AVRO, '"string"'))
    with pytest.raises(RegistryError):
        columns.decode(pa.array([_RECORD]))


@pytest.mark.parametrize("code", [404, 40403, 40301, 42201])
def test_a_schema_that_the_registry_refuses_is_an_error_of_the_record(code: int) -> None:
    assert RecordDecoder(_Registry(code)).decode("t", _RECORD).error == "value of topic t: no"
