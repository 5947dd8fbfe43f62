"""Who may see what in the app."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import model_validator

from pipelines.config.scalars import Glob, Text, fault
from pipelines.config.section import Section

Role = Literal["operator", "finance", "member"]


def check_tenants(role: Role, tenants: tuple[str, ...]) -> None:
    """Raise a validation error unless a member, and nobody else, is of named tenants."""
    if (role == "member") != bool(tenants):
        what = "a member of no tenant" if role == "member" else f"{role} sees every tenant"
        raise fault(what, "name tenants for a member, and for nobody else", key="tenants")


class Grant(Section):
    """What the members of a group, or a user, may see. All grants that match a person add up."""

    group: Glob | None = None
    """Group, as the sign-in names it."""
    user: Glob | None = None
    """E-mail address or name, as the sign-in names it."""
    role: Role = "member"
    """operator and finance see the whole fleet, a member the tenants named."""
    tenants: tuple[Text, ...] = ()
    """Ids of the tenants that a member sees; each is read from its own file and no other."""

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if (self.group is None) == (self.user is None):
            raise fault("a grant is to a group or to a user", "write one of group and user")
        check_tenants(self.role, self.tenants)
        return self


class Proxy(Section):
    """A proxy in front of the app that signs people in and says who they are."""

    user_header: Text = "X-Forwarded-Email"
    """Header with the user's e-mail address or name."""
    groups_header: Text = "X-Forwarded-Groups"
    """Header with the user's groups, separated by commas."""
    secret_header: Text = "X-Gpuledger-Proxy"  # noqa: S105
    """Header by which the proxy proves that it is the one."""
    secret_env: Text
    """Environment variable with the secret that the proxy sends there."""


class Token(Section):
    """Who may read over HTTP without a browser."""

    token_env: Text
    """Environment variable with the token."""
    role: Role = "member"
    """operator and finance read the whole fleet, a member the tenants named."""
    tenants: tuple[Text, ...] = ()
    """Ids of the tenants that a member's token reads."""

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        check_tenants(self.role, self.tenants)
        return self


class Access(Section):
    """Who may see what in the app. Without a sign-in it listens on loopback only, and shows everything."""

    sign_in: Literal["none", "oidc", "proxy"] = "none"
    """none: whoever reaches loopback is the operator; oidc: an OpenID Connect provider; proxy: one in front of it."""
    groups_claim: Text = "groups"
    """Claim of the ID token that lists the groups of a user."""
    secrets_file: Text | None = None
    """TOML file with the provider's `[auth]` table, as Streamlit's st.login reads it."""
    proxy: Proxy | None = None
    """What the proxy sends, for `sign_in: proxy`."""
    grants: tuple[Grant, ...] = ()
    """Who sees what; whom none matches sees nothing."""
    tokens: tuple[Token, ...] = ()
    """Who reads over HTTP; without any, and without a sign-in, whoever reaches loopback."""

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.sign_in != "none" and not self.grants:
            raise fault("nobody would see anything", "add grants: - {group: …, role: operator}", key="grants")
        if (self.sign_in == "proxy") != (self.proxy is not None):
            raise fault("proxy and sign_in: proxy go together", "write both or neither", key="proxy")
        if (self.sign_in == "oidc") != (self.secrets_file is not None):
            raise fault("secrets_file and sign_in: oidc go together", "write both or neither", key="secrets_file")
        return self
