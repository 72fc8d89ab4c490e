"""The authorizer of this broker: built from the settings, and again for every image with other ACLs.

Without `authorizer.class.name` there is none, and every client may do everything. While the coordination store
does not answer, the broker keeps the ACLs of the last image that it read; after its lease ends it serves nothing.
"""

from __future__ import annotations

from headrace.cluster.core.image import ClusterImage
from headrace.cluster.view import ClusterView
from headrace.config import BrokerConfig
from headrace.security.acl.authorizer import Authorizer


class AccessControl:
    """`current` is the authorizer in force. Owned by the event loop."""

    def __init__(self, config: BrokerConfig, view: ClusterView) -> None:
        self._super_users = [name for part in (config.super_users or "").split(";") if (name := part.strip())]
        self._allow_if_no_acl = config.allow_everyone_if_no_acl_found
        self.current = self._authorizer(view.current)
        view.subscribe(self._follow)

    def _follow(self, old: ClusterImage, new: ClusterImage) -> None:
        if old.acls is not new.acls or old.version < 0:
            self.current = self._authorizer(new)

    def _authorizer(self, image: ClusterImage) -> Authorizer:
        return Authorizer(
            image.acls,
            super_users=self._super_users,
            allow_if_no_acl=self._allow_if_no_acl,
            is_loaded=image.version >= 0,
        )


def access_control(config: BrokerConfig, view: ClusterView) -> AccessControl | None:
    return AccessControl(config, view) if config.authorizer_class_name else None
