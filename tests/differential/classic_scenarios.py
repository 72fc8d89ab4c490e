"""Scenarios of classic groups, each about one rule of Kafka. `test_classic_scenarios` runs them on both brokers."""

from __future__ import annotations

from headrace.coordinators.group.core.classic.embedded_protocol import write_assignment
from tests.differential.classic_script import Script, protocols

TXN_COMMIT = 28
SHARE_KEY = "g:AAAAAAAAAAAAAAAAAAAAAQ:0"
SOMETHING = write_assignment((("t", (0, 1)),), 1)


def instance_ids_fence(s: Script) -> None:
    """A second process with the same instance id takes over the membership. All requests of the first are fenced."""
    s.join("<old>", instance="i")
    s.until_answered()
    s.sync("<old>", {"<old>": SOMETHING})
    s.join("<new>", instance="i")
    for version in range(5, 10):
        s.join("<old>", version)
    for version in range(3, 6):
        s.sync("<old>", version=version)
        s.leave(("<old>", "i"), version=version)
        s.leave(("<old>", "i"), ("nobody", None), ("nobody", "i"), ("", "j"), ("<old>", None), version=version)
    for version in (3, 4):
        s.beat("<old>", version=version)
        s.beat("<old>", version=version, group_instance_id=None)
        s.beat("<old>", 99, version=version)
        s.beat("<new>", version=version, group_instance_id="j")
        s.beat("nobody", version=version, group_instance_id="i")
    for version in range(7, 11):
        s.commit("<old>", version=version)
        s.commit("<old>", -1, version=version)
        s.commit("", -1, version=version, group_instance_id="i")
        s.commit("<new>", 99, version=version)
    s.committed()
    s.beat("<new>")
    s.sync("<new>")
    s.commit("<new>")
    s.describe()
    s.leave(("<new>", None))  # the member id is enough
    s.describe()


def instance_ids_fence_in_transactions(s: Script) -> None:
    s.coordinators_are_there("k", "", SHARE_KEY)
    s.join("<old>", instance="i")
    s.until_answered()
    s.sync("<old>", {"<old>": SOMETHING})
    s.join("<new>", instance="i")
    partition = {"partition_index": 0, "committed_offset": 5, "committed_leader_epoch": -1, "committed_metadata": ""}
    for at, version in enumerate((3, 4)):
        transactional_id = f"{s.group}-{at}"
        producer = s.producer(transactional_id)
        for member, generation, instance in (
            ("<old>", s.generation, "i"),
            ("<old>", s.generation, None),
            ("<new>", s.generation, "j"),
            ("<new>", s.generation + 1, "i"),
            ("nobody", s.generation, None),
            ("", s.generation, None),
            ("", -1, "i"),
            ("", -1, None),
            ("<new>", s.generation, "i"),
        ):
            body = {
                "transactional_id": transactional_id,
                "group_id": s.group,
                "producer_id": producer,
                "producer_epoch": 0,
                "generation_id": generation,
                "member_id": member,
                "group_instance_id": instance,
                "topics": [{"name": "t", "partitions": [partition]}],
            }
            s.ask(TXN_COMMIT, version, body)


def instance_ids_fence_waiting_members(s: Script) -> None:
    s.instances["<a>"], s.instances["<b>"] = "i", "j"
    s.stable("<a>", "<b>")
    s.join("<a>")  # a leader that rejoins starts a rebalance, which waits for the other member
    s.join("<a again>", instance="i")
    s.describe()
    s.join("<b again>", instance="j")
    s.until_answered()
    s.sync("<b again>")
    s.join("<b third>", instance="j")  # while its old member id waits for its assignment: all members rejoin
    s.beat("<a again>")
    s.join("<a again>")
    s.until_answered()
    s.describe()


def static_members_return(s: Script) -> None:
    s.instances["<a>"], s.instances["<b>"] = "i", "j"
    s.stable("<a>", "<b>")
    for version in range(5, 10):
        s.join(f"<b{version}>", version, instance="j")
        s.sync(f"<b{version}>")
        s.join(f"<a{version}>", version, instance="i")
        s.sync(f"<a{version}>", {f"<a{version}>": b"another"})
        s.beat(f"<b{version}>")
        s.describe()
    s.join("<other topics>", 9, instance="j", protocols=protocols("range", topics=("u",)))
    s.describe()
    s.delete_offsets("t", "u")
    s.join("<more protocols>", 9, instance="j", protocols=protocols("sticky", "range"))
    s.describe()
    s.join("<unfit>", 9, instance="j", protocols=protocols("sticky"))
    s.join("<unfit>", 9, instance="j", protocol_type="connect")
    s.beat("<more protocols>")


