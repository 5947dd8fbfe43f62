"""The commercial terms of the simulated fleet: who pays, and what.

Money stays text until the configuration is written or the truth is reckoned: floats never touch it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

TIMEZONE: Final = "America/New_York"
UNATTRIBUTED_NAMESPACE: Final = "legacy-tools"
SLICES: Final = 4


@dataclass(frozen=True, slots=True)
class Rate:
    """Prices per GPU-hour of one model over [start, end), in UTC seconds; None is open."""

    pattern: str
    model: str
    prices: dict[str, str]
    start: int | None = None
    end: int | None = None


@dataclass(frozen=True, slots=True)
class Reservation:
    """``gpus`` of ``model`` kept for a tenant over [start, end), at ``rate`` or the rate card's."""

    id: str
    tenant: str
    pattern: str
    model: str
    gpus: int
    start: int
    end: int
    rate: str | None = None


@dataclass(frozen=True, slots=True)
class Terms:
    """Everything that turns hours into money.

    Args:
        tenants: entries of the configuration, as they are written there.
        quotas: GPUs by tenant.
        overhead_monthly: split evenly over tenants with usage or a reservation.
    """

    tenants: list[dict[str, Any]]
    rates: list[Rate]
    reservations: list[Reservation]
    quotas: dict[str, int]
    overhead_monthly: str = "12000.00"
    spot: list[dict[str, str]] = field(default_factory=lambda: [{"namespace": "spot-*"}, {"slurm_qos": "scavenger*"}])


def demo_terms(*, gpus: int, h100s: int, start: int, end: int, rate_change: int, day: int = 86_400) -> Terms:
    """Terms that fit a fleet of this size.

    Args:
        gpus: cards of the fleet; quotas scale with them.
        h100s: cards that reservations can take.
        start, end: the billed period.
        rate_change: a local midnight (UTC seconds) from which cards cost less.
    """
    speech_gpus = max(1, gpus * 5 // 64)
    tenants: list[dict[str, Any]] = [
        {"id": "research", "name": "Research Division", "match": [{"namespace": "research-admin"}]},
        {
            "id": "vision",
            "name": "Vision Research",
            "parent": "research",
            "match": [{"namespace": "vision-*"}],
            "cost_center": "4711",
            "tags": {"programme": "perception"},
            "budget": {"monthly": f"{gpus * 450}.00"},
        },
        {
            "id": "nlp",
            "name": "Language Models",
            "parent": "research",
            "match": [{"slurm_account": "nlp"}],
            "cost_center": "4712",
        },
        {
            "id": "speech",
            "name": "Speech",
            "match": [{"namespace": "speech"}],
            "cost_center": "4720",
            "quota": {"gpus": speech_gpus},
        },
        {
            "id": "bio",
            "name": "Computational Biology",
            "match": [{"slurm_account": "bio*", "slurm_partition": "gpu*"}],
            "cost_center": "5100",
        },
        {
            "id": "serving",
            "name": "Model Serving",
            "match": [{"namespace": "serving-*"}],
            "cost_center": "9000",
            "budget": {"gpu_hours": f"{gpus * 60}"},
        },
        {"id": "teaching", "name": "Teaching", "match": [{"namespace": "course-*"}], "cost_center": "6000"},
        {
            "id": "sandbox",
            "name": "Scavengers",
            "match": [{"namespace": "spot-*"}, {"slurm_qos": "scavenger*"}],
        },
    ]
    h100, a100 = "NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-80GB"
    rates = [
        # On demand, only the A100's price changes: nobody reserves it. So its idle costs the same whether unused
        # reservations are taken off instant by instant or over the period.
        Rate("*H100*", h100, _prices("3.20", "2.10", "3.95", "1.30"), end=rate_change),
        Rate("*H100*", h100, _prices("3.20", "1.98", "3.65", "1.20"), start=rate_change),
        Rate("*A100*", a100, _prices("1.85", "1.31", "2.275", "0.80"), end=rate_change),
        Rate("*A100*", a100, _prices("1.70", "1.20", "2.085", "0.75"), start=rate_change),
        Rate("*", "", {"on_demand": "0.5265"}),
    ]
    reservations = [
        # vision outgrows its reservation; nlp's begins later and is seldom full.
        Reservation("vision-h100", "vision", "*H100*", h100, h100s // 4, start - 30 * day, end + 30 * day),
        Reservation(
            "nlp-h100",
            "nlp",
            "*H100*",
            h100,
            h100s * 3 // 8,
            start + (end - start) // 10 // 3600 * 3600,
            end + 90 * day,
            rate="2.005",
        ),
    ]
    return Terms(
        tenants=tenants,
        rates=rates,
        reservations=[reservation for reservation in reservations if reservation.gpus],
        quotas={"speech": speech_gpus},
    )


def _prices(on_demand: str, reserved: str, overflow: str, spot: str) -> dict[str, str]:
    return {"on_demand": on_demand, "reserved": reserved, "overflow": overflow, "spot": spot}
