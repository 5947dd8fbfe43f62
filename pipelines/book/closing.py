"""Closing a month: checked, numbered, chained, and on the shelf for good."""

from __future__ import annotations

import os
import re
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from exporter.errors import LedgerError, UsageError, WorkError
from pipelines import publish
from pipelines.book import chain, journal
from pipelines.book.compose import make_statement
from pipelines.book.document import Statement
from pipelines.book.reckoning import Reckoned, Reckoning
from pipelines.book.shelf import (
    CHAIN,
    CONFIG,
    FOLDER,
    MANIFEST,
    ClosedBook,
    digest,
    part_of,
    recover,
)
from pipelines.book.statements import rendered, trend
from pipelines.config import Config, load
from pipelines.findings import finding_table
from pipelines.ledger import Ledger, open_ledger
from pipelines.metering import Metered
from pipelines.periods import Period, parse_period
from pipelines.report import Report

LIBRARIES: Final = {"pdf": "typst", "xlsx": "xlsxwriter"}
_MONTH: Final = re.compile(r"\d{4}-\d\d", re.ASCII)


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


def close(config: Config, period: str, *, now: datetime, by: str, force: bool = False, reason: str = "") -> Closed:
    """Close a month for good.

    Args:
        force: close although coverage is low, findings are open or the grace isn't over; it needs a reason, which the
            book keeps. Nothing closes a month with hours that have no price.

    Raises:
        UsageError: it is no month, or --force has no reason.
        WorkError: the month can't be closed; the message says why and what to do.
    """
    if not _MONTH.fullmatch(period):
        raise UsageError(f"{period}: only months are closed; write one as 2026-10")
    if force and not reason.strip():
        raise UsageError("--force needs --reason: the book keeps why")
    span = parse_period(period, config.timezone)
    with open_ledger(config.ledger, f"gpuledger close {period}") as ledger:
        books = config.ledger / FOLDER
        recover(books)
        metered = up_to_date(ledger, config)
        publication = publish.current(config.ledger)
        as_of = publication.as_of if publication else now
        reckoning = Reckoning(config, metered, as_of)
        _in_turn(reckoning, period)
        reckoned = reckoning.of(span)
        if now < span.end:
            ends = f"{span.end.astimezone(config.timezone):%Y-%m-%d %H:%M}"
            raise WorkError(f"{period} can't be closed: it ends only on {ends} ({config.timezone.key})")
        problems = [*_in_grace(span, config, now), *_findings(reckoned, config)]
        unpriced = [f for f in reckoned.report.findings if f.code == "unknown_price"]
        if unpriced:
            raise WorkError(
                f"{period} can't be closed: {unpriced[0].detail}; add it to rates, then `gpuledger run --once`"
            )
        if problems and not force:
            raise WorkError(f"{period} can't be closed: {'; '.join(problems)}; mend it, or use --force --reason WHY")
        closed = _written(books, reckoning.closed, reckoned, part_of(metered, span), config, period, now, by, reason)
        made_from = ledger.made_from() or ""
        publish.publish(config, metered, made_from=made_from, as_of=as_of)
    return closed


def up_to_date(ledger: Ledger, config: Config) -> Metered:
    """Return the ledger's stages.

    Raises:
        LedgerError: they weren't made from this configuration and what is imported.
    """
    metered = ledger.metered()
    if metered is None or ledger.made_from() != f"{config.config_hash}:{ledger.state()}":
        raise LedgerError(
            f"{config.ledger}: isn't made from {config.path.name} as it is now; run `gpuledger run --once` first"
        )
    return metered


def _in_turn(reckoning: Reckoning, period: str) -> None:
    """Hold to the order: months are closed one after the other, each once."""
    done = [book.period for book in reckoning.closed]
    if period in done:
        raise WorkError(f"{period} is closed already; book what is wrong in it with `gpuledger adjust`")
    following = reckoning.open_period
    if done and period != following:
        raise WorkError(f"{period}: months are closed in turn, and {following} comes next")
    if following is None or period < following:
        raise WorkError(f"{period}: the ledger holds nothing of it; its first month is {following or 'still to come'}")


def _in_grace(span: Period, config: Config, now: datetime) -> Iterator[str]:
    if now < span.end + config.closing.grace:
        until = (span.end + config.closing.grace).astimezone(config.timezone)
        yield f"late data is awaited until {until:%Y-%m-%d %H:%M} (closing.grace)"


