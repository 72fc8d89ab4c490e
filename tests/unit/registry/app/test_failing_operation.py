"""An operation that fails with a defect answers 500, and the registry keeps writing. So it does when brokers move."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.registry.core import operations
from headrace.testing.in_process import RunningBroker
from tests.support.registry import RunningRegistry


def test_a_defect_in_one_operation_does_not_stop_the_writer(
    server: RunningRegistry, subject: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise AssertionError("a defect")

    with monkeypatch.context() as patched:
        patched.setattr(operations, "set_config", broken)
        assert server.ask("PUT", f"/config/{subject}", {"compatibility": "NONE"})[0] == 500
    assert server.ask("POST", f"/subjects/{subject}/versions", {"schema": '"int"'})[0] == 200


@pytest.mark.parametrize(
    ("api", "error"),
    [
        ("Produce", "NOT_LEADER_OR_FOLLOWER"),  # the partition has moved
        ("AddPartitionsToTxn", "NOT_COORDINATOR"),
        ("AddPartitionsToTxn", "INVALID_PRODUCER_ID_MAPPING"),  # no write for transactional.id.expiration.ms
    ],
)
def test_a_write_that_brokers_have_not_taken_is_tried_again(
    running: RunningBroker, server: RunningRegistry, subject: str, api: str, error: str
) -> None:
    assert server.ask("POST", f"/subjects/{subject}/versions", {"schema": '"int"'})[0] == 200
    fault = running.fail(api, error=error, client_id="headrace-registry-writer")
    assert server.ask("POST", f"/subjects/{subject}-2/versions", {"schema": '"long"'})[0] == 200
    assert fault.hits == 1
    assert server.ask("GET", f"/subjects/{subject}-2/versions")[1] == [1]


def test_a_write_that_brokers_may_have_taken_is_not_tried_again(
    running: RunningBroker, server: RunningRegistry, subject: str
) -> None:
    """A second try would answer by the effect of the first: that the subject was deleted before."""
    assert server.ask("POST", f"/subjects/{subject}/versions", {"schema": '"int"'})[0] == 200
    running.fail("EndTxn", close=True, client_id="headrace-registry-writer")
    assert server.ask("DELETE", f"/subjects/{subject}")[1]["error_code"] == 50001
