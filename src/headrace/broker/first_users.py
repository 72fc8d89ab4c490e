"""Writes SCRAM credentials to the coordination store before the first start of a broker.

If brokers log in to each other with SCRAM, the first user cannot be created over the wire. For a new log directory this
also creates its store and its identity.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Final

from headrace.broker.identity import (
    FIRST_BROKER_ID,
    LockedDirectories,
    home_of,
    open_embedded,
    owner_of,
    settle_in,
)
from headrace.client.scram_users import ScramUser
from headrace.cluster.core.changes import apply
from headrace.cluster.core.credentials import users_of
from headrace.cluster.loading import load_image
from headrace.config import BrokerConfig
from headrace.controller.core.scram_changes import ScramUpsertion, altered
from headrace.controller.member import prepare_store
from headrace.controller.writes import ops_for, version_ops
from headrace.coordination import paths
from headrace.coordination.store import BadVersion, Check, Store
from headrace.kernel.errors import ErrorCode, Refused, StorageFault

_HOLDER: Final = "headrace security add-user"


async def write_users(
    config: BrokerConfig, users: Sequence[ScramUser], cluster_id: str | None = None, *, keep_existing: bool = False
) -> str:
    """Returns the cluster id. `cluster_id`: for a new cluster. `keep_existing`: existing users keep their passwords.
    After a Fault no user has been written."""
    claim = LockedDirectories(config.log_dirs, _HOLDER)
    try:
        owner = owner_of(claim, config)
        if cluster_id is not None and owner.cluster_id not in (None, cluster_id):
            raise StorageFault(f"log directory {owner.path} belongs to cluster {owner.cluster_id}, not {cluster_id}")
        store: Store
        if config.stands_alone or config.shares_store:
            store = open_embedded(claim, owner)
        else:
            from headrace.coordination.zookeeper import open_zookeeper

            zookeeper = await open_zookeeper(config, writes_credentials=True)
            await settle_in(zookeeper, claim, owner, config)
            store = zookeeper
        try:
            found = await prepare_store(store, owner.cluster_id or cluster_id)
            await _write(store, users, keep_existing)
        finally:
            await store.close()
        if config.stands_alone or config.shares_store:
            broker_id = owner.node_id if owner.node_id is not None else max(config.broker_id, FIRST_BROKER_ID)
            claim.save_identity(broker_id, found, home_of(config))
        return found
    finally:
        claim.release()


async def _write(store: Store, users: Sequence[ScramUser], keep_existing: bool) -> None:
    if keep_existing:
        known = set(users_of(await load_image(store)))
        users = [user for user in users if user.name not in known]
        if not users:
            return
    alive = await store.children(paths.BROKER_IDS)
    if alive:
        raise StorageFault(
            f"broker {alive[0]} of this cluster is running: add users with kafka-configs.sh --bootstrap-server"
        )
    head = await store.get(paths.IMAGE)
    image = await load_image(store)
    upsertions = [
        ScramUpsertion(user.name, user.number, user.iterations, user.salt, user.salted_password) for user in users
    ]
    results, changes = altered(image, [], upsertions, secrets.token_urlsafe(32))
    for name, error, message in results:
        if error is not ErrorCode.none:
            raise Refused(error, f"user {name!r}: {message}")
    if not changes:
        return
    after = apply(image, changes, image.version + 1)
    try:
        await store.multi(
            [Check(paths.IMAGE, head.version), *ops_for(changes, image, after), *version_ops(changes, after)]
        )
    except BadVersion:
        raise StorageFault("the cluster changed meanwhile: a broker was started, use kafka-configs.sh") from None
