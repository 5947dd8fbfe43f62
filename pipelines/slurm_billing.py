"""Slurm's own measure of a job: its billing TRES, as TRESBillingWeights and PriorityFlags make it.

The rules are those of slurm.conf(5): each TRES times its weight; by default their sum, with MAX_TRES the largest of
those of the node plus the sum of the global ones, with MAX_TRES_GRES that plus the sum of the node's GRES.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Final, Literal

from pipelines.selectors import glob_matches

Mode = Literal["sum", "max_tres", "max_tres_gres"]

_NUMBER: Final = re.compile(r"(\d+(?:\.\d+)?)([KMGTP]?)[nc]?", re.ASCII | re.IGNORECASE)
_STEPS: Final = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5}
_OF_THE_NODE: Final = ("cpu", "mem", "node")
_RECORDED: Final = re.compile(r"(?:^|,)\s*billing=(\d+)(?:,|$)", re.ASCII)
_UNWEIGHTED: Final = {"cpu": Decimal(1)}


@dataclass(frozen=True)
class BillingRule:
    """Where the billing of a job is from.

    Args:
        weights: TRESBillingWeights by glob of partition, the first that matches; None: as Slurm recorded it.
        mode: which rule PriorityFlags choose.
    """

    weights: tuple[tuple[str, Mapping[str, Decimal]], ...] | None = None
    mode: Mode = "sum"

    def of(self, tres: str, partition: str | None) -> int | None:
        """What a job with this AllocTRES bills per second, a whole number as Slurm stores it; None: not told.

        Raises:
            ValueError: a count is no number.
        """
        if self.weights is None:
            told = _RECORDED.search(tres)
            return int(told[1]) if told else None
        found = (weights for glob, weights in self.weights if glob_matches(glob, partition or ""))
        # A partition without weights bills its cores: slurm.conf(5).
        return int(billing(tres, next(found, _UNWEIGHTED), self.mode))


def weights_of(text: str) -> dict[str, Decimal]:
    """Weights per unit of each TRES, from ``CPU=1.0,Mem=0.25G,GRES/gpu=12``; memory's unit is a byte.

    Raises:
        ValueError: a weight is no number.
    """
    weights = {}
    for name, value, unit in _entries(text):
        # 0.25G is a quarter for each GiB.
        weights[name] = value / _scale(name, unit)
    return weights


def mode_of(priority_flags: str) -> Mode:
    """Which rule PriorityFlags of slurm.conf choose."""
    flags = {flag.strip().upper() for flag in priority_flags.split(",")}
    if "MAX_TRES_GRES" in flags:
        return "max_tres_gres"
    return "max_tres" if "MAX_TRES" in flags else "sum"


def billing(tres: str, weights: Mapping[str, Decimal], mode: Mode = "sum") -> Decimal:
    """The billing of what a job holds: per second of it, as `sacct` shows it, before Slurm cuts its decimals.

    Args:
        tres: AllocTRES, such as ``cpu=16,mem=256G,gres/gpu=4``.
        weights: of the job's partition, by `weights_of`.

    Raises:
        ValueError: a count is no number.
    """
    parts = {
        name: value * _scale(name, unit) * weights[name] for name, value, unit in _entries(tres) if name in weights
    }
    gres = [part for name, part in parts.items() if name.startswith("gres/")]
    node = [part for name, part in parts.items() if name in _OF_THE_NODE]
    rest = [part for name, part in parts.items() if name not in _OF_THE_NODE and not name.startswith("gres/")]
    if mode == "max_tres":
        return max([*node, *gres], default=Decimal(0)) + sum(rest, Decimal(0))
    if mode == "max_tres_gres":
        return max(node, default=Decimal(0)) + sum(gres, Decimal(0)) + sum(rest, Decimal(0))
    return sum(parts.values(), Decimal(0))


def _entries(text: str) -> list[tuple[str, Decimal, str]]:
    found = []
    for entry in filter(None, map(str.strip, text.split(","))):
        name, _, number = entry.partition("=")
        match = _NUMBER.fullmatch(number)
        if match is None:
            raise ValueError(f"{name} without a number")
        try:
            found.append((name.strip().lower(), Decimal(match[1]), match[2].upper()))
        except InvalidOperation:
            raise ValueError(f"{name} without a number") from None
    return found


def _scale(name: str, unit: str) -> int:
    """Units in one of the suffix's. Memory without a suffix is in MiB."""
    steps = _STEPS[unit] if unit or name != "mem" else _STEPS["M"]
    return int(1024**steps)
