"""What an auditor would try: two at once, another zone or currency, more credit than bill, a full disk."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime
from decimal import Decimal
from io import FileIO
from pathlib import Path

import pytest

from exporter.errors import LedgerError, WorkError
from pipelines.book import adjusting, chain
from pipelines.book.closing import close
from pipelines.book.focus.export import export
from pipelines.book.statements import statement
from pipelines.book.verifying import verify
from pipelines.operations import report
from tests.pipelines.book import conftest
from tests.pipelines.book.conftest import Book

CONFIG = conftest.CONFIG.replace("issuer: Research Computing", "issuer: Research Computing, formats: []")
NOW = datetime(2027, 1, 15, tzinfo=UTC)
LATE = "2026-09-11T00:00:00Z,2026-09-11T03:00:00Z,1,,H100,bio,late,\n"
ELSEWHERE = (
    ("timezone: UTC", "timezone: America/New_York", "restore UTC"),
    ("currency: USD", "currency: EUR", "EUR isn't the book's, USD"),
)


def test_of_two_processes_that_close_a_month_one_does_and_the_book_is_whole(book: Book) -> None:
    config = book(config=CONFIG)
    argv = [sys.executable, "-m", "gpuledger", "close", "2026-09", "--config", str(config.path)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    both = [subprocess.Popen(argv, env=environment, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    said = [process.communicate()[1] for process in both]
    assert sorted(process.returncode for process in both) == [0, 1], said
    assert "is closed already" in "".join(said)
    assert verify(config).problems == []
    assert verify(config).periods == ["2026-09"]


@pytest.mark.parametrize(("was", "now", "why"), ELSEWHERE)
def test_in_another_zone_or_currency_nothing_is_booked_or_closed_and_what_is_closed_stays(
    book: Book, was: str, now: str, why: str
) -> None:
    config = book(config=CONFIG)
    close(config, "2026-09", now=NOW, by="ada")
    before = report(config, period="2026-09").to_json()
    config = book(LATE, config=CONFIG.replace(was, now))
    assert report(config, period="2026-09").to_json() == before
    assert any(why in f.detail for f in report(config, period="2026-10").findings)
    assert {t.charges.adjustment for t in report(config, period="2026-10").tenants} == {"0.00"}
    with pytest.raises(WorkError, match=why):
        close(config, "2026-10", now=NOW, by="ada")
    with pytest.raises(WorkError, match=why):
        adjusting.credit(config, "bio", Decimal(1), about="2026-09", reason="x", now=NOW, by="ada")
    assert verify(config).problems == []
    restored = book(LATE, config=CONFIG)
    assert next(t.charges.adjustment for t in report(restored, period="2026-10").tenants if t.tenant == "bio") != "0.00"


def test_a_zone_that_turns_months_at_the_same_instant_goes_on(book: Book) -> None:
    config = book(config=CONFIG)
    close(config, "2026-09", now=NOW, by="ada")
    config = book(config=CONFIG.replace("timezone: UTC", "timezone: Africa/Abidjan"))
    close(config, "2026-10", now=NOW, by="ada")
    assert verify(config).problems == []


def test_more_credit_than_bill_is_a_negative_total_that_adds_up_everywhere(book: Book) -> None:
    config = book(config=CONFIG)
    close(config, "2026-09", now=NOW, by="ada")
    plain = Decimal(statement(config, "bio", "2026-10").statement.total)
    for reason in ("dispute 1", "dispute 1 again"):
        adjusting.credit(config, "bio", Decimal("900.00"), about="2026-09", reason=reason, now=NOW, by="ada")
    close(config, "2026-10", now=NOW, by="ada")
    found = statement(config, "bio", "2026-10")
    assert Decimal(found.statement.total) == plain - 1800 < 0
    assert found.rendered("pdf").startswith(b"%PDF")
    exported = export(config, "2026-10", format_="csv")
    assert b"-900" in exported
    assert verify(config).problems == []


def test_a_tenant_that_is_retired_still_gets_what_it_is_owed(book: Book) -> None:
    config = book(LATE, config=CONFIG)
    close(config, "2026-09", now=NOW, by="ada")
    before = statement(config, "bio", "2026-09").statement
    retired = CONFIG.replace("  - {id: bio}\n", "  - {id: bio, retired: 2026-09-01}\n")
    config = book(config=retired)  # the late row is gone as well: it is given back
    assert statement(config, "bio", "2026-09").statement == before
    owed = next(t for t in report(config, period="2026-10").tenants if t.tenant == "bio")
    assert Decimal(owed.charges.adjustment) < 0
    close(config, "2026-10", now=NOW, by="ada", force=True, reason="bio has left")
    assert verify(config).problems == []


def test_a_line_that_could_not_be_written_whole_leaves_the_chain_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "chain.jsonl"
    chain.append(path, chain.linked({"period": "2026-09"}, []))
    before = path.read_bytes()

    def full(stream: FileIO, content: bytes) -> None:
        stream.write(content[:10])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(chain, "_write", full)
    with pytest.raises(LedgerError, match="No space left on device; nothing was booked"):
        chain.append(path, chain.linked({"period": "2026-10"}, chain.lines(path)))
    assert path.read_bytes() == before
    assert len(chain.lines(path)) == 1
