"""Requests about classic groups that no client sends: empty, too long, out of bounds, for unknown members."""

from __future__ import annotations

from tests.differential.classic_scenarios import SHARE_KEY, SOMETHING
from tests.differential.classic_script import Script
from tests.support.group_requests import DELETE, DESCRIBE, FIND, LEAVE, OFFSET_DELETE


def requests_that_no_client_sends(s: Script) -> None:
    s.join("<a>", 3, session_timeout=1_800_001)
    s.join("<a>", 3, session_timeout=-1)
    s.join("<a>", 3, session_timeout=299)
    s.join("<a>", 3, session_timeout=1_800_000)
    s.until_answered()
    s.sync("<a>", {"<a>": b"x"})
    s.beat("<a>", -1)
    s.leave(("", ""), ("", None))
    s.join("", 9)
    s.join("x" * 200, 9)
    s.join("<b>", 9, group_instance_id="")
    s.describe()


def empty_and_too_long_names(s: Script) -> None:
    s.join("<long>", 9, group_id=f"{s.group}-long", group_instance_id="i" * 32_731)
    unnamed = [{"name": "", "metadata": b""}]
    s.join("<a>", 9, instance="", protocols=unnamed)
    s.until_answered()
    s.sync("<a>", {"<a>": SOMETHING}, protocol_name="")
    s.describe()
    s.join("<b>", 9, instance="", protocols=unnamed)
    s.until_answered()
    s.beat("<a>")
    s.leave(("", ""))
    s.describe()


def empty_requests(s: Script) -> None:
    s.stable("<a>")
    for group in (s.group, "", f"{s.group}-unknown"):
        for version in (3, 4, 5):
            s.ask(LEAVE, version, {"group_id": group, "members": []})
        s.ask(OFFSET_DELETE, 0, {"group_id": group, "topics": []})
    s.beat("<a>")
    for version in range(7):
        for groups in ([], [s.group, s.group, "", ""]):
            s.ask(DESCRIBE, version, {"groups": groups, "include_authorized_operations": False})
    for version in range(3):
        for groups in ([], ["", f"{s.group}-unknown", f"{s.group}-unknown", s.group]):
            s.ask(DELETE, version, {"groups_names": groups})
    s.commit("<a>")
    asked: tuple[dict[str, list[int]], ...] = ({"t": [], "missing": []}, {"u": [0, 0]}, {"u": [0, -1]})
    for rows in asked:
        topics = [{"name": n, "partitions": [{"partition_index": at} for at in row]} for n, row in rows.items()]
        s.ask(OFFSET_DELETE, 0, {"group_id": s.group, "topics": topics})
    s.committed()


def coordinators(s: Script) -> None:
    s.coordinators_are_there("k", "", SHARE_KEY)
    for version in range(7):
        for kind in (0, 1, 2, 3, 9, -1, 127):
            if kind and version < 1:
                continue
            keys = ["k", "", SHARE_KEY, "a:b", "g:x:0", *(f"{g}{SHARE_KEY[1:]}" for g in ("", " ", "a:b"))]
            keys += [f"{SHARE_KEY[:-1]}{index}" for index in ("x", "-1", "", "0:", "+1", "1_0", "99999999999")]
            if version >= 4:
                s.ask(FIND, version, {"key_type": kind, "coordinator_keys": keys})
                s.ask(FIND, version, {"key_type": kind, "coordinator_keys": ["k", "k"]})
                s.ask(FIND, version, {"key_type": kind, "coordinator_keys": []})
            else:
                for key in keys[:3]:
                    s.ask(FIND, version, {"key": key, "key_type": kind})


SCENARIOS = (
    requests_that_no_client_sends,
    empty_and_too_long_names,
    empty_requests,
    coordinators,
)
