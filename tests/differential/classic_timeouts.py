"""Scenarios of classic groups with timeouts: sessions, joins, syncs, pending members."""

from __future__ import annotations

from tests.differential.classic_scenarios import SOMETHING
from tests.differential.classic_script import Script

# Twice a timeout is long enough for both brokers to apply it, also on a busy machine.
SHORT_MS, AFTER_MS = 500, 1_000
LARGE = b"x" * 1_100_000


def a_pending_member_that_never_joins(s: Script) -> None:
    s.stable("<a>")
    s.known("<p>", session_timeout=SHORT_MS)
    s.known("<b>")
    s.join("<b>")
    s.join("<a>")
    s.describe()
    s.until_answered()
    s.join("<p>")
    s.beat("<a>")


def a_member_that_never_rejoins(s: Script) -> None:
    s.stable("<a>", "<b>", rebalance_timeout=SHORT_MS)
    s.known("<c>")
    s.join("<c>", rebalance_timeout=SHORT_MS)
    s.join("<a>", rebalance_timeout=SHORT_MS)
    s.beat("<b>")
    s.until_answered()
    s.describe()
    s.beat("<b>")
    s.sync("<b>")
    s.commit("<b>")
    s.join("<b>")
    s.beat("<a>")


def a_leader_that_never_rejoins(s: Script) -> None:
    s.stable("<a>", "<b>", rebalance_timeout=SHORT_MS)
    s.join("<b>", rebalance_timeout=SHORT_MS, protocols=[{"name": "range", "metadata": b"new"}])
    s.until_answered()
    assert s.leader == "<b>"
    s.beat("<a>")
    s.sync("<b>", {"<b>": SOMETHING})


def a_static_member_that_is_away(s: Script) -> None:
    s.instances["<b>"] = "i"
    s.stable("<a>", "<b>", rebalance_timeout=SHORT_MS)
    s.known("<c>")
    s.join("<c>", rebalance_timeout=SHORT_MS)
    s.join("<a>", rebalance_timeout=SHORT_MS)
    s.until_answered()
    s.describe()
    s.beat("<b>", s.generation - 1)
    s.beat("<b>")
    s.join("<b>", rebalance_timeout=SHORT_MS)
    s.sync("<c>")
    s.sync("<b>")
    s.sync("<a>", {"<a>": SOMETHING, "<b>": b"b", "<c>": b"c"})
    s.describe()


def static_members_only_and_none_rejoins(s: Script) -> None:
    s.instances["<a>"], s.instances["<b>"] = "i", "j"
    s.stable("<a>", "<b>", rebalance_timeout=SHORT_MS, session_timeout=4 * SHORT_MS)
    s.known("<c>")
    s.join("<c>", rebalance_timeout=SHORT_MS)
    s.leave(("<c>", None))
    s.pass_time(AFTER_MS)
    s.describe()
    s.pass_time(4 * AFTER_MS - AFTER_MS)
    s.describe()
    s.beat("<a>")
    s.delete()


def a_static_member_restarted_after_its_session(s: Script) -> None:
    s.instances["<a>"] = "i"
    s.stable("<a>", session_timeout=SHORT_MS)
    s.pass_time(AFTER_MS)
    s.describe()
    s.beat("<a>")
    s.join("<a>")
    s.join("<a again>", 9, instance="i")
    s.until_answered()
    s.describe()


def a_static_member_restarted_while_it_waits(s: Script) -> None:
    s.stable("<a>")
    s.join("<s>", instance="i", session_timeout=SHORT_MS)
    s.join("<s again>", instance="i", session_timeout=SHORT_MS)
    s.pass_time(AFTER_MS)
    s.describe()
    s.join("<a>")
    s.until_answered()
    s.describe()


def a_session_that_ends(s: Script) -> None:
    s.stable("<a>")
    s.known("<b>")
    s.join("<b>", session_timeout=SHORT_MS)
    s.join("<a>")
    s.until_answered()
    s.sync("<b>", session_timeout=SHORT_MS)
    s.sync("<a>", {"<a>": SOMETHING, "<b>": b"b"})
    for _ in range(4):
        s.pass_time(SHORT_MS // 3)
        s.beat("<b>")
    for _ in range(4):
        s.pass_time(SHORT_MS // 3)
        s.commit("<b>")
    s.pass_time(AFTER_MS)
    s.beat("<b>")
    s.beat("<a>")
    s.describe()


def a_session_that_ends_while_a_sync_waits(s: Script) -> None:
    s.stable("<a>")
    s.known("<b>")
    s.join("<b>", session_timeout=SHORT_MS)
    s.join("<a>")
    s.until_answered()
    s.sync("<b>")
    s.pass_time(AFTER_MS)
    s.sync("<a>", {"<b>": b"b"})
    s.beat("<b>")
    s.pass_time(AFTER_MS)
    s.beat("<b>")


def a_leader_whose_session_ends_before_it_assigned(s: Script) -> None:
    s.stable("<a>", session_timeout=SHORT_MS)
    s.known("<b>")
    s.join("<b>")
    s.join("<a>", session_timeout=SHORT_MS)
    s.until_answered()
    s.sync("<b>")
    s.until_answered()
    s.beat("<a>")
    s.join("<b>")
    s.until_answered()
    assert s.leader == "<b>"


def a_leader_that_never_assigns(s: Script) -> None:
    s.joined("<a>", "<b>", rebalance_timeout=SHORT_MS)
    s.sync("<b>")
    s.beat("<a>")
    s.until_answered()
    s.beat("<a>")
    s.beat("<b>")
    s.describe()


def a_follower_that_never_syncs(s: Script) -> None:
    s.joined("<a>", "<b>", rebalance_timeout=SHORT_MS)
    s.sync("<a>", {"<a>": SOMETHING, "<b>": SOMETHING})
    s.describe()
    s.beat("<b>")
    s.pass_time(AFTER_MS)
    s.beat("<a>")
    s.beat("<b>")
    s.describe()


def a_negative_rebalance_timeout(s: Script) -> None:
    s.join("<a>", 3, rebalance_timeout=-1)
    s.until_answered()
    s.pass_time(SHORT_MS)
    s.beat("<a>")
    s.describe()
    s.delete()


def assignments_that_do_not_fit_in_the_log(s: Script) -> None:
    s.joined("<a>", "<b>")
    s.sync("<b>")
    s.sync("<a>", {"<a>": LARGE, "<b>": SOMETHING})
    s.describe()
    s.beat("<a>")
    s.beat("<b>")
    s.join("<a>")
    s.join("<b>")
    s.until_answered()
    s.sync("<b>")
    s.sync("<a>", {"<a>": SOMETHING, "<b>": SOMETHING})
    s.beat("<b>")
    s.describe()


SCENARIOS = (
    a_pending_member_that_never_joins,
    a_member_that_never_rejoins,
    a_leader_that_never_rejoins,
    a_static_member_that_is_away,
    static_members_only_and_none_rejoins,
    a_static_member_restarted_after_its_session,
    a_static_member_restarted_while_it_waits,
    a_session_that_ends,
    a_session_that_ends_while_a_sync_waits,
    a_leader_whose_session_ends_before_it_assigned,
    a_leader_that_never_assigns,
    a_follower_that_never_syncs,
    a_negative_rebalance_timeout,
    assignments_that_do_not_fit_in_the_log,
)
