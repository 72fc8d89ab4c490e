"""Loads the cluster image from the store, whole or by its changes.

The store has the image twice: as nodes (one per topic, partition, config …) and as a list of the newest changes. The
controller writes the version node together with both in one multi. Reading many nodes takes time, and the controller
may write meanwhile, so the result mixes states between version `a` (read before) and `b` (read after). Every change has
absolute values: replaying a+1 … b over that result gives exactly version b.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from uuid import UUID

from headrace.cluster import codecs
from headrace.cluster.core.changes import Change, QuotaSet, apply
from headrace.cluster.core.image import ClusterImage, PartitionInfo, QuotaEntity, TopicInfo
from headrace.coordination import paths
from headrace.coordination.store import NoNode, Store, StoreFailed
from headrace.kernel.ids import INTERNAL_TOPICS
from headrace.security.acl import store_format
from headrace.security.acl.model import Entry, ResourcePattern

# Reads in flight: enough to hide the round trip, few enough not to overload a small ensemble.
_READS_AT_ONCE = 256


class ChangesGone(Exception):
    """The change list no longer has the needed versions: load the whole image."""


async def stored_version(store: Store) -> int:
    node = await store.exists(paths.IMAGE)
    return 0 if node is None else int(codecs.from_json(node.data)["version"])


async def load_changes(store: Store, after: int, up_to: int) -> list[tuple[int, list[Change]]]:
    """Every change list after version `after`, oldest first. Raises ChangesGone."""
    try:
        nodes = await _gather([paths.change(version) for version in range(after + 1, up_to + 1)], store)
    except NoNode:
        raise ChangesGone(f"change lists {after + 1} to {up_to} are not all there") from None
    return [(after + 1 + at, codecs.decode_changes(data)) for at, data in enumerate(nodes)]


async def load_image(store: Store) -> ClusterImage:
    """The whole image at the newest version."""
    for _ in range(10):
        before = await stored_version(store)
        image, torn = await _load_nodes(store, before)
        after = await stored_version(store)
        try:
            for version, changes in await load_changes(store, before, after):
                image = apply(image, changes, version)
        except ChangesGone:
            continue  # the controller wrote too much during the read; start again
        _check_deleted(torn, image)
        return image
    raise StoreFailed("the cluster changes faster than this broker can read it: ten attempts in a row were overtaken")


def _check_deleted(torn: Sequence[tuple[str, UUID, int]], image: ClusterImage) -> None:
    """Raises if a topic lacks a node although it was not deleted during the read: its nodes are damaged. A broker must
    not treat such a topic as missing, because it would give up the logs.
    """
    for name, topic_id, index in torn:
        if topic_id not in image.deleted_topics:
            raise StoreFailed(
                f"topic {name} has no node {paths.partition_state(name, index)} in the coordination store and was not "
                "deleted: restore the node, or delete the topic's nodes to give up the topic"
            )


async def load_newer(store: Store, image: ClusterImage) -> ClusterImage:
    """The newest image: by the changes since `image` if the store still has them, otherwise whole."""
    if image.version >= 0:
        try:
            for version, changes in await load_changes(store, image.version, await stored_version(store)):
                image = apply(image, changes, version)
            return image
        except ChangesGone:
            pass
    return await load_image(store)


async def _gather(wanted: Sequence[str], store: Store) -> list[bytes]:
    found: list[bytes] = []
    for at in range(0, len(wanted), _READS_AT_ONCE):
        nodes = await asyncio.gather(*(store.get(path) for path in wanted[at : at + _READS_AT_ONCE]))
        found.extend(node.data for node in nodes)
    return found


async def _gather_existing(wanted: Sequence[str], store: Store) -> list[bytes | None]:
    found: list[bytes | None] = []
    for at in range(0, len(wanted), _READS_AT_ONCE):
        found += await store.data_of(wanted[at : at + _READS_AT_ONCE])
    return found


async def _load_nodes(store: Store, version: int) -> tuple[ClusterImage, list[tuple[str, UUID, int]]]:
    """The image from the nodes, and the topics (with id and partition) that lack a partition's node."""
    cluster_id = codecs.from_json((await store.get(paths.CLUSTER_ID)).data)["id"]
    head = await store.exists(paths.IMAGE)
    value = {} if head is None else codecs.from_json(head.data)
    accepted = await store.children(paths.ACCEPTED_BROKERS)
    rows = await _gather_existing([f"{paths.ACCEPTED_BROKERS}/{name}" for name in accepted], store)
    brokers = [codecs.decode_accepted(row) for row in rows if row is not None]
    whole, torn = await _load_topics(store)
    topics = {topic.name: topic for topic in whole}
    features = await store.children(paths.FEATURES)
    levels = await _gather_existing([paths.feature(name) for name in features], store)
    producer_ids = await store.exists(paths.PRODUCER_IDS)
    image = ClusterImage(
        version=version,
        cluster_id=cluster_id,
        controller_id=value.get("controller", -1),
        controller_epoch=value.get("controller_epoch", 0),
        brokers={broker.id: broker for broker in brokers if not broker.fenced},
        fenced_brokers={broker.id: broker for broker in brokers if broker.fenced},
        topics=topics,
        topic_names={topic.id: topic.name for topic in topics.values()},
        # The controller removes overrides of a deleted topic from the store without a change, so they are ignored.
        configs={
            key: one for key, one in (await _load_configs(store)).items() if key[0] != "topic" or key[1] in topics
        },
        quotas=await _load_quotas(store),
        acls=await load_acls(store),
        features={name: codecs.from_json(data)["level"] for name, data in zip(features, levels, strict=True) if data},
        next_producer_id=0 if producer_ids is None else codecs.decode_next_producer_id(producer_ids.data),
    )
    return image, torn


