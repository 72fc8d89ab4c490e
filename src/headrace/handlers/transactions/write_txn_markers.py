"""WriteTxnMarkers (key 27, versions 1–2): a transaction coordinator (or an administrator) ends a transaction here.

v1 flexible · v2 the transaction version of the marker
For brokers, where they have a listener of their own (`replica_only`).
"""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

from headrace.coordinators.txn.marker_writer import EndMarker, MarkerWriter
from headrace.handlers.dispatch.context import RequestContext
from headrace.handlers.dispatch.handler import Handler
from headrace.kernel.dataclass import dataclass
from headrace.kernel.errors import ErrorCode
from headrace.kernel.ids import TopicPartition
from headrace.wire.apis import ApiKey


@dataclass(frozen=True)
class WriteTxnMarkers(Handler):
    writer: MarkerWriter

    api_key: ClassVar[ApiKey] = ApiKey.WRITE_TXN_MARKERS
    versions: ClassVar[range] = range(1, 3)

    async def serve(self, request: Any, context: RequestContext) -> dict[str, Any]:
        begun: list[dict[str, Any]] = []
        for wanted in request.markers:
            marker = EndMarker(
                int(wanted.producer_id),
                int(wanted.producer_epoch),
                bool(wanted.transaction_result),
                int(wanted.coordinator_epoch),
                int(getattr(wanted, "transaction_version", 0)),
            )
            # All are appended before any is awaited: one slow partition must not hold the others back.
            begun.append(
                {
                    "producer_id": marker.producer_id,
                    "topics": [
                        {
                            "name": str(topic.name),
                            "partitions": [
                                (int(i), self.writer.write(TopicPartition(str(topic.name), int(i)), marker))
                                for i in topic.partition_indexes
                            ],
                        }
                        for topic in wanted.topics
                    ],
                }
            )
        for result in begun:
            for topic in result["topics"]:
                topic["partitions"] = [
                    {"partition_index": index, "error_code": int(await _outcome(written))}
                    for index, written in topic["partitions"]
                ]
        return {"markers": begun}

    def refuse(self, request: Any, context: RequestContext, error_code: int, message: str) -> dict[str, Any]:
        markers = [
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
