"""The subscribed topics of a consumer group, and its target assignment.

The functions take the members as an argument instead of reading the group: they compute for the members as they will
be after the records of the current operation are replayed.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Mapping

from headrace.cluster.core.image import ClusterImage
from headrace.coordinators.codec import consumer_groups as codec
from headrace.coordinators.group.core.consumer.assignors import ASSIGNORS, AssignedMember
from headrace.coordinators.group.core.consumer.group import ConsumerGroup, ConsumerMember, Partitions, ResolvedRegex
from headrace.coordinators.group.core.consumer.regex import Regex, TopicFilter
from headrace.coordinators.group.core.consumer.regex_syntax import BadRegex
from headrace.coordinators.group.core.effects import Effects
from headrace.kernel.errors import ErrorCode, Refused

Members = Mapping[str, ConsumerMember]


def may_assign(assigned_at_ms: int, interval_ms: int, now_ms: int) -> bool:
    """Whether the interval allows a new target (KIP-1263): when many members join or leave together, one target for all
    of them is better than one for each. The first target (`assigned_at_ms` is 0) does not wait, nor one after a target
    of the future: the clock was set back, or the former coordinator's clock was ahead.
    """
    return assigned_at_ms == 0 or not 0 <= now_ms - assigned_at_ms < interval_ms


def resolve_regexes(
    group: ConsumerGroup,
    members: Members,
    image: ClusterImage,
    effects: Effects,
    now_ms: int,
    visible: TopicFilter | None,
) -> dict[str, ResolvedRegex]:
    """Resolves every expression in use, writes new and changed results, and deletes unused ones.

    `visible` has the rights of the member whose heartbeat this is, as in Kafka. Without it the topics stay as they are.
    So do the topics of an expression that an older release took and that is refused now, or that takes too long for the
    topics of today. Raises INVALID_REGULAR_EXPRESSION for such an expression of a new member.
    """
    wanted = {m.about.topic_regex for m in members.values() if m.about.topic_regex}
    names = frozenset(image.topics)
    resolved: dict[str, ResolvedRegex] = {}
    for text in sorted(wanted):
        known = group.regexes.get(text)
        if known is not None and (visible is None or names == group.seen_topic_names):
            resolved[text] = known
            continue
        if visible is None:
            continue
        try:
            matcher = Regex(text)
            matching = [name for name in names if matcher.matches(name)]
        except BadRegex as bad:
            if known is None:
                raise Refused(ErrorCode.invalid_regular_expression, f"SubscribedTopicRegex {bad}") from bad
            resolved[text] = known
            continue
        topics = frozenset(visible(matching))
        if known is not None and known.topics == topics:
            resolved[text] = known
            continue
        resolved[text] = ResolvedRegex(topics, image.version, now_ms)
        key = codec.key(codec.REGULAR_EXPRESSION, group.group_id, text)
        effects.write(key, codec.regular_expression_value(topics, max(image.version, 0), now_ms))
    for text in sorted(set(group.regexes) - wanted):
        effects.write(codec.key(codec.REGULAR_EXPRESSION, group.group_id, text), None)
    return resolved


def subscribed_names(member: ConsumerMember, regexes: Mapping[str, ResolvedRegex]) -> frozenset[str]:
    names = frozenset(member.about.topic_names)
    regex = member.about.topic_regex
    return names | regexes[regex].topics if regex and regex in regexes else names


def topics_hash(members: Members, regexes: Mapping[str, ResolvedRegex], image: ClusterImage) -> int:
    """Hash of the subscribed topics: changes when topics are created, deleted, grow or move to other racks."""
    names = frozenset().union(*(subscribed_names(m, regexes) for m in members.values()))
    digest = hashlib.blake2b(digest_size=8)
    found = False
    for name in sorted(names):
        topic = image.topics.get(name)
        if topic is None:
            continue
        found = True
        racks = sorted(
            {image.brokers[b].rack or "" for p in topic.partitions for b in p.replicas if b in image.brokers}
        )
        digest.update(f"{name}\0{topic.id}\0{len(topic.partitions)}\0{racks}\0".encode())
    return int.from_bytes(digest.digest(), "big", signed=True) if found else 0


def compute_target(
    group: ConsumerGroup,
    members: Members,
    regexes: Mapping[str, ResolvedRegex],
    image: ClusterImage,
    former: Mapping[str, str],
    speaker: str,
    default_assignor: str,
) -> dict[str, Partitions]:
    """`former`: the static member that is replaced. `speaker`: the member of the current heartbeat."""
    topics: dict[str, frozenset[uuid.UUID]] = {}
    counts: dict[uuid.UUID, int] = {}
    subscriptions = {member_id: subscribed_names(member, regexes) for member_id, member in members.items()}
    for member_id, names in subscriptions.items():
        ids = set()
        for name in names:
            topic = image.topics.get(name)
            if topic is not None:
                ids.add(topic.id)
                counts[topic.id] = len(topic.partitions)
        topics[member_id] = frozenset(ids)
    spec = {
        member_id: AssignedMember(
            topics[member_id],
            member.about.instance_id,
            group.target.get(former.get(member_id, member_id), {}),
        )
        for member_id, member in members.items()
    }
    assignor = ASSIGNORS[group.next_assignor(members, speaker, default_assignor)]
    return dict(assignor(spec, counts, len(set(subscriptions.values())) <= 1))


def subscribed_ids(
    member: ConsumerMember, regexes: Mapping[str, ResolvedRegex], image: ClusterImage
) -> frozenset[uuid.UUID]:
    names = subscribed_names(member, regexes)
    return frozenset(topic.id for name in names if (topic := image.topics.get(name)) is not None)
