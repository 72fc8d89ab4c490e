"""An operation that fails with a defect answers 500, and the registry keeps writing."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.registry.core import operations
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
