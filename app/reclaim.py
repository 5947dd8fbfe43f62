"""What stands idle and would have to move to be free, as `gpuledger idle` lists it, month by month."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

import polars as pl

from app.accounts import ZERO
from app.scope import ALLOWED, Scope
from pipelines.idle.causes import BY_ID, HELD, IDLE_CAUSES, IdleCause
from pipelines.instants import from_ms

IN_MONTHS: Final = "period BETWEEN $first_month AND $last_month"

ITEMS: Final = f"""
    -- grain: month × cause × subject that reaches into the span
    SELECT * FROM reclaim WHERE {IN_MONTHS} AND {ALLOWED} AND "last" > $since AND "first" < $until
    ORDER BY worth DESC NULLS LAST, gpu_hours DESC, period DESC, cause, subject, tenant, model
"""
SUMS: Final = f"""
    -- grain: cause, over the months that the span touches; no worth where a part has no price
    SELECT cause, sum(gpu_hours) AS gpu_hours, count(*) AS items,
           CASE WHEN count(worth) = count(*) THEN sum(worth) END AS worth
    FROM reclaim WHERE {IN_MONTHS} AND {ALLOWED} GROUP BY cause
"""
KNOWN: Final = f"SELECT bool_and(held_known) FROM idle_period WHERE {IN_MONTHS}"

EVIDENCE: Final[Mapping[str, str]] = {
    "idle_gpus": "Idle GPU-hours",
    "episodes": "Idle episodes",
    "longest_minutes": "Longest, minutes",
    "busy_in_them": "Busy in them",
    "utilization": "Busy in all",
    "utilization_outside_idle": "Busy outside idle episodes",
    "coverage": "Observed",
    "causes": "GPU-hours",
    "reserved_gpus": "GPUs reserved",
    "unused_gpu_hours": "GPU-hours reserved and not used",
    "mean_unused_gpus": "GPUs not used, on average",
    "gpus_of_node": "GPUs of the node",
    "held_by": "Held beside them by",
    "layouts": "Cut as",
    "cards": "Cards",
}
_SHARES: Final = frozenset({"busy_in_them", "utilization", "utilization_outside_idle", "coverage"})


@dataclass(frozen=True)
class Reclaimable:
    """One thing that could be had back.

    Attributes:
        since: ms; start of what still went on at the month's end; None: it is over.
        evidence: what it was told by, as (what, how it reads).
    """

    month: str
    cause: IdleCause
    subject: str
    tenant: str | None
    user: str | None
    node: str | None
    model: str | None
    gpus: int | None
    gpu_hours: float
    worth: Decimal | None
    since: int | None
    evidence: tuple[tuple[str, str], ...]

    @property
    def key(self) -> str:
        """As in the address."""
        return "~".join((self.month, self.cause.id, self.subject, self.tenant or "", self.model or ""))


@dataclass(frozen=True)
class CauseSum:
    """All of one cause; None: not known."""

    cause: IdleCause
    gpu_hours: float | None
    worth: Decimal | None


def items(scope: Scope) -> list[Reclaimable] | None:
    """Return what reaches into the span, the dearest first; None: an older release published the ledger."""
    if not scope.has("reclaim"):
        return None
    return [
        Reclaimable(
            row["period"], BY_ID[row["cause"]], row["subject"], row["tenant"], row["user"], row["node"], row["model"],
            row["gpus"], row["gpu_hours"], row["worth"], row["since"], _evidence(json.loads(row["evidence"])),
        )
        for row in scope.ask(ITEMS).iter_rows(named=True)
    ]  # fmt: skip


def by_cause(scope: Scope) -> list[CauseSum]:
    """Return hours and worth of each cause over the months that the span touches."""
    known = bool(scope.ask(KNOWN).item())
    told = {row["cause"]: row for row in scope.ask(SUMS).iter_rows(named=True)}
    return [
        CauseSum(cause, None, None)
        if cause.id in HELD and not known
        else CauseSum(cause, told[cause.id]["gpu_hours"], told[cause.id]["worth"])
        if cause.id in told
        else CauseSum(cause, 0.0, ZERO)
        for cause in IDLE_CAUSES
    ]


def table(found: list[Reclaimable], scope: Scope) -> pl.DataFrame:
    """Return the list as it is shown."""
    return pl.DataFrame(
        [
            (
                i.subject, i.cause.title, "nobody" if i.tenant is None else scope.tenant_name(i.tenant), i.model,
                i.gpus, i.gpu_hours, i.worth, _since(i.since, scope),
            )
            for i in found
        ],
        schema={
            "subject": pl.String, "cause": pl.String, "tenant": pl.String, "model": pl.String, "gpus": pl.Int64,
            "gpu_hours": pl.Float64, "worth": pl.Decimal(38, 4), "since": pl.String,
        },
        orient="row",
    )  # fmt: skip


def remedy(cause: IdleCause) -> str:
    """Return what would free it, for a page."""
    return cause.remedy.replace("`", "")


def _since(since: int | None, scope: Scope) -> str:
    """Return since when it goes on, in a form that sorts."""
    return "over" if since is None else f"{from_ms(since).astimezone(scope.zone):%Y-%m-%d %H:%M}"


def _evidence(told: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    return tuple((EVIDENCE.get(name, name.replace("_", " ")), _read(name, value)) for name, value in told.items())


def _read(name: str, value: Any) -> str:
    if value is None:
        return "n/a"
    if isinstance(value, Mapping):
        return ", ".join(f"{what}: {amount:,.1f}" for what, amount in value.items())
    if isinstance(value, list):
        return ", ".join(str(v) for v in value) or "nobody named"
    if name in _SHARES:
        return f"{value:.1%}"
    return f"{value:,.1f}" if isinstance(value, float) else f"{value:,}"
