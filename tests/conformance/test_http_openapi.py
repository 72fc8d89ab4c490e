"""The OpenAPI document holds: schemathesis calls every operation with valid and invalid data of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from headrace.http import openapi
from headrace.http.service import ENDPOINTS
from headrace.testing import broker
from tests.support.effort import is_long
from tests.support.http_api import RunningApi, http_api

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
EXAMPLES = 100 if is_long() else 2
schema = schemathesis.openapi.from_dict(openapi.document(ENDPOINTS))


@pytest.fixture(scope="module")
def api() -> Iterator[RunningApi]:
    with broker({"num.partitions": "1"}) as running, http_api(running.bootstrap) as started:
        yield started


@pytest.fixture(scope="module")
def cluster_id(api: RunningApi) -> str:
    return str(api.ask("GET", "/v3/clusters")[1]["data"][0]["cluster_id"])


def test_the_document_is_served_without_login(api: RunningApi) -> None:
    status, document = api.ask("GET", "/openapi.json")
    assert (status, document) == (200, openapi.document(ENDPOINTS))
    assert sum(len(methods) for methods in document["paths"].values()) == len(ENDPOINTS)


@schema.parametrize()
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
def test_operation(case: schemathesis.Case[Any], api: RunningApi, cluster_id: str) -> None:
    if "cluster_id" in case.path_parameters:
        case.path_parameters["cluster_id"] = cluster_id  # else every call would end at the first check
    if case.query.get("follow"):
        case.query.pop("follow")  # such an answer has no end
    if "timeout" in case.query:
        case.query["timeout"] = 0
    case.call_and_validate(base_url=api.url, checks=CHECKS)
