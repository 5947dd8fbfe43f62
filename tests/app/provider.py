"""A small OpenID Connect provider on loopback: whoever is chosen signs in without a password."""

from __future__ import annotations

import json
import secrets
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final
from urllib.parse import parse_qs, urlencode, urlsplit

from joserfc import jwt
from joserfc.jwk import RSAKey

CLIENT: Final = "gpuledger"


class Provider:
    """The provider; `person` holds the claims of who signs in next."""

    def __init__(self) -> None:
        self.person: dict[str, Any] = {}
        self.lifetime_s = 3600
        self.key = RSAKey.generate_key(2048, {"kid": "k", "use": "sig", "alg": "RS256"}, private=True)
        self.nonces: dict[str, str | None] = {}
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self.issuer = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self) -> None:
        """Stop answering."""
        self.server.shutdown()
        self.server.server_close()

    def secrets_toml(self, app: str) -> str:
        """What the app needs to know of the provider."""
        return (
            f'[auth]\nredirect_uri = "{app}oauth2callback"\ncookie_secret = "{secrets.token_hex(16)}"\n'
            f'client_id = "{CLIENT}"\nclient_secret = "s"\n'
            f'server_metadata_url = "{self.issuer}/.well-known/openid-configuration"\n'
        )

    def metadata(self) -> dict[str, Any]:
        """The discovery document."""
        return {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "jwks_uri": f"{self.issuer}/jwks",
            "response_types_supported": ["code"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["RS256"],
        }

    def redirect(self, query: dict[str, list[str]]) -> str:
        """Where the browser goes after the sign-in."""
        code = secrets.token_hex(8)
        self.nonces[code] = query.get("nonce", [None])[0]
        return f"{query['redirect_uri'][0]}?{urlencode({'code': code, 'state': query['state'][0]})}"

    def token(self, form: dict[str, list[str]]) -> dict[str, Any]:
        """The answer to a code."""
        now = int(time.time())
        claims = {"iss": self.issuer, "aud": CLIENT, "iat": now, "exp": now + self.lifetime_s, **self.person}
        nonce = self.nonces.pop(form["code"][0])
        if nonce is not None:
            claims["nonce"] = nonce
        token = jwt.encode({"alg": "RS256", "kid": "k"}, claims, self.key)
        return {"access_token": "a", "token_type": "Bearer", "expires_in": self.lifetime_s, "id_token": token}


def _handler(provider: Provider) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            if parts.path == "/authorize":
                self.send_response(302)
                self.send_header("Location", provider.redirect(parse_qs(parts.query)))
                self.end_headers()
                return
            documents = {
                "/.well-known/openid-configuration": provider.metadata(),
                "/jwks": {"keys": [provider.key.as_dict(private=False)]},
            }
            self._answer(documents[parts.path])

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            self._answer(provider.token(parse_qs(body)))

        def _answer(self, document: dict[str, Any]) -> None:
            body = json.dumps(document).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_args: object) -> None:
            """Say nothing."""

    return Handler