def leaving_in_one_request(s: Script) -> None:
    s.instances["<b>"], s.instances["<c>"] = "i", "j"
    s.stable("<a>", "<b>", "<c>")
    s.known("<pending>")
    for version in range(3, 6):
        s.leave(("nobody", None), ("", None), ("", "nobody"), ("nobody", "i"), ("<a>", "i"), version=version)
    s.beat("<a>")
    s.leave(("<pending>", None), ("<pending>", None))
    s.beat("<a>")  # leaving members that are not in the generation keep it, or start a rebalance, as in Kafka
    s.leave(("", "i"), ("", "i"), ("<c>", "j"), ("nobody", None))
    s.beat("<a>")
    s.beat("<b>")
    s.join("<a>")
    s.until_answered()
    s.leave(("<a>", None), version=0)
    s.leave(("<a>", None), version=1)
    s.describe()
    s.leave(("<a>", None))


def a_leader_leaves(s: Script) -> None:
    s.stable("<a>", "<b>")
    s.leave(("<a>", None))
    s.beat("<b>")
    s.beat("<a>")
    s.sync("<b>")
    s.join("<b>")
    s.until_answered()
    assert s.leader == "<b>"
    s.beat("<b>")
    s.describe()
    s.known("<c>")
    s.join("<c>")
    s.leave(("<b>", None))  # between join and sync
    s.until_answered()
    assert s.leader == "<c>"
    s.sync("<c>", {})
    s.describe()


def requests_in_every_state(s: Script) -> None:
    def look() -> None:
        for version in range(7):
            s.describe(version)
            if version >= 3:
                s.describe(version, operations=True)
        for version in range(3):
            s.delete(version)
        for generation in (s.generation, s.generation - 1, -1):
            s.commit("<a>", generation)
            s.commit("", generation)
        s.commit("<p>")
        s.delete_offsets("t", "u", "missing")
        s.beat("<a>")
        s.beat("<a>", s.generation - 1)
        s.beat("<p>")
        s.sync("<p>")
        for states in (
            ["stable"],
            ["EMPTY", "preparingREBALANCE"],
            ["CompletingRebalance"],
            ["Dead"],
            ["Assigning"],
            [""],
        ):
            s.list(states)
            s.list(states, version=4)
        for types in (["classic"], ["Classic", "consumer"], ["CONSUMER"], ["share"], ["nonsense"], [""], ["unknown"]):
            s.list((), types)
            s.list(["Stable"], types)

    s.known("<p>")
    s.known("<a>")
    look()  # empty, with a pending member
    s.delete()
    s.join("<a>")
    s.known("<b>")
    s.known("<c>")
    s.join("<b>")
    s.until_answered()
    look()  # completing
    s.sync("<b>", {"<b>": SOMETHING})
    look()  # stable
    s.known("<d>")
    s.join("<d>")
    look()  # preparing
    s.join("<b>")
    s.leave(("<c>", None))
    s.until_answered()


def deleted_while_a_member_is_pending(s: Script) -> None:
    s.known("<a>")
    s.describe()
    s.delete()
    s.describe()
    s.join("<a>")
    s.delete()
    s.beat("<a>")
    s.commit("", -1)
    s.describe()
    s.known("<b>")
    s.describe()
    s.committed()
    s.delete()
    s.committed()


def missing_duplicate_and_unknown_assignments(s: Script) -> None:
    s.joined("<a>", "<b>")
    s.sync("<b>", protocol_type="connect")
    s.sync("<b>", protocol_name="sticky")
    s.sync("<b>", protocol_type="", protocol_name="")
    s.sync("<b>", protocol_type=None)
    s.sync("<b>", protocol_name=None)
    s.sync("<b>", protocol_name=None, group_id=f"{s.group}-unknown")
    s.sync("<b>", protocol_name=None, group_id="")
    s.sync("<a>", generation=s.generation - 1)
    s.sync("<b>", {"<b>": b"not the leader's"})
    s.sync("<a>", {"<a>": SOMETHING, "nobody": b"x"})
    s.sync("<b>")
    s.describe()
    s.sync("<b>", version=4)
    s.sync("<b>", {"<b>": b"late"})
    s.join("<a>")
    s.join("<b>")
    s.until_answered()
    doubled = [{"member_id": "<b>", "assignment": what} for what in (b"first", b"second", b"third")]
    s.sync("<a>", assignments=doubled)
    s.sync("<b>", version=3)
    s.describe()


