"""A month's folder on the shelf: written under a draft name, chained, and read-only for good."""

from __future__ import annotations

import io
import os
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import polars as pl

from exporter.errors import GpuLedgerError, LedgerError
from pipelines.analysis.stage import tables as analysis_tables
from pipelines.book import chain, journal
from pipelines.book.compose import StatementMaker
from pipelines.book.document import Statement
from pipelines.book.reckoning import Reckoned
from pipelines.book.shelf import CHAIN, CONFIG, MANIFEST, ClosedBook, digest
from pipelines.book.statements import rendered, trends
from pipelines.config import Config, load
from pipelines.findings import finding_table
from pipelines.metering import Metered

LIBRARIES: Final = {"pdf": "typst", "xlsx": "xlsxwriter"}


@dataclass(frozen=True)
class Act:
    """Who closes what, when and why.

    Attributes:
        by: who closes it; where a second person must approve, the approver.
        reason: why it is closed although something speaks against it; "" where nothing does.
        proposed_by, proposal: who proposed it, and the hash of the line that says so.
    """

    period: str
    now: datetime
    by: str
    reason: str = ""
    proposed_by: str | None = None
    proposal: str | None = None


@dataclass(frozen=True)
class Closed:
    """What a closing made.

    Attributes:
        numbers: statement number by tenant.
        without: formats that couldn't be kept, because their library isn't installed.
    """

    period: str
    numbers: dict[str, str]
    total: str
    currency: str
    hash: str
    without: tuple[str, ...] = ()

    def __str__(self) -> str:
        numbers = sorted(self.numbers.values())
        span = f"statements {numbers[0]} to {numbers[-1]}" if numbers else "no statement"
        lacking = f"; without {' and '.join(self.without)}: install gpuledger[reports]" if self.without else ""
        return f"closed {self.period}: {span}, {self.currency} {self.total}; chain {self.hash[:16]}{lacking}"


def write(
    books: Path, before: Sequence[ClosedBook], reckoned: Reckoned, part: Metered, config: Config, act: Act
) -> Closed:
    """Write the folder under a draft name, then the chain's line (from then on it is closed), then its own name.

    Args:
        before: what is closed already.
        part: what the month was metered from.

    Raises:
        LedgerError: the configuration was changed meanwhile, or something can't be written; the month is as it was.
    """
    report, period = reckoned.report, act.period
    numbers = _numbered(before, [t.tenant for t in report.tenants], config.closing.issuer, period)
    missing = tuple(f for f in config.closing.formats if find_spec(LIBRARIES[f]) is None)
    contents: dict[str, bytes] = {
        CONFIG: _config_as_read(config),
        "report.json": (report.to_json() + "\n").encode(),
        "entries.json": _entries(reckoned),
    }
    formats = ("json", "csv", *(f for f in config.closing.formats if f not in missing))
    tables = {
        "lease": part.leases,
        "usage": part.usage,
        "outage": part.outages,
        "finding": finding_table(reckoned.findings),
        **analysis_tables(part.analysis),
        **{name: rows for name, rows in part.state.items() if rows.height},
    }
    draft = books / f".{period}.draft"
    try:
        try:
            shutil.rmtree(draft, ignore_errors=True)
            (draft / "statements").mkdir(parents=True)
            with ThreadPoolExecutor(1, "tables") as pool:  # while statements are being made
                stored = pool.submit(_write_tables, draft, tables)
                made, files = _rendered(_statements(reckoned, numbers, config, period), formats)
                stored.result()
            for name, content in (contents | files).items():
                (draft / name).write_bytes(content)
            manifest = _manifest(draft, reckoned, act, made, digest(part), books)
            _seal(draft, manifest)
        except (OSError, GpuLedgerError):
            shutil.rmtree(draft, ignore_errors=True)
            raise
        line = chain.linked(
            {"period": period, "issuer": config.closing.issuer, "manifest": chain.sha256(manifest.encode())},
            [dict(book.line) for book in before],
        )
        chain.append(books / CHAIN, line)
        draft.rename(books / period)
    except OSError as error:
        raise LedgerError(f"{draft}: can't be written: {error.strerror}; {period} is as it was") from None
    return Closed(period, numbers, report.fleet.billed, report.currency, line["hash"], missing)


