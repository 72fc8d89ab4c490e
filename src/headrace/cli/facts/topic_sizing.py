"""Calculates partitions, replicas and disks of a topic by the usual rules of thumb.

- A partition handles a few MB/s. The throughput divided by that is the minimum number of partitions.
- Below 6 brokers: twice as many partitions as brokers. Above 12: as many as brokers. Between: interpolated.
- At least as many partitions as parallel consumers.
- Replication factor 3 (at least 2, at most 4): records survive the loss of N-1 of N replicas. Writes with acks=all
  continue only while min.insync.replicas replicas are in sync.
- Storage is data per day x days of retention x replicas: 1 TB a day for 7 days is 7 TB, three replicas are 21 TB.

Pure.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, TypedDict

SMALL_CLUSTER, LARGE_CLUSTER = 6, 12
DAY_S: Final = 86_400
MB: Final = 1_000_000
# Reserve for the active segment, expired records that are not deleted yet, and running reassignments.
HEADROOM: Final = 1.25


@dataclass(frozen=True, slots=True)
class Demand:
    mb_per_s: float
    brokers: int
    consumers: int = 1
    retention_days: float = 7.0
    replication: int | None = None
    mb_per_s_per_partition: float = 5.0


def brokers_factor(brokers: int) -> float:
    """Partitions per broker: 2 below 6 brokers, 1 above 12, linear between."""
    if brokers < SMALL_CLUSTER:
        return 2.0
    if brokers > LARGE_CLUSTER:
        return 1.0
    return 2.0 - (brokers - SMALL_CLUSTER) / (LARGE_CLUSTER - SMALL_CLUSTER)


class TopicPlan(TypedDict):
    partitions: int
    partitions_by_throughput: int
    partitions_by_brokers: int
    partitions_by_consumers: int
    replication_factor: int
    min_insync_replicas: int
    failures_tolerated: int
    failures_with_acks_all_writes: int
    replicas_per_broker: int
    gb_per_day: float
    storage_tb_one_copy: float
    storage_tb_all_replicas: float
    storage_tb_per_broker_with_headroom: float
    network_mb_per_s_per_broker_in: float
    when_replicas_are_lost: list[str]
    warnings: list[str]


def plan(demand: Demand) -> TopicPlan:
    """The numbers with their reasons. Raises ValueError if there are fewer brokers than replicas."""
    replication = min(3, demand.brokers) if demand.replication is None else demand.replication
    if replication > demand.brokers:
        raise ValueError(f"replication {replication} needs as many brokers; there are {demand.brokers}")
    by_throughput = max(1, math.ceil(demand.mb_per_s / demand.mb_per_s_per_partition))
    by_brokers = math.ceil(demand.brokers * brokers_factor(demand.brokers))
    partitions = max(by_throughput, by_brokers, demand.consumers)
    stored_mb = demand.mb_per_s * DAY_S * demand.retention_days
    whole_mb = stored_mb * replication
    warnings = []
    if replication < 2:
        warnings.append("one replica: the loss of a broker loses its data")
    elif replication == 2:
        warnings.append("two replicas: with min.insync.replicas=2 one broker down stops acks=all, with 1 it is a risk")
    elif replication > 4:
        warnings.append("more than four replicas cost network and disk and buy little")
    per_broker = partitions * replication / demand.brokers
    if per_broker > 4000:
        warnings.append(f"{per_broker:,.0f} replicas on each broker: elections and open files become slow")
    min_insync = max(1, replication - 1)
    return {
        "partitions": partitions,
        "partitions_by_throughput": by_throughput,
        "partitions_by_brokers": by_brokers,
        "partitions_by_consumers": demand.consumers,
        "replication_factor": replication,
        "min_insync_replicas": min_insync,
        "failures_tolerated": replication - 1,
        "failures_with_acks_all_writes": replication - min_insync,
        "replicas_per_broker": math.ceil(per_broker),
        "gb_per_day": round(demand.mb_per_s * DAY_S / 1000, 1),
        "storage_tb_one_copy": round(stored_mb / MB, 3),
        "storage_tb_all_replicas": round(whole_mb / MB, 3),
        "storage_tb_per_broker_with_headroom": round(whole_mb * HEADROOM / demand.brokers / MB, 3),
        "network_mb_per_s_per_broker_in": round(demand.mb_per_s * replication / demand.brokers, 1),
        "when_replicas_are_lost": [_loss(lost, replication, min_insync) for lost in range(1, replication + 1)],
        "warnings": warnings,
    }


def _loss(lost: int, replication: int, min_insync: int) -> str:
    which = f"{lost} of {replication} lost"
    if lost == replication:
        return f"{which}: reads and writes stop until one of them is back"
    if replication - lost >= min_insync:
        return f"{which}: reads and writes go on"
    return (
        f"{which}: no record is lost and reads go on, but writes with acks=all stop until another replica is back "
        f"(min.insync.replicas={min_insync})"
    )
