"""Which operations a client may do, as the bit fields of Metadata, DescribeCluster and DescribeGroups.

Without an authorizer everyone may do everything that makes sense for the resource. Bits are Kafka's AclOperation ids.
"""

from __future__ import annotations

from typing import Final

# What the field holds when the client did not ask.
NOT_ASKED: Final = -(2**31)

_READ, _WRITE, _CREATE, _DELETE, _ALTER, _DESCRIBE = 3, 4, 5, 6, 7, 8
_CLUSTER_ACTION, _DESCRIBE_CONFIGS, _ALTER_CONFIGS, _IDEMPOTENT_WRITE = 9, 10, 11, 12


def _bits(*operations: int) -> int:
    return sum(1 << operation for operation in operations)


TOPIC_OPERATIONS: Final = _bits(_READ, _WRITE, _CREATE, _DESCRIBE, _DELETE, _ALTER, _DESCRIBE_CONFIGS, _ALTER_CONFIGS)
CLUSTER_OPERATIONS: Final = _bits(
    _CREATE, _CLUSTER_ACTION, _DESCRIBE_CONFIGS, _ALTER_CONFIGS, _IDEMPOTENT_WRITE, _ALTER, _DESCRIBE
)
GROUP_OPERATIONS: Final = _bits(_READ, _DESCRIBE, _DELETE, _DESCRIBE_CONFIGS, _ALTER_CONFIGS)
