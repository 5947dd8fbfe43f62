"""Why what was held wasn't busy: the page says what the ledger says, and what to do where it says nothing."""

from __future__ import annotations

import shutil
from decimal import Decimal
from pathlib import Path

import duckdb
import pytest

from app import causes
from app.causes import title
from app.views.bottlenecks import ANY
from pipelines.config import load
from pipelines.operations import report
from pipelines.publish import current
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


def test_a_ledger_that_was_published_without_causes_says_what_to_do(
    tmp_path: Path, published: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "ledger"
    shutil.copytree(published.parent, folder)
    config = load(folder / published.name)
    publication = current(config.ledger)
    assert publication is not None
    with duckdb.connect(str(config.ledger / "published" / publication.fleet)) as connection:
        connection.execute("DROP TABLE bottleneck")
    app = opened(monkeypatch, config.path, "bottlenecks")
    assert "no cause is known" in app.title[0].value
    assert "gpuledger run --once" in app.info[0].value
    assert "Idle" in shown(app) or "idle" in shown(app)
