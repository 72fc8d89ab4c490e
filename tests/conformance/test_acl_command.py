"""`headrace acl`: ACLs, roles, the explanation of a denied request, and the minimal rights of programs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.pipelines import flows
from headrace.testing import RunningBroker, broker

SETTINGS = {
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": "User:ANONYMOUS;User:root",
}


@pytest.fixture(scope="module")
def running() -> Iterator[RunningBroker]:
    with broker(SETTINGS) as started:
        yield started


def headrace(running: RunningBroker, *words: str, code: int = 0) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "headrace.cli", "acl", *words],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "HEADRACE_BOOTSTRAP": running.bootstrap},
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout if code == 0 else done.stderr


def explained(running: RunningBroker, principal: str, operation: str, resource: str, *more: str) -> str:
    words = ("explain", "--principal", principal, "--operation", operation, "--resource", resource, *more)
    return headrace(running, *words)


def test_add_ls_explain_and_rm(running: RunningBroker) -> None:
    assert "no ACLs" in headrace(running, "ls", "--principal", "User:ann")
    said = explained(running, "User:ann", "READ", "topic/orders")
    assert "User:ann may not READ on topic orders: no ACL allows it." in said
    command = said.partition("To allow it: headrace acl ")[2].strip()
    assert command == "add User:ann READ topic/orders"
    assert headrace(running, *command.split()).startswith("added ALLOW READ on topic/orders for User:ann")
    said = explained(running, "User:ann", "READ", "topic/orders")
    assert "may READ on topic orders. The rule that decides: ALLOW READ on topic orders for User:ann" in said
    assert "exists already" in headrace(running, *command.split())
    near = explained(running, "User:ann", "WRITE", "topic/orders")
    assert "it allows READ, not WRITE" in near
    rows = json.loads(headrace(running, "ls", "topic/orders", "-o", "json"))
    assert rows == [
        {"resource": "topic/orders", "principal": "User:ann", "permission": "ALLOW", "operation": "READ", "host": "*"}
    ]
    assert "would remove" in headrace(running, "rm", "topic/orders", "--dry-run")
    assert "removed" in headrace(running, "rm", "topic/orders", "--principal", "User:ann", "--yes")
    assert "no ACLs" in headrace(running, "ls", "topic/orders")


def test_explain_names_super_users_denials_hosts_and_spellings(running: RunningBroker) -> None:
    assert "because it is a super user" in explained(running, "User:root", "DELETE", "topic/x")
    headrace(running, "add", "User:bob", "ALL", "topic/x-*", "--host", "10.0.0.0/8")
    said = explained(running, "User:bob", "READ", "topic/x-1", "--host", "11.0.0.1")
    assert "it holds for clients at 10.0.0.0/8, not at 11.0.0.1" in said
    assert "its principal is spelled User:bob" in explained(running, "User:Bob", "READ", "topic/x-1")
    headrace(running, "add", "User:bob", "READ", "topic/x-1", "--deny")
    said = explained(running, "User:bob", "READ", "topic/x-1", "--host", "10.0.0.1")
    assert "may not READ on topic x-1. The rule that decides: DENY READ on topic x-1 for User:bob" in said
    assert "has no operation CLUSTER_ACTION" in explained(running, "User:bob", "CLUSTER_ACTION", "topic/x-1")


def test_roles_are_listed_granted_and_revoked(running: RunningBroker) -> None:
    headrace(running, "add", "Role:analysts", "READ", "topic/sales")
    headrace(running, "role", "add", "analysts", "User:eve", "User:fay")
    [role] = json.loads(headrace(running, "role", "ls", "-o", "json"))
    assert role == {"role": "Role:analysts", "members": ["User:eve", "User:fay"], "acls": 1}
    said = explained(running, "User:eve", "READ", "topic/sales")
    assert "User:eve (Role:analysts) may READ on topic sales" in said and "for Role:analysts" in said
    headrace(running, "role", "rm", "analysts", "User:eve", "--yes")
    assert "may not" in explained(running, "User:eve", "READ", "topic/sales")


def test_least_rights_are_printed_as_commands_and_applied(running: RunningBroker) -> None:
    printed = headrace(running, "for-producer", "paid", "--principal", "User:shop", "--transactional-id", "shop-1")
    assert printed.splitlines() == [
        "headrace acl add User:shop WRITE topic/paid",
        "headrace acl add User:shop WRITE transactional-id/shop-1",
    ]
    assert "no ACLs" in headrace(running, "ls", "--principal", "User:shop")
    headrace(running, "for-group", "billing", "paid", "--principal", "User:bill", "--apply")
    rows = json.loads(headrace(running, "ls", "--principal", "User:bill", "-o", "json"))
    assert [(row["resource"], row["operation"]) for row in rows] == [("group/billing", "READ"), ("topic/paid", "READ")]


def test_rights_of_a_pipeline_come_from_its_files(running: RunningBroker) -> None:
    directory = Path(flows.__file__).parent / "wordcount"
    printed = headrace(running, "for-pipeline", str(directory), "--principal", "User:words").splitlines()
    assert "headrace acl add User:words READ topic/streams-plaintext-input" in printed
    assert "headrace acl add User:words WRITE topic/streams-wordcount-output" in printed
    assert any("group/" in line for line in printed)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("add", "ann", "READ", "topic/x"), "such as User:ann"),
        (("add", "User:ann", "FLY", "topic/x"), "must be one of"),
        (("add", "User:ann", "READ", "topics/x"), "Did you mean 'topic'?"),
        (("add", "User:ann", "READ", "topic/"), "TYPE/NAME"),
        (("rm",), "does not remove every ACL"),
    ],
)
def test_invalid_arguments_print_one_sentence(running: RunningBroker, words: tuple[str, ...], message: str) -> None:
    assert message in " ".join(headrace(running, *words, code=2).split())


def test_errors_of_the_broker_are_printed_with_their_message(running: RunningBroker) -> None:
    said = headrace(running, "add", "User:ann", "READ", "topic/x", "--host", "10.0.0.0/99", code=1)
    assert "is not a range of addresses" in said
    with broker() as plain:
        assert "No Authorizer is configured" in headrace(plain, "ls", code=1)
