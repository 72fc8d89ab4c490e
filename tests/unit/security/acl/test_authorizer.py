"""The authorizer decides as a plain transcription of Kafka's rules does, and answers from its cache."""

from __future__ import annotations

import time
import timeit
from collections import defaultdict
from ipaddress import ip_address, ip_network

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.security.acl.authorizer import Authorizer, Reason
from headrace.security.acl.hosts import covers
from headrace.security.acl.model import (
    SUPPORTED_OPERATIONS,
    Acl,
    Entry,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)
from headrace.security.acl.roles import membership, role_pattern

TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
READ, WRITE, DESCRIBE = Operation.READ, Operation.WRITE, Operation.DESCRIBE
ALLOW, DENY = Permission.ALLOW, Permission.DENY
PREFIXED = PatternType.PREFIXED


def image(*acls: Acl) -> dict[ResourcePattern, list[Entry]]:
    found: defaultdict[ResourcePattern, list[Entry]] = defaultdict(list)
    for acl in acls:
        found[acl.pattern].append(acl.entry)
    return found


def acl(
    name: str,
    principal: str = "User:ann",
    operation: Operation = READ,
    permission: Permission = ALLOW,
    *,
    host: str = "*",
    pattern: PatternType = PatternType.LITERAL,
    kind: ResourceType = TOPIC,
) -> Acl:
    return Acl(ResourcePattern(kind, name, pattern), Entry(principal, host, operation, permission))


# The rules, written down one after the other


def _host_covers(pattern: str, host: str) -> bool:
    if pattern == "*" or pattern == host:
        return True
    return "/" in pattern and ip_address(host) in ip_network(pattern)


def _is_about(one: Acl, principal: str, host: str, kind: ResourceType, name: str) -> bool:
    pattern = one.pattern
    return (
        pattern.resource_type == kind
        and one.entry.principal in (principal, "User:*")
        and _host_covers(one.entry.host, host)
        and _name_covers(pattern, name)
    )


def _name_covers(pattern: ResourcePattern, name: str) -> bool:
    if pattern.pattern_type == PREFIXED:
        return name.startswith(pattern.name)
    return pattern.name == "*" or pattern.name == name


def _allows_by_itself(granted: Operation, operation: Operation) -> bool:
    if granted in (operation, Operation.ALL):
        return True
    if operation == DESCRIBE:
        return granted in (READ, WRITE, Operation.DELETE, Operation.ALTER)
    return operation == Operation.DESCRIBE_CONFIGS and granted == Operation.ALTER_CONFIGS


def allowed_by_the_rules(
    acls: list[Acl], principal: str, host: str, operation: Operation, kind: ResourceType, name: str, open_if_none: bool
) -> bool:
    if principal == "User:root":
        return True
    about = [one for one in acls if _is_about(one, principal, host, kind, name)]
    if any(one.entry.permission == DENY and one.entry.operation in (operation, Operation.ALL) for one in about):
        return False
    if any(one.entry.permission == ALLOW and _allows_by_itself(one.entry.operation, operation) for one in about):
        return True
    some_cover = any(one.pattern.resource_type == kind and _name_covers(one.pattern, name) for one in acls)
    return open_if_none and not some_cover


Question = tuple[str, str, Operation, ResourceType, str]
NAMES = ["a", "ab", "abc", "b", "*", "a*"]
HOSTS = ["10.0.0.1", "10.0.0.2", "10.1.0.1"]
PRINCIPALS = ["User:ann", "User:Ann", "User:bob", "User:root", "Role:ops"]
_OPERATIONS = [one for one in Operation if one > Operation.ANY]

acls_drawn = st.lists(
    st.builds(
        Acl,
        st.builds(
            ResourcePattern,
            st.sampled_from([TOPIC, GROUP]),
            st.sampled_from(NAMES),
            st.sampled_from([PatternType.LITERAL, PREFIXED]),
        ),
        st.builds(
            Entry,
            st.sampled_from([*PRINCIPALS, "User:*"]),
            st.sampled_from([*HOSTS, "*", "10.0.0.0/24", "10.0.0.0/8"]),
            st.sampled_from(_OPERATIONS),
            st.sampled_from([ALLOW, ALLOW, DENY]),
        ),
    ),
    max_size=12,
)
asked = st.tuples(
    st.sampled_from(PRINCIPALS),
    st.sampled_from(HOSTS),
    st.sampled_from([one for one in _OPERATIONS if one != Operation.ALL]),
    st.sampled_from([TOPIC, GROUP]),
    st.sampled_from([*NAMES, "abcd", "zz"]),
)


