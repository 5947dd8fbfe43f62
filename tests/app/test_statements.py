"""Statements in the app: a line goes back to its leases, and another price or policy stands beside what is billed."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from app.supposed import loaded, supposed
from exporter.errors import ConfigError
from pipelines.book.explaining import explain
from pipelines.config import load
from pipelines.operations import report
from tests.app.conftest import opened, shown
from tests.app.test_sign_in import opened_as


def test_a_line_goes_back_to_its_leases(published: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    app = opened(monkeypatch, published, "statements", tenant="speech", view="explain")
    assert not app.exception
    wanted = explain(load(published), "speech/2026-11", 1)
    frame = app.dataframe[0].value
    assert Decimal(str(frame["amount"].sum())) == Decimal(wanted.line.amount)
    assert frame["gpu_hours"].sum() == pytest.approx(wanted.line.quantity)
    assert wanted.leases[0].rate_entry.partition(":")[0] in shown(app)


def test_every_line_is_explained(published: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    app = opened(monkeypatch, published, "statements", tenant="vision", view="explain")
    for number in range(2, 1 + len(app.selectbox(key="line").options)):
        app = opened(monkeypatch, published, "statements", tenant="vision", view="explain", line=str(number))
        assert not app.exception
        assert any(m.value.startswith("- ") for m in app.markdown), number


@pytest.mark.parametrize(
    ("address", "line"), [({"policy": "even"}, "idle"), ({"prices": "10"}, "usage"), ({"policy": "platform"}, "idle")]
)
def test_another_price_or_policy_stands_beside_the_bill(
    published: Path, monkeypatch: pytest.MonkeyPatch, address: dict[str, str], line: str
) -> None:
    app = opened(monkeypatch, published, "statements", None, view="whatif", **address)
    assert not app.exception
    assert "tenants would pay" in app.title[0].value
    tables = "".join(e.proto.body for e in app.get("html"))
    now = report(load(published), period="2026-11").fleet.billed
    assert f"{Decimal(now):,}" in tables
    assert line in tables


def test_what_if_asks_first_and_names_what_is_wrong(published: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    app = opened(monkeypatch, published, "statements", view="whatif")
    assert app.title[0].value == "November 2026: what if?"
    with pytest.raises(ConfigError, match="nonsense"):
        loaded("currency: USD\nnonsense: 1\n")


def test_prices_change_by_the_percentage(published: Path) -> None:
    config = load(published)
    dearer = supposed(config, policy=None, percent=10)
    assert [r.on_demand for r in dearer.rates] == [r.on_demand * Decimal("1.1") for r in config.rates]
    assert supposed(config, policy="even", percent=0).idle.policy == "even"


def test_a_member_has_its_statement_and_no_more(guarded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for view in ("explain", "whatif"):
        app = opened_as(monkeypatch, guarded, ["team-vision"], "statements", view=view, policy="even")
        assert "So far" in app.markdown[0].value
        assert "downloads/focus" not in shown(app)
        assert not [b for b in app.button if "Make" in b.label]


def test_a_range_of_days_names_the_month_of_its_statement(published: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    app = opened(monkeypatch, published, "statements", tenant="secret", time="2026-11-03..2026-11-09")
    assert "Statements are by month: this is November 2026, in which 3 to 9 Nov 2026 ends." in [
        c.value for c in app.caption
    ]
