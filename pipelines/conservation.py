"""Every device-second is in exactly one place: checked after each roll-up, never made so by clamping."""

from __future__ import annotations

from typing import Final

import polars as pl

from exporter.errors import ConservationError
from pipelines.fleet import Fleet
from pipelines.instants import HOUR_MS, from_ms

TOLERANCE_MS: Final = 1.0  # of a device-hour: fractions are summed as floats here, and only here


def check_conservation(usage: pl.DataFrame, fleet: Fleet) -> None:
    """Compare what each card's parts add up to in each UTC hour with the time in which it exists.

    Raises:
        ConservationError: they differ; names the device and the hour.
    """
    exists = pl.DataFrame(
        [(card.cluster, card.device, start, end) for card in fleet.cards() for start, end in card.exists],
        schema={"cluster": pl.String, "device": pl.String, "start": pl.Int64, "end": pl.Int64},
        orient="row",
    )
    by_hour = (
        exists.with_columns(hour=pl.int_ranges(pl.col("start") // HOUR_MS, (pl.col("end") - 1) // HOUR_MS + 1))
        .explode("hour")
        .with_columns(
            there=pl.min_horizontal("end", (pl.col("hour") + 1) * HOUR_MS)
            - pl.max_horizontal("start", pl.col("hour") * HOUR_MS)
        )
        .group_by("cluster", "device", "hour")
        .agg(pl.col("there").sum())
    )
    parts = (
        usage.with_columns(
            hour=pl.col("start") // HOUR_MS,
            parts=(pl.col("end") - pl.col("start")) * (pl.col("weight_num") / pl.col("weight_den")),
        )
        .group_by("cluster", "device", "hour")
        .agg(pl.col("parts").sum())
    )
    compared = by_hour.join(parts, on=["cluster", "device", "hour"], how="full", coalesce=True, nulls_equal=True)
    difference = pl.col("parts").fill_null(0) - pl.col("there").fill_null(0)
    wrong = compared.filter(difference.abs() > TOLERANCE_MS).sort("hour", "device")
    if wrong.height:
        first = wrong.row(0, named=True)
        raise ConservationError(
            f"{first['device']} at {from_ms(first['hour'] * HOUR_MS):%Y-%m-%dT%H:%M:%SZ}: its parts add up to"
            f" {(first['parts'] or 0) / 1000:.3f} s of {(first['there'] or 0) / 1000:.3f} s, and so in {wrong.height}"
            " device-hours; please report it with its input"
        )
