"""Proof of the book: every byte is what was closed, every number is there, and every sum follows from the usage."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from exporter.errors import GpuLedgerError
from pipelines.book import chain, journal, proposals
from pipelines.book.compose import StatementMaker
from pipelines.book.notes import EDITIONS
from pipelines.book.reckoning import sums
from pipelines.book.shelf import CHAIN, FOLDER, MANIFEST, ClosedBook
from pipelines.config import Config
from pipelines.periods import Period
from pipelines.rating import rate
from pipelines.statement import make_report, within_of


@dataclass
class Verdict:
    """What was checked, and each thing that is not as it was closed; the first problem names a file."""

    periods: list[str] = field(default_factory=list)
    statements: int = 0
    files: int = 0
    entries: int = 0
    head: str = chain.START
    problems: list[str] = field(default_factory=list)


def verify(config: Config) -> Verdict:
    """Check chain, files and numbers, and work every closed period out again. Nothing is locked or changed."""
    books = config.ledger / FOLDER
    verdict = Verdict()
    lines, problems = chain.examined(books / CHAIN)
    verdict.problems += problems
    booked, problems = chain.examined(books / journal.NAME)
    verdict.problems += problems
    verdict.entries = sum(len(line.get("entries", ())) for line in booked)
    verdict.head = lines[-1]["hash"] if lines else chain.START
    proposed, problems = chain.examined(books / proposals.NAME)
    verdict.problems += problems
    closed = [ClosedBook(books / str(line.get("period")), str(line.get("period")), line) for line in lines]
    heads = {chain.START, *(line["hash"] for line in booked)}
    proposal_hashes = {None, *(line["hash"] for line in proposed)}
    for book in closed:
        verdict.periods.append(book.period)
        faults = list(_files(book, heads, proposal_hashes))
        verdict.problems += faults
        if not faults:
            manifest = book.manifest
            verdict.files += len(manifest["files"])
            verdict.statements += len(manifest["statements"])
            verdict.problems += _worked_out_again(book)
    verdict.problems += _strays(books, {book.period for book in closed})
    if not verdict.problems:
        verdict.problems += _gaps(closed)
    return verdict


def _files(book: ClosedBook, journal_heads: set[str], proposal_hashes: set[str | None]) -> Iterator[str]:
    """Compare every file with the hash that the manifest, and the manifest with the one that the chain, holds of it."""
    path = book.folder / MANIFEST
    try:
        content = path.read_bytes()
    except OSError as error:
        yield f"{path}: can't be read: {error.strerror}"
        return
    if chain.sha256(content) != book.line.get("manifest"):
        yield f"{path}: was changed: its hash isn't the one in the chain"
        return
    manifest = json.loads(content)
    if manifest["journal"] not in journal_heads:
        yield f"{book.folder.parent / journal.NAME}: lacks what was booked when {book.period} was closed"
    if manifest.get("proposal") not in proposal_hashes:
        yield f"{book.folder.parent / proposals.NAME}: lacks the proposal that {book.period} was closed by"
    for name, wanted in manifest["files"].items():
        file = book.folder / name
        try:
            found = file.read_bytes()
        except OSError as error:
            yield f"{file}: can't be read: {error.strerror}"
            continue
        if len(found) != wanted["bytes"]:
            yield f"{file}: was changed: {len(found):,} bytes, closed with {wanted['bytes']:,}"
        elif chain.sha256(found) != wanted["sha256"]:
            yield f"{file}: was changed: its hash isn't the one in {MANIFEST}"
    known = {*manifest["files"], MANIFEST}
    for file in sorted(p for p in book.folder.rglob("*") if p.is_file()):
        if file.relative_to(book.folder).as_posix() not in known:
            yield f"{file}: was put there after closing"


def _worked_out_again(book: ClosedBook) -> Iterator[str]:
    """Rate the closed usage by the closed configuration, and compare report and statements."""
    try:
        config, metered, kept, booked = book.config, book.metered(), book.report, book.entries
        period = Period(kept.period.from_, kept.period.to)
        rated = rate(metered, config, within_of(period))
        report = make_report(
            rated, config, period, [*metered.findings, *rated.findings], kept.as_of, adjustments=sums(booked)
        )
        if report.to_json() != kept.to_json():
            yield f"{book.folder / 'report.json'}: the usage gives other figures: {_difference(report, kept)}"
            return
        maker = StatementMaker(rated, report, config)
        for tenant, number in book.numbers.items():
            statement = book.statement(tenant)
            entries = [e for e in booked if e.tenant == tenant]
            again = (maker.of(tenant, label=book.period, entries=entries, number=number, edition=e) for e in EDITIONS)
            # Earlier months' totals aren't this month's usage, and stand there in the tenant's own currency.
            if not any(s.model_copy(update={"trend": statement.trend}).to_json() == statement.to_json() for s in again):
                yield f"{book.folder / 'statements' / tenant}.json: the usage gives other figures"
    except GpuLedgerError as error:
        yield f"{book.folder}: can't be worked out again: {error}"


def _difference(report: object, kept: object) -> str:
    """Return the first figure that differs."""

    def leaves(value: object, path: str) -> Iterator[tuple[str, object]]:
        if isinstance(value, dict):
            for key, inner in value.items():
                yield from leaves(inner, f"{path}.{key}" if path else key)
        elif isinstance(value, list):
            for i, inner in enumerate(value):
                yield from leaves(inner, f"{path}[{i}]")
        else:
            yield path, value

    ours, theirs = (dict(leaves(json.loads(r.to_json()), "")) for r in (report, kept))  # type: ignore[attr-defined]
    differing = sorted(key for key in {*ours, *theirs} if ours.get(key) != theirs.get(key))
    return f"{differing[0]} is {ours.get(differing[0])}, closed with {theirs.get(differing[0])}" if differing else "?"


def _strays(books: Path, closed: set[str]) -> Iterator[str]:
    """Name what lies on the shelf and isn't in the chain."""
    if not books.is_dir():
        return
    for path in sorted(books.iterdir()):
        if path.name in closed or path.name in {CHAIN, journal.NAME, proposals.NAME}:
            continue
        if path.name.endswith(".draft"):
            yield f"{path}: a closing was interrupted; run `gpuledger close` again"
        else:
            yield f"{path}: isn't in the chain: lines were cut off it, or this was put there"


def _gaps(closed: list[ClosedBook]) -> Iterator[str]:
    """Name a statement number that is missing, doubled or out of its turn."""
    last: dict[tuple[str | None, str], int] = defaultdict(int)
    for book in closed:
        for row in book.manifest["statements"]:
            year, _, digits = row["number"].partition("-")
            series = (book.line.get("issuer"), year)
            if int(digits) != last[series] + 1:
                yield f"{book.folder / MANIFEST}: statement {row['number']} follows {year}-{last[series]:06d}"
            last[series] = int(digits)
