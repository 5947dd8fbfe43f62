"""Alertmanager's configuration: who is told what, what goes in one message, what is held back.

Each receiver's address is in a file of its own, ``/etc/alertmanager/secrets/NAME.url``: an incoming webhook of Slack,
or of anything that takes its format (Mattermost, Rocket.Chat). The address is the secret, so it is never in here.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import yaml

from exporter.errors import UsageError
from pipelines.config import Config

PLATFORM: Final = "platform"
PAGER: Final = "platform-critical"
MAINTENANCE: Final = "maintenance"
# Absolute: Alertmanager reads a relative one from the folder that it was started in.
SECRETS: Final = "/etc/alertmanager/secrets"

_CARD: Final = ["cluster", "node", "gpu"]
_ON_NODE: Final = ["cluster", "node"]
_NO_DATA: Final = "GpuNodeDown|GpuMissing|GpuMetricsStale|GpuDriverUnavailable|GpuOwnersUnresolved|GpuOwnerSourceDown"


def alertmanager(config: Config, maintenance: Sequence[dict[str, Any]] = ()) -> dict[str, Any]:
    """The configuration.

    Args:
        maintenance: Alertmanager's time intervals in which only critical alerts are sent.
    """
    tenants = [tenant.id for tenant in config.tenants if tenant.retired is None]
    muted: dict[str, Any] = {"mute_time_intervals": [MAINTENANCE]} if maintenance else {}
    urgent = {"group_wait": "10s", "repeat_interval": "1h"}
    root: dict[str, Any] = {
        "receiver": PLATFORM,
        "group_by": ["alertname", "cluster", "node"],
        "group_wait": "30s",
        "group_interval": "5m",
        "repeat_interval": "4h",
        "routes": [
            # What is critical to a tenant is the platform's business too: `continue` lets it go on to the tenant.
            {"matchers": ['severity="critical"', 'audience="tenant"'], "receiver": PAGER, **urgent, "continue": True},
            {
                "matchers": ['audience="tenant"'],
                "receiver": PLATFORM,
                "group_by": ["alertname", "tenant"],
                "repeat_interval": "1d",
                "routes": [_to_tenant(tenant, muted) for tenant in tenants],
            },
            {"matchers": ['severity=~"warning|info"'], "receiver": PLATFORM, **muted},
            {"matchers": ['severity="critical"'], "receiver": PAGER, **urgent},
        ],
    }  # fmt: skip
    made: dict[str, Any] = {"route": root, "inhibit_rules": inhibitions()}
    made["receivers"] = [_receiver(name) for name in (PLATFORM, PAGER, *(f"tenant-{tenant}" for tenant in tenants))]
    if maintenance:
        made["time_intervals"] = [{"name": MAINTENANCE, "time_intervals": list(maintenance)}]
    return made


def read_maintenance(path: Path) -> list[dict[str, Any]]:
    """A YAML list of Alertmanager's time intervals. Raises UsageError."""
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise UsageError(f"{path}: cannot be read as YAML ({' '.join(str(error).split())})") from error
    if not isinstance(content, list) or not all(isinstance(entry, dict) for entry in content):
        raise UsageError(f"{path}: expected a list of time intervals, such as [{{weekdays: [sunday], times: …}}]")
    return content


def _to_tenant(tenant: str, muted: dict[str, Any]) -> dict[str, Any]:
    return {"matchers": [f'tenant="{tenant}"'], "receiver": f"tenant-{tenant}", **muted}


def inhibitions() -> list[dict[str, Any]]:
    """What is held back while something else fires that explains it."""
    node_down = "GpuNodeDown|NodeDown|KubeNodeNotReady|KubeNodeUnreachable"
    return [
        # The node is down: its cards have nothing to say of themselves.
        _held_back(
            [f'alertname=~"{node_down}"'],
            ['alertname=~"Gpu.+"', 'alertname!~"GpuNodeDown|GpuExporterDown"'],
            _ON_NODE,
        ),
        _held_back(
            ['alertname=~"NodeDown|KubeNodeNotReady|KubeNodeUnreachable"'],
            ['alertname=~"GpuNodeDown|GpuExporterDown"'],
            _ON_NODE,
        ),
        # The exporter is down: what isn't seen may be well.
        _held_back(['alertname="GpuExporterDown"'], [f'alertname=~"{_NO_DATA}"'], _ON_NODE),
        _held_back(['alertname="GpuExporterDown"'], ['alertname="MeteringCoverageLow"'], ["cluster"]),
        _held_back(
            ['alertname="GpuDriverUnavailable"'], ['alertname=~"GpuNodeDown|GpuMissing|GpuMetricsStale"'], _ON_NODE
        ),
        # Critical before warning, on one card.
        _held_back(['severity="critical"', 'gpu=~".+"'], ['severity=~"warning|info"', 'gpu=~".+"'], _CARD),
        # The worse of two on one subject.
        _held_back(['alertname="PipelineLate"'], ['alertname="PipelineFailing"'], []),
        _held_back(['alertname="TenantBudgetSpent"'], ['alertname=~"TenantBudgetBurn.+"'], ["tenant"]),
        _held_back(['alertname="TenantBudgetBurnFast"'], ['alertname="TenantBudgetBurnSlow"'], ["tenant"]),
        _held_back(['alertname="TenantOverflow"'], ['alertname="TenantQuotaNearlyFull"'], ["tenant"]),
        _held_back(['alertname="GpusExhausted"'], ['alertname="GpusRunningOut"'], ["cluster", "model"]),
    ]


def _held_back(source: list[str], target: list[str], equal: list[str]) -> dict[str, Any]:
    return {"source_matchers": source, "target_matchers": target, "equal": equal}


def _receiver(name: str) -> dict[str, Any]:
    message = {
        "api_url_file": f"{SECRETS}/{name}.url",
        "send_resolved": True,
        "title": "{{ .Status | toUpper }} {{ .CommonLabels.alertname }} {{ .CommonLabels.node }}"
        "{{ .CommonLabels.tenant }}",
        "title_link": "{{ (index .Alerts 0).Annotations.dashboard_url }}",
        "text": "{{ range .Alerts }}*{{ .Annotations.summary }}*\n{{ .Annotations.description }}\n"
        "Runbook: {{ .Annotations.runbook_url }}\n{{ end }}",
    }  # fmt: skip
    return {"name": name, "slack_configs": [message]}
