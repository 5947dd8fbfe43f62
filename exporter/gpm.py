"""GPM: profiling ratios and rates of Hopper and newer cards, read through NVML without DCGM.

A GPM sample is a set of running counters; a metric is the mean between two of them. Each pass takes one sample
and compares it with that of the pass before, so the ratios cover the whole interval and not a snapshot of it.
"""

from __future__ import annotations

from math import isnan
from typing import Any, Final

import pynvml

from exporter.catalog import CATALOG

# Closer together than this the driver's answer is noise (NVML documents 100 ms).
MINIMUM_SECONDS: Final = 0.1

_METRICS: Final = {metric.gpm_metric: metric for metric in CATALOG if metric.gpm_metric is not None}


def supported(api: Any, handle: Any) -> bool:
    """Whether the card can be profiled this way."""
    try:
        return bool(api.nvmlGpmQueryDeviceSupport(handle).isSupportedDevice)
    except pynvml.NVMLError:
        return False


class GpmSampler:
    """The samples of one card, or of one of its MIG GPU instances.

    Args:
        board_metrics: also ask for PCIe and NVLink rates, which only a whole card has.
    """

    def __init__(self, api: Any, handle: Any, *, instance: int | None = None, board_metrics: bool = True) -> None:
        self._api, self._handle, self._instance = api, handle, instance
        self._metrics = [metric for metric in _METRICS.values() if board_metrics or metric.scope == "instance"]
        self._previous: Any = None
        self._spare: Any = None
        self._previous_time = 0.0
        self._request = pynvml.c_nvmlGpmMetricsGet_t()
        self._request.version = pynvml.NVML_GPM_METRICS_GET_VERSION
        self._request.numMetrics = len(self._metrics)
        for slot, metric in enumerate(self._metrics):
            self._request.metrics[slot].metricId = metric.gpm_metric

    def read(self, now: float) -> dict[str, float]:
        """Means since the last call, in base units by catalogue key; empty on the first. ``now`` is monotonic."""
        if self._previous is not None and now - self._previous_time < MINIMUM_SECONDS:
            return {}
        sample = self._spare or self._api.nvmlGpmSampleAlloc()
        self._spare = None
        try:
            if self._instance is None:
                self._api.nvmlGpmSampleGet(self._handle, sample)
            else:
                self._api.nvmlGpmMigSampleGet(self._handle, self._instance, sample)
        except pynvml.NVMLError:
            self._spare = sample
            raise
        previous, self._previous, self._previous_time = self._previous, sample, now
        if previous is None:
            return {}
        self._spare = previous
        return self._between(previous, sample)

    def _between(self, first: Any, second: Any) -> dict[str, float]:
        self._request.sample1, self._request.sample2 = first, second
        self._api.nvmlGpmMetricsGet(self._request)
        values = {}
        for slot, metric in enumerate(self._metrics):
            answer = self._request.metrics[slot]
            if answer.nvmlReturn == pynvml.NVML_SUCCESS and not isnan(answer.value):
                values[metric.key] = answer.value * metric.nvml_scale
        return values

    def close(self) -> None:
        """Give the driver its sample buffers back."""
        for sample in (self._previous, self._spare):
            if sample is not None:
                self._api.nvmlGpmSampleFree(sample)
        self._previous = self._spare = None
