"""Addresses that alerts, routes and dashboards point to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import quote

VARIABLES = ("cluster", "node", "model", "tenant")
"""Dashboard variables that an alert's label of the same name fills."""


@dataclass(frozen=True, slots=True)
class Links:
    """Where people read on.

    Args:
        grafana: Grafana's address.
        runbooks: address of the folder of runbooks; "runbooks" names the folder beside the rule files.
    """

    grafana: str = "http://localhost:3000"
    runbooks: str = "runbooks"

    def runbook(self, alert: str) -> str:
        """The page of one alert."""
        return f"{self.runbooks.rstrip('/')}/{alert}.md"

    def dashboard(self, uid: str, labels: Sequence[str]) -> str:
        """A dashboard with the variables that the alert knows."""
        known = [name for name in VARIABLES if name in labels]
        query = "&".join(f"var-{name}={{{{ $labels.{name} | urlquery }}}}" for name in known)
        return f"{self.grafana.rstrip('/')}/d/{quote(uid)}" + (f"?{query}" if query else "")
