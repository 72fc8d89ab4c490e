"""`format` makes texts of messages, `send TOPIC PORT` delivers them, `gateway PORT` is the mail gateway of the town.

The gateway is often busy, and some addresses do not exist. A message that could not be delivered goes to
`notifications-retry` with the time of its next attempt. After three attempts, or for a wrong address, it becomes a dead
letter.
"""

from __future__ import annotations

import json
import sys
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from headrace import connect
from headrace.kernel.json_values import JsonObject

TEXTS = {
    "order-shipped": "Your order {number} is on its way.",
    "password-changed": "Your password was changed (reference {number}).",
    "invoice": "Invoice {number} is ready.",
}
MOST_ATTEMPTS = 3
WAIT_S = 0.2


def format_(bootstrap: str) -> None:
    cluster = connect(bootstrap)
    ready = cluster.topic("notifications", dict)
    for record in cluster.topic("messages", dict).read(group="formatter"):
        message = record.value or {}
        text = TEXTS[message["kind"]].format(**message)
        to = f"user-{message['user']}@example.org"
        ready.send({"message": message["message"], "to": to, "text": text, "attempts": 0}, key=message["user"])


def send(bootstrap: str, topic: str, port: str) -> None:
    # A static member: when it comes back after a crash, it gets its partitions at once.
    cluster = connect(bootstrap, settings={"group.instance.id": f"sender-{topic}"})
    retry, dead = (cluster.topic(name, dict) for name in ("notifications-retry", "notifications.dlq"))
    for record in cluster.topic(topic, dict).read(group=f"sender-{topic}"):
        message = record.value or {}
        # The retry topic is in order of time, so to wait for its first record is to wait for all.
        time.sleep(max(0.0, message.get("not_before", 0) - time.time()))
        reason = delivered(message, int(port))
        if reason is None:
            continue
        attempts = message["attempts"] + 1
        if reason == "busy" and attempts < MOST_ATTEMPTS:
            later = time.time() + WAIT_S
            retry.send({**message, "attempts": attempts, "not_before": later}, key=record.key)
            retry.flush()
        else:
            dead.send({**message, "attempts": attempts}, key=record.key, headers={"reason": reason.encode()})
            dead.flush()


def delivered(message: JsonObject, port: int) -> str | None:
    """None, or why the gateway did not take the message."""
    content = json.dumps({name: message[name] for name in ("message", "to", "text")}).encode()
    try:
        urllib.request.urlopen(f"http://127.0.0.1:{port}/send", content, timeout=10).close()
    except urllib.error.HTTPError as refusal:
        return "busy" if refusal.code == 503 else "no such address"
    except OSError:
        return "busy"
    return None


def gateway(bootstrap: str, port: str) -> None:
    """Delivers a message once, whatever the number of requests: a sender may die after its request."""
    mailbox = connect(bootstrap).topic("mailbox", dict)
    attempts: Counter[str] = Counter()

    class Gateway(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            mail = json.loads(self.rfile.read(int(self.headers["content-length"])))
            user = int(mail["to"].split("-")[1].split("@")[0])
            attempts[mail["message"]] += 1
            if user % 17 == 0:
                status = 410
            elif user % 19 == 0 or (user % 5 == 0 and attempts[mail["message"]] < 3):
                status = 503
            else:
                status = 200
                mailbox.send({"to": mail["to"], "text": mail["text"]}, key=mail["message"])
                mailbox.flush()
            self.send_response(status)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    ThreadingHTTPServer(("127.0.0.1", int(port)), Gateway).serve_forever()


if __name__ == "__main__":
    roles: dict[str, Callable[..., None]] = {"format": format_, "send": send, "gateway": gateway}
    roles[sys.argv[1]](*sys.argv[2:])
