"""Why what was held wasn't busy: causes by workload, in money that adds up to the waste that is reported."""

from __future__ import annotations

import json
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

import polars as pl

from app.scope import ALLOWED, Scope, Span
from pipelines.analysis.causes import BY_ID
from pipelines.analysis.tables import FEATURES
from pipelines.instants import to_ms
from pipelines.money import round_money

IN_MONTHS: Final = "period BETWEEN $first_month AND $last_month"

CAUSES: Final = f"""
    -- grain: tenant × workload × cause, over the months that the span touches; what decided is the clearest month's
    SELECT tenant, workload, cause, bool_or(main) AS main, sum(gpu_hours) AS gpu_hours, sum(waste) AS waste,
           sum(gpu_hours) / sum(sum(gpu_hours)) OVER (PARTITION BY tenant, workload) AS share_of_time,
           max(confidence) AS confidence, arg_max(evidence, coalesce(confidence, 0)) AS evidence,
           any_value(remedy) AS remedy
    FROM bottleneck WHERE {IN_MONTHS} AND {ALLOWED}
    GROUP BY tenant, workload, cause ORDER BY waste DESC NULLS LAST, gpu_hours DESC, workload, cause, tenant
"""
WASTE: Final = f"SELECT sum(waste) FROM tenant_period WHERE {IN_MONTHS} AND {ALLOWED}"

BUSY: Final = """
    -- grain: UTC hour in which a workload held something
    SELECT usage.start // 3600000 * 3600000 AS hour,
           sum(busy_ppb_ms * weight_num / weight_den) / 1e9
               / nullif(sum(busy_observed_ms * weight_num / weight_den), 0) AS busy,
           sum((usage."end" - usage.start) * weight_num / weight_den) / 3600000 AS gpu_hours
    FROM usage JOIN lease ON lease.id = usage.lease
    WHERE usage.start >= $begin AND usage.start < $finish
      AND lease.id IN (SELECT lease FROM lease_period WHERE tenant = $tenant AND last > $begin AND first < $finish)
      AND $workload IN (lease.workload, lease.cluster || ':' || lease.workload)
    GROUP BY ALL ORDER BY hour
"""
WINDOWS: Final = """
    -- grain: UTC hour × cluster of a workload's name
    SELECT hour, cause, sm, tensor, dram, confidence FROM bottleneck_window
    WHERE hour >= $begin AND hour < $finish AND $workload IN (workload, cluster || ':' || workload) ORDER BY hour
"""
OTHER_FEATURES: Final = {"idle_activity": "engine activity while it was idle"}
UNOBSERVED_TITLE: Final = "Not observed"


@dataclass(frozen=True)
class Bottleneck:
    """One cause of one workload.

    Attributes:
        share_of_time: of the workload's GPU-hours.
        waste: None: not known.
        evidence: what decided, each with ``feature``, ``value``, ``is`` and ``limit``.
    """

    tenant: str
    workload: str
    cause: str
    main: bool
    gpu_hours: float
    waste: Decimal | None
    share_of_time: float
    confidence: float | None
    evidence: tuple[dict[str, Any], ...]
    remedy: str

    @property
    def key(self) -> str:
        """As in the address."""
        return f"{self.cause}/{self.tenant}/{self.workload}"


def found(scope: Scope, span: Span | None = None) -> list[Bottleneck] | None:
    """Return the causes of a span's months (by default this scope's), the dearest first; None: none are published."""
    if not scope.has("bottleneck"):
        return None
    return [
        Bottleneck(
            **{
                **row,
                "waste": None if row["waste"] is None else round_money(row["waste"], scope.currency),
                "evidence": _evidence(row["evidence"]),
            }
        )
        for row in scope.ask(CAUSES, span).iter_rows(named=True)
    ]


def waste(scope: Scope, span: Span | None = None) -> Decimal | None:
    """Return the waste that is reported of a span's months, by default this scope's; None: nothing was observed."""
    known = scope.ask(WASTE, span).item()
    return None if known is None else round_money(known, scope.currency)


def title(cause: str) -> str:
    """Return a cause's name for people."""
    return BY_ID[cause].title if cause in BY_ID else UNOBSERVED_TITLE if cause == "unobserved" else cause


def meaning(cause: str) -> str:
    """Return what a cause means."""
    return BY_ID[cause].meaning if cause in BY_ID else "No valid sample says what the GPU did."


def feature(name: str) -> str:
    """Return what a number of the evidence is."""
    return FEATURES.get(name, OTHER_FEATURES.get(name, name.replace("_", " ")))


def time_line(scope: Scope, one: Bottleneck) -> pl.DataFrame:
    """Return ``moment`` (local), ``busy``, ``gpu_hours`` and, where they are published, ``cause``, ``sm`` … by hour."""
    begin, finish = to_ms(scope.span.start), to_ms(scope.span.end)
    given: dict[str, int | str] = {"begin": begin, "finish": finish, "workload": one.workload}
    rows = scope.ask(BUSY, None, tenant=one.tenant, **given)
    if scope.whole_fleet and scope.has("bottleneck_window"):
        rows = rows.join(scope.ask(WINDOWS, None, **given).unique("hour"), on="hour", how="left")
    else:
        unknown = {n: pl.lit(None, pl.Float64) for n in ("sm", "tensor", "dram", "confidence")}
        rows = rows.with_columns(cause=pl.lit(None, pl.String), **unknown)
    local = pl.from_epoch("hour", "ms").dt.replace_time_zone("UTC").dt.convert_time_zone(scope.zone.key)
    return rows.with_columns(moment=local.dt.replace_time_zone(None, non_existent="null", ambiguous="earliest")).sort(
        "hour"
    )


def _evidence(text: str | None) -> tuple[dict[str, Any], ...]:
    try:
        read = json.loads(text or "[]")
    except ValueError:
        return ()
    return tuple(item for item in read if isinstance(item, dict) and "feature" in item)
