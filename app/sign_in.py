"""Who is looking, and what they may see: a role, and for a member the tenants whose own files are opened."""

from __future__ import annotations

import hmac
import ipaddress
import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import streamlit as st

from app import words
from exporter.errors import WorkError
from pipelines.config.access import Access, Proxy, Role
from pipelines.selectors import glob_matches

_log: Final = logging.getLogger("gpuledger.app")
RANK: Final[tuple[Role, ...]] = ("operator", "finance", "member")


@dataclass(frozen=True)
class Viewer:
    """Who is looking.

    Attributes:
        tenants: the only ones whose files are opened for them; None: the whole fleet's.
    """

    name: str
    role: Role
    tenants: tuple[str, ...] | None


class NotSignedInError(WorkError):
    """Nobody is signed in, or no longer."""


class NotAllowedError(WorkError):
    """Somebody is signed in and may see nothing."""


LOCAL: Final = Viewer("this machine", "operator", None)


def viewer(access: Access) -> Viewer:
    """Return who is looking in this session, checked anew at every run.

    Raises:
        NotSignedInError: nobody.
        NotAllowedError: somebody who may see nothing, or the app can be reached from outside without a sign-in.
    """
    if access.sign_in == "oidc":
        return by_claims(access, st.user.to_dict() if st.user.get("is_logged_in") else {}, datetime.now(UTC))
    if access.proxy is not None:
        return by_headers(access, access.proxy, st.context.headers.to_dict(), os.environ)
    if not is_loopback(st.get_option("server.address")):
        raise NotAllowedError(
            "without a sign-in the app shows itself on loopback only; use --address 127.0.0.1, or set access.sign_in"
        )
    return LOCAL


def by_claims(access: Access, claims: Mapping[str, Any], now: datetime) -> Viewer:
    """Return who an ID token's claims are about; its expiry is checked here, since Streamlit doesn't."""
    if not claims:
        raise NotSignedInError("please sign in")
    expires = claims.get("exp")
    if not isinstance(expires, (int, float)) or expires <= now.timestamp():
        raise NotSignedInError("your sign-in has expired; please sign in again")
    verified = claims.get("email") if claims.get("email_verified", True) is True else None
    name = str(verified or claims.get("preferred_username") or claims.get("sub") or "")
    groups = claims.get(access.groups_claim)
    listed = [groups] if isinstance(groups, str) else groups if isinstance(groups, Sequence) else []
    return allowed(access, name, [g for g in listed if isinstance(g, str)])


def by_headers(access: Access, proxy: Proxy, headers: Mapping[str, str], environment: Mapping[str, str]) -> Viewer:
    """Return who a proxy says is looking; one that can't prove itself is nobody."""
    named = {name.casefold(): value for name, value in headers.items()}
    secret = environment.get(proxy.secret_env, "")
    if not secret:
        _log.error("access.proxy.secret_env: %s is not set; set it and start the app again", proxy.secret_env)
        raise NotAllowedError("the sign-in by proxy isn't set up to its end; the app's log tells its operator why")
    if not hmac.compare_digest(named.get(proxy.secret_header.casefold(), "").encode(), secret.encode()):
        raise NotSignedInError("this app is reached through its proxy only")
    name = named.get(proxy.user_header.casefold(), "").strip()
    if not name:
        raise NotSignedInError("the proxy says nobody is signed in")
    groups = named.get(proxy.groups_header.casefold(), "").split(",")
    return allowed(access, name, [g.strip() for g in groups if g.strip()])


def allowed(access: Access, name: str, groups: Sequence[str]) -> Viewer:
    """Return what the grants that match a person come to.

    Raises:
        NotAllowedError: none matches.
    """
    matching = [
        grant
        for grant in access.grants
        if (grant.user is not None and name and glob_matches(grant.user, name))
        or (grant.group is not None and any(glob_matches(grant.group, group) for group in groups))
    ]
    if not matching:
        raise NotAllowedError(f"{name or 'you'}: no grant in access.grants matches; ask the operator for one")
    role = min((grant.role for grant in matching), key=RANK.index)
    tenants = tuple(dict.fromkeys(t for grant in matching for t in grant.tenants))
    return Viewer(name, role, None if role != "member" else tenants)


def is_loopback(address: str | None) -> bool:
    """Whether a server at this address is reached from its own machine only."""
    if address == "localhost":
        return True
    try:
        return ipaddress.ip_address(address or "").is_loopback
    except ValueError:
        return False


def door(access: Access, reason: str) -> None:
    """Draw the page before the sign-in."""
    st.title("GPULedger")
    st.info(words.sentence(reason), icon=":material/lock:")
    if access.sign_in == "oidc":
        st.button("Sign in", type="primary", on_click=st.login)


def sign_out(access: Access, who: Viewer) -> None:
    """Say who is signed in, with the way out."""
    if access.sign_in == "none":
        st.caption("No sign-in is set up: the app listens on loopback only, and shows everything.")
        return
    st.caption(f"{words.literal(who.name)}, {who.role}")
    leave()


def leave() -> None:
    """Draw the way out, where somebody is signed in by OIDC, whatever they may see."""
    if st.user.get("is_logged_in"):
        st.button("Sign out", on_click=st.logout)
