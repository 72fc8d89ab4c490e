"""Election rules of each topic, from the settings in an image, and the count of unclean elections."""

from __future__ import annotations

import logging
from collections.abc import Callable

from headrace.cluster.core.image import ClusterImage
from headrace.config import BrokerConfig, TopicConfig
from headrace.controller.core.elections import ElectionResult, TopicRules

logger = logging.getLogger(__name__)


class ElectionPolicy:
    """`unclean_elections` and `elections_from_last_known` count since the broker started."""

    def __init__(self, config: Callable[[], BrokerConfig]) -> None:
        self._config = config
        self.unclean_elections = 0
        self.elections_from_last_known = 0

    @property
    def config(self) -> BrokerConfig:
        """The configuration of the broker that is the controller."""
        return self._config()

    def of(self, image: ClusterImage) -> Callable[[str], TopicRules]:
        """The rules of a topic from the settings of `image`, before brokers have applied it."""
        config = self._config()
        for_all = image.config_of("broker", "")
        if for_all != config.dynamic_default:
            config = config.with_dynamic(config.dynamic_broker, for_all)
        plain: TopicRules | None = None

        def rules_of(topic: str) -> TopicRules:
            nonlocal plain
            overrides = image.config_of("topic", topic)
            if not overrides and plain is not None:
                return plain
            settings = TopicConfig(config, overrides)
            rules = TopicRules(settings.min_insync_replicas, settings.unclean_leader_election_enable)
            if not overrides:
                plain = rules
            return rules

        return rules_of

    def report(self, decided: ElectionResult) -> None:
        """Counts and logs the elections that may have lost records."""
        if decided.unclean:
            self.unclean_elections += len(decided.unclean)
            logger.warning(
                "unclean leader election, records may be lost: %s", ", ".join(map(str, decided.unclean[:50]))
            )
        if decided.from_last_known:
            self.elections_from_last_known += len(decided.from_last_known)
            some = ", ".join(map(str, decided.from_last_known[:5]))
            logger.info(
                "%d partitions are led again by their last known leader after it stopped uncleanly (%s …)",
                len(decided.from_last_known),
                some,
            )
