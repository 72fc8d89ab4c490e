"""WriteTxnMarkers (key 27, versions 1–2): a transaction coordinator (or an administrator) ends a transaction here.

v1 flexible · v2 the transaction version of the marker
Only for brokers, if they have a listener of their own (`replica_only`).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, ClassVar

from headrace.coordinators.txn.marker_writer import EndMarker, MarkerWriter
from headrace.handlers.dispatch.authorization import Needs
from headrace.handlers.dispatch.context import RequestContext
from headrace.handlers.dispatch.handler import Handler
from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import ErrorCode
from headrace.kernel.ids import TopicPartition
from headrace.security.acl.model import Operation
from headrace.wire.apis import ApiKey

if TYPE_CHECKING:
    from headrace.wire.messages.write_txn_markers import (
        WritableTxnMarkerResult,
        WritableTxnMarkerTopicResult,
        WriteTxnMarkersRequest,
        WriteTxnMarkersResponse,
    )


@dataclass(frozen=True)
class WriteTxnMarkers(Handler):
    writer: MarkerWriter

    api_key: ClassVar[ApiKey] = ApiKey.WRITE_TXN_MARKERS
    versions: ClassVar[range] = range(1, 3)
    needs: ClassVar[Needs] = Needs(cluster=(Operation.ALTER, Operation.CLUSTER_ACTION))

    async def serve(self, request: WriteTxnMarkersRequest, context: RequestContext) -> WriteTxnMarkersResponse:
        if not context.access.may_cluster(Operation.ALTER):  # `kafka-transactions abort` sends it as an administrator
            context.access.require_cluster(Operation.CLUSTER_ACTION)
        begun: list[tuple[int, list[tuple[str, list[tuple[int, ErrorCode | asyncio.Future[ErrorCode]]]]]]] = []
        for wanted in request.markers:
            marker = EndMarker(
                int(wanted.producer_id),
                int(wanted.producer_epoch),
                bool(wanted.transaction_result),
                int(wanted.coordinator_epoch),
                wanted.transaction_version,
            )
            # Appends all before it awaits any: a slow partition must not delay the others.
            begun.append(
                (
                    marker.producer_id,
                    [
                        (
                            topic.name,
                            [
                                (i, self.writer.write(TopicPartition(topic.name, i), marker))
                                for i in topic.partition_indexes
                            ],
                        )
                        for topic in wanted.topics
                    ],
                )
            )
        markers: list[WritableTxnMarkerResult] = []
        for producer_id, topics in begun:
            results: list[WritableTxnMarkerTopicResult] = [
                {
                    "name": name,
                    "partitions": [
                        {"partition_index": index, "error_code": int(await _outcome(written))}
                        for index, written in partitions
                    ],
                }
                for name, partitions in topics
            ]
            markers.append({"producer_id": producer_id, "topics": results})
        return {"markers": markers}

    def refuse(
        self, request: WriteTxnMarkersRequest, context: RequestContext, error_code: int, message: str
    ) -> WriteTxnMarkersResponse:
        markers: list[WritableTxnMarkerResult] = [
            {
                "producer_id": int(marker.producer_id),
                "topics": [
                    {
                        "name": str(topic.name),
                        "partitions": [
                            {"partition_index": int(index), "error_code": error_code}
                            for index in topic.partition_indexes
                        ],
                    }
                    for topic in marker.topics
                ],
            }
            for marker in request.markers
        ]
        return {"markers": markers}


async def _outcome(written: ErrorCode | asyncio.Future[ErrorCode]) -> ErrorCode:
    return written if isinstance(written, ErrorCode) else await written
