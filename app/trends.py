"""What was charged for day by day, and where a month that isn't over is heading."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from fractions import Fraction
from typing import Final

import polars as pl

from app.scope import ALLOWED, IN_DAYS, Scope
from app.shares import CLASSES, By
from app.usage import grain
from pipelines.money import round_money

TOP: Final = 6
OTHER: Final = "Other"


def by_day(scope: Scope, by: By) -> tuple[pl.DataFrame, list[str]]:
    """Return charges for GPU-hours by day (by month in long ranges) and by the largest few of a split.

    Returns:
        ``moment``, ``name``, ``amount`` (for drawing: before rounding), and the names, largest first.
    """
    column = {"model": "model", "class": '"class"'}.get(by, "tenant")
    rows = scope.ask(
        f"""SELECT CASE WHEN $grain = 'month' THEN date_trunc('month', day) ELSE day END::TIMESTAMP AS moment,
            {column} AS name, sum(charge_weight) AS amount
        FROM charge_day WHERE {IN_DAYS} AND tenant IS NOT NULL AND {ALLOWED} GROUP BY ALL ORDER BY ALL""",
        grain="month" if grain(scope.span) == "month" else "day",
    )
    if column == "tenant":
        labels = {t: scope.tenant_name(t) for t in rows["name"].unique()}
    else:
        labels = {key: CLASSES.get(key, key) for key in rows["name"].drop_nulls().unique()}
    rows = rows.with_columns(pl.col("name").replace(labels).fill_null("unknown model"))
    ranked = rows.group_by("name").agg(pl.col("amount").sum()).sort("amount", "name", descending=[True, False])["name"]
    top = ranked.head(TOP).to_list()
    folded = (
        rows.with_columns(pl.when(pl.col("name").is_in(top)).then("name").otherwise(pl.lit(OTHER)).alias("name"))
        .group_by("moment", "name")
        .agg(pl.col("amount").sum())
        .sort("moment", "name")
    )
    return folded, [*top, *([OTHER] if ranked.len() > TOP else [])]


def projected(scope: Scope, usage: Decimal, rest: Decimal, now: datetime) -> Decimal | None:
    """Return what a range's bill comes to at its pace so far; None where it is over or has hardly begun.

    Args:
        usage: what grows with time; rest: what is already whole, such as reservations.
        now: how far the ledger's data reach.
    """
    span = scope.span
    if scope.as_of >= span.end or now <= span.start:
        return None
    passed = Fraction((now - span.start).total_seconds()) / Fraction((span.end - span.start).total_seconds())
    if passed < Fraction(1, 20):
        return None
    return round_money(Fraction(usage) / passed + Fraction(rest), scope.currency)
