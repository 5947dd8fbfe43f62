"""Who holds a device, by pod or job, whichever exporter says so."""

from __future__ import annotations

from typing import Final

from exporter.catalog import BY_KEY, PREFIX
from pipelines.config import Config
from pipelines.promql.expressions import anchored, by, named, replaced
from pipelines.promql.normalise import DEVICE, with_our_labels

# Each device has at least one of these, whichever counters an exporter was told to expose.
PRESENCE_KEYS: Final = (
    "engine_active_ratio", "gpu_util_ratio", "memory_used_bytes", "temperature_celsius", "power_watts",
)  # fmt: skip
HOLDABLE: Final = f"{PREFIX}unowned_share_ratio"
"""Our exporter's one series for each card or instance that can be held."""
SHARE: Final = BY_KEY["owner_share_ratio"].name
HOLDER: Final = ("holder_namespace", "holder_pod", "hpc_job")
"""Labels of a holder: a pod, or a Slurm job."""


def presence(*matchers: str) -> str:
    """A selector of the series by which dcgm-exporter shows that a device is there."""
    return named((name.name for key in PRESENCE_KEYS for name in BY_KEY[key].dcgm), *matchers)


def our_holders(config: Config, rows: str = SHARE) -> str:
    """Our exporter's shares, with HOLDER labels."""
    return _without_exporters(config, rows)


def dcgm_holders(config: Config) -> str:
    """One row per device and holder, whichever of dcgm-exporter's series name it."""
    named_by = _without_exporters(config, with_our_labels(presence(), *DEVICE, "node"))
    rows = f"group by {by(*DEVICE, 'node', *HOLDER, 'vgpu')} ({named_by})"
    # A series that names nobody makes no holder: `vector` has none of the labels, so it matches just those.
    return f"({rows} unless on {by('holder_pod', 'hpc_job')} vector(0))"


def _without_exporters(config: Config, expression: str) -> str:
    """``exported_pod`` before ``pod``; the exporters' own pods hold nothing."""
    for part in ("namespace", "pod"):
        for source in (part, f"exported_{part}"):
            expression = replaced(expression, f"holder_{part}", "$1", source, "(.+)")
    for glob in config.attribution.exporter_pods:
        expression = replaced(expression, "holder_pod", "", "holder_pod", anchored(glob))
    return expression
