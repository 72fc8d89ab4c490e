"""The nodes of registered brokers hold every field, also for a controller that reads them after a restart."""

from __future__ import annotations

import uuid
from dataclasses import fields, replace

from headrace.cluster.codecs import (
    decode_accepted,
    decode_changes,
    decode_registration,
    encode_accepted,
    encode_changes,
    encode_registration,
)
from headrace.cluster.core.changes import BrokerRegistered
from headrace.cluster.core.image import BrokerInfo, Endpoint
from headrace.cluster.core.losses import ReplicaLosses

BROKER = BrokerInfo(
    3,
    17,
    (Endpoint("CLIENTS", "here", 9092, "SSL"),),
    "rack-1",
    fenced=True,
    shutting_down=True,
    features=(("group.version", 0, 1),),
    log_dirs=(("data", "/here/data"),),
    cordoned_log_dirs=("data",),
    directories=(("AAAAAAAAAAAAAAAAAAAAAQ", "/here/data"), ("AAAAAAAAAAAAAAAAAAAAAg", "/gone")),
    losses=ReplicaLosses(
        frozenset({(uuid.UUID(int=7), 0), (uuid.UUID(int=7), 2)}), frozenset({(uuid.UUID(int=8), 1)}), is_offline=True
    ),
    missing_since=(("AAAAAAAAAAAAAAAAAAAAAg", 12),),
)


def test_no_field_of_a_broker_is_lost() -> None:
    default = BrokerInfo(0, 0, ())
    for field in fields(BROKER):
        assert getattr(BROKER, field.name) != getattr(default, field.name), f"{field.name} needs a value in this test"
    assert decode_accepted(encode_accepted(BROKER)) == BROKER
    (change,) = decode_changes(encode_changes([BrokerRegistered(BROKER)], 5))
    assert change == BrokerRegistered(BROKER)


def test_a_registration_names_all_that_its_broker_knows() -> None:
    data = encode_registration(BROKER, clean_start=True, timestamp_ms=0, version="1")
    found, is_clean = decode_registration(3, data, 17)
    assert is_clean and found == replace(BROKER, fenced=False, shutting_down=False)
