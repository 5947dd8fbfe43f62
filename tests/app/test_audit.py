"""The Data page's audit trail: what was closed, booked and imported, and whether the book is as it was written."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest

from pipelines.book.closing import close
from pipelines.config import Config, load
from tests.app.conftest import opened, shown

NOW = datetime(2026, 12, 15, tzinfo=UTC)


@pytest.fixture
def closed(tmp_path: Path, published: Path) -> Config:
    folder = tmp_path / "ledger"
    shutil.copytree(published.parent, folder)
    config = load(folder / published.name)
    close(config, "2026-10", now=NOW, by="ann <b>@example.org")
    return config


def test_what_was_done_is_listed_with_who_did_it(closed: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    app = opened(monkeypatch, closed.path, "data")
    assert not app.exception
    said = shown(app)
    assert "ann &lt;b&gt;@example.org" in said
    assert "15 Dec 2026" not in said or "EST" in said
    assert any("none was changed" in s.value for s in app.success)
    for source in ("allocations.csv", "inventory.csv", "metrics.prom"):
        assert source in said


def test_a_book_that_was_changed_is_told(closed: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    chain = closed.ledger / "books" / "chain.jsonl"
    chain.write_text(chain.read_text().replace('"period":"2026-10"', '"period":"2026-09"'))
    app = opened(monkeypatch, closed.path, "data")
    assert any("changed outside" in e.value for e in app.error) or "chain.jsonl" in app.error[0].value


def test_before_anything_was_closed_it_says_how(published: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert any("gpuledger close" in i.value for i in opened(monkeypatch, published, "data").info)
