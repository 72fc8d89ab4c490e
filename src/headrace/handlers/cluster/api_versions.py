"""ApiVersions (key 18, versions 0–4): the APIs of this broker, derived from the table of handlers.

v0  keys with their version ranges · v1 throttle time · v3 flexible, client software, features (KIP-584)
v4  supported features whose lowest level is 0 are listed (older clients fail on them: KAFKA-17492)
The answer's header is always version 0, and an unknown version gets the body of v0, so that every client can read it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, Final, Protocol

from headrace.handlers.dispatch.authorization import NOTHING, Needs
from headrace.handlers.dispatch.context import RequestContext
from headrace.handlers.dispatch.handler import Handler
from headrace.handlers.dispatch.table import HandlerTable
from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import ErrorCode
from headrace.wire.apis import ApiKey

if TYPE_CHECKING:
    from headrace.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse


_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?\Z")


@dataclass(frozen=True)
class Features:
    """Supported levels (lowest, highest) and finalized level, by feature name."""

    supported: Mapping[str, tuple[int, int]]
    finalized: Mapping[str, int]
    epoch: int


class KnowsFeatures(Protocol):
    def __call__(self) -> Features: ...


def unsupported_version_answer(versions: range) -> ApiVersionsResponse:
    return {
        "error_code": int(ErrorCode.unsupported_version),
        "api_keys": [{"api_key": 18, "min_version": versions.start, "max_version": versions.stop - 1}],
    }


@dataclass(frozen=True)
class ApiVersions(Handler):
    table: HandlerTable
    features: KnowsFeatures

    api_key: ClassVar[ApiKey] = ApiKey.API_VERSIONS
    versions: ClassVar[range] = range(5)
    needs: ClassVar[Needs] = NOTHING

    def serve(self, request: ApiVersionsRequest, context: RequestContext) -> ApiVersionsResponse:
        version = context.version
        if version >= 3 and not (
            _SOFTWARE.match(request.client_software_name) and _SOFTWARE.match(request.client_software_version)
        ):
            return {"error_code": int(ErrorCode.invalid_request), "api_keys": [], "throttle_time": 0}
        if version >= 3 and context.peer is not None:
            context.peer.software = (request.client_software_name, request.client_software_version)
        features = self.features()
        return {
            "error_code": 0,
            "api_keys": [
                {"api_key": key, "min_version": low, "max_version": high} for key, low, high in self.table.advertised()
            ],
            "throttle_time": 0,
            "supported_features": [
                {"name": name, "min_version": low, "max_version": high}
                for name, (low, high) in features.supported.items()
                if low > 0 or version >= 4
            ],
            "finalized_features_epoch": features.epoch,
            "finalized_features": [
                {"name": name, "max_version_level": level, "min_version_level": level}
                for name, level in features.finalized.items()
            ],
            "zk_migration_ready": False,
        }
