"""Findings over time: when each was the case, so that a period's report says its own and no other's."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

import polars as pl

from pipelines.intervals import Interval
from pipelines.tables import Batch, Finding

FINDING: Final[dict[str, pl.DataType]] = {
    "code": pl.String(),
    "count": pl.Int64(),
    "detail": pl.String(),
    "subject": pl.String(),
    "start": pl.Int64(),
    "end": pl.Int64(),
}
"""Findings as they are stored: the fields of `tables.Finding`, times in ms."""

QUARTER_MS: Final = 900_000  # every zone's midnight lies at a quarter of an hour UTC
COUNTED: Final = ("invalid_sample", "duplicate_sample", "gap", "counter_reset")
"""Codes of what happens often and is counted by the quarter of an hour."""
_NAMED: Final = 3


def counted(times: pl.DataFrame, code: str, detail: str) -> pl.DataFrame:
    """Return what happened (``card``, ``t`` in ms) as a finding for each card and quarter of an hour in which it did.

    Returns:
        ``card`` and FINDING.
    """
    found = times.group_by("card", quarter=pl.col("t") // QUARTER_MS).agg(
        count=pl.len().cast(pl.Int64), start=pl.col("t").min(), end=pl.col("t").max() + 1
    )
    return of_cards(found, code, detail)


def of_cards(spans: pl.DataFrame, code: str, detail: str | pl.Expr) -> pl.DataFrame:
    """Return ``card`` and FINDING of what was the case on cards from ``start`` to ``end``, ``count`` times or once."""
    count = pl.col("count") if "count" in spans.columns else pl.lit(1, pl.Int64)
    return spans.select(
        "card",
        code=pl.lit(code),
        count=count,
        detail=detail if isinstance(detail, pl.Expr) else pl.lit(detail),
        subject=pl.lit(None, pl.String),
        start=pl.col("start").cast(pl.Int64),
        end=pl.col("end").cast(pl.Int64),
    )


def over_cards(found: pl.DataFrame) -> list[Finding]:
    """Return findings of cards (FINDING); what is counted stands once for each quarter of an hour, of all cards."""
    counts = pl.col("code").is_in(COUNTED)
    quarters = (
        found.filter(counts)
        .group_by("code", "detail", "subject", quarter=pl.col("start") // QUARTER_MS)
        .agg(pl.col("count").sum(), pl.col("start").min(), pl.col("end").max())
        .select(list(FINDING))
    )
    return findings_of(pl.concat([found.filter(~counts).select(list(FINDING)), quarters]))


def within(findings: Iterable[Finding], period: Interval) -> list[Finding]:
    """Return the findings that are a period's (ms); one whose time nobody knows is every period's."""
    return [f for f in findings if f.start is None or f.end is None or (f.start < period[1] and f.end > period[0])]


def dated(batch: Batch) -> list[Finding]:
    """Return a batch's findings, those without a time over that of what was read beside them."""
    times = [
        *(batch.samples["time"].dt.epoch("ms").min(), batch.samples["time"].dt.epoch("ms").max()),
        batch.records["start"].dt.epoch("ms").min(),
        batch.records.select(pl.coalesce("end", "start").dt.epoch("ms").max()).item(),
    ]
    known = [t for t in times if isinstance(t, int)]
    if not known:
        return batch.findings
    start, end = min(known), max(known) + 1
    return [replace(f, start=start, end=end) if f.start is None else f for f in batch.findings]


def merge_findings(findings: Iterable[Finding]) -> list[Finding]:
    """Return one finding per code: counts added, the first details with the first of what each is about."""
    grouped: dict[str, list[Finding]] = {}
    for finding in findings:
        if finding.count:
            grouped.setdefault(finding.code, []).append(finding)
    return [
        Finding(code, sum(f.count for f in group), "; ".join(_some(_details(group))))
        for code, group in sorted(grouped.items())
    ]


def _details(group: Iterable[Finding]) -> list[str]:
    subjects: dict[str, set[str]] = {}
    for finding in group:
        subjects.setdefault(finding.detail, set()).update({finding.subject} if finding.subject else ())
    return [f"{detail}: {', '.join(_some(names))}" if names else detail for detail, names in subjects.items()]


def _some(texts: Iterable[str]) -> list[str]:
    ordered = sorted(texts)
    more = len(ordered) - _NAMED
    return [*ordered[:_NAMED], *([f"and {more} more"] if more > 0 else [])]


def summed(findings: Iterable[Finding]) -> list[Finding]:
    """Return the findings with those that differ in their count alone as one, in a fixed order."""
    counts: dict[Finding, int] = {}
    for finding in findings:
        alike = replace(finding, count=0)
        counts[alike] = counts.get(alike, 0) + finding.count
    return sorted((replace(f, count=n) for f, n in counts.items() if n), key=_order)


def _order(finding: Finding) -> tuple[str, str, str, int, int]:
    return finding.code, finding.detail, finding.subject or "", finding.start or 0, finding.end or 0


def finding_table(findings: Iterable[Finding]) -> pl.DataFrame:
    """Return findings as a table (FINDING)."""
    rows = [(f.code, f.count, f.detail, f.subject, f.start, f.end) for f in findings]
    return pl.DataFrame(rows, schema=FINDING, orient="row")


def findings_of(table: pl.DataFrame) -> list[Finding]:
    """Return the findings of a table (FINDING)."""
    return [Finding(*row) for row in table.select(list(FINDING)).iter_rows()]
