"""An OpenID provider on loopback: it logs every browser in as one user, as a real one does after its own login page."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlencode, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric import ec

CLIENT_ID, CLIENT_SECRET = "console", "secret of the console"


class Provider:
    """`keys` is the file with its public keys, for brokers."""

    def __init__(self, keys: Path) -> None:
        self.keys = keys
        self.user = "olga"
        self.nonce: str | None = None
        self.refuses = False
        self._key = ec.generate_private_key(ec.SECP256R1())
        entry = jwt.algorithms.ECAlgorithm.to_jwk(self._key.public_key(), as_dict=True)
        keys.write_text(json.dumps({"keys": [{**entry, "kid": "one", "alg": "ES256"}]}))
        self._codes: dict[str, dict[str, str]] = {}
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.issuer = f"http://127.0.0.1:{self._server.server_address[1]}"

    def token(self, **claims: object) -> str:
        now = int(time.time())
        found = {"sub": self.user, "iat": now, "exp": now + 600, "iss": self.issuer, "aud": "kafka", **claims}
        return jwt.encode(found, self._key, "ES256", headers={"kid": "one"})

    @contextmanager
    def serving(self) -> Iterator[Provider]:
        thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        thread.start()
        yield self
        self._server.shutdown()
        thread.join()
        self._server.server_close()

    def _authorized(self, query: dict[str, str]) -> str:
        """Where the browser goes after the login page of the provider."""
        assert query["client_id"] == CLIENT_ID and query["code_challenge_method"] == "S256"
        if self.refuses:
            return f"{query['redirect_uri']}?{urlencode({'error': 'access_denied', 'state': query['state']})}"
        code = secrets.token_urlsafe()
        self._codes[code] = query
        return f"{query['redirect_uri']}?{urlencode({'code': code, 'state': query['state']})}"

    def _exchanged(self, form: dict[str, str]) -> dict[str, object] | None:
        began = self._codes.pop(form.get("code", ""), None)
        challenge = base64.urlsafe_b64encode(hashlib.sha256(form["code_verifier"].encode()).digest()).rstrip(b"=")
        if (
            began is None or began["code_challenge"] != challenge.decode() or form["client_secret"] != CLIENT_SECRET
            or form["redirect_uri"] != began["redirect_uri"]
        ):  # fmt: skip
            return None
        nonce = began["nonce"] if self.nonce is None else self.nonce
        id_token = self.token(aud=CLIENT_ID, nonce=nonce)
        return {"access_token": self.token(scope="x"), "id_token": id_token, "token_type": "Bearer"}

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                parts = urlsplit(self.path)
                if parts.path == "/.well-known/openid-configuration":
                    names = {f"{name}_endpoint": f"{provider.issuer}/{name}" for name in ("authorization", "token")}
                    self._json({"issuer": provider.issuer, **names})
                    return
                self.send_response(303)
                query = {name: values[0] for name, values in parse_qs(parts.query).items()}
                self.send_header("location", provider._authorized(query))
                self.end_headers()

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"])).decode()
                found = provider._exchanged({name: values[0] for name, values in parse_qs(body).items()})
                self._json(found if found is not None else {"error": "invalid_grant"}, 200 if found else 400)

            def _json(self, document: object, status: int = 200) -> None:
                data = json.dumps(document).encode()
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: object) -> None:
                pass

        return Handler
