"""DescribeCluster (key 60, versions 0–2): the cluster's id, controller and brokers.

v1 endpoint type (brokers only here: a controller has no listener of its own) · v2 fenced brokers on request
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from headrace.cluster.view import ClusterView
from headrace.handlers.dispatch.authorization import NOT_ASKED, Needs, cluster_operations
from headrace.handlers.dispatch.context import RequestContext
from headrace.handlers.dispatch.handler import Handler
from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import ErrorCode
from headrace.security.acl.model import Operation
from headrace.wire.apis import ApiKey

if TYPE_CHECKING:
    from headrace.wire.messages.describe_cluster import (
        DescribeClusterBroker,
        DescribeClusterRequest,
        DescribeClusterResponse,
    )


_BROKERS: Final = 1
_CONTROLLERS: Final = 2


@dataclass(frozen=True)
class DescribeCluster(Handler):
    view: ClusterView

    api_key: ClassVar[ApiKey] = ApiKey.DESCRIBE_CLUSTER
    versions: ClassVar[range] = range(3)
    needs: ClassVar[Needs] = Needs(cluster=Operation.DESCRIBE)

    def serve(self, request: DescribeClusterRequest, context: RequestContext) -> DescribeClusterResponse:
        endpoint_type = request.endpoint_type
        if endpoint_type == _CONTROLLERS:
            return _refusal(ErrorCode.mismatched_endpoint_type, "this is a broker's endpoint, not a controller's")
        if endpoint_type != _BROKERS:
            return _refusal(ErrorCode.unsupported_endpoint_type, f"endpoint type {endpoint_type}: must be 1 or 2")
        image = self.view.current
        with_fenced = request.include_fenced_brokers
        brokers: list[DescribeClusterBroker] = []
        fenced = image.fenced_brokers.values() if with_fenced else ()
        for broker in (*image.brokers.values(), *fenced):
            endpoint = broker.endpoint(context.listener)
            if endpoint is not None:
                brokers.append(
                    {
                        "broker_id": broker.id,
                        "host": endpoint.host,
                        "port": endpoint.port,
                        "rack": broker.rack,
                        "is_fenced": broker.fenced,
                    }
                )
        asked = request.include_cluster_authorized_operations
        return {
            "error_code": 0,
            "error_message": None,
            "endpoint_type": endpoint_type,
            "cluster_id": image.cluster_id,
            "controller_id": image.controller_id,
            "brokers": brokers,
            "cluster_authorized_operations": cluster_operations(context.access) if asked else NOT_ASKED,
        }


def _refusal(code: ErrorCode, message: str) -> DescribeClusterResponse:
    return {
        "error_code": int(code),
        "error_message": message,
        "endpoint_type": _BROKERS,
        "cluster_id": "",
        "controller_id": -1,
        "brokers": [],
        "cluster_authorized_operations": NOT_ASKED,
    }
