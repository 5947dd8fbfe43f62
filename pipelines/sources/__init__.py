"""Adapters: each kind of source read into the tidy tables of `pipelines.tables`, and nothing else.

A new source is one file here and one line in ``read``.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from pipelines.sources.acceptance import read_acceptance
from pipelines.sources.allocations import read_allocations
from pipelines.sources.calendar import read_calendar
from pipelines.sources.exposition import read_exposition
from pipelines.sources.inventory import read_inventory
from pipelines.sources.kube_live import read_kube_live
from pipelines.sources.kube_state import read_kube_state
from pipelines.sources.prometheus import read_prometheus
from pipelines.sources.sacct import read_sacct
from pipelines.sources.sample_parquet import read_samples
from pipelines.sources.slurm_json import read_slurm_json
from pipelines.sources.slurm_rest import read_slurm_rest
from pipelines.sources.slurm_state import read_slurm_state
from pipelines.tables import Batch

if TYPE_CHECKING:
    from pipelines.config import Config, Kind, Source

__all__ = ["read"]


def read(  # noqa: C901, PLR0911, PLR0912 - one return for each kind
    source: Source, config: Config, window: tuple[datetime, datetime] | None = None
) -> Batch:
    """What one source of the configuration holds.

    Args:
        window: what of a live Prometheus is read, [start, end); None: all that it has. Files are read whole,
            because what holds a device at the window's edge is known from what lies beyond it.

    Raises:
        SourceError: the source can't be read. Bad lines, rows and values are findings instead.
    """
    zone = source.timezone or config.timezone
    cluster = source.cluster or "default"
    kind: Kind = source.kind
    match kind:
        case "metrics":
            return read_exposition(source.path, cluster=cluster, at=source.at, name=source.written)
        case "samples":
            return read_samples(source.path, cluster=cluster, name=source.written)
        case "sacct":
            return read_sacct(
                source.path,
                cluster=cluster,
                zone=zone,
                fields=source.fields,
                shards_per_gpu=source.shards_per_gpu,
                billing=source.billing_rule,
                name=source.written,
            )
        case "slurm_json":
            return read_slurm_json(
                source.path,
                cluster=cluster,
                shards_per_gpu=source.shards_per_gpu,
                billing=source.billing_rule,
                name=source.written,
            )
        case "slurm_state":
            return read_slurm_state(
                source.path,
                cluster=cluster,
                zone=zone,
                at=source.at,
                devices=source.resolve(source.devices) if source.devices else None,
                fields=source.fields,
                shards_per_gpu=source.shards_per_gpu,
                name=source.written,
            )
        case "slurmrestd":
            return read_slurm_rest(source, window)
        case "kube_state":
            if source.live:
                return read_kube_live(source, window)
            return read_kube_state(source.path, cluster=cluster, at=source.at, name=source.written)
        case "allocations":
            return read_allocations(source.path, cluster=source.cluster, zone=zone, name=source.written)
        case "inventory":
            return read_inventory(source.path, cluster=source.cluster, zone=zone, name=source.written)
        case "calendar":
            return read_calendar(source.path, cluster=source.cluster, zone=zone, name=source.written)
        case "acceptance":
            return read_acceptance(
                source.path, cluster=source.cluster, at=source.at, node=source.node, name=source.written
            )
        case "prometheus":
            return read_prometheus(source, window)
