"""Closed periods as they stand on the shelf: a read-only folder each, and the chain that names them.

``books/chain.jsonl`` holds one line per closed period. ``books/2026-10/`` holds ``manifest.json`` (every file with its
hash), ``gpuledger.yaml`` as it was, the period's ``lease``, ``usage``, ``outage`` and ``finding`` tables,
``entries.json``, ``report.json`` and ``statements/``.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import polars as pl

from exporter.errors import LedgerError
from pipelines.analysis.tables import IDLE, WINDOW, Analysis
from pipelines.billing_hours import BILLED
from pipelines.book import chain
from pipelines.book.document import Statement
from pipelines.book.entries import Entry
from pipelines.book.journal import entry_from_json
from pipelines.config import Config, load
from pipelines.findings import FINDING, findings_of
from pipelines.findings import within as of_period
from pipelines.instants import to_ms
from pipelines.metering import LEASE, OUTAGE, Metered
from pipelines.periods import Period
from pipelines.rating import clipped
from pipelines.report import Report
from pipelines.rollup import USAGE
from pipelines.tables import conformed

FOLDER: Final = "books"
CHAIN: Final = "chain.jsonl"
MANIFEST: Final = "manifest.json"
CONFIG: Final = "gpuledger.yaml"
TABLES: Final[Mapping[str, dict[str, pl.DataType]]] = {
    "lease": LEASE,
    "usage": USAGE,
    "outage": OUTAGE,
    "finding": FINDING,
    "bottleneck_window": WINDOW,
    "bottleneck_idle": IDLE,
    "slurm_billing": BILLED,
}
_OF_OTHER_MONTHS: Final = frozenset({"start", "end", "ended"})
ADDED: Final = frozenset({"bottleneck_window", "bottleneck_idle", "slurm_billing"})
"""Tables that months closed by older releases don't have."""


@dataclass(frozen=True)
class ClosedBook:
    """One closed period on the shelf; nothing of it is read before it is asked for."""

    folder: Path
    period: str
    line: Mapping[str, Any]

    @property
    def manifest(self) -> dict[str, Any]:
        """What it holds, and by what it was closed."""
        return dict(json.loads(self._bytes(MANIFEST)))

    @property
    def config(self) -> Config:
        """The configuration that it was closed with."""
        return load(self.folder / CONFIG)

    @property
    def report(self) -> Report:
        """Its report."""
        return Report.model_validate_json(self._bytes("report.json"))

    @property
    def entries(self) -> list[Entry]:
        """What was booked in it."""
        return [entry_from_json(e) for e in json.loads(self._bytes("entries.json"))]

    @property
    def numbers(self) -> dict[str, str]:
        """Statement number by tenant."""
        return {s["tenant"]: s["number"] for s in self.manifest["statements"]}

    def statement(self, tenant: str) -> Statement:
        """Return a tenant's statement."""
        return Statement.model_validate_json(self._bytes(f"statements/{tenant}.json"))

    def stored(self, tenant: str, format_: str) -> bytes | None:
        """Return a statement's very bytes in a format that it was closed with; None: another format."""
        try:
            return (self.folder / "statements" / f"{tenant}.{format_}").read_bytes()
        except FileNotFoundError:
            return None

    @property
    def leases(self) -> pl.DataFrame:
        """Who held what, as it was known when it was closed: LEASE."""
        return self._table("lease", LEASE)

    def metered(self) -> Metered:
        """Return who held what, as it was known when it was closed."""
        rows = {name: self._table(name, schema) for name, schema in TABLES.items()}
        period = self.report.period
        return Metered(
            rows["lease"],
            rows["usage"],
            rows["outage"],
            findings_of(rows["finding"]),
            (to_ms(period.from_), to_ms(period.to)),
            Analysis(rows["bottleneck_window"], rows["bottleneck_idle"]),
            {"slurm_billing": rows["slurm_billing"]},
        )

    def _table(self, name: str, schema: dict[str, pl.DataType]) -> pl.DataFrame:
        path = self.folder / f"{name}.parquet"
        if name in ADDED and not path.exists():
            return pl.DataFrame(schema=schema)
        return conformed(pl.read_parquet(path), schema)

    def _bytes(self, name: str) -> bytes:
        try:
            return (self.folder / name).read_bytes()
        except OSError as error:
            raise LedgerError(
                f"{self.folder / name}: can't be read: {error.strerror}; restore it from a backup"
            ) from None


def shelf(books: Path) -> list[ClosedBook]:
    """Return the closed periods in the order in which they were closed.

    Raises:
        LedgerError: the chain was changed.
    """
    return [ClosedBook(books / line["period"], line["period"], line) for line in chain.lines(books / CHAIN)]


def part_of(metered: Metered, period: Period) -> Metered:
    """Return the part of what was metered that a period is rated by."""
    within = to_ms(period.start), to_ms(period.end)
    usage = clipped(metered.usage, within).sort(pl.all())
    leases = metered.leases.filter(pl.col("id").is_in(usage["lease"].drop_nulls().unique().implode()))
    overlaps = (pl.col("start") < within[1]) & (pl.col("end") > within[0])
    findings = of_period(metered.findings, within)
    analysis = metered.analysis.within(within)
    billed = metered.state.get("slurm_billing", pl.DataFrame(schema=BILLED)).filter(overlaps)
    state = {
        "slurm_billing": billed.drop("id")
        .sort(pl.all())
        .with_row_index("id")
        .cast({"id": pl.String})
        .select(list(BILLED))
    }
    return Metered(leases.sort("id"), usage, metered.outages.filter(overlaps), findings, within, analysis, state)


def digest(metered: Metered) -> str:
    """Return a hash of usage, outages and billing-hours: with equal leases they are rated equally.

    Another release of polars may give another: what was closed is then only rated once more, to no difference.
    """
    frames = [metered.usage, metered.outages]
    billed = metered.state.get("slurm_billing")
    if billed is not None and billed.height:  # months closed by older releases have none
        frames.append(billed)
    hashes = (frame.hash_rows(seed=0).to_numpy().tobytes() for frame in frames)
    return chain.sha256(b"|".join(hashes))


def held_by(leases: pl.DataFrame) -> pl.DataFrame:
    """Return of leases (LEASE) what rating reads: whose they were, and in which class.

    When they began and ended in other months doesn't count: usage tells of this one.
    """
    return leases.select(c for c in LEASE if c not in _OF_OTHER_MONTHS).sort("id")


def unchanged(book: ClosedBook, part: Metered) -> bool:
    """Return whether what is known now of a closed month is what it was closed with."""
    return digest(part) == book.manifest["usage_digest"] and held_by(part.leases).equals(held_by(book.leases))


def period_of(book: ClosedBook) -> Period:
    """Return a closed period's bounds."""
    period = book.report.period
    return Period(period.from_, period.to)


def recover(books: Path) -> None:
    """Finish a closing that was interrupted after its line was written; drop one interrupted before.

    The caller holds the ledger.
    """
    closed = {line["period"]: line["manifest"] for line in chain.lines(books / CHAIN)}
    for draft in books.glob(".*.draft"):
        period = draft.name.removeprefix(".").removesuffix(".draft")
        manifest = draft / MANIFEST
        if (
            period in closed
            and not (books / period).exists()
            and manifest.is_file()
            and chain.sha256(manifest.read_bytes()) == closed[period]
        ):
            draft.rename(books / period)
        else:
            shutil.rmtree(draft)
