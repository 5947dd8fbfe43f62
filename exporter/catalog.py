"""The catalogue: what every GPU metric is called, means, and where it comes from.

A metric's name, unit, scale and valid range stand in ``catalog_entries`` and nowhere else: the exporter
exposes it, the pipeline reads by it, dashboards and rules are generated from it.
"""

from __future__ import annotations

from typing import Final

from exporter.catalog_entries import ENTRIES
from exporter.metric import PREFIX, DcgmName, ForeignName, Kind, Metric, Scope

__all__ = ["BY_KEY", "CATALOG", "PREFIX", "DcgmName", "ForeignName", "Kind", "Metric", "Scope", "resolve"]

CATALOG: Final[tuple[Metric, ...]] = ENTRIES
BY_KEY: Final[dict[str, Metric]] = {metric.key: metric for metric in CATALOG}

_BY_EXPOSED_NAME: Final[dict[str, tuple[Metric, float, str]]] = {
    **{name.name: (metric, name.scale, "smi") for metric in CATALOG for name in metric.smi},
    **{name.name: (metric, name.scale, "dcgm") for metric in CATALOG for name in metric.dcgm},
    **{metric.name: (metric, 1.0, "gpuledger") for metric in CATALOG},
}


def resolve(exposed_name: str) -> tuple[Metric, float, str] | None:
    """The metric behind a series name, the factor to its base unit and whose name it is.

    The origin is "gpuledger", "dcgm" or "smi"; None means that the catalogue doesn't know the name.
    """
    return _BY_EXPOSED_NAME.get(exposed_name)
