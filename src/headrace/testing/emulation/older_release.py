"""Emulation of older brokers: a broker that offers only the APIs and versions of an earlier release of Kafka.

    broker(version="2.8")

Clients choose their requests by the answer to ApiVersions, so limiting that answer makes them behave as with that
release. A request beyond it closes the connection, as Kafka does. APIs that the release has switched off answer
UNSUPPORTED_VERSION. The lowest versions stay those of Headrace, because no client chooses a version below the highest
that both sides know. `kafka_releases` has the facts.
"""

from __future__ import annotations

from typing import Final

from headrace.broker.environment import Serve
from headrace.handlers.cluster.api_versions import unsupported_version_answer
from headrace.handlers.dispatch.error_answers import error_answer
from headrace.kernel.errors import ErrorCode
from headrace.net.connection import Connection
from headrace.net.replies import CLOSE, Reply
from headrace.testing.emulation.kafka_releases import RELEASES
from headrace.wire.apis import ApiKey
from headrace.wire.codec import MalformedRequest, RequestHeader, encode_response, read_request_header

# Clients before this version of ApiVersions fail on features whose lowest level is 0.
_SHOWS_LEVEL_0: Final = 4


class UnknownRelease(ValueError):
    """There is no emulation of this release."""


class OlderRelease:
    """The limits of one release. Raises UnknownRelease."""

    def __init__(self, version: str) -> None:
        if version not in RELEASES:
            known = ", ".join(RELEASES)
            raise UnknownRelease(f"version={version!r}: releases that can be emulated are {known}")
        self._version = version
        self._release = RELEASES[version]

    def limits(self, api_key: int, served: range) -> range:
        """The served versions that the emulated broker offers; empty for none."""
        highest = self._release.highest.get(api_key)
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
            if header.api_version not in offered:
                return CLOSE
            return self._refusal(header) if header.api_key in self._release.off else serve(frame, connection)

        return serve_or_refuse

    def _refusal(self, header: RequestHeader) -> Reply:
        message = f"Kafka {self._version} does not serve this with its default settings."
        fields = error_answer(header.api_key, header.api_version, int(ErrorCode.unsupported_version), message)
        if fields is None:
            return CLOSE
        return encode_response(header.api_key, header.api_version, header.correlation_id, fields)

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
            "supported_features": [
                {"name": name, "min_version": feature.lowest, "max_version": feature.highest}
                for name, feature in self._release.features.items()
                if feature.lowest > 0 or header.api_version >= _SHOWS_LEVEL_0
            ],
            # A cluster without features has no epoch of them.
            "finalized_features_epoch": 0 if self._release.features else -1,
            "finalized_features": [
                {"name": name, "max_version_level": feature.finalized, "min_version_level": feature.finalized}
                for name, feature in self._release.features.items()
                if feature.finalized
            ],
            "zk_migration_ready": False,
        }
        return encode_response(ApiKey.API_VERSIONS, header.api_version, header.correlation_id, fields)