def rejoins_with_same_and_other_protocols(s: Script) -> None:
    s.stable("<a>", "<b>")
    s.join("<b>")  # the same protocols: the generation stays
    s.sync("<b>")
    s.beat("<a>")
    s.join("<b>", session_timeout=50_000, rebalance_timeout=50_000)
    s.beat("<a>")
    s.join("<b>", protocols=protocols("range", topics=("t", "u")))
    s.beat("<a>")
    s.describe()
    s.join("<a>", protocols=protocols("range", "sticky"))
    s.until_answered()
    s.join("<b>", protocols=protocols("range", topics=("t", "u")))  # again, the generation is not stable yet
    s.join("<a>", protocols=protocols("range", "sticky"))
    s.join("<a>", protocols=protocols("sticky", "range"))  # other protocols between join and sync
    s.join("<b>", protocols=protocols("other"))
    s.join("<b>")
    s.until_answered()
    s.join("<b>", protocols=[])
    s.join("<b>", protocol_type="")
    s.describe()


def votes(s: Script) -> None:
    names = ["range", "roundrobin", "sticky", "cooperative-sticky"]
    s.stable("<a>", "<b>", protocols=protocols(*names))
    for first in range(4):
        for second in range(first + 1, 4):
            two = [names[first], names[second]]
            both = [*two, *(name for name in names if name not in two)]
            s.join("<b>", protocols=protocols(*both[1:], both[0]))
            s.join("<a>", protocols=protocols(*both))
            s.until_answered()
    for two in (
        ["a", "b"],
        ["b", "a"],
        ["x-1", "x-2"],
        ["default_0", "default_1"],
        ["compatible", "sessioned"],
        ["", "z"],
    ):
        mine = [*two, *names]
        s.join("<b>", protocols=protocols(*names, *two))
        s.join("<a>", protocols=protocols(*mine))
        s.until_answered()
        s.join("<b>", protocols=protocols(*reversed(mine)))
        s.join("<a>", protocols=protocols(*mine))
        s.until_answered()


def other_protocol_types(s: Script) -> None:
    connect = {"protocol_type": "connect", "protocols": [{"name": "sessioned", "metadata": b"\x00\x02anything"}]}
    s.stable("<a>", "<b>", **connect)
    s.describe()
    s.list()
    s.commit("<a>")
    s.delete_offsets("t")
    s.join("<c>", 4)
    s.join("<c>", 4, protocol_type="sr")
    s.leave(("<a>", None), ("<b>", None))
    s.delete_offsets("t")
    s.describe()
    s.join("<c>", 3, protocol_type="sr", protocols=[{"name": "v0", "metadata": b""}])
    s.until_answered()
    s.sync("<c>", {"<c>": b""}, protocol_type="sr", protocol_name="v0")
    s.describe()
    s.list(["Stable"], ["classic"])


def full_groups(s: Script) -> None:
    s.instances["<d>"] = "i"
    s.stable("<a>", "<b>", "<c>", "<d>")
    for version in (0, 3, 4, 9):
        s.join(f"<late {version}>", version)
    s.join("<other static>", 9, instance="j")
    s.join("<b>")
    s.sync("<b>")
    s.join("<d again>", 9, instance="i")  # Kafka checks the group size before it checks whose membership that is
    s.beat("<d>")
    s.leave(("<c>", None))
    s.known("<late>")
    s.known("<later>")
    for name in ("<a>", "<b>", "<late>"):
        s.join(name)
    s.join("<later>")
    s.join("<d>", 9)  # the group is full of waiting members: the last one is rejected
    s.leave(("<later>", None))
    s.until_answered()
    s.describe()


SCENARIOS = (
    instance_ids_fence,
    instance_ids_fence_in_transactions,
    instance_ids_fence_waiting_members,
    static_members_return,
    leaving_in_one_request,
    a_leader_leaves,
    requests_in_every_state,
    deleted_while_a_member_is_pending,
    missing_duplicate_and_unknown_assignments,
    rejoins_with_same_and_other_protocols,
    other_protocol_types,
    full_groups,
)
