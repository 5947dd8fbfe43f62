"""Columns of local time text → UTC, with the hour that occurs twice told apart by how long things took."""

from __future__ import annotations

from datetime import datetime
from typing import Final
from zoneinfo import ZoneInfo

import polars as pl

from pipelines.tables import TIME

_EPOCH: Final = r"^([0-9]{1,11})$"


def utc_candidates(column: pl.Series, zone: ZoneInfo) -> pl.DataFrame:
    """``earliest`` and ``latest``: what local time text can mean in UTC; null where it is no time.

    They differ only in an hour that the clock repeats. Read are ISO 8601 with a T or a blank, with or without an
    offset, and seconds since the epoch. A local time that the clock skipped moves forward by what was skipped.
    """
    text = column.str.strip_chars().str.replace("T", " ", literal=True)
    local = text.str.to_datetime("%Y-%m-%d %H:%M:%S", time_unit="ms", strict=False)
    earliest = local.dt.replace_time_zone(zone.key, ambiguous="earliest", non_existent="null")
    latest = local.dt.replace_time_zone(zone.key, ambiguous="latest", non_existent="null")
    epoch = pl.from_epoch(text.str.extract(_EPOCH).cast(pl.Int64), "s").cast(pl.Datetime("ms"))
    moments = epoch.dt.replace_time_zone("UTC").cast(TIME)
    candidates = pl.DataFrame({"earliest": _utc(earliest), "latest": _utc(latest)}).select(
        pl.coalesce(pl.col(name), moments).alias(name) for name in ("earliest", "latest")
    )
    other = candidates["earliest"].is_null() & column.is_not_null()
    if not other.any():
        return candidates
    # What polars leaves out is rare: each distinct text is read once.
    rare = {value: _rare(value, zone) for value in text.filter(other).unique()}
    read = pl.DataFrame({"text": list(rare), "time": list(rare.values())}, schema={"text": pl.String, "time": TIME})
    found = text.to_frame("text").join(read, on="text", how="left", maintain_order="left")["time"]
    return candidates.select(pl.coalesce(pl.col(name), found).alias(name) for name in candidates.columns)


def resolve_spans(start: pl.DataFrame, end: pl.DataFrame, elapsed: pl.Series) -> tuple[pl.Series, pl.Series]:
    """Start and end in UTC: of what the texts can mean, the pair that lasted ``elapsed`` seconds.

    Of equally good pairs the earlier one; where ``elapsed`` is null, the earliest end that is not before the start.
    """
    pairs = pl.DataFrame(
        {
            "s0": start["earliest"],
            "s1": start["latest"],
            "e0": end["earliest"],
            "e1": end["latest"],
            "took": elapsed.cast(pl.Int64) * 1000,
        }
    )
    if (pairs["s0"] == pairs["s1"]).fill_null(value=True).all() and (pairs["e0"] == pairs["e1"]).fill_null(
        value=True
    ).all():
        return pairs["s0"].alias("start"), pairs["e0"].alias("end")
    choices = (("s0", "e0"), ("s0", "e1"), ("s1", "e1"), ("s1", "e0"))
    lasted = [(pl.col(e) - pl.col(s)).dt.total_milliseconds() for s, e in choices]
    # Without an elapsed time any span that is not negative will do, and the first of them is taken.
    misfit = [
        pl.when(pl.col("took").is_null()).then((span < 0).cast(pl.Int64)).otherwise((span - pl.col("took")).abs())
        for span in lasted
    ]
    best = pl.concat_list(misfit).list.arg_min().fill_null(0)
    chosen = pairs.select(
        start=pl.when(best < 2).then("s0").otherwise("s1"),
        end=pl.when(best.is_in([0, 3])).then("e0").otherwise("e1"),
    )
    return chosen["start"], chosen["end"]


def _utc(local: pl.Series) -> pl.Series:
    return local.dt.convert_time_zone("UTC").cast(TIME)


def _rare(text: str, zone: ZoneInfo) -> datetime | None:
    """One time as the fast path doesn't read it: with an offset, or in an hour that the clock skipped."""
    try:
        parsed = datetime.fromisoformat(text)
    except (ValueError, OverflowError, OSError):
        return None
    aware = parsed if parsed.tzinfo is not None else parsed.replace(tzinfo=zone)
    return aware.astimezone(ZoneInfo("UTC"))
