"""AlterConfigs and IncrementalAlterConfigs of a broker's own settings."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, cast

import pytest

from headrace.handlers.configs.alter_configs import AlterConfigs
from headrace.handlers.configs.incremental_alter_configs import IncrementalAlterConfigs
from headrace.handlers.dispatch.audit import Audit
from headrace.handlers.dispatch.authorization import RestrictedAccess
from headrace.kernel.errors import ErrorCode
from headrace.security.acl.authorizer import Authorizer


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
