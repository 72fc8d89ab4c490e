"""ACLs in the coordination store: Kafka's paths and JSON, any name, and no entry is lost."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.security.acl import store_format
from headrace.security.acl.model import Entry, Operation, PatternType, Permission, ResourcePattern, ResourceType
from headrace.security.acl.store_format import UnreadableAcls, decode_entries, decoded_name, encode_entries, path

ENTRIES = st.builds(
    Entry,
    st.text(max_size=20),
    st.text(max_size=10),
    st.sampled_from([one for one in Operation if one > Operation.ANY]),
    st.sampled_from([Permission.ALLOW, Permission.DENY]),
)


def test_paths_are_those_of_kafka() -> None:
    literal = ResourcePattern(ResourceType.TRANSACTIONAL_ID, "orders-1")
    prefixed = ResourcePattern(ResourceType.TOPIC, "orders-", PatternType.PREFIXED)
    assert path(literal) == "/kafka-acl/TransactionalId/orders-1"
    assert path(prefixed) == "/kafka-acl-extended/prefixed/Topic/orders-"
    assert path(ResourcePattern(ResourceType.GROUP, "*")) == "/kafka-acl/Group/*"
    assert path(ResourcePattern(ResourceType.CLUSTER, "kafka-cluster")) == "/kafka-acl/Cluster/kafka-cluster"


def test_entries_are_written_as_kafka_writes_them() -> None:
    entry = Entry("User:alice", "*", Operation.IDEMPOTENT_WRITE, Permission.ALLOW)
    assert encode_entries([entry]) == (
        b'{"version":1,"acls":[{"principal":"User:alice","permissionType":"Allow","operation":"IdempotentWrite",'
        b'"host":"*"}]}'
    )


@pytest.mark.parametrize(
    "name", ["a/b", "..", ".", "%2F", "a%", "/", "é", "a\nb", "*", "\x7f", "\ue000", "a b", "日本"]
)
def test_every_name_is_one_legal_part_of_a_path(name: str) -> None:
    found = path(ResourcePattern(ResourceType.GROUP, name))
    part = found.removeprefix("/kafka-acl/Group/")
    assert "/" not in part and part not in (".", "..")
    assert not any(ord(char) < 0x20 or 0x7F <= ord(char) <= 0x9F or 0xE000 <= ord(char) <= 0xF8FF for char in part)
    assert decoded_name(part) == name


@given(st.text(min_size=1, alphabet=st.characters(exclude_categories=["Cs"])))
def test_names_read_back_as_they_were(name: str) -> None:
    part = path(ResourcePattern(ResourceType.GROUP, name)).removeprefix("/kafka-acl/Group/")
    assert decoded_name(part) == name


@given(st.lists(ENTRIES, unique=True))
def test_entries_read_back_as_they_were(entries: list[Entry]) -> None:
    assert decode_entries(encode_entries(entries)) == tuple(entries)


@pytest.mark.parametrize(
    "data",
    [
        b"nonsense",
        b"{}",
        b'{"version":1,"acls":[{}]}',
        b'{"version":1,"acls":[{"principal":"User:a","permissionType":"Deny","operation":"Fly","host":"*"}]}',
        b'{"version":1,"acls":[{"principal":"User:a","permissionType":"Perhaps","operation":"Read","host":"*"}]}',
        b"[1]",
    ],
)
def test_an_unreadable_node_is_an_error(data: bytes) -> None:
    with pytest.raises(UnreadableAcls):
        decode_entries(data)


def test_folders_are_among_the_nodes_that_every_cluster_has() -> None:
    assert {folder for _, _, folder in store_format.folders()} <= set(store_format.PERSISTENT)
