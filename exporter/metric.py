"""The types of the catalogue: a metric, and the names that other exporters give it."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Final, Literal

Kind = Literal["gauge", "counter"]
Scope = Literal["board", "instance"]

PREFIX: Final = "gpuledger_"


@dataclass(frozen=True, slots=True)
class DcgmName:
    """A DCGM field under one of its names; ``value * scale`` is in the metric's base unit."""

    name: str
    field_id: int
    scale: float


@dataclass(frozen=True, slots=True)
class ForeignName:
    """A name that nvidia_gpu_exporter gives the metric; ``value * scale`` is in the base unit."""

    name: str
    scale: float


@dataclass(frozen=True, slots=True)
class Metric:
    """One device metric.

    Args:
        key: column of the sample table; the exposed name without its prefix.
        unit: the base unit ("celsius", "bytes", …); "" for a plain count, a flag or a code.
        minimum, maximum: the valid range in base units; what lies outside was never measured.
        scope: "instance" where a MIG instance has a value of its own, else "board".
        dcgm: DCGM's names, the one of DCGM before 4.6 first, with numeric field ids.
        smi: names of nvidia_gpu_exporter.
        nvml: the NVML source: a call, ``field N`` of nvmlDeviceGetFieldValues, or ``GPM N``; "" for none.
        nvml_scale: NVML's value times this is in base units.
        nvml_instead: another field and its scale, for cards that lack the first.
    """

    key: str
    kind: Kind
    unit: str
    help: str
    minimum: float = 0.0
    maximum: float = inf
    scope: Scope = "board"
    dcgm: tuple[DcgmName, ...] = ()
    smi: tuple[ForeignName, ...] = ()
    nvml: str = ""
    nvml_scale: float = 1.0
    nvml_instead: tuple[int, float] | None = None

    @property
    def name(self) -> str:
        """The name that the exporter exposes."""
        return PREFIX + self.key

    @property
    def nvml_field(self) -> int | None:
        """The id to ask ``nvmlDeviceGetFieldValues`` for, if that is the source."""
        return int(self.nvml[6:]) if self.nvml.startswith("field ") else None

    @property
    def gpm_metric(self) -> int | None:
        """The id to ask ``nvmlGpmMetricsGet`` for, if that is the source."""
        return int(self.nvml[4:]) if self.nvml.startswith("GPM ") else None

    def accepts(self, value: float) -> bool:
        """Whether ``value``, in base units, can have been measured (NaN never is)."""
        return self.minimum <= value <= self.maximum
