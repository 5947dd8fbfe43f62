"""Who is who, what they may see, and that no address, page or choice shows them anything else."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pytest
from streamlit import config as streamlit_config

from app import sign_in
from app.sign_in import NotAllowedError, NotSignedInError, Viewer
from app.views import PAGES
from pipelines.config import Access
from tests.app.conftest import GRANTS, OIDC, opened, shown
from tests.app.test_ledger_files import files_open

NOW: Final = datetime(2026, 11, 30, tzinfo=UTC)
LATER: Final = NOW.timestamp() + 3600
PROXY: Final = {"sign_in": "proxy", "proxy": {"secret_env": "PROXY_SECRET"}, "grants": GRANTS}


def access(section: dict[str, Any]) -> Access:
    return Access.model_validate(section)


def claims(**changed: Any) -> dict[str, Any]:
    return {"sub": "s", "email": "ann@example.org", "email_verified": True, "exp": LATER, "groups": []} | changed


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (claims(groups=["gpu-operators"]), Viewer("ann@example.org", "operator", None)),
        (claims(groups=["team-vision", "finance"]), Viewer("ann@example.org", "finance", None)),
        (claims(groups="team-vision"), Viewer("ann@example.org", "member", ("vision",))),
        (claims(email="both@example.org"), Viewer("both@example.org", "member", ("vision", "speech"))),
        (claims(groups=["TEAM-VISION"]), Viewer("ann@example.org", "member", ("vision",))),
    ],
)
def test_claims_become_a_role(given: dict[str, Any], expected: Viewer) -> None:
    assert sign_in.by_claims(access(OIDC), given, NOW) == expected


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({}, NotSignedInError),
        (claims(groups=["gpu-operators"], exp=NOW.timestamp()), NotSignedInError),
        (claims(groups=["gpu-operators"], exp=None), NotSignedInError),
        (claims(groups=["strangers"]), NotAllowedError),
        (claims(groups={"gpu-operators": 1}), NotAllowedError),
        (claims(groups=[7, None]), NotAllowedError),
        (claims(email="both@example.org", email_verified=False), NotAllowedError),
    ],
)
def test_other_claims_open_nothing(given: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        sign_in.by_claims(access(OIDC), given, NOW)


HEADERS: Final = {
    "x-forwarded-email": "ann@example.org",
    "X-Forwarded-Groups": "a, team-vision",
    "X-Gpuledger-Proxy": "s",
}


@pytest.mark.parametrize(
    ("headers", "environment", "expected"),
    [
        (HEADERS, {"PROXY_SECRET": "s"}, Viewer("ann@example.org", "member", ("vision",))),
        (HEADERS | {"X-Gpuledger-Proxy": "wrong"}, {"PROXY_SECRET": "s"}, NotSignedInError),
        ({k: v for k, v in HEADERS.items() if k != "X-Gpuledger-Proxy"}, {"PROXY_SECRET": "s"}, NotSignedInError),
        ({k: v for k, v in HEADERS.items() if "email" not in k}, {"PROXY_SECRET": "s"}, NotSignedInError),
        (HEADERS | {"X-Gpuledger-Proxy": ""}, {}, NotAllowedError),
    ],
)
def test_a_proxy_is_believed_when_it_proves_itself(
    headers: dict[str, str], environment: dict[str, str], expected: Viewer | type[Exception]
) -> None:
    section = access(PROXY)
    assert section.proxy is not None
    if isinstance(expected, Viewer):
        assert sign_in.by_headers(section, section.proxy, headers, environment) == expected
    else:
        with pytest.raises(expected):
            sign_in.by_headers(section, section.proxy, headers, environment)


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("127.0.0.1", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        (None, False),
        ("example.org", False),
    ],
)
def test_loopback_is_known(address: str | None, expected: bool) -> None:
    assert sign_in.is_loopback(address) is expected


def test_without_a_sign_in_nothing_is_shown_beyond_loopback(published: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    streamlit_config.set_option("server.address", "0.0.0.0")
    app = opened(monkeypatch, published)
    assert "loopback only" in app.error[0].value
    assert not app.metric


def opened_as(
    monkeypatch: pytest.MonkeyPatch, config: Path, groups: list[str], page: str = "overview", **address: str
) -> Any:
    user = {"is_logged_in": True, **claims(groups=groups, exp=datetime.now(UTC).timestamp() + 3600)}
    return opened(monkeypatch, config, page, user=user, **address)


def test_nobody_sees_the_door_and_nothing_else(guarded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    app = opened(monkeypatch, guarded, user={"is_logged_in": False}, tenant="secret")
    assert [button.label for button in app.button] == ["Sign in"]
    assert not app.metric
    assert not app.selectbox


def test_an_expired_sign_in_sees_the_door(guarded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    user = {"is_logged_in": True, **claims(groups=["gpu-operators"], exp=datetime.now(UTC).timestamp() - 1)}
    app = opened(monkeypatch, guarded, user=user)
    assert [button.label for button in app.button] == ["Sign in"]
    assert "expired" in app.info[0].value


def test_an_operator_sees_the_fleet(guarded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    app = opened_as(monkeypatch, guarded, ["gpu-operators"])
    assert "the fleet cost" in app.title[0].value


ADDRESSES: Final = [
    {"tenant": "secret"},
    {"tenant": "all"},
    {"tenant": "secret", "workload": "secret-job", "by": "workload"},
    {"tenant": "vision", "workload": "secret-job", "by": "tenant"},
    {"node": "node-1", "lines": "tenant", "month": "2026-10", "day": "2026-10-05"},
    {"tenant": "../fleet-1"},
    {"tenant": "vision' OR '1'='1", "workload": "x' OR 1=1 --"},
]


@pytest.mark.parametrize("path", [page.path for page in PAGES])
@pytest.mark.parametrize("address", ADDRESSES, ids=str)
def test_no_address_shows_a_member_anything_of_another_tenant(
    guarded: Path, monkeypatch: pytest.MonkeyPatch, path: str, address: dict[str, str]
) -> None:
    before = files_open()
    app = opened_as(monkeypatch, guarded, ["team-vision"], path, **address)
    assert not app.exception
    seen = shown(app)
    for name in ("Secret Project", "2,307.20", "node-1"):
        assert name not in seen
    if "workload" not in address:
        assert "secret-job" not in seen
    assert not [name for name in files_open() - before if "vision" not in name]


def test_a_member_s_bill_is_the_operator_s_line(guarded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = opened_as(monkeypatch, guarded, ["team-vision"]).title[0].value
    theirs = opened_as(monkeypatch, guarded, ["gpu-operators"], tenant="vision").title[0].value
    assert own == theirs