async def _load_topics(store: Store) -> tuple[list[TopicInfo], list[tuple[str, UUID, int]]]:
    names = await store.children(paths.TOPICS)
    going = set(await store.children(paths.DELETE_TOPICS))
    names = [name for name in names if name not in going]
    heads = await _gather_existing([paths.topic(name) for name in names], store)
    decoded: list[tuple[str, UUID, dict[str, object]]] = []
    wanted: list[str] = []
    for name, head in zip(names, heads, strict=True):
        topic = None if head is None else codecs.decode_topic(head)
        if topic is not None:
            decoded.append((name, *topic))
            wanted.extend(paths.partition_state(name, index) for index in range(len(topic[1]["partitions"])))
    states = iter(await _gather_existing(wanted, store))
    topics: list[TopicInfo] = []
    torn: list[tuple[str, UUID, int]] = []
    for name, topic_id, raw in decoded:
        infos: list[PartitionInfo] = []
        missing: int | None = None
        for index in range(len(raw["partitions"])):  # type: ignore[arg-type]
            state = next(states)
            if state is None:
                missing = index if missing is None else missing
            else:
                infos.append(codecs.decode_partition(index, raw, state))
        if missing is None:
            topics.append(TopicInfo(name, topic_id, tuple(infos), name in INTERNAL_TOPICS))
        else:
            torn.append((name, topic_id, missing))
    return topics, torn


async def _load_configs(store: Store) -> dict[tuple[str, str], dict[str, str]]:
    configs: dict[tuple[str, str], dict[str, str]] = {}
    for resource_type, folder in paths.CONFIG_FOLDERS.items():
        names = await store.children(f"{paths.CONFIG}/{folder}")
        rows = await _gather_existing([f"{paths.CONFIG}/{folder}/{name}" for name in names], store)
        for name, row in zip(names, rows, strict=True):
            if row is not None:
                known_as = "" if name == paths.DEFAULT_NAME else paths.unescape(name)
                configs[(resource_type, known_as)] = codecs.decode_config(row)
    return configs


async def _load_quotas(store: Store) -> dict[QuotaEntity, dict[str, float]]:
    names = await store.children(paths.QUOTAS)
    rows = await _gather_existing([f"{paths.QUOTAS}/{name}" for name in names], store)
    found: list[QuotaSet] = [codecs.decode_quota(row) for row in rows if row is not None]
    return {quota.entity: dict(quota.values) for quota in found}


async def load_acls(store: Store) -> dict[ResourcePattern, tuple[Entry, ...]]:
    """The ACLs from the nodes. Raises if a node is unreadable: without it the image would allow more."""
    found: dict[ResourcePattern, tuple[Entry, ...]] = {}
    for resource_type, pattern_type, folder in store_format.folders():
        names = await store.children(folder)
        rows = await _gather_existing([f"{folder}/{name}" for name in names], store)
        for name, row in zip(names, rows, strict=True):
            try:
                entries = () if row is None else store_format.decode_entries(row)
            except store_format.UnreadableAcls as error:
                raise StoreFailed(
                    f"the ACLs in {folder}/{name} of the coordination store cannot be read ({error}): correct the "
                    "node, or delete it to remove its ACLs"
                ) from None
            if entries:
                pattern = ResourcePattern(resource_type, store_format.decoded_name(name), pattern_type)
                found[pattern] = entries
    return found
