"""The variables of the boards, and the matchers by which queries follow them."""

from __future__ import annotations

from typing import Final

from grafanalib import core as grafana

from pipelines.promql.recorded import HELD, IDENTITY, TENANT_COST

CLUSTER: Final = 'cluster=~"$cluster"'
NODE: Final = 'node=~"$node"'
MODEL: Final = 'model=~"$model"'
TENANT: Final = 'tenant=~"$tenant"'

# ".*" also matches series without the label: a Prometheus of one cluster has none.
_ANYTHING: Final = ".*"


def datasource() -> grafana.Template:
    """Which Prometheus the board reads."""
    return grafana.Template(name="datasource", label="Data source", type="datasource", query="prometheus")


def cluster() -> grafana.Template:
    """Clusters."""
    return _values("cluster", "Cluster", f"label_values({IDENTITY}, cluster)")


def node() -> grafana.Template:
    """Nodes of the clusters."""
    return _values("node", "Node", f"label_values({IDENTITY}{{{CLUSTER}}}, node)")


def model() -> grafana.Template:
    """Models of the clusters."""
    return _values("model", "Model", f"label_values({IDENTITY}{{{CLUSTER}}}, model)")


def tenant() -> grafana.Template:
    """Tenants that hold something or cost something."""
    # Both series: a tenant with a reservation costs something before it holds anything.
    names = f'{{__name__=~"{TENANT_COST}|{HELD}"}}'
    return _values("tenant", "Tenant", f"label_values({names}, tenant)")


def _values(name: str, label: str, query: str, *, multi: bool = True) -> grafana.Template:
    return grafana.Template(
        name=name, label=label, query=query, multi=multi, includeAll=True, allValue=_ANYTHING, refresh=2, sort=1
    )  # fmt: skip


def single(name: str, label: str, query: str, regex: str = "") -> grafana.Template:
    """A variable with one value at a time."""
    return grafana.Template(name=name, label=label, query=query, refresh=2, sort=1, regex=regex or None)
