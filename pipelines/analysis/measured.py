"""What loops measured of themselves overrules what was inferred: a wait for data is known, not guessed."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Final

import polars as pl

from pipelines.analysis.classify import IDLE
from pipelines.analysis.signatures import THRESHOLDS
from pipelines.analysis.tables import Analysis

WAITS: Final = THRESHOLDS["waits_measured"].value
WAITS_NOT: Final = THRESHOLDS["waits_not_measured"].value


def overruled(analysis: Analysis, training: pl.DataFrame) -> Analysis:
    """Let a measured wait for data decide about input, where it was measured.

    A workload's hour that waited `WAITS` of its loop's time waits for its input; one that waited less than `WAITS_NOT`
    doesn't, and what was inferred otherwise is unknown. Idle hours stay idle. Doing it twice changes nothing.

    Args:
        training: ``training.PROGRESS``.
    """
    waits = waited(training)
    if waits.is_empty():
        return analysis
    key = ["cluster", "workload", "hour"]
    rows = analysis.windows.join(waits, on=key, how="left", maintain_order="left")
    known = pl.col("wait").is_not_null() & (pl.col("cause") != IDLE)
    yes = known & (pl.col("wait") >= WAITS)
    no = known & (pl.col("wait") < WAITS_NOT) & (pl.col("cause") == "input")
    told = pl.Series(
        [None if w is None else json.dumps([_evidence(w)]) for w in rows["wait"].to_list()], dtype=pl.String
    )
    decided = rows.with_columns(
        cause=pl.when(yes).then(pl.lit("input")).when(no).then(pl.lit("unknown")).otherwise("cause"),
        confidence=pl.when(yes).then(1.0).when(~no | no.is_null()).then("confidence"),
        evidence=pl.when(yes | no).then(told).otherwise("evidence"),
        suspect=pl.when(~(yes | no) | yes.is_null()).then("suspect"),
    )
    return replace(analysis, windows=decided.select(analysis.windows.columns))


def _evidence(wait: float) -> dict[str, object]:
    yes = wait >= WAITS
    limit = WAITS if yes else WAITS_NOT
    return {"feature": "measured_data_wait", "value": round(wait, 4), "is": ">=" if yes else "<", "limit": limit}


def waited(training: pl.DataFrame) -> pl.DataFrame:
    """Return the measured share of each workload's hour in which its ranks waited for data: ``wait``."""
    known = training.filter(pl.col("data_wait_seconds").is_not_null() & pl.col("step_seconds").is_not_null())
    sums = known.group_by("cluster", "workload", "hour").agg(pl.col("data_wait_seconds", "step_seconds").sum())
    whole = pl.col("data_wait_seconds") + pl.col("step_seconds")
    return sums.filter(whole > 0).select("cluster", "workload", "hour", wait=pl.col("data_wait_seconds") / whole)
