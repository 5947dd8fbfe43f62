"""Why what was held wasn't busy: the page says what the ledger says, and what to do where it says nothing."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from pathlib import Path

import pytest

from app import causes
from app.causes import title
from app.views.bottlenecks import ANY
from pipelines.config import load
from pipelines.operations import report
from tests.app.conftest import HOSTILE, opened, shown
from tests.app.test_totals import scope_of


@pytest.mark.parametrize("tenant", [None, "vision", "speech"])
def test_causes_add_up_to_the_waste_that_is_reported(published: Path, tenant: str | None) -> None:
    scope = scope_of(published, tenant, "2026-11")
    found = causes.found(scope)
    assert found
    reported = report(load(published), period="2026-11").tenants
    wanted = sum(Decimal(t.waste) for t in reported if t.waste is not None and tenant in (None, t.tenant))
    assert sum(one.waste or 0 for one in found) == causes.waste(scope) == wanted


def test_the_dearest_is_shown_with_its_evidence_and_remedy(published: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    app = opened(monkeypatch, published, "bottlenecks")
    first = (causes.found(scope_of(published, None, "2026-11")) or [])[0]
    assert title(first.cause) in app.header[1].value
    assert "Try" in app.success[0].value
    assert len(app.get("vega_lite_chart")) >= 2


def test_a_cause_is_chosen_by_its_address(published: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = causes.found(scope_of(published, None, "2026-11")) or []
    last = found[-1]
    app = opened(monkeypatch, published, "bottlenecks", one=last.key, cause=last.cause)
    assert set(app.dataframe[0].value["cause"]) == {title(last.cause)}
    app.selectbox(key="cause").set_value(ANY).run()
    assert len(set(app.dataframe[0].value["cause"])) > 1
    assert "cause" not in app.query_params


def test_names_from_labels_stay_names(published: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for one in causes.found(scope_of(published, None, "2026-11")) or []:
        app = opened(monkeypatch, published, "bottlenecks", one=one.key)
        assert not app.exception
        headers = " ".join(h.value for h in app.header)
        assert not [name for name in HOSTILE[:3] if name in headers]


@pytest.mark.parametrize(
    ("time", "compare", "said"),
    [
        ("2026-11", "", "All that was lost"),
        ("2026-11", "none", "November 2026"),
        ("2026-11", "2026-W45", "only whole months are compared"),
        ("2026-W45", "", "told by month"),
        ("2026-11-05", "2026-11-06", "only whole months are compared"),
    ],
)
def test_months_are_compared_and_other_ranges_say_why_not(
    published: Path, monkeypatch: pytest.MonkeyPatch, time: str, compare: str, said: str
) -> None:
    address = {"time": time} | ({"compare": compare} if compare else {})
    app = opened(monkeypatch, published, "bottlenecks", None, **address)
    assert not app.exception
    assert said in shown(app)
    assert ("All that was lost" in shown(app)) == (said == "All that was lost")


def test_what_was_lost_unseen_is_na_and_not_zero(published: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert causes.waste(scope_of(published, None, "2026-10")) is None
    table = "".join(e.proto.body for e in opened(monkeypatch, published, "bottlenecks").get("html"))
    lost = causes.waste(scope_of(published, None, "2026-11"))
    total = table.partition('<tr class="total">')[2].partition("</tr>")[0]
    assert [cell.partition("<")[0] for cell in total.split('class="number">')[1:]] == [f"{lost:,.2f}", "n/a", "n/a"]
    app = opened(monkeypatch, published, "bottlenecks", time="2026-10")
    assert app.title[0].value == "October 2026: no cause is known"
    assert r"worth **n\/a**" in app.markdown[0].value
    assert "not known" in opened(monkeypatch, published, "idle", time="2026-10").markdown[0].value


def test_the_time_line_is_of_the_days_that_are_asked_for(published: Path) -> None:
    scope = scope_of(published, None, "2026-11-06")
    lines = [causes.time_line(scope, one) for one in causes.found(scope) or []]
    assert any(rows.height for rows in lines)
    assert {moment.date() for rows in lines for moment in rows["moment"]} == {date(2026, 11, 6)}
