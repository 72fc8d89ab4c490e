"""Intended differences between the answers of Headrace and Apache Kafka, with reasons."""

_NO_INTERNAL_ERROR = "Kafka fails internally (UNKNOWN_SERVER_ERROR); Headrace names the error in the request"
_NOT_OPENED = "Kafka decompresses every batch; Headrace appends it unchanged if its checksum is valid"

INTENDED: dict[str, str] = {
    **{f"produce-v{version}-unknown-codec": _NO_INTERNAL_ERROR for version in range(3, 14, 2)},
    "produce-v9-broken-gzip": _NOT_OPENED,
    **{f"incremental_alter_configs-v{version}-wrong-operation": _NO_INTERNAL_ERROR for version in range(2)},
    "metadata-v12-neither-name-nor-id": _NO_INTERNAL_ERROR,
}
