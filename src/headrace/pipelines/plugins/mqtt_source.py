"""Messages of an MQTT broker.

    from:
      mqtt: {host: localhost, topics: ["sensors/#"], client_id: sensors-to-topic}

The session is persistent and the quality of service is 1: the broker keeps messages while the connector is away, and
sends a message again until it is acknowledged. This source acknowledges a message after its row is on disk. If the
process dies between the two, the broker sends the message again, marked as a duplicate and with the same packet id. The
offset has the packet ids of the last rows, so such a message is acknowledged and not taken twice. After a lost
connection the broker sends everything again that is not acknowledged, so messages that wait here are dropped. Two
connectors must not use the same `client_id`.
"""

from __future__ import annotations

import datetime
import hashlib
import queue
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from headrace.pipelines.connectors.settings import End
from headrace.pipelines.errors import OptionError, PipelineError
from headrace.pipelines.plugins.api import Chunk, Offset, Row, Source
from headrace.pipelines.plugins.extras import library

if TYPE_CHECKING:
    from paho.mqtt.client import Client, ConnectFlags, MQTTMessage
    from paho.mqtt.reasoncodes import ReasonCode

_ROWS_AT_ONCE: Final = 5_000
# How long a read waits for its first message, and for more after it.
_FIRST_WAIT_S: Final = 0.5
_NEXT_WAIT_S: Final = 0.05
_CONNECT_S: Final = 10.0
_SESSION_S: Final = 7 * 24 * 3600


class MqttSource(Source):
    def __init__(self, settings: End) -> None:
        known = ("host", "port", "topics", "client_id", "username", "password", "tls", "format")
        super().__init__(settings.only(*known))
        self._topics = settings.names("topics")
        if not self._topics:
            raise OptionError(f'{settings.place}: "topics" is missing')
        self._format = settings.text("format", "text")
        if self._format not in ("text", "binary"):
            raise OptionError(f"{settings.place}: format {self._format!r} must be text or binary")
        settings.text("host")
        settings.text("client_id")
        library("paho.mqtt.client", settings.place)
        self._client: Client | None = None
        self._waiting: queue.Queue[MQTTMessage] = queue.Queue()
        self._unacknowledged: list[tuple[int, int]] = []
        self._problem = ""

    def columns(self) -> str:
        kind = "string" if self._format == "text" else "binary"
        return f"topic string, payload {kind}, qos int, retained boolean, received timestamp"

    def read(self, offset: Offset | None) -> Chunk:
        if self._client is None:
            self._client = self._connected()
        stored: dict[str, str] = (offset or {}).get("packets", {})
        rows: list[Row] = []
        packets: dict[str, str] = {}
        wait_s = _FIRST_WAIT_S
        while len(rows) < _ROWS_AT_ONCE:
            try:
                message = self._waiting.get(timeout=wait_s)
            except queue.Empty:
                break
            if message.dup and stored.get(str(message.mid)) == _fingerprint(message):
                self._client.ack(message.mid, message.qos)
                continue
            if message.dup and packets.get(str(message.mid)) == _fingerprint(message):
                # The connection was lost since this read began. The row is acknowledged when it is on disk.
                continue
            rows.append(self._row(message))
            if message.qos:
                packets[str(message.mid)] = _fingerprint(message)
                self._unacknowledged.append((message.mid, message.qos))
            wait_s = _NEXT_WAIT_S
        if not rows and self._problem:
            raise PipelineError(f"{self.settings.place}: {self._problem}")
        return Chunk(rows, {"packets": packets})

    def commit(self, offset: Offset) -> None:
        assert self._client is not None, "rows come from a connection"
        for packet, qos in self._unacknowledged:
            self._client.ack(packet, qos)
        self._unacknowledged.clear()

    def _row(self, message: MQTTMessage) -> Row:
        payload = bytes(message.payload)
        if self._format == "text":
            try:
                return self._columns_of(message, payload.decode())
            except UnicodeDecodeError as error:
                raise PipelineError(
                    f"{self.settings.place}: a message of {message.topic!r} is not text ({error.reason}): "
                    "set format: binary"
                ) from error
        return self._columns_of(message, payload)

    def _columns_of(self, message: MQTTMessage, payload: str | bytes) -> Row:
        now = datetime.datetime.now(datetime.UTC)
        return {
            "topic": message.topic,
            "payload": payload,
            "qos": message.qos,
            "retained": bool(message.retain),
            "received": now,
        }

    def _connected(self) -> Client:
        end = self.settings
        mqtt, properties = library("paho.mqtt.client", end.place), library("paho.mqtt.properties", end.place)
        packets = library("paho.mqtt.packettypes", end.place)
        client: Client = mqtt.Client(
            mqtt.CallbackAPIVersion.VERSION2,
            client_id=end.text("client_id"),
            protocol=mqtt.MQTTv5,
            manual_ack=True,
        )
        if "username" in end.settings:
            client.username_pw_set(end.text("username"), end.text("password", ""))
        if end.is_on("tls"):
            client.tls_set()
        ready: queue.Queue[str] = queue.Queue()

        def connected(_client: Client, _data: object, flags: ConnectFlags, reason: ReasonCode, _more: object) -> None:
            if reason.is_failure:
                ready.put(f"the broker refused the connection: {reason}")
                return
            if flags.session_present:
                self._drop_waiting()
            client.subscribe([(topic, mqtt.SubscribeOptions(qos=1)) for topic in self._topics])

        def subscribed(_client: Client, _data: object, _mid: int, reasons: list[ReasonCode], _more: object) -> None:
            refused = [topic for topic, reason in zip(self._topics, reasons, strict=False) if reason.is_failure]
            self._problem = f"the broker refused the subscription to {', '.join(refused)}" if refused else ""
            ready.put(self._problem)

        client.on_connect, client.on_subscribe = connected, subscribed
        client.on_message = lambda _client, _data, message: self._waiting.put(message)
        settings = properties.Properties(packets.PacketTypes.CONNECT)
        settings.SessionExpiryInterval = _SESSION_S
        # Acknowledgements wait for the journal, so many messages must be allowed on their way.
        settings.ReceiveMaximum = 65_535
        host, port = end.text("host"), int(end.text("port", "8883" if end.is_on("tls") else "1883"))
        try:
            client.connect(host, port, keepalive=30, clean_start=False, properties=settings)
        except (OSError, ValueError) as error:
            raise PipelineError(f"{end.place}: {host}:{port} cannot be reached: {error}") from error
        client.loop_start()
        deadline = time.monotonic() + _CONNECT_S
        try:
            problem = ready.get(timeout=deadline - time.monotonic())
        except queue.Empty:
            problem = f"{host}:{port} did not answer within {_CONNECT_S:g} s"
        if problem:
            client.loop_stop()
            raise PipelineError(f"{end.place}: {problem}")
        return client

    def _drop_waiting(self) -> None:
        """Messages without an acknowledgement (quality of service 0) are sent once: they stay."""
        kept: list[MQTTMessage] = []
        with suppress(queue.Empty):
            while True:
                message = self._waiting.get_nowait()
                kept += [] if message.qos else [message]
        for message in kept:
            self._waiting.put(message)

    def close(self) -> None:
        if self._client is not None:
            self._client.disconnect()
            self._client.loop_stop()
            self._client = None


def _fingerprint(message: MQTTMessage) -> str:
    return hashlib.sha256(message.topic.encode() + b"\0" + bytes(message.payload)).hexdigest()[:16]
