"""What the schema guard asks a schema registry for: the subjects and the record name of a schema. Blocking."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Final

from headrace.handlers.data.schema_guard import KnownSchema
from headrace.kernel.errors import ErrorCode, Refused

if TYPE_CHECKING:
    from headrace.serialization.registry_client import RegistryClient

# Producers wait this long at most for an id that the broker does not know yet.
_TIMEOUT_S: Final = 5.0


class RegistrySchemas:
    def __init__(self, url: str, user_info: str | None, ca_file: str | None) -> None:
        self.url = url
        self._user_info = user_info
        self._ca_file = ca_file
        self._client: RegistryClient | None = None

    def schema(self, named: int | bytes, *, with_record_name: bool) -> KnownSchema | None:
        from headrace.serialization.errors import RegistryError, RegistryUnreachable, SerializationError

        try:
            return self._asked(named, with_record_name)
        except RegistryUnreachable as fault:
            raise Refused(ErrorCode.request_timed_out, fault.message) from None
        except RegistryError as error:
            if error.status == 404:
                return None
            raise Refused(
                ErrorCode.request_timed_out, f"the schema registry at {self.url} answers: {error.message}"
            ) from None
        except SerializationError:
            return None

    def _asked(self, named: int | bytes, with_record_name: bool) -> KnownSchema:
        client = self._connected()
        if isinstance(named, int):
            id_ = named
        else:
            id_ = client.schema_by_guid(str(uuid.UUID(bytes=named))).id
        subjects = frozenset(map(str, client.call("GET", f"/schemas/ids/{id_}/subjects")))
        name = None
        if with_record_name:
            from headrace.serialization.codecs import codec_of

            name = codec_of(client.schema_by_id(id_), client).record_name
        return KnownSchema(subjects, name)

    def _connected(self) -> RegistryClient:
        """Imported here: a broker without validated topics needs no HTTP client."""
        if self._client is None:
            from headrace.serialization.registry_client import RegistryClient

            user, _, password = (self._user_info or "").partition(":")
            self._client = RegistryClient(
                self.url,
                user=user or None,
                password=password or None,
                ca_file=self._ca_file or None,
                timeout_s=_TIMEOUT_S,
            )
        return self._client
