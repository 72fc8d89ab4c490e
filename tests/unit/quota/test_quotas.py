"""Which client is throttled, by which quota, and for how long."""

from __future__ import annotations

import pytest

from headrace.quota import Quotas


def entity(**parts: str | None) -> frozenset[tuple[str, str | None]]:
    return frozenset((kind.replace("_", "-"), name) for kind, name in parts.items())


ORDER = [
    entity(user="alice", client_id="app"),
    entity(user="alice", client_id=None),
    entity(user="alice"),
    entity(user=None, client_id="app"),
    entity(user=None, client_id=None),
    entity(user=None),
    entity(client_id="app"),
    entity(client_id=None),
]


def test_without_quotas_no_client_is_throttled() -> None:
    quotas = Quotas()
    assert quotas.record_produce("User:alice", "app", 10**9, 0) == 0
    assert quotas.record_fetch("User:alice", None, 10**9, 0) == 0
    assert not quotas.limits_produce


@pytest.mark.parametrize("winner", range(len(ORDER)))
def test_most_specific_quota_applies(winner: int) -> None:
    quotas = Quotas()
    # Sets the expected quota and all less specific ones; only the expected one is low.
    table = {who: {"producer_byte_rate": 1000.0 if who == ORDER[winner] else 10.0**12} for who in ORDER[winner:]}
    quotas.replace(table)
    assert quotas.record_produce("User:alice", "app", 20_000, 0) > 0


def test_a_users_quota_is_shared_by_all_the_users_clients() -> None:
    quotas = Quotas()
    quotas.replace({entity(user="alice"): {"producer_byte_rate": 1000.0}})
    assert quotas.record_produce("User:alice", "one", 10_000, 0) == 0
    assert quotas.record_produce("User:alice", "two", 10_000, 0) == 10_000
    assert quotas.record_produce("User:bob", "one", 10**9, 0) == 0


def test_default_quota_applies_to_each_client_separately() -> None:
    quotas = Quotas()
    quotas.replace({entity(client_id=None): {"consumer_byte_rate": 1000.0}})
    assert quotas.record_fetch("User:alice", "one", 10_000, 0) == 0
    assert quotas.record_fetch("User:alice", "two", 10_000, 0) == 0
    assert quotas.record_fetch("User:bob", "two", 10_000, 0) == 10_000
    assert quotas.record_produce("User:alice", "one", 10**9, 0) == 0


def test_an_image_gives_entities_as_tuples_of_parts() -> None:
    quotas = Quotas()
    quotas.replace({(("client-id", "app"), ("user", "alice")): {"producer_byte_rate": 1.0}})  # type: ignore[arg-type]
    assert quotas.record_produce("User:alice", "app", 1000, 0) > 0


def test_fetch_with_an_empty_response_is_taken_back() -> None:
    quotas = Quotas()
    quotas.replace({entity(user="alice"): {"consumer_byte_rate": 1000.0}})
    assert quotas.fetch_allowance("User:alice", "a", 10**9) == 10_000
    assert quotas.fetch_allowance("User:bob", "a", 10**9) == 10**9
    wait = quotas.record_fetch("User:alice", "a", 30_000, 0)
    assert wait == 20_000
    quotas.take_back_fetch("User:alice", "a", 30_000)
    assert quotas.record_fetch("User:alice", "a", 10_000, 0) == 0


def test_changed_and_removed_quotas_take_effect_at_once() -> None:
    quotas = Quotas()
    quotas.replace({entity(user="alice"): {"producer_byte_rate": 1000.0}})
    assert quotas.record_produce("User:alice", "a", 20_000, 0) == 10_000
    quotas.replace({entity(user="alice"): {"producer_byte_rate": 4000.0}})
    assert quotas.record_produce("User:alice", "a", 0, 0) == 0
    quotas.replace({})
    assert quotas.record_produce("User:alice", "a", 10**9, 0) == 0


def test_request_time_is_limited_in_percent_and_the_throttle_time_is_bounded() -> None:
    quotas = Quotas()
    quotas.replace({entity(user="alice"): {"request_percentage": 10.0}})
    assert quotas.record_request("User:alice", "a", 1000, 0) == 0  # 1 s of ten: just what is allowed
    assert quotas.record_request("User:alice", "a", 5000, 0) == 1000


def test_topic_changes_beyond_the_burst_are_refused_or_throttled_for_older_clients() -> None:
    quotas = Quotas()
    quotas.replace({entity(user=None): {"controller_mutation_rate": 1.0}})
    assert quotas.record_mutations("User:alice", "a", 20, 0) == 0  # the bucket held 11
    assert quotas.record_mutations("User:alice", "a", 1, 0) == 9000
    assert quotas.record_mutations("User:alice", "a", 1, 0) == 9000  # refused ones are not counted
    assert quotas.record_mutations("User:alice", "a", 1, 0, strict=False) == 10_000


def test_connections_of_one_address_are_throttled() -> None:
    quotas = Quotas()
    quotas.replace(
        {entity(ip="10.0.0.1"): {"connection_creation_rate": 1.0}, entity(ip=None): {"connection_creation_rate": 9.0}}
    )
    waits = [quotas.record_connection("10.0.0.1", 0) for _ in range(12)]
    assert waits == [0] * 10 + [1000, 1000]
    assert quotas.record_connection("10.0.0.2", 0) == 0


def test_broker_limits_the_rate_of_new_connections() -> None:
    quotas = Quotas()
    quotas.limit_all_connections(2)
    waits = [quotas.record_connection(f"10.0.0.{number}", 0) for number in range(22)]
    assert waits == [0] * 20 + [500, 500]  # ten windows' worth at once, then two a second
    assert quotas.record_connection("10.0.0.99", 11_000) == 0
    quotas.limit_all_connections(None)
    assert quotas.record_connection("10.0.0.1", 0) == 0


@pytest.mark.parametrize("spelling", ["2001:DB8:0::1", "2001:0db8::0001", "2001:db8::1"])
def test_a_connection_quota_covers_its_address_in_every_spelling(spelling: str) -> None:
    quotas = Quotas()
    quotas.replace({entity(ip=spelling): {"connection_creation_rate": 1.0}})
    assert any(quotas.record_connection("2001:db8::1", 1_000) for _ in range(30))
    assert not any(quotas.record_connection("2001:db8::2", 1_000) for _ in range(30))