@settings(max_examples=300, deadline=None)
@given(acls_drawn, st.lists(asked, min_size=1, max_size=20), st.booleans())
def test_decisions_equal_a_transcription_of_the_rules(
    acls: list[Acl], questions: list[Question], open_if_none: bool
) -> None:
    authorizer = Authorizer(image(*acls), super_users=["User:root"], allow_if_no_acl=open_if_none)
    for question in questions * 2:  # the second time from the cache
        expected = allowed_by_the_rules(acls, *question, open_if_none)
        assert authorizer.allows(*question) is expected, question
        assert authorizer.decide(*question).allowed is expected


@settings(max_examples=150, deadline=None)
@given(acls_drawn, asked)
def test_an_acl_that_decided_is_one_of_the_acls_and_about_the_question(acls: list[Acl], question: Question) -> None:
    decision = Authorizer(image(*acls)).decide(*question)
    if decision.reason is Reason.ACL:
        principal, host, _, kind, name = question
        assert decision.acl in acls
        assert _is_about(decision.acl, principal, host, kind, name)
        assert (decision.acl.entry.permission is ALLOW) is decision.allowed


@settings(max_examples=150, deadline=None)
@given(acls_drawn, asked)
def test_some_resource_is_allowed_only_if_an_acl_or_the_default_allows_one(acls: list[Acl], question: Question) -> None:
    """`allows_any` never says yes where no name at all could be allowed, nor no where everything is."""
    principal, host, operation, kind, _ = question
    authorizer = Authorizer(image(*acls))
    candidates = [*{one.pattern.name + tail for one in acls for tail in ("", "~x")}, "~other"]
    some = any(authorizer.allows(principal, host, operation, kind, name) for name in candidates)
    every = all(authorizer.allows(principal, host, operation, kind, name) for name in candidates)
    answer = authorizer.allows_any(principal, host, operation, kind)
    assert not (answer and not some)
    assert answer or not every


# The corners, by name


def test_deny_covers_only_its_own_operation() -> None:
    authorizer = Authorizer(image(acl("t", operation=Operation.ALL), acl("t", permission=DENY)))
    assert not authorizer.allows("User:ann", "h", READ, TOPIC, "t")
    assert authorizer.allows("User:ann", "h", DESCRIBE, TOPIC, "t")


def test_any_resource_is_denied_by_a_deny_on_all_and_by_a_prefix_of_what_is_allowed() -> None:
    assert Authorizer(image(acl("t", operation=WRITE))).allows_any("User:ann", "h", WRITE, TOPIC)
    assert not Authorizer(image(acl("t"))).allows_any("User:ann", "h", DESCRIBE, TOPIC), "Kafka asks for the very one"
    denied = acl("*", permission=DENY, operation=WRITE)
    assert not Authorizer(image(acl("t", operation=WRITE), denied)).allows_any("User:ann", "h", WRITE, TOPIC)
    prefix = acl("t", permission=DENY, pattern=PREFIXED, operation=WRITE)
    assert not Authorizer(image(acl("top", operation=WRITE), prefix)).allows_any("User:ann", "h", WRITE, TOPIC)
    assert Authorizer(image(acl("u", operation=WRITE), prefix)).allows_any("User:ann", "h", WRITE, TOPIC)


def test_without_an_image_only_super_users_are_allowed() -> None:
    authorizer = Authorizer({}, super_users=["User:root"], allow_if_no_acl=True, is_loaded=False)
    assert authorizer.allows("User:root", "h", READ, TOPIC, "t")
    assert not authorizer.allows("User:ann", "h", READ, TOPIC, "t")


def test_operations_are_bits_of_supported_operations_with_the_included_ones() -> None:
    authorizer = Authorizer(image(acl("t"), acl("t", operation=Operation.ALTER_CONFIGS)), super_users=["User:root"])
    expected = (READ, DESCRIBE, Operation.ALTER_CONFIGS, Operation.DESCRIBE_CONFIGS)
    assert authorizer.operations("User:ann", "h", TOPIC, "t") == sum(1 << int(one) for one in expected)
    everything = sum(1 << int(one) for one in SUPPORTED_OPERATIONS[TOPIC])
    assert authorizer.operations("User:root", "h", TOPIC, "t") == everything == 3576