def _write_tables(draft: Path, tables: Mapping[str, pl.DataFrame]) -> None:
    for name, rows in tables.items():
        written = io.BytesIO()  # polars says of a full disk only that a file is out of specification
        rows.write_parquet(written)
        (draft / f"{name}.parquet").write_bytes(written.getbuffer())


def _seal(draft: Path, manifest: str) -> None:
    """Write the manifest, and bring all of it to the disk, read-only."""
    (draft / MANIFEST).write_text(manifest, encoding="utf-8")
    for path in draft.rglob("*"):
        if path.is_file():
            path.chmod(0o444)
            _synced(path)


def _numbered(before: Sequence[ClosedBook], tenants: Sequence[str], issuer: str | None, period: str) -> dict[str, str]:
    """Number statements without gaps, per issuer and year of the period."""
    year = period[:4]
    last = sum(
        len(book.numbers) for book in before if book.line["issuer"] == issuer and book.period.startswith(f"{year}-")
    )
    return {tenant: f"{year}-{last + nth:06d}" for nth, tenant in enumerate(sorted(tenants), start=1)}


def _statements(reckoned: Reckoned, numbers: dict[str, str], config: Config, period: str) -> Iterator[Statement]:
    maker = StatementMaker(reckoned.rated, reckoned.report, config)
    past = trends(config, period)
    for tenant, number in numbers.items():
        yield maker.of(
            tenant,
            label=period,
            entries=[e for e in reckoned.entries if e.tenant == tenant],
            trend=past.get(tenant, []),
            number=number,
        )


def _rendered(statements: Iterable[Statement], formats: Sequence[str]) -> tuple[list[Statement], dict[str, bytes]]:
    """Return the statements, and each in each format by the name of its file.

    Typst lays out on other cores while the next statement is being made.
    """
    made: list[Statement] = []
    pages: dict[str, Future[bytes]] = {}
    contents: dict[str, bytes] = {}
    with ThreadPoolExecutor(os.cpu_count(), thread_name_prefix="layout") as pool:
        try:
            for statement in statements:
                made.append(statement)
                for format_ in formats:
                    name = f"statements/{statement.tenant.id}.{format_}"
                    if format_ == "pdf":
                        pages[name] = pool.submit(rendered, statement, format_)
                    else:
                        contents[name] = rendered(statement, format_)
            return made, contents | {name: page.result() for name, page in pages.items()}
        finally:
            pool.shutdown(cancel_futures=True)


def _config_as_read(config: Config) -> bytes:
    """Return the file that the configuration was read from, if it still means the same."""
    content = config.path.read_bytes()
    if load(config.path).config_hash != config.config_hash:
        raise LedgerError(f"{config.path}: was changed while the month was being closed; try again")
    return content


def _entries(reckoned: Reckoned) -> bytes:
    rows = [journal.entry_to_json(entry) for entry in reckoned.entries]
    return ("[" + ",\n".join(chain.canonical(row) for row in rows) + "]\n").encode()


def _manifest(
    draft: Path, reckoned: Reckoned, act: Act, statements: Sequence[Statement], usage_digest: str, books: Path
) -> str:
    report = reckoned.report
    files = sorted(path for path in draft.rglob("*") if path.is_file())
    content: dict[str, Any] = {
        "period": act.period,
        "closed_at": act.now.isoformat(timespec="seconds"),
        "closed_by": act.by,
        "proposed_by": act.proposed_by,
        "proposal": act.proposal,
        "forced": act.reason or None,
        "as_of": report.as_of.isoformat(),
        "config_hash": reckoned.config.config_hash,
        "usage_digest": usage_digest,
        "journal": journal.head(books),
        "statements": [
            {"number": s.number, "tenant": s.tenant.id, "total": s.total, "currency": s.currency} for s in statements
        ],
        "findings": dict(Counter({f.code: f.count for f in report.findings})),
        "files": {
            path.relative_to(draft).as_posix(): {
                "bytes": path.stat().st_size,
                "sha256": chain.sha256(path.read_bytes()),
            }
            for path in files
        },
    }
    return chain.canonical(content) + "\n"


def _synced(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
