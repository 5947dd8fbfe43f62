"""Features × signatures → the cause of each window, how clear it is, and the numbers that decided."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

import polars as pl

from pipelines.analysis.causes import UNKNOWN
from pipelines.analysis.signatures import SIGNATURES, THRESHOLDS, Condition, Either, Signature

_CLEAR: Final = 0.5  # of a threshold: a value that far beyond it is as clear as can be
IDLE: Final = "idle"


def classify(windows: pl.DataFrame) -> pl.DataFrame:
    """Add ``cause``, ``confidence`` (0–1, null where unknown) and ``evidence`` (JSON) to windows with features.

    A signature is true, false or open (what it needs was not measured). The first that is true is the answer, unless
    one before it is open and something tells for it: then two causes fit, and the answer is unknown.
    """
    verdicts = windows.with_columns(
        *(holds(s).alias(f"_{s.cause}") for s in SIGNATURES),
        *(_tells(s).alias(f"_{s.cause}_tells") for s in SIGNATURES),
        *(_clarity(s).alias(f"_{s.cause}_clear") for s in SIGNATURES),
    )
    cause, confidence = pl.lit(UNKNOWN), pl.lit(None, pl.Float64)
    for signature in reversed(SIGNATURES):
        state = pl.col(f"_{signature.cause}")
        blocked = state.is_null() & pl.col(f"_{signature.cause}_tells")
        cause = pl.when(state).then(pl.lit(signature.cause)).when(blocked).then(pl.lit(UNKNOWN)).otherwise(cause)
        confidence = pl.when(state).then(f"_{signature.cause}_clear").when(blocked).then(None).otherwise(confidence)
    nothing_else = pl.col("idle_ms") >= pl.col("observed_ms")
    decided = verdicts.with_columns(
        cause=pl.when(nothing_else).then(pl.lit(IDLE)).otherwise(cause),
        confidence=pl.when(nothing_else).then(idle_clarity()).otherwise(confidence),
    ).select(pl.exclude("^_.*$"))
    return decided.with_columns(evidence=_evidence(decided))


def holds(signature: Signature) -> pl.Expr:
    """Return whether a signature holds: true, false, or null where that is open."""
    return pl.all_horizontal(_one(condition) for condition in signature.conditions)


def _one(condition: Condition | Either) -> pl.Expr:
    if isinstance(condition, Either):
        return pl.any_horizontal(_one(c) for c in condition.conditions)
    value = _value(condition)
    true = value < condition.limit if condition.operator == "<" else value >= condition.limit
    return true.fill_null(value=True) if condition.lenient else true


def _value(condition: Condition) -> pl.Expr:
    value = pl.col(condition.feature)
    return value.abs() if condition.absolute else value


def _tells(signature: Signature) -> pl.Expr:
    telling = [
        (_one(c) & pl.col(c.feature).is_not_null()).fill_null(value=False) for c in signature.each() if c.telling
    ]
    return pl.any_horizontal(pl.lit(value=False), *telling)


def _clarity(signature: Signature) -> pl.Expr:
    """0.5 at a threshold, 1 from half of it away; the least clear condition counts, of alternatives the clearest."""
    return pl.min_horizontal(_margin(c) for c in signature.conditions)


def _margin(condition: Condition | Either) -> pl.Expr:
    if isinstance(condition, Either):
        return pl.max_horizontal(pl.when(_one(c)).then(_margin(c)) for c in condition.conditions)
    away = (_value(condition) - condition.limit).abs() / (_CLEAR * condition.limit)
    return 0.5 + 0.5 * away.clip(upper_bound=1.0)


def idle_clarity() -> pl.Expr:
    """How far below the threshold what counts as idle stayed."""
    limit = THRESHOLDS["idle_activity"].value
    return 0.5 + 0.5 * ((limit - pl.col("idle_activity")) / (_CLEAR * limit)).clip(0.0, 1.0)


def _evidence(decided: pl.DataFrame) -> pl.Series:
    by_cause = {s.cause: s.each() for s in SIGNATURES}
    rows = decided.select(
        "cause", "idle_activity", *sorted({c.feature for cs in by_cause.values() for c in cs})
    ).iter_rows(named=True)
    return pl.Series([_told(row, by_cause.get(row["cause"], ())) for row in rows], dtype=pl.String)


def idle_evidence(activity: float) -> dict[str, Any]:
    """Return what says that a GPU was idle."""
    limit = THRESHOLDS["idle_activity"].value
    return {"feature": "idle_activity", "value": float(f"{activity:.4g}"), "is": "<", "limit": limit}


def _true(condition: Condition, value: float) -> bool:
    value = abs(value) if condition.absolute else value
    return value < condition.limit if condition.operator == "<" else value >= condition.limit


def _told(row: dict[str, Any], conditions: Sequence[Condition]) -> str:
    told = [
        {"feature": c.feature, "value": float(f"{row[c.feature]:.4g}"), "is": c.operator, "limit": c.limit}
        for c in conditions
        if row[c.feature] is not None and _true(c, row[c.feature])
    ]
    if row["cause"] == IDLE:
        told = [idle_evidence(row["idle_activity"])]
    return json.dumps(told)
