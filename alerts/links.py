"""Addresses that alerts, routes and dashboards point to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

VARIABLES: Final = ("cluster", "node", "model", "tenant")
"""Dashboard variables that an alert's label of the same name fills."""

APP_PAGES: Final = {
    "gpuledger-capacity": "allocations",
    "gpuledger-cost": "cost",
    "gpuledger-energy": "health",
    "gpuledger-health": "health",
    "gpuledger-idle": "idle",
    "gpuledger-node": "health",
    "gpuledger-stack": "data",
    "gpuledger-tenant": "overview",
    "gpuledger-workload": "cost",
}
"""The app's page on what a dashboard's alerts say: what it has cost, or left unmetered."""


@dataclass(frozen=True, slots=True)
class Links:
    """Where people read on.

    Args:
        grafana: Grafana's address.
        app: address of the web app.
        runbooks: address of the folder of runbooks; "runbooks" names the folder beside the rule files.
    """

    grafana: str = "http://localhost:3000"
    runbooks: str = "runbooks"
    app: str = "http://localhost:8501"

    def runbook(self, alert: str) -> str:
        """The page of one alert."""
        return f"{self.runbooks.rstrip('/')}/{alert}.md"

    def dashboard(self, uid: str, labels: Sequence[str]) -> str:
        """A dashboard with the variables that the alert knows."""
        known = [name for name in VARIABLES if name in labels]
        query = "&".join(f"var-{name}={{{{ $labels.{name} | urlquery }}}}" for name in known)
        return f"{self.grafana.rstrip('/')}/d/{quote(uid)}" + (f"?{query}" if query else "")

    def page(self, dashboard: str, labels: Sequence[str]) -> str:
        """The app's page beside a dashboard, of the alert's tenant where it has one."""
        tenant = "?tenant={{ $labels.tenant | urlquery }}" if "tenant" in labels else ""
        return f"{self.app.rstrip('/')}/{APP_PAGES[dashboard]}{tenant}"