def _findings(reckoned: Reckoned, config: Config) -> Iterator[str]:
    held = [use.held for use in reckoned.rated.tenants.values()]
    allocated, seen = sum((h.allocated for h in held), Fraction(0)), sum((h.seen for h in held), Fraction(0))
    if allocated and seen / allocated < Fraction(config.closing.coverage):
        yield f"coverage is {float(seen / allocated):.1%}, below closing.coverage of {config.closing.coverage:.1%}"
    for finding in reckoned.report.findings:
        if finding.code in config.closing.findings:
            yield f"{finding.code} ({finding.count}): {finding.detail}"


def _written(
    books: Path,
    before: Sequence[ClosedBook],
    reckoned: Reckoned,
    part: Metered,
    config: Config,
    period: str,
    now: datetime,
    by: str,
    reason: str,
) -> Closed:
    """Write the folder under a draft name, then the chain's line (from then on it is closed), then its own name."""
    report = reckoned.report
    numbers = _numbered(before, [t.tenant for t in report.tenants], config.closing.issuer, period)
    made = _statements(reckoned, numbers, config, period)
    missing = tuple(f for f in config.closing.formats if find_spec(LIBRARIES[f]) is None)
    contents: dict[str, bytes] = {
        CONFIG: _config_as_read(config),
        "report.json": (report.to_json() + "\n").encode(),
        "entries.json": _entries(reckoned),
    }
    for statement in made:
        for format_ in ("json", "csv", *(f for f in config.closing.formats if f not in missing)):
            contents[f"statements/{statement.tenant.id}.{format_}"] = rendered(statement, format_)
    tables = {
        "lease": part.leases,
        "usage": part.usage,
        "outage": part.outages,
        "finding": finding_table(reckoned.findings),
    }
    draft = books / f".{period}.draft"
    try:
        shutil.rmtree(draft, ignore_errors=True)
        (draft / "statements").mkdir(parents=True)
        for name, content in contents.items():
            (draft / name).write_bytes(content)
        for name, rows in tables.items():
            rows.write_parquet(draft / f"{name}.parquet")
        manifest = _manifest(draft, report, period, now, by, reason, made, digest(part), config, books)
        (draft / MANIFEST).write_text(manifest, encoding="utf-8")
        for path in draft.rglob("*"):
            if path.is_file():
                path.chmod(0o444)
                _synced(path)
        line = chain.linked(
            {"period": period, "issuer": config.closing.issuer, "manifest": chain.sha256(manifest.encode())},
            [dict(book.line) for book in before],
        )
        chain.append(books / CHAIN, line)
        draft.rename(books / period)
    except OSError as error:
        raise LedgerError(f"{draft}: can't be written: {error.strerror}; {period} is as it was") from None
    return Closed(period, numbers, report.fleet.billed, report.currency, line["hash"], missing)


def _numbered(before: Sequence[ClosedBook], tenants: Sequence[str], issuer: str | None, period: str) -> dict[str, str]:
    """Number statements without gaps, per issuer and year of the period."""
    year = period[:4]
    last = sum(
        len(book.numbers) for book in before if book.line["issuer"] == issuer and book.period.startswith(f"{year}-")
    )
    return {tenant: f"{year}-{last + nth:06d}" for nth, tenant in enumerate(sorted(tenants), start=1)}


def _statements(reckoned: Reckoned, numbers: dict[str, str], config: Config, period: str) -> list[Statement]:
    return [
        make_statement(
            reckoned.rated,
            reckoned.report,
            config,
            tenant,
            label=period,
            entries=[e for e in reckoned.entries if e.tenant == tenant],
            trend=trend(config, tenant, period),
            number=number,
        )
        for tenant, number in numbers.items()
    ]


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
    draft: Path,
    report: Report,
    period: str,
    now: datetime,
    by: str,
    reason: str,
    statements: Sequence[Statement],
    usage_digest: str,
    config: Config,
    books: Path,
) -> str:
    files = sorted(path for path in draft.rglob("*") if path.is_file())
    content: dict[str, Any] = {
        "period": period,
        "closed_at": now.isoformat(timespec="seconds"),
        "closed_by": by,
        "forced": reason or None,
        "as_of": report.as_of.isoformat(),
        "config_hash": config.config_hash,
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
