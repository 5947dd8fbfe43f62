"""What to reclaim first: the page lists what the ledger lists, names stay names, and older ledgers say what to do."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import pytest

from app import reclaim
from gpuledger import cli
from tests.app.conftest import HOSTILE, opened
from tests.app.test_totals import scope_of


@pytest.mark.parametrize("tenant", [None, "vision"])
def test_causes_are_those_of_the_command(
    published: Path, tenant: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    only = [] if tenant is None else ["--tenant", tenant]
    assert cli.main(["idle", "--config", str(published), "--period", "2026-11", "--json", *only]) == 0
    told = json.loads(capsys.readouterr().out)["causes"]
    found = reclaim.by_cause(scope_of(published, tenant, "2026-11"))
    assert [(one.cause.id, None if one.worth is None else Decimal(one.worth)) for one in found] == [
        (one["cause"], None if one["worth"] is None else Decimal(one["worth"])) for one in told
    ]
    assert [round(one.gpu_hours or 0, 6) for one in found] == pytest.approx([one["gpu_hours"] or 0 for one in told])


def test_a_row_is_chosen_by_its_address_with_evidence_and_remedy(
    published: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = reclaim.items(scope_of(published, None, "2026-11")) or []
    for one in (found[0], found[-1]):
        app = opened(monkeypatch, published, "idle", item=one.key)
        assert not app.exception
        assert one.cause.title.lower() in app.subheader[0].value
        assert one.cause.remedy.split(",")[0] in app.success[0].value.replace("\\", "")


def test_names_from_labels_stay_names(published: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    subjects = {one.subject: one for one in reclaim.items(scope_of(published, None, "2026-11")) or []}
    assert subjects.keys() & set(HOSTILE)
    for name in subjects.keys() & set(HOSTILE):
        app = opened(monkeypatch, published, "idle", item=subjects[name].key)
        assert not app.exception
        assert not [raw for raw in HOSTILE[:3] if raw in app.subheader[0].value]


def test_days_show_what_reaches_into_them(published: Path) -> None:
    month = reclaim.items(scope_of(published, None, "2026-11")) or []
    day = reclaim.items(scope_of(published, None, "2026-11-06")) or []
    assert {one.key for one in day} < {one.key for one in month}
