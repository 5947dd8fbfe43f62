"""What may leave the exporter: values that can have been measured."""

from __future__ import annotations

from collections import Counter
from math import isinf, isnan

from exporter.catalog import BY_KEY
from exporter.devices import Reading

# DCGM's "blank" codes: INT32 and INT64 near their maximum, FP64 140737488355328 + 0…3.
_INT32_BLANK = 2147483632.0
_FP64_BLANK = 140737488355328.0
_INT64_BLANK = 9.2e18
# A card without a sensor tells 0 °C; a margin may well be 0.
_TEMPERATURES = frozenset(key for key, metric in BY_KEY.items() if metric.unit == "celsius" and metric.minimum >= 0)


def is_blank(value: float) -> bool:
    """Whether a raw DCGM value stands for "no value"."""
    return (
        value >= _INT64_BLANK or _FP64_BLANK <= value <= _FP64_BLANK + 3 or _INT32_BLANK <= value <= _INT32_BLANK + 15
    )


def fault(key: str, value: float | None) -> str | None:
    """Why a value can't have been measured; None if it can.

    "no_number" (a backend's own blank), "not_finite", "below_range", "above_range".
    """
    if not isinstance(value, int | float):  # whatever else a library calls "unknown"
        return "no_number"
    if isnan(value) or isinf(value):
        return "not_finite"
    metric = BY_KEY[key]
    if value < metric.minimum:
        return "below_range"
    return "above_range" if value > metric.maximum else None


class Rejections:
    """Drops impossible values from readings and counts them by metric and reason."""

    def __init__(self) -> None:
        self.counts: Counter[tuple[str, str]] = Counter()

    def clean(self, reading: Reading) -> None:
        """Drop in place every value that can't have been measured; ratios up to 1.02 count as 1."""
        power = reading.values.get("power_watts")
        powered = isinstance(power, int | float) and power > 0
        for values in (reading.values, *reading.instance_values.values()):
            for key in [key for key, value in values.items() if self._rejects(key, value, powered=powered)]:
                del values[key]
            for key, value in values.items():
                if value > 1 and BY_KEY[key].unit == "ratio":
                    values[key] = 1.0

    def _rejects(self, key: str, value: float | None, *, powered: bool) -> bool:
        reason = fault(key, value)
        if reason is None and powered and value == 0 and key in _TEMPERATURES:
            reason = "zero_celsius"
        if reason is not None:
            self.counts[key, reason] += 1
        return reason is not None
