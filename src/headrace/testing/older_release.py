"""Emulation of older brokers: a broker that offers only the APIs and versions of an earlier release of Kafka.

    broker(version="2.8")

Clients choose their requests by the answer to ApiVersions, so limiting that answer makes them behave as with that
release. A request beyond it closes the connection, as Kafka does. The lowest versions stay those of Headrace, because
no client chooses a version below the highest that both sides know.
"""

from __future__ import annotations

from typing import Final

from headrace.broker.environment import Serve
from headrace.handlers.cluster.api_versions import unsupported_version_answer
from headrace.net.connection import Connection
from headrace.net.replies import CLOSE, Reply
from headrace.wire.apis import ApiKey
from headrace.wire.codec import MalformedRequest, RequestHeader, encode_response, read_request_header


def _numbered(*highest: int | None) -> dict[int, int]:
    """The highest version of each API, by its key, from key 0 on; None for an API that the release does not have."""
    return {key: version for key, version in enumerate(highest) if version is not None}


# Keys 4 to 7 are between brokers and their controller: no client sends them.
_KAFKA_2_8: Final = (
    # 0–9: Produce, Fetch, ListOffsets, Metadata, …, OffsetCommit, OffsetFetch
    *(9, 12, 6, 11, None, None, None, None, 8, 7),
    # 10–19: FindCoordinator, groups, SASL handshake, ApiVersions, CreateTopics
    *(3, 7, 4, 4, 5, 5, 4, 1, 3, 7),
    # 20–29: DeleteTopics, DeleteRecords, InitProducerId, epochs, transactions, DescribeAcls
    *(6, 2, 4, 4, 3, 3, 3, 1, 3, 2),
    # 30–39: ACLs, configs, log directories, SaslAuthenticate, CreatePartitions, tokens
    *(2, 2, 4, 2, 2, 2, 2, 3, 2, 2),
    # 40–49: tokens, DeleteGroups, ElectLeaders, IncrementalAlterConfigs, reassignments, OffsetDelete, quotas
    *(2, 2, 2, 2, 1, 0, 0, 0, 1, 1),
    # 50–61: SCRAM users, …, UpdateFeatures, …, DescribeCluster, DescribeProducers
    *(0, 0, None, None, None, None, None, 0, None, None, 0, 0),
)
RELEASES: Final = {
    "2.8": _numbered(*_KAFKA_2_8),
    # ListOffsets, OffsetFetch and FindCoordinator grew; DescribeTransactions and ListTransactions are new.
    "3.0": {**_numbered(*_KAFKA_2_8), 2: 7, 9: 8, 10: 4, 65: 0, 66: 0},
}


class UnknownRelease(ValueError):
    """There is no emulation of this release."""


class OlderRelease:
    """The limits of one release. Raises UnknownRelease."""

    def __init__(self, version: str) -> None:
        if version not in RELEASES:
            known = ", ".join(RELEASES)
            raise UnknownRelease(f"version={version!r}: releases that can be emulated are {known}")
        self._highest = RELEASES[version]

    def limits(self, api_key: int, served: range) -> range:
        """The versions that the emulated broker offers of those that are served; empty for none."""
        highest = self._highest.get(api_key)
        return range(0) if highest is None else range(served.start, min(served.stop, highest + 1))

    def intercept(self, serve: Serve, advertised: dict[int, range]) -> Serve:
        """`advertised`: the versions that the broker offers. Filled before the first request."""

        def serve_or_refuse(frame: memoryview, connection: Connection) -> Reply:
            try:
                header, _ = read_request_header(frame)
            except (MalformedRequest, IndexError):
                return serve(frame, connection)
            offered = self.limits(header.api_key, advertised.get(header.api_key, range(0)))
            if header.api_key == ApiKey.API_VERSIONS:
                return self._versions(header, offered, advertised)
            return serve(frame, connection) if header.api_version in offered else CLOSE

        return serve_or_refuse

    def _versions(self, header: RequestHeader, own: range, advertised: dict[int, range]) -> Reply:
        if header.api_version not in own:
            return encode_response(ApiKey.API_VERSIONS, 0, header.correlation_id, unsupported_version_answer(own))
        offered = {key: self.limits(key, served) for key, served in advertised.items()}
        fields = {
            "error_code": 0,
            "api_keys": [
                {"api_key": key, "min_version": versions.start, "max_version": versions.stop - 1}
                for key, versions in sorted(offered.items())
                if versions
            ],
            "throttle_time": 0,
            "supported_features": [],
            "finalized_features_epoch": -1,
            "finalized_features": [],
            "zk_migration_ready": False,
        }
        return encode_response(ApiKey.API_VERSIONS, header.api_version, header.correlation_id, fields)
