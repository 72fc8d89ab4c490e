"""AlterConfigs and IncrementalAlterConfigs of a broker's own settings."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, cast

import pytest

from headrace.handlers.configs.alter_configs import AlterConfigs, refused_here
from headrace.handlers.configs.incremental_alter_configs import IncrementalAlterConfigs
from headrace.handlers.dispatch.audit import Audit
from headrace.handlers.dispatch.authorization import RestrictedAccess
from headrace.kernel.errors import ErrorCode
from headrace.security.acl.authorizer import Authorizer
from tests.support.clock import Stopwatch


@pytest.mark.parametrize("api", [AlterConfigs, IncrementalAlterConfigs])
def test_files_are_not_read_for_a_client_without_the_right(
    api: type[AlterConfigs] | type[IncrementalAlterConfigs],
) -> None:
    """The answer would tell which files exist, and a device such as /dev/zero has no end."""
    checked: list[Mapping[str, str]] = []
    change = SimpleNamespace(name="listener.name.clients.ssl.keystore.location", value="/dev/zero", config_operation=0)
    resource = SimpleNamespace(resource_type=4, resource_name="1", configs=[change])
    access = RestrictedAccess(Authorizer({}), Audit(), "User:ann", "1.2.3.4", api.api_key)
    handler = api(cast("Any", None), 1, checked.append)
    request = cast("Any", SimpleNamespace(resources=[resource], validate_only=True))
    answer: Any = asyncio.run(handler.serve(request, cast("Any", SimpleNamespace(access=access))))
    assert [row["error_code"] for row in answer["responses"]] == [ErrorCode.cluster_authorization_failed]
    assert checked == []


def test_a_request_with_many_resources_does_not_hold_up_the_broker() -> None:
    resources: Any = [SimpleNamespace(resource_type=2, resource_name=f"topic-{at}", configs=[]) for at in range(30_000)]
    watch = Stopwatch()
    going, rows = refused_here([*resources, resources[0]], 1, lambda _: None, cast("Any", None))
    watch.at_most(15, because="comparing each resource with every other one takes longer")
    assert len(going) == 29_999
    assert [(row["resource_name"], row["error_code"]) for row in rows] == [("topic-0", ErrorCode.invalid_request)] * 2