@pytest.mark.parametrize(
    ("pattern", "host", "expected"),
    [
        ("10.0.0.0/8", "10.255.255.255", True),
        ("10.0.0.0/8", "10.0.0.0", True),
        ("10.1.2.3/8", "10.9.9.9", True),
        ("10.0.0.0/8", "11.0.0.1", False),
        ("10.0.0.0/8", "::ffff:10.0.0.1", True),
        ("10.0.0.0/33", "10.0.0.1", False),
        ("10.0.0.0/255.0.0.0", "10.0.0.1", False),
        ("2001:db8::/32", "2001:db8:0:0::1", True),
        ("2001:db8::/32", "2001:db9::1", False),
        ("::/0", "10.0.0.1", False),
        ("0:0:0:0:0:0:0:1", "::1", True),
        ("0.0.0.0/0", "1.2.3.4", True),
        ("localhost", "127.0.0.1", False),
        ("nonsense/8", "10.0.0.1", False),
    ],
)
def test_hosts_are_addresses_and_ranges(pattern: str, host: str, expected: bool) -> None:
    assert covers(pattern, host) is expected


def test_members_of_a_role_have_its_rights() -> None:
    role = role_pattern("Role:analysts")
    acls = image(acl("t", "Role:analysts"), Acl(role, membership("User:ann")))
    authorizer = Authorizer(acls)
    assert authorizer.allows("User:ann", "10.0.0.1", READ, TOPIC, "t")
    assert not authorizer.allows("User:bob", "10.0.0.1", READ, TOPIC, "t")


def test_membership_needs_the_literal_role_and_ends_with_a_deny() -> None:
    wide = [
        acl(name, "User:ann", Operation.ALL, kind=ResourceType.USER, pattern=kind)
        for name, kind in (("*", PatternType.LITERAL), ("Role:", PREFIXED))
    ]
    grant = acl("t", "Role:analysts")
    assert not Authorizer(image(grant, *wide)).allows("User:ann", "10.0.0.1", READ, TOPIC, "t")
    member = Acl(role_pattern("Role:analysts"), membership("User:*"))
    without = Acl(member.pattern, Entry("User:bob", "*", Operation.ALL, DENY))
    authorizer = Authorizer(image(grant, member, without))
    assert authorizer.allows("User:ann", "10.0.0.1", READ, TOPIC, "t")
    assert not authorizer.allows("User:bob", "10.0.0.1", READ, TOPIC, "t")


def test_a_deny_for_a_role_takes_the_right_from_its_members() -> None:
    member = Acl(role_pattern("Role:interns"), membership("User:ann"))
    authorizer = Authorizer(image(acl("t"), acl("t", "Role:interns", permission=DENY), member))
    assert not authorizer.allows("User:ann", "10.0.0.1", READ, TOPIC, "t")


def test_the_cache_stays_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.security.acl.authorizer.MAX_CACHED", 50)
    authorizer = Authorizer(image(acl("t")))
    for number in range(500):
        assert not authorizer.allows("User:ann", "h", READ, TOPIC, f"none-{number}")
    assert len(authorizer._cached) <= 50


def test_a_cached_check_takes_less_than_two_microseconds() -> None:
    authorizer = Authorizer(image(*(acl(f"topic-{n}", f"User:u{n}") for n in range(1000))))
    names = [f"topic-{n}" for n in range(1000)]

    def check_all() -> None:
        for name in names:
            authorizer.allows("User:u7", "10.0.0.1", READ, TOPIC, name)

    # CPU time, and the best of many turns: a busy machine makes every one of them longer.
    best = min(timeit.repeat(check_all, number=1, repeat=30, timer=time.process_time)) / len(names)
    assert best < 2e-6, f"{best * 1e6:.2f} µs"


def test_claims_make_a_client_a_member_and_do_not_share_cached_decisions() -> None:
    authorizer = Authorizer(
        {
            role_pattern("Role:readers"): [membership("Claim:groups=shop")],
            ResourcePattern(ResourceType.TOPIC, "orders"): [
                Entry("Role:readers", "*", Operation.READ, Permission.ALLOW)
            ],
        }
    )

    def may(claims: tuple[str, ...]) -> bool:
        asked = ("User:anna", "127.0.0.1", Operation.READ, ResourceType.TOPIC, "orders")
        return authorizer.with_claims(claims).allows(*asked)

    shop, other = ("Claim:groups=shop",), ("Claim:groups=other",)
    assert [may(one) for one in ((), shop, other, (), shop)] == [False, True, False, False, True]
    for number in range(500):
        assert not may((f"Claim:groups={number}",))
    assert len(authorizer._with_claims) <= 100
