"""UpdateFeatures (key 57, versions 0–2): finalized feature levels (KIP-584, 778).

v1  upgrade type and validate-only · v2 no rows by feature. All or nothing. v0's "allow downgrade" is ignored, as in
Kafka.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from headrace.controller.gateway import ControllerGateway
from headrace.handlers.dispatch.authorization import Needs
from headrace.handlers.dispatch.context import RequestContext
from headrace.handlers.dispatch.handler import Handler
from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import ErrorCode
from headrace.security.acl.model import Operation
from headrace.wire.apis import ApiKey
from headrace.wire.codec import millis

if TYPE_CHECKING:
    from headrace.wire.messages.update_features import (
        UpdatableFeatureResult,
        UpdateFeaturesRequest,
        UpdateFeaturesResponse,
    )


@dataclass(frozen=True)
class UpdateFeatures(Handler):
    gateway: ControllerGateway

    api_key: ClassVar[ApiKey] = ApiKey.UPDATE_FEATURES
    versions: ClassVar[range] = range(3)
    needs: ClassVar[Needs] = Needs(request=Operation.ALTER)

    async def serve(self, request: UpdateFeaturesRequest, context: RequestContext) -> UpdateFeaturesResponse:
        return await self.gateway.serve(
            request,
            context,
            lambda: self._update(request, context),
            timeout=max(0.05, millis(request.timeout) / 1000),
        )

    async def _update(self, request: UpdateFeaturesRequest, context: RequestContext) -> UpdateFeaturesResponse:
        updates = [(str(u.feature), int(u.max_version_level), int(u.upgrade_type)) for u in request.feature_updates]
        results = await self.gateway.controller.update_features(updates, validate_only=request.validate_only)
        first = next((result for result in results if result.error is not ErrorCode.none), None)
        if first is not None:
            why = f"The update failed for all features since the following feature had an error: {first.message}"
            return _answer(first.error, why, [])
        # Kafka sends the name of "no error" as the message; before v2 each feature has a row.
        rows: list[UpdatableFeatureResult] = [
            {"feature": result.name, "error_code": 0, "error_message": "NONE"} for result in results
        ]
        return _answer(ErrorCode.none, None, rows)


def _answer(error: ErrorCode, message: str | None, rows: list[UpdatableFeatureResult]) -> UpdateFeaturesResponse:
    return {"throttle_time": 0, "error_code": int(error), "error_message": message, "results": rows}
