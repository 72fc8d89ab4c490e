"""Handlers check exactly the rights that they declare: every cell of the differential table, recorded."""

from __future__ import annotations

import itertools
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from headrace.handlers.dispatch.authorization import RestrictedAccess
from headrace.handlers.dispatch.compatibility import served
from headrace.security.acl.model import Operation, ResourceType
from headrace.testing import broker
from headrace.wire.apis import ApiKey, api_name
from tests.differential.secured_servers import SETTINGS, SecuredServer, jaas
from tests.differential.test_authorization_answers import CELLS, SAME_SETTINGS, ask, prepare


def test_each_handler_checks_exactly_its_declared_rights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[int, set[tuple[Operation, ResourceType]]] = defaultdict(set)
    for name in ("may", "may_any", "filter"):
        original = getattr(RestrictedAccess, name)

        def watched(
            self: Any, operation: Operation, resource_type: ResourceType, *rest: Any, original: Any = original
        ) -> Any:
            asked[self.api_key].add((operation, resource_type))
            return original(self, operation, resource_type, *rest)

        monkeypatch.setattr(RestrictedAccess, name, watched)
    settings = SETTINGS | SAME_SETTINGS | jaas(cell.user for cell in CELLS)
    with broker(settings | {"broker.id": "1", "listeners": "PLAINTEXT://127.0.0.1:0"}, data_dir=tmp_path) as running:
        server = SecuredServer("Headrace", running.port)
        prepare(server)
        for case, cells in itertools.groupby(CELLS, lambda cell: cell.case):
            if case.before is not None:
                case.before(server)
            for cell in cells:
                ask(server, cell)
    handlers = served()
    undeclared, unused = {}, {}
    for key in {cell.case.api_key for cell in CELLS}:
        declared = set(handlers[key].needs)
        undeclared[api_name(key)] = asked[key] - declared
        unused[api_name(key)] = declared - asked[key]
    assert not {name: rights for name, rights in undeclared.items() if rights}
    # Needs a share session, which ends with its connection. `test_authorization` covers it.
    assert unused.pop(api_name(ApiKey.SHARE_ACKNOWLEDGE)) == {(Operation.READ, ResourceType.TOPIC)}
    assert not {name: rights for name, rights in unused.items() if rights}
