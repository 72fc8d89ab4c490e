"""Reads records of a partition without a consumer: `GET /topics/orders/partitions/0/records?offset=17`."""

from __future__ import annotations

import asyncio

from starlette.responses import Response

from headrace.client.record_fetch import READ_COMMITTED, fetch_records
from headrace.http.call import MOST_INT64, Call, partitions_of
from headrace.http.endpoint import NUMBER, OBJECT, OFFSET, Endpoint, a_list
from headrace.http.v2.formats import FORMATS, accepted_format, shown_v2, v2_json
from headrace.http.v2.topics import PARTITION
from headrace.kernel.errors import ErrorCode, Fault
from headrace.kernel.ids import TopicPartition
from headrace.web.errors import Problem, bad_request

LONGEST_WAIT_MS = 60_000
LARGEST_READ_BYTES = 32 << 20
READ_TYPES = tuple(f"application/vnd.kafka.{name}.v2+json" for name in FORMATS)


async def read_partition(call: Call) -> Response:
    partition = TopicPartition(call.path("topic_name"), call.number_in_path("partition_id"))
    offset = call.integer("offset", 0, most=MOST_INT64)
    wait_ms = call.integer("timeout", 0, most=LONGEST_WAIT_MS)
    max_bytes = call.integer("max_bytes", 1 << 20, least=1, most=LARGEST_READ_BYTES)
    how = accepted_format(call) or "binary"
    async with call.service.reader(call.caller) as (client, schemas):
        if partition.partition >= await partitions_of(client, partition.topic):
            raise Problem(404, 40402, f"partition {partition} does not exist")
        answers = await fetch_records(
            client, {partition: offset}, max_wait_ms=wait_ms, max_bytes=max_bytes, isolation_level=READ_COMMITTED
        )
        found = answers[partition]
        if isinstance(found, Fault):
            if found.code is ErrorCode.offset_out_of_range:
                ends = f"GET {call.url(call.request.url.path.removesuffix('/records'))}/offsets"
                raise bad_request(f"offset {offset} is not in the log of {partition}: {ends} shows its ends")
            raise found
        shown = await asyncio.to_thread(lambda: [shown_v2(partition, record, how, schemas) for record in found.records])
    return v2_json(shown, how=how)


ENDPOINTS = (
    Endpoint(
        "GET",
        f"{PARTITION}/records",
        read_partition,
        "Read records of a partition without a consumer.",
        query={
            "offset": OFFSET,
            "timeout": {**NUMBER, "maximum": LONGEST_WAIT_MS},
            "max_bytes": {"type": "integer", "minimum": 1, "maximum": LARGEST_READ_BYTES},
        },
        answer=a_list(OBJECT),
        answer_types=READ_TYPES,
    ),
)
