"""Writes what Prometheus and Alertmanager load: recording rules, alerts, routes, runbooks.

The same configuration writes the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml

from alerts.capacity import capacity
from alerts.hardware import hardware
from alerts.links import Links
from alerts.metering import metering
from alerts.recording import recording
from alerts.routes import alertmanager, read_maintenance
from alerts.rule import Alert, Group
from alerts.stock import read_stock
from alerts.tenancy import tenancy
from alerts.waste import waste
from pipelines.config import Config

RECORDING_FILE = "gpuledger-recording.rules.yml"
ALERTS_FILE = "gpuledger-alerts.rules.yml"
ROUTES_FILE = "alertmanager.yml"


def build(config: Config, out: Path, links: Links | None = None, *, maintenance: Path | None = None) -> list[Path]:
    """Write every file into ``out``, which is made where it doesn't exist; returns them.

    Args:
        maintenance: YAML list of Alertmanager's time intervals in which only critical alerts are sent.

    Raises:
        SourceError: an inventory can't be read.
        UsageError: the maintenance file can't.
        OSError: a file can't be written.
    """
    links = links or Links()
    stock = read_stock(config)
    texts = {
        RECORDING_FILE: rules_text(recording(config, stock)),
        ALERTS_FILE: rules_text(alert_groups(config, links)),
        ROUTES_FILE: _text(alertmanager(config, read_maintenance(maintenance) if maintenance else ())),
        **{f"runbooks/{page.name}": page.read_text(encoding="utf-8") for page in runbooks()},
    }
    paths = []
    for name, text in texts.items():
        path = out / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        paths.append(path)
    return paths


def every_alert(config: Config) -> dict[str, list[Alert]]:
    """The alerts by subject."""
    return {
        "hardware": list(hardware()),
        "waste": list(waste(config)),
        "tenancy": list(tenancy()),
        "capacity": list(capacity()),
        "metering": list(metering()),
    }


def alert_groups(config: Config, links: Links) -> list[Group]:
    """The alerts as Prometheus's groups."""
    return [
        Group(f"gpuledger-{subject}", "1m", [alert_rule(alert, links) for alert in alerts])
        for subject, alerts in every_alert(config).items()
    ]


def alert_rule(alert: Alert, links: Links) -> dict[str, Any]:
    """One alert as Prometheus reads it, with runbook and dashboard added."""
    rule: dict[str, Any] = {"alert": alert.name, "expr": alert.expr}
    if alert.for_:
        rule["for"] = alert.for_
    rule["labels"] = {"severity": alert.severity, "audience": alert.audience}
    rule["annotations"] = {
        "summary": alert.summary,
        "description": alert.description,
        "runbook_url": links.runbook(alert.name),
        "dashboard_url": links.dashboard(alert.dashboard, alert.labels),
        "app_url": links.page(alert.dashboard, alert.labels),
    }
    return rule


def rules_text(groups: list[Group]) -> str:
    """A rule file."""
    return _text({"groups": [group.as_yaml() for group in groups]})


def _text(content: dict[str, Any]) -> str:
    body = yaml.dump(content, Dumper=_Plain, sort_keys=False, width=10_000, allow_unicode=True)
    return f"# Made by `gpuledger alerts build` from gpuledger.yaml: change that, and build again.\n{body}"


def runbooks() -> Iterator[Any]:
    """The pages, one an alert."""
    folder = files("alerts") / "runbooks"
    return iter(sorted((page for page in folder.iterdir() if page.name.endswith(".md")), key=lambda page: page.name))


class _Plain(yaml.SafeDumper):
    """Writes no aliases: rule files are read by people."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002  PyYAML's signature
        return True
