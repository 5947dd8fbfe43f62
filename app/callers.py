"""Who asks over HTTP: a token for other systems, or the person who is signed in in that browser.

Streamlit's sign-in guards its pages only; what stands beside them asks here, at every request.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from streamlit.auth_util import get_cookie_with_chunks
from streamlit.web.server.server_util import AUTH_COOKIE_NAME, get_cookie_secret
from streamlit.web.server.starlette.starlette_app_utils import decode_signed_value

from app.sign_in import LOCAL, NotAllowedError, NotSignedInError, Viewer, by_claims, by_headers, is_loopback
from exporter.errors import UsageError
from pipelines.config import Access


class RefusedError(UsageError):
    """A request that isn't answered; `status` says why, as HTTP does."""

    def __init__(self, status: int, message: str) -> None:
        self.status = status
        super().__init__(message)


def reader_of(access: Access, headers: Mapping[str, str], environment: Mapping[str, str]) -> Viewer:
    """Return whose token a request carries.

    Raises:
        RefusedError: nobody's.
    """
    if not access.tokens and access.sign_in == "none":
        return _on_loopback(headers, "without access.tokens this is answered on loopback only")
    scheme, _, given = headers.get("authorization", "").partition(" ")
    for token in access.tokens:
        secret = environment.get(token.token_env, "")
        if secret and scheme.lower() == "bearer" and hmac.compare_digest(given.strip().encode(), secret.encode()):
            return Viewer(token.token_env, token.role, token.tenants if token.role == "member" else None)
    raise RefusedError(401, "send a token of access.tokens: Authorization: Bearer …")


def person(
    access: Access, headers: Mapping[str, str], cookies: Mapping[str, str], environment: Mapping[str, str]
) -> Viewer:
    """Return who is signed in in the browser that asks.

    Raises:
        RefusedError: nobody who may.
    """
    try:
        if access.sign_in == "oidc":
            return by_claims(access, claims_of(cookies), datetime.now(UTC))
        if access.proxy is not None:
            return by_headers(access, access.proxy, headers, environment)
    except NotSignedInError as error:
        raise RefusedError(401, str(error)) from None
    except NotAllowedError as error:
        raise RefusedError(403, str(error)) from None
    return _on_loopback(headers, "without a sign-in this is answered on loopback only")


def claims_of(cookies: Mapping[str, str]) -> dict[str, Any]:
    """Return the claims in the cookie that `st.login` set and signed; none where there is no such cookie."""
    secret = get_cookie_secret()

    def one(name: str) -> bytes | None:
        value = cookies.get(name)
        return None if value is None else decode_signed_value(secret, name, value.encode("latin-1", "replace"))

    try:
        claims = json.loads(get_cookie_with_chunks(one, AUTH_COOKIE_NAME) or b"{}")
    except ValueError:
        return {}
    return claims if isinstance(claims, dict) and claims.get("is_logged_in") is True else {}


def _on_loopback(headers: Mapping[str, str], otherwise: str) -> Viewer:
    host = headers.get("host", "").rpartition(":")[0] or headers.get("host", "")
    # A page of another site can make a browser ask here, but not under this machine's own name.
    if is_loopback(host.strip("[]")):
        return LOCAL
    raise RefusedError(403, otherwise)
